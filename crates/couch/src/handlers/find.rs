//! `POST /{db}/_find` and `POST /{db}/_explain`: queries, and how they would be answered.

use crate::error::Result;
use crate::http::{Request, Response};
use crate::mango;
use crate::partition;

/// Answers a query.
pub fn post(request: &mut Request) -> Result<Response> {
    mango::find(request, None)
}

/// Within a partition.
pub fn post_partition(request: &mut Request) -> Result<Response> {
    let within = partition::of(request)?;
    mango::find(request, Some(within))
}

/// Explains a query.
pub fn explain(request: &mut Request) -> Result<Response> {
    mango::explain(request, None)
}

/// Within a partition.
pub fn explain_partition(request: &mut Request) -> Result<Response> {
    let within = partition::of(request)?;
    mango::explain(request, Some(within))
}

//! `POST /{db}/_find` and `POST /{db}/_explain`: Mango queries and their plans.

use crate::error::Result;
use crate::http::{Request, Response};
use crate::mango;
use crate::partition;

/// Answers a query.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    mango::find(request, None)
}

/// Answers a query within a partition.
pub(crate) fn post_partition(request: &mut Request) -> Result<Response> {
    let within = partition::of(request)?;
    mango::find(request, Some(within))
}

/// Explains a query.
pub(crate) fn explain(request: &mut Request) -> Result<Response> {
    mango::explain(request, None)
}

/// Explains a query within a partition.
pub(crate) fn explain_partition(request: &mut Request) -> Result<Response> {
    let within = partition::of(request)?;
    mango::explain(request, Some(within))
}

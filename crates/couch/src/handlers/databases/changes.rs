//! `/{db}/_changes`: the changes feed of a database.

use crate::error::Result;
use crate::feed;
use crate::http::{Request, Response};

/// Answers with parameters in the URL.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    feed::answer(request)
}

/// Answers with ids or a selector in the body.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    feed::answer(request)
}

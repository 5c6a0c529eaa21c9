//! `/{db}/_changes`: what happened to a database's documents.

use crate::error::Result;
use crate::feed;
use crate::http::{Request, Response};

/// By parameters alone.
pub fn get(request: &mut Request) -> Result<Response> {
    feed::answer(request)
}

/// With a body: ids or a selector.
pub fn post(request: &mut Request) -> Result<Response> {
    feed::answer(request)
}

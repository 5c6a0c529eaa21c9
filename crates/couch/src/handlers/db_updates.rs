//! `GET /_db_updates`: what happened to databases.

use crate::error::Result;
use crate::feed;
use crate::http::{Request, Response};

/// The events.
pub fn get(request: &mut Request) -> Result<Response> {
    feed::answer_db_updates(request)
}

//! `GET /_db_updates`: the feed of created, changed and deleted databases.

use crate::error::Result;
use crate::feed;
use crate::http::{Request, Response};

/// Answers with the feed.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    feed::answer_db_updates(request)
}

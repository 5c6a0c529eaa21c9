//! `POST /_diwan/follow/announcement`: a follower that is busy says that it is there.

use super::{meet, read};
use crate::error::Result;
use crate::http::{Request, Response};

/// Notes the follower.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    let asked = read(request)?;
    let said = meet(&request.couch, asked.as_doc())?;
    request.couch.store.replica().announce(said);
    Ok(Response::ok(200))
}

//! `DELETE /{db}/{doc}`: deletes a document.

use super::{find, id_of, store};
use crate::document::{Attaching, Rev, local_name, parse_id};
use crate::edit::{Draft, Named, local_count};
use crate::error::{Error, Result};
use crate::http::{Request, Response};
use crate::users;
use diwan_store::Base;
use diwan_value::DocBuf;

/// Deletes the document.
pub(crate) fn delete(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let id = id_of(request);
    let rev = Named::of(request)?.one()?;
    if local_name(&id).is_some() {
        let previous = rev.as_ref().map(local_count).transpose()?;
        let draft = Draft::new_local(id, previous, true, DocBuf::new());
        return store(request, &collection, draft, 200);
    }
    users::require_whole(request, &collection, &id)?;
    let key = parse_id(&id).map_err(|_| Error::missing())?;
    // As in CouchDB, a missing document is reported before a missing revision.
    find(&collection.view(), &key, None)?;
    let base = match rev {
        None => Some(Base::New),
        Some(Rev::Own(revision)) => Some(Base::Leaf(revision)),
        Some(Rev::Foreign(_)) => None,
    };
    let draft = Draft::new(id, base, true, DocBuf::new(), Attaching::default())?;
    store(request, &collection, draft, 200)
}

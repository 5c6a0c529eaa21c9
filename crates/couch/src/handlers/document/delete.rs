//! `DELETE /{db}/{doc}`: a deletion follows the revision that is named.

use super::{find, id_of, store};
use crate::document::{Attaching, Draft, Named, Rev, local_count, local_name, parse_id};
use crate::error::{Error, Result};
use crate::http::{Request, Response};
use diwan_store::Base;
use diwan_value::DocBuf;

/// Deletes it.
pub fn delete(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let id = id_of(request);
    let rev = Named::of(request)?.one()?;
    if local_name(&id).is_some() {
        let previous = rev.as_ref().map(local_count).transpose()?;
        let draft = Draft::new_local(id, previous, true, DocBuf::new());
        return store(request, &collection, draft, 200);
    }
    let key = parse_id(&id).map_err(|_| Error::missing())?;
    // Whether there is anything to delete is told before what the client should have named.
    find(&collection.view(), &key, None)?;
    let base = match rev {
        None => Some(Base::New),
        Some(Rev::Own(revision)) => Some(Base::Leaf(revision)),
        Some(Rev::Foreign(_)) => None,
    };
    let draft = Draft::new(id, base, true, DocBuf::new(), Attaching::default())?;
    store(request, &collection, draft, 200)
}

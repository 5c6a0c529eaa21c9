//! Edits of documents in `_users`.

use super::{Author, Draft, Written, store_one};
use crate::error::{Error, Result};
use crate::server::Couch;
use crate::users;
use diwan_store::Collection;
use std::sync::Arc;

fn edited(draft: &Draft) -> users::Edited<'_> {
    users::Edited { id: &draft.id, deleted: draft.deleted, body: draft.body.as_doc() }
}

/// Stores a document of `_users`. Rules over all users hold, so no other of their documents changes meanwhile.
pub(super) fn edit(
    couch: &Couch,
    collection: &Arc<Collection>,
    author: &Author,
    mut draft: Draft,
) -> Result<Written> {
    let acts_as_admin = users::may_edit_all(couch, &author.caller);
    let mut author = Author { acts_as_admin, ..author.clone() };
    let id = draft.id.clone();
    if draft.is_local() && !acts_as_admin {
        return Err(Error::missing());
    }
    let outcome = (|| {
        if let (Some(name), false) = (id.strip_prefix(diwan_access::ID_PREFIX), draft.deleted) {
            // Hashing takes long, so it comes before the lock, and after a check that refuses what need not be hashed.
            users::check_document(couch, collection, &author, &edited(&draft))?;
            if let Some(body) = users::hash_password(couch, name, draft.body.as_doc())? {
                author.has_new_password = true;
                draft.body = body;
            }
        }
        let _turn = couch.access.begin_change();
        if !draft.is_local() {
            users::check(couch, collection, &author, &edited(&draft))?;
        }
        store_one(couch, collection, &author, draft)
    })();
    author.record(couch, "editUser", &id, outcome.as_ref().err());
    outcome.map_err(|error| Error { is_recorded: true, ..error })
}

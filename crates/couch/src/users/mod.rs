//! The database `_users`: who sees and edits which document, and the rules that hold for all of them.
//!
//! Every edit that comes over HTTP, also by replication, ends in [`check`]. A password is
//! hashed before the edit ([`hash_password`]); the rules of a single document are in [`rules`]; those over all users are
//! in the register, under a lock that edits and MongoDB's commands share.

mod design;
mod password;
mod rules;

pub(crate) use design::ensure as ensure_design;
pub(crate) use password::{are_password_rules, hash_password};

use crate::edit::Author;
use crate::error::{Error, Result};
use crate::http::Request;
use crate::replicator::owner;
use crate::server::Couch;
use diwan_access::{Action, Caller, ID_PREFIX, Resource, USERS, security};
use diwan_store::{Collection, Entry, Namespace, RevisedDocument, id_key};
use diwan_value::json::write_couch_members;
use diwan_value::{Doc, DocBuf, DocBuilder, Value};
use std::sync::Arc;

/// The MongoDB database of the collection.
const ADMIN: &str = "admin";

/// Whether the collection is the register of users.
pub(crate) fn is_users(namespace: &Namespace) -> bool {
    &*namespace.database == ADMIN && &*namespace.collection == USERS
}

/// Whether the caller sees all documents.
pub(crate) fn may_see_all(couch: &Couch, caller: &Caller) -> bool {
    couch.access.allows(caller, Action::Find, Resource::Collection(ADMIN, USERS))
        || is_database_admin(couch, caller)
}

/// Whether the caller may edit all documents, in the fields that CouchDB has.
pub(crate) fn may_edit_all(couch: &Couch, caller: &Caller) -> bool {
    may_grant(couch, caller) || is_database_admin(couch, caller)
}

/// Whether the caller may give any rights, and so edit the fields that CouchDB does not have.
fn may_grant(couch: &Couch, caller: &Caller) -> bool {
    couch.access.allows(caller, Action::GrantRole, Resource::Database(ADMIN))
}

/// Whether `_security` of `_users` makes the caller its administrator. It counts where a setting lets it be edited.
fn is_database_admin(couch: &Couch, caller: &Caller) -> bool {
    if caller.principal().is_none() || !couch.setting_flag("couchdb", "users_db_security_editable") {
        return false;
    }
    match couch.store.entry(couch.access.users_namespace()) {
        Some(Entry::Collection(users)) => couch.access.standing(caller, &users) == security::Standing::Admin,
        _ => false,
    }
}

/// What a caller sees of a document.
pub(crate) enum Seen {
    /// All of it.
    Whole,
    /// These fields.
    Fields(Vec<String>),
}

/// Decides what the request's caller sees of a document of this database.
pub(crate) fn seen(request: &Request, collection: &Collection, id: &str) -> Result<Seen> {
    let (couch, caller) = (&request.couch, &request.caller);
    if !is_users(&collection.namespace()) || may_see_all(couch, caller) {
        return Ok(Seen::Whole);
    }
    if id.starts_with("_design/") {
        return Err(Error::forbidden("Only administrators can view design docs in the users database."));
    }
    match id.strip_prefix(ID_PREFIX) {
        Some(name) if caller.http_name() == Some(name) => Ok(Seen::Whole),
        Some(_) => match public_fields(couch) {
            fields if fields.is_empty() => Err(Error::missing()),
            fields => Ok(Seen::Fields(fields)),
        },
        None => Err(Error::missing()),
    }
}

/// Refuses a caller who does not see the whole document, in `_users` or among replications.
pub(crate) fn require_whole(request: &Request, collection: &Arc<Collection>, id: &str) -> Result<()> {
    if let Seen::Fields(_) = seen(request, collection, id)? {
        return Err(Error::missing());
    }
    if matches!(request.caller, Caller::Everybody) || id.starts_with('_') {
        return Ok(());
    }
    // An id that cannot be stored names no document.
    let Ok(key) = id_key(Value::String(id)) else { return Ok(()) };
    if owner::sees_all(request, collection, None) {
        return Ok(());
    }
    let found = collection.view().document(&key)?.filter(|found| !found.deleted);
    match owner::sees_all(request, collection, found.as_ref().map(|found| found.doc.as_doc())) {
        true => Ok(()),
        false => Err(Error::missing()),
    }
}

/// The fields that everybody sees of a user.
fn public_fields(couch: &Couch) -> Vec<String> {
    let fields = couch.setting("chttpd_auth", "public_fields").unwrap_or_default();
    fields.split(',').map(str::trim).filter(|field| !field.is_empty()).map(str::to_owned).collect()
}

/// Whether everybody may list the public parts of the documents. As in CouchDB, two settings are needed.
pub(crate) fn are_public(couch: &Couch) -> bool {
    couch.setting_flag("chttpd_auth", "users_db_public") && !public_fields(couch).is_empty()
}

/// The fields that a list of this database shows to the request's caller; `None` for all.
pub(crate) fn listed_fields(request: &Request, collection: &Collection) -> Option<Vec<String>> {
    let sees_all = !is_users(&collection.namespace()) || may_see_all(&request.couch, &request.caller);
    (!sees_all).then(|| public_fields(&request.couch))
}

/// Writes the public fields of a document as a list shows them.
pub(crate) fn write_public(out: &mut Vec<u8>, doc: Doc<'_>, fields: &[String]) {
    let mut part = DocBuilder::new();
    for element in doc.iter().filter(|element| fields.iter().any(|name| name == element.key_str())) {
        part.append_element(element);
    }
    out.push(b'{');
    write_couch_members(out, part.finish().as_doc());
    out.push(b'}');
}

/// The public part of a document; it is missing if it has none.
pub(crate) fn public_part(found: &RevisedDocument, fields: &[String]) -> Result<DocBuf> {
    let mut part = DocBuilder::new();
    if let Some(id) = found.doc.as_doc().get("_id") {
        part.append("_id", id);
    }
    let shown =
        found.doc.as_doc().iter().filter(|element| {
            element.key_str() != "_id" && fields.iter().any(|name| name == element.key_str())
        });
    let mut is_empty = true;
    for element in shown {
        part.append_element(element);
        is_empty = false;
    }
    if is_empty { Err(Error::missing()) } else { Ok(part.finish()) }
}

/// A document of `_users` after an edit.
pub(crate) struct Edited<'a> {
    /// Its id.
    pub(crate) id: &'a str,
    /// Whether the edit deletes it.
    pub(crate) deleted: bool,
    /// Its fields, without `_id`.
    pub(crate) body: Doc<'a>,
}

/// Checks an edit by the rules that need no lock: those of a single document.
pub(crate) fn check_document(
    couch: &Couch,
    collection: &Arc<Collection>,
    author: &Author,
    edited: &Edited<'_>,
) -> Result<()> {
    match edited.id.starts_with("_design/") {
        true => Ok(()),
        false => rules::check(couch, collection, author, edited),
    }
}

/// Checks an edit by all rules. The caller of this function holds the lock of [`diwan_access::Access::begin_change`], so that the
/// rules over all users hold until the edit is stored.
pub(crate) fn check(
    couch: &Couch,
    collection: &Arc<Collection>,
    author: &Author,
    edited: &Edited<'_>,
) -> Result<()> {
    check_document(couch, collection, author, edited)?;
    let Some(name) = edited.id.strip_prefix(ID_PREFIX) else { return Ok(()) };
    if edited.deleted {
        return Ok(couch.access.check_edit(name, None)?);
    }
    let mut whole = DocBuilder::new();
    whole.append("_id", edited.id);
    for element in edited.body.iter() {
        whole.append_element(element);
    }
    Ok(couch.access.check_edit(name, Some(whole.finish().as_doc()))?)
}

//! The owner of a replication: with his rights it works on databases of this server, and he alone sees its passwords.

use super::context::{USER_CTX, UserContext};
use crate::auth::rights::allows;
use crate::error::{Error, Result};
use crate::http::Request;
use crate::names;
use crate::replicator::is_replicator;
use crate::server::Couch;
use diwan_access::{Action, Caller};
use diwan_store::{Collection, id_key};
use diwan_value::json::{Mode, write_value};
use diwan_value::{Doc, DocBuf, DocBuilder, Value};
use hyper::Uri;
use serde_json::Map;
use std::sync::Arc;

/// The field that names the owner.
const OWNER: &str = "owner";

/// Whose rights a job has.
#[derive(Clone)]
pub(crate) enum Owner {
    /// Those of the caller of `_replicate`.
    Caller(Caller),
    /// Those of the user whom a document names.
    Name(Option<String>),
}

impl Owner {
    /// The owner's name.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Owner::Caller(caller) => caller.http_name(),
            Owner::Name(name) => name.as_deref(),
        }
    }

    /// Whether it is this caller.
    pub(super) fn is(&self, caller: &Caller) -> bool {
        caller.http_name().is_some() && self.name() == caller.http_name()
    }

    /// Whether both are the same.
    pub(super) fn is_same(&self, other: &Owner) -> bool {
        self.name() == other.name()
    }

    /// Whether the owner administers the server.
    pub(super) fn is_admin(&self) -> bool {
        matches!(self, Owner::Caller(caller) if caller.is_server_admin())
    }
}

fn administers(couch: &Couch, caller: &Caller, collection: &Collection) -> bool {
    caller.is_server_admin() || allows(couch, caller, &[Action::CollMod], &collection.namespace())
}

fn is_replications(collection: &Collection) -> bool {
    names::database(&collection.namespace()).is_some_and(|name| is_replicator(&name))
}

/// Names the caller as the owner of a document that he writes. Returns its new fields, if they change.
///
/// A replication works with the rights of its owner, so only an administrator of the server names another one or edits
/// the documents of others. Administrators of the database may delete them.
pub(crate) fn stamp(
    couch: &Couch,
    collection: &Arc<Collection>,
    caller: &Caller,
    id: &str,
    deleted: bool,
    body: Doc<'_>,
) -> Result<Option<DocBuf>> {
    if matches!(caller, Caller::Everybody) || id.starts_with("_design/") || !is_replications(collection) {
        return Ok(None);
    }
    let others = || Error::forbidden("Can't update replication documents from other users.");
    let name = caller.http_name();
    let is_admin = caller.is_server_admin();
    let before = collection.view().document(&id_key(Value::String(id))?)?.filter(|found| !found.deleted);
    let owner = before.as_ref().and_then(|found| found.doc.as_doc().get_str(OWNER));
    let is_others = before.is_some() && (owner.is_none() || owner != name);
    if is_others && !is_admin && !(deleted && administers(couch, caller, collection)) {
        return Err(others());
    }
    if deleted {
        return Ok(None);
    }
    check_context(caller, body)?;
    match body.get(OWNER) {
        None => {}
        Some(Value::Null) if is_admin => {}
        Some(Value::String(owner)) if is_admin || Some(owner) == name => return Ok(None),
        Some(_) => return Err(others()),
    }
    let mut out = DocBuilder::new();
    for element in body.iter().filter(|element| element.key_str() != OWNER) {
        out.append_element(element);
    }
    match name {
        Some(name) => out.append(OWNER, name),
        None => out.append(OWNER, Value::Null),
    };
    Ok(Some(out.finish()))
}

/// Refuses a `user_ctx` that this caller may not give.
fn check_context(caller: &Caller, body: Doc<'_>) -> Result<()> {
    let Some(context) = body.get(USER_CTX) else { return Ok(()) };
    let mut text = Vec::new();
    write_value(&mut text, context, Mode::Relaxed);
    let value = serde_json::from_slice(&text).unwrap_or_default();
    let object = Map::from_iter([(USER_CTX.to_owned(), value)]);
    match UserContext::parse(&object).map_err(Error::forbidden)? {
        Some(context) => context.check(caller),
        None => Ok(()),
    }
}

/// Whether the request's caller sees all of a document, passwords included. `doc` is the winning revision; of a document
/// that is deleted, only administrators see the older revisions.
pub(crate) fn sees_all(request: &Request, collection: &Collection, doc: Option<Doc<'_>>) -> bool {
    let (couch, caller) = (&request.couch, &request.caller);
    if matches!(caller, Caller::Everybody) || !is_replications(collection) {
        return true;
    }
    let owner = doc.and_then(|doc| doc.get_str(OWNER));
    (owner.is_some() && caller.http_name() == owner) || administers(couch, caller, collection)
}

/// A replication document without passwords.
pub(crate) fn stripped(doc: Doc<'_>) -> DocBuf {
    let mut out = DocBuilder::new();
    for element in doc.iter() {
        match (element.key_str(), element.value()) {
            (name @ ("source" | "target"), Value::String(url)) => {
                out.append(name, without_password(url).as_str());
            }
            (name @ ("source" | "target"), Value::Document(endpoint)) => {
                out.begin_document(name);
                for part in endpoint.iter() {
                    match (part.key_str(), part.value()) {
                        ("headers" | "auth", _) => {}
                        ("url", Value::String(url)) => {
                            out.append("url", without_password(url).as_str());
                        }
                        _ => {
                            out.append_element(part);
                        }
                    }
                }
                out.end();
            }
            _ => {
                out.append_element(element);
            }
        }
    }
    out.finish()
}

/// The URL without a name and a password.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => {
            let stripped = format!("{scheme}://{}", &rest[at + 1..]);
            if stripped.parse::<Uri>().is_ok() { stripped } else { format!("{scheme}://") }
        }
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_password_keeps_the_rest_of_the_url() {
        for (url, shown) in [
            ("http://ada:secret@host:5984/db", "http://host:5984/db"),
            ("https://ada@host/a@b", "https://host/a@b"),
            ("http://host/db", "http://host/db"),
            ("db", "db"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }
}

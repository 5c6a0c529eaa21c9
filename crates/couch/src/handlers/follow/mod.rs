//! What a follower asks its primary, below `/_diwan/follow`. Requests and answers are BSON documents.
//!
//! The protocol has a number. Both sides refuse another one, because a follower that does not understand everything
//! would lose it.

pub(crate) mod announcement;
pub(crate) mod blob;
pub(crate) mod changes;
pub(crate) mod lacks;
pub(crate) mod news;
pub(crate) mod offer;

use crate::error::{Error, Result};
use crate::http::{BSON, Request, Response};
use crate::server::Couch;
use diwan_kv::Batch;
use diwan_store::replica::{Announcement, Role};
use diwan_store::{Collection, Entry, Namespace, Revision};
use diwan_value::{Doc, DocBuf, Value};
use hyper::body::Bytes;
use std::sync::Arc;

/// The version of the protocol.
pub(crate) const PROTOCOL: i64 = 1;

/// The longest part of a change log in one answer, about.
pub(crate) const PART: usize = 4 << 20;

/// The longest message between the servers: a document with many large conflicts is sent as a whole.
pub(crate) const LONGEST: usize = 1 << 30;

/// The request's document.
fn read(request: &mut Request) -> Result<DocBuf> {
    let body: Bytes = request.read_body()?;
    DocBuf::validate(body.to_vec()).map_err(|_| malformed())
}

/// The answer with this document or these documents.
fn answer(bytes: Vec<u8>) -> Response {
    Response::new(200, BSON, bytes)
}

fn malformed() -> Error {
    Error::bad_request("The request is not one of a follower.")
}

fn text<'a>(doc: Doc<'a>, name: &str) -> Result<&'a str> {
    doc.get_str(name).ok_or_else(malformed)
}

fn number(doc: Doc<'_>, name: &str) -> Result<u64> {
    let number = doc.get(name).and_then(Value::as_i64_exact).and_then(|number| u64::try_from(number).ok());
    number.ok_or_else(malformed)
}

fn binary<'a>(doc: Doc<'a>, name: &str) -> Result<&'a [u8]> {
    match doc.get(name) {
        Some(Value::Binary { bytes, .. }) => Ok(bytes),
        _ => Err(malformed()),
    }
}

/// Revisions as a follower lists them: 20 bytes each.
fn revisions(bytes: &[u8]) -> Result<Vec<Revision>> {
    let (chunks, rest) = bytes.as_chunks::<20>();
    if !rest.is_empty() {
        return Err(malformed());
    }
    let revision = |chunk: &[u8; 20]| {
        let (generation, hash) = chunk.split_first_chunk::<4>()?;
        Some(Revision { generation: u32::from_be_bytes(*generation), hash: hash.try_into().ok()? })
    };
    chunks.iter().map(revision).collect::<Option<_>>().ok_or_else(malformed)
}

/// The opposite of [`revisions`].
pub(crate) fn list_revisions(revisions: &[Revision]) -> Vec<u8> {
    let mut out = Vec::with_capacity(20 * revisions.len());
    for revision in revisions {
        out.extend_from_slice(&revision.generation.to_be_bytes());
        out.extend_from_slice(&revision.hash);
    }
    out
}

/// The collection that a request names. If it was dropped or renamed, the follower asks for news first.
fn collection(couch: &Couch, doc: Doc<'_>) -> Result<Arc<Collection>> {
    let namespace =
        Namespace { database: text(doc, "db")?.to_owned(), collection: text(doc, "name")?.to_owned() };
    match couch.store.entry(&namespace) {
        Some(Entry::Collection(collection)) if collection.uuid() == binary(doc, "uuid")? => Ok(collection),
        _ => Err(Error::no_database()),
    }
}

/// Checks that the request comes from a follower, and notes what the follower says of itself.
fn meet(couch: &Couch, doc: Doc<'_>) -> Result<Announcement> {
    let refuse = |error: &'static str, reason: String| Err(Error::new(409, error, reason));
    let protocol = doc.get("protocol").and_then(Value::as_i64_exact).unwrap_or(0);
    if protocol != PROTOCOL {
        let version = couch.config.version;
        return refuse(
            "other_version",
            format!(
                "The primary is Diwan {version} and speaks version {PROTOCOL} of the followers' protocol, the follower \
                 speaks version {protocol}: use the same version of Diwan on both servers."
            ),
        );
    }
    if !couch.config.followable {
        let reason = "This server keeps its documents in PostgreSQL, which has replicas of its own. It cannot be followed.";
        return refuse("not_followable", reason.to_owned());
    }
    let replica = couch.store.replica();
    let said = Announcement {
        member: text(doc, "member")?.to_owned(),
        host: text(doc, "host")?.to_owned(),
        acknowledged: number(doc, "acknowledged")?,
        applied: number(doc, "applied")?,
        complete: doc.get("isComplete") == Some(Value::Boolean(true)),
    };
    if !said.member.is_empty() && said.member == replica.identity().member {
        return refuse("follows_itself", "A server cannot follow itself: name another one.".into());
    }
    if replica.follows() || replica.identity().role == Role::Follower {
        let primary = replica.primary().map(|primary| primary.url).unwrap_or_default();
        return refuse(
            "not_primary",
            format!("This server follows {primary} itself: follow that one, or promote this one first."),
        );
    }
    Ok(said)
}

/// Waits until everything that is visible now is on disk: a follower must not have what a power failure takes from its
/// primary.
fn settle(couch: &Couch) -> Result<()> {
    let engine = couch.store.engine();
    Ok(engine.wait_durable(engine.commit(Batch::new())?)?)
}

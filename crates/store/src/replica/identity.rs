//! What a server is in its replica set, and how it becomes something else.

use super::{Applying, OWN_DATABASE, Replica};
use crate::catalog::random_uuid;
use crate::collection::{Edit, WriteOptions, id_key};
use crate::error::Result;
use crate::namespace::Namespace;
use crate::store::{Entry, Store};
use diwan_value::{Doc, DocBuf, Value, doc};
use std::sync::atomic::Ordering;

/// The collection of the document.
const COLLECTION: &str = "replica";
/// The document's `_id`.
const ID: &str = "self";

/// The part of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Clients write to it.
    #[default]
    Primary,
    /// It copies a primary.
    Follower,
}

/// What a server is, as its directory remembers it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Identifies the directory; empty before it first met another server.
    pub member: String,
    /// Identifies the replica set: the same for all servers that copied each other.
    pub set: String,
    /// The name of the replica set that drivers see, as the primary told it.
    pub set_name: String,
    /// How often a follower of the set became its primary, plus 1.
    pub term: i64,
    /// Its part.
    pub role: Role,
    /// The member that it followed last.
    pub followed: String,
    /// Whether it had once copied everything of that member.
    pub complete: bool,
}

impl Identity {
    fn to_doc(&self) -> DocBuf {
        let role = if self.role == Role::Follower { "follower" } else { "primary" };
        doc! {
            "_id": ID,
            "member": &*self.member,
            "set": &*self.set,
            "setName": &*self.set_name,
            "term": self.term,
            "role": role,
            "followed": &*self.followed,
            "complete": self.complete
        }
    }

    fn parse(doc: Doc<'_>) -> Identity {
        let text = |name: &str| doc.get_str(name).unwrap_or_default().to_owned();
        Identity {
            member: text("member"),
            set: text("set"),
            set_name: text("setName"),
            term: doc.get("term").and_then(Value::as_i64_exact).unwrap_or(1),
            role: if doc.get_str("role") == Some("follower") { Role::Follower } else { Role::Primary },
            followed: text("followed"),
            complete: doc.get("complete") == Some(Value::Boolean(true)),
        }
    }
}

fn random_name() -> String {
    random_uuid().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn namespace() -> Namespace {
    Namespace { database: OWN_DATABASE.to_owned(), collection: COLLECTION.to_owned() }
}

impl Store {
    /// The store's place in its replica set.
    pub fn replica(&self) -> &std::sync::Arc<Replica> {
        &self.shared.replica
    }

    /// Reads what the server is. The directory of a follower stays read-only until it is promoted, whoever opens it.
    pub(crate) fn load_identity(&self) -> Result<()> {
        let Some(Entry::Collection(collection)) = self.entry(&namespace()) else { return Ok(()) };
        if let Some(stored) = collection.view().get(&id_key(Value::String(ID))?)? {
            let identity = Identity::parse(stored.doc());
            self.shared.replica.follows.store(identity.role == Role::Follower, Ordering::Release);
            *self.shared.replica.identity.write() = identity;
        }
        Ok(())
    }

    /// Changes what the server is, durably. A server without an identity gets one.
    pub fn identify(&self, change: impl FnOnce(&mut Identity)) -> Result<Identity> {
        let replica = &self.shared.replica;
        let mut identity = replica.identity.write();
        let mut new = identity.clone();
        if new.member.is_empty() {
            new.member = random_name();
            new.set = random_name();
            new.term = 1;
        }
        change(&mut new);
        if new == *identity {
            return Ok(new);
        }
        let _applying = Applying::begin();
        let collection = self.collection_or_create(&namespace())?;
        let document = new.to_doc();
        let written = collection.edit(&[id_key(Value::String(ID))?], WriteOptions::default(), |_, _| {
            Ok(Edit::Put(document.clone()))
        })?;
        if let Some(commit) = written.commit {
            self.engine().wait_durable(commit)?;
        }
        let shown = |identity: &Identity| {
            (identity.set_name.clone(), identity.term.max(1), identity.role, identity.complete)
        };
        let is_shown = shown(&identity) != shown(&new);
        *identity = new.clone();
        drop(identity);
        if is_shown {
            replica.changed();
        }
        Ok(new)
    }

    /// Makes this server a follower: from now on clients only read. The caller has checked that it may become one.
    pub fn begin_following(&self, set: &str, set_name: &str, term: i64, member: &str) -> Result<()> {
        self.shared.replica.follows.store(true, Ordering::Release);
        self.identify(|identity| {
            let is_same = identity.followed == member && identity.role == Role::Follower;
            identity.complete &= is_same;
            identity.role = Role::Follower;
            identity.followed = member.to_owned();
            (identity.set, identity.set_name) = (set.to_owned(), set_name.to_owned());
            identity.term = term;
        })?;
        Ok(())
    }

    /// Makes a follower a primary of the next term. When this returns, clients can write, and the store remembers it.
    pub fn promote(&self) -> Result<Identity> {
        let identity = self.identify(|identity| {
            identity.term += 1;
            identity.role = Role::Primary;
        })?;
        self.shared.replica.follows.store(false, Ordering::Release);
        self.shared.replica.changed();
        Ok(identity)
    }

    /// Whether the store has anything that a copy would replace.
    pub fn has_documents(&self) -> bool {
        let mut found = false;
        self.each_entry(None, &mut |namespace, _| found |= super::is_copied(namespace));
        found
    }
}

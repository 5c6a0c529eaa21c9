//! Databases: finding, creating and listing them by their HTTP names, and what is stored about each.

use crate::error::{Error, Result};
use crate::http::Request;
use crate::names;
use crate::partition;
use crate::sequence;
use crate::server::Couch;
use crate::users;
use diwan_kv::CommitId;
use diwan_store::{Collection, Entry, Namespace};
use diwan_value::json::{Mode, write_document};
use diwan_value::{Doc, Value as Bson};
use serde_json::{Value, json};
use std::sync::Arc;

/// The collection setting that counts purged documents.
const PURGED: &str = "purge_seq";

/// The collection setting that holds the security object.
const SECURITY: &str = "security";

/// The security object of a database without one.
const DEFAULT_SECURITY: &[u8] = br#"{"members":{"roles":["_admin"]},"admins":{"roles":["_admin"]}}"#;

impl Couch {
    /// Returns the database of this name, for a request that shows or writes documents or changes. From now on the store
    /// keeps their history for replicators.
    pub(crate) fn database(&self, name: &str) -> Result<Arc<Collection>> {
        let collection = self.find_database(name)?;
        collection.keep_history()?;
        Ok(collection)
    }

    /// Returns the database of this name, for a request that shows no document. A system database is created when it is
    /// first requested.
    pub(crate) fn find_database(&self, name: &str) -> Result<Arc<Collection>> {
        let namespace = names::namespace(name).ok_or_else(Error::no_database)?;
        let collection = match self.store.entry(&namespace) {
            Some(Entry::Collection(collection)) => collection,
            None if names::SYSTEM.contains(&name) && !self.store.replica().follows() => {
                self.store.collection_or_create(&namespace)?
            }
            _ => return Err(Error::no_database()),
        };
        if users::is_users(&namespace) {
            users::ensure_design(self, &collection)?;
        }
        Ok(collection)
    }

    /// Creates a database. Fails if it exists.
    pub(crate) fn create_database(&self, name: &str) -> Result<Arc<Collection>> {
        let namespace = names::check_new(name)?;
        match self.store.create_collection(&namespace, Doc::EMPTY) {
            Err(diwan_store::Error::Query(error)) if error.code == diwan_query::code::NAMESPACE_EXISTS => {
                Err(Error::database_exists())
            }
            outcome => Ok(outcome?),
        }
    }

    /// Lists all databases with their HTTP names, sorted by name.
    pub(crate) fn databases(&self) -> Vec<(String, Namespace)> {
        let collections = self.store.collection_names(|_| true).into_iter();
        let mut all: Vec<_> =
            collections.filter_map(|namespace| Some((names::database(&namespace)?, namespace))).collect();
        all.sort();
        all
    }

    /// Adds to the number of purged documents of a database.
    pub(crate) fn count_purged(&self, collection: &Collection, documents: i64) -> Result<()> {
        let _counting = self.purge_counts.lock();
        collection.set_setting(PURGED, Some(Bson::Int64(purged(collection) + documents)))?;
        Ok(())
    }
}

impl Request {
    /// Returns the database that the `{db}` placeholder of the request's path names.
    pub(crate) fn database(&self) -> Result<Arc<Collection>> {
        self.couch.database(self.param("db"))
    }
}

/// The time of creation, which distinguishes a database from a deleted one of the same name. Replicators compare it.
pub(crate) fn instance_start_time(collection: &Collection) -> String {
    collection.created().unwrap_or(0).to_string()
}

/// Describes a database. The first call counts its attachments.
pub(crate) fn info(name: &str, collection: &Collection) -> Result<Value> {
    let bytes = collection.data_bytes() + collection.blob_totals()?.bytes;
    let props =
        if partition::is_partitioned(collection) { json!({ "partitioned": true }) } else { json!({}) };
    Ok(json!({
        "instance_start_time": instance_start_time(collection),
        "db_name": name,
        "purge_seq": purged(collection).to_string(),
        "update_seq": sequence::text(collection, collection.last_sequence()),
        "sizes": { "file": bytes, "external": bytes, "active": bytes },
        "props": props,
        "doc_del_count": collection.deleted_count(),
        "doc_count": collection.count(),
        "disk_format_version": 8,
        "compact_running": false,
        "cluster": { "q": 1, "n": 1, "w": 1, "r": 1 }
    }))
}

/// Returns how many documents of a database were purged.
pub(crate) fn purged(collection: &Collection) -> i64 {
    collection.setting(PURGED).and_then(|value| value.as_value().as_i64_exact()).unwrap_or(0)
}

/// Returns the security object as JSON, for clients and for functions of design documents.
pub(crate) fn security(collection: &Collection) -> Vec<u8> {
    match collection.setting(SECURITY).as_ref().map(|value| value.as_value()) {
        Some(Bson::Document(object)) => {
            let mut text = Vec::new();
            write_document(&mut text, object, Mode::Exchange);
            text
        }
        _ => DEFAULT_SECURITY.to_vec(),
    }
}

/// Replaces the security object.
pub(crate) fn set_security(collection: &Collection, object: Doc<'_>) -> Result<CommitId> {
    Ok(collection.set_setting(SECURITY, Some(Bson::Document(object)))?)
}

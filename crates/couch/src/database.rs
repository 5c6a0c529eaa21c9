//! Databases as handlers find them: by the placeholder `{db}`.

use crate::error::{Error, Result};
use crate::http::Request;
use crate::names;
use crate::server::Couch;
use diwan_store::{Collection, Entry, Namespace};
use diwan_value::Doc;
use std::sync::Arc;

impl Couch {
    /// The database of that name. System databases are there from the first time they are asked for.
    pub fn database(&self, name: &str) -> Result<Arc<Collection>> {
        let namespace = names::namespace(name).ok_or_else(Error::no_database)?;
        match self.store.entry(&namespace) {
            Some(Entry::Collection(collection)) => Ok(collection),
            None if names::SYSTEM.contains(&name) => Ok(self.store.collection_or_create(&namespace)?),
            _ => Err(Error::no_database()),
        }
    }

    /// Creates a database; one that is there already is an error.
    pub fn create_database(&self, name: &str) -> Result<Arc<Collection>> {
        let namespace = names::check_new(name)?;
        match self.store.create_collection(&namespace, Doc::EMPTY) {
            Err(diwan_store::Error::Query(error)) if error.code == diwan_query::code::NAMESPACE_EXISTS => {
                Err(Error::database_exists())
            }
            outcome => Ok(outcome?),
        }
    }

    /// All databases, by the name that HTTP gives them, in the order of their names.
    pub fn databases(&self) -> Vec<(String, Namespace)> {
        let mut all: Vec<_> = self
            .store
            .databases()
            .iter()
            .flat_map(|database| self.store.entries_of(database))
            .filter(|(_, entry)| matches!(entry, Entry::Collection(_)))
            .filter_map(|(namespace, _)| Some((names::database(&namespace)?, namespace)))
            .collect();
        all.sort();
        all
    }
}

impl Request {
    /// The database that the request is about.
    pub fn database(&self) -> Result<Arc<Collection>> {
        self.couch.database(self.param("db"))
    }
}

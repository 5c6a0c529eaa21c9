//! Which collections a stream shows, and whose changes are recorded for it.

use super::event::Event;
use crate::namespace::Namespace;
use diwan_value::Doc;

/// The collections that a stream shows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventScope {
    /// All collections of all databases.
    Everything,
    /// All collections of a database.
    Database(String),
    /// One collection, by its name.
    Collection(Namespace),
}

impl EventScope {
    /// Whether the changes of a collection belong to the scope. An event of a whole database has no collection's name.
    pub fn contains(&self, database: &str, collection: &str) -> bool {
        match self {
            EventScope::Everything => true,
            EventScope::Database(own) => own == database,
            EventScope::Collection(own) => {
                own.database == database && (own.collection == collection || collection.is_empty())
            }
        }
    }

    /// Whether a stream of the scope shows an event. Internal databases and collections are never shown.
    pub(super) fn shows(&self, event: &Event) -> bool {
        let (database, collection) = (event.database(), event.collection());
        let is_internal =
            matches!(database, "admin" | "config" | "local") || collection.starts_with("system.");
        if is_internal {
            return false;
        }
        let target = event.target();
        match self {
            EventScope::Everything => true,
            EventScope::Database(own) => {
                own == database || target.is_some_and(|target| target.get_str("db") == Some(own))
            }
            EventScope::Collection(own) => {
                let is_target = |target: Doc<'_>| {
                    target.get_str("db") == Some(&own.database)
                        && target.get_str("coll") == Some(&own.collection)
                };
                (own.database == database && own.collection == collection) || target.is_some_and(is_target)
            }
        }
    }
}

//! Which collections' changes are recorded, since when, and until when.

use super::event::Event;
use super::position::Position;
use crate::catalog::random_uuid;
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use diwan_value::{ArrayBuilder, Doc, DocBuf, DocBuilder, Timestamp, Value};

/// The collections that a stream shows.
#[derive(Clone, Debug, PartialEq, Eq)]
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

    /// Whether everything in `other` belongs to this scope.
    pub fn covers(&self, other: &EventScope) -> bool {
        match (self, other) {
            (EventScope::Everything, _) => true,
            (EventScope::Database(own), EventScope::Database(other)) => own == other,
            (EventScope::Database(own), EventScope::Collection(other)) => *own == other.database,
            _ => self == other,
        }
    }
}

/// A scope that is recorded.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    pub scope: EventScope,
    /// The time from which on every change is in the log.
    pub since: Timestamp,
    /// When recording ends unless a stream is opened again, in milliseconds since 1970.
    pub until: i64,
    /// How many streams are open.
    pub open: usize,
}

/// Everything that is recorded, as it is stored.
#[derive(Clone, Debug)]
pub(super) struct Recordings {
    pub scopes: Vec<Recorded>,
    /// Events up to this time were deleted because of their age or number.
    pub trimmed: Timestamp,
    /// A random number by which tokens of other stores are recognized.
    pub origin: u32,
}

impl Default for Recordings {
    fn default() -> Recordings {
        Recordings { scopes: Vec::new(), trimmed: Timestamp::from_bits(0), origin: random_origin() }
    }
}

fn random_origin() -> u32 {
    let [a, b, c, d, ..] = random_uuid();
    u32::from_be_bytes([a, b, c, d])
}

impl Recordings {
    /// Whether changes of a collection are recorded.
    pub fn include(&self, name: &Namespace) -> bool {
        self.scopes.iter().any(|recorded| recorded.scope.contains(&name.database, &name.collection))
    }

    /// Whether the log holds everything in `scope` that happened after `position`.
    pub fn hold(&self, scope: &EventScope, position: Position) -> bool {
        let reaches = |since: Timestamp| Position::before(since) <= position;
        let covering = self.scopes.iter().filter(|recorded| recorded.scope.covers(scope));
        reaches(self.trimmed) && covering.into_iter().any(|recorded| reaches(recorded.since))
    }

    pub fn encode(&self) -> DocBuf {
        let mut scopes = ArrayBuilder::new();
        for Recorded { scope, since, until, .. } in &self.scopes {
            let mut out = DocBuilder::new();
            match scope {
                EventScope::Everything => {}
                EventScope::Database(database) => {
                    out.append("db", database.as_str());
                }
                EventScope::Collection(name) => {
                    out.append("db", name.database.as_str()).append("coll", name.collection.as_str());
                }
            }
            out.append("since", *since).append("until", Value::DateTime(*until));
            scopes.push(out.finish());
        }
        let mut out = DocBuilder::new();
        out.append("scopes", scopes)
            .append("trimmed", self.trimmed)
            .append("origin", self.origin.cast_signed());
        out.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Recordings> {
        let damaged = || Error::Damaged("the list of recorded changes".to_owned());
        let doc = Doc::validate(bytes).map_err(|_| damaged())?;
        let time = |value: Option<Value<'_>>| match value {
            Some(Value::Timestamp(time)) => Ok(time),
            _ => Err(damaged()),
        };
        let mut scopes = Vec::new();
        for scope in doc.get_array("scopes").ok_or_else(damaged)?.iter().filter_map(Value::as_doc) {
            let (database, collection) = (scope.get_str("db"), scope.get_str("coll"));
            let until = match scope.get("until") {
                Some(Value::DateTime(until)) => until,
                _ => return Err(damaged()),
            };
            scopes.push(Recorded {
                scope: match (database, collection) {
                    (None, _) => EventScope::Everything,
                    (Some(database), None) => EventScope::Database(database.to_owned()),
                    (Some(database), Some(collection)) => EventScope::Collection(Namespace {
                        database: database.to_owned(),
                        collection: collection.to_owned(),
                    }),
                },
                since: time(scope.get("since"))?,
                until,
                open: 0,
            });
        }
        let Some(Value::Int32(origin)) = doc.get("origin") else { return Err(damaged()) };
        Ok(Recordings { scopes, trimmed: time(doc.get("trimmed"))?, origin: origin.cast_unsigned() })
    }
}

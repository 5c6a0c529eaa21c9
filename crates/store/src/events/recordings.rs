//! The list of scopes whose changes are recorded, since when, and by how many streams they are used.

use super::position::Position;
use super::scope::EventScope;
use crate::catalog::random_uuid;
use crate::clock;
use crate::error::{Error, Result};
use crate::keys::{self, Key};
use crate::namespace::Namespace;
use diwan_kv::{Batch, Direction, Engine, KeyRange, Space};
use diwan_value::{Doc, DocBuf, Timestamp, Value, doc};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// The most scopes that are recorded at a time.
const MAX_SCOPES: usize = 10_000;
/// MongoDB's `ExceededMemoryLimit`.
const TOO_MANY: i32 = 146;

/// Who uses a recorded scope. All copies of the list share it.
#[derive(Debug)]
pub(super) struct Usage {
    /// How many streams are open.
    open: AtomicUsize,
    /// When a stream was opened or closed last, in milliseconds since 1970.
    last: AtomicI64,
}

impl Usage {
    fn new(last: i64) -> Arc<Usage> {
        Arc::new(Usage { open: AtomicUsize::new(0), last: AtomicI64::new(last) })
    }

    /// Whether a stream is open.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::SeqCst) > 0
    }

    /// When a stream was open last.
    pub fn last(&self, now: i64) -> i64 {
        if self.is_open() { now } else { self.last.load(Ordering::SeqCst) }
    }
}

/// An open stream. Its scope is recorded as long as this exists.
#[derive(Debug)]
pub struct StreamLease(Arc<Usage>);

impl StreamLease {
    fn new(usage: &Arc<Usage>) -> StreamLease {
        usage.open.fetch_add(1, Ordering::SeqCst);
        usage.last.fetch_max(clock::now_millis(), Ordering::SeqCst);
        StreamLease(usage.clone())
    }
}

impl Drop for StreamLease {
    fn drop(&mut self) {
        self.0.last.fetch_max(clock::now_millis(), Ordering::SeqCst);
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A scope that is recorded.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    /// The time from which on every change is in the log. `None` while the collections are still told to record, and if that was
    /// interrupted: then the next stream tells them again.
    pub since: Option<Timestamp>,
    /// When a stream was open last, as it is stored: a little earlier than `usage` knows.
    pub used: i64,
    pub usage: Arc<Usage>,
}

impl Recorded {
    /// A scope whose collections are not told yet.
    pub fn begin() -> Recorded {
        let now = clock::now_millis();
        Recorded { since: None, used: now, usage: Usage::new(now) }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = doc! { "used": Value::DateTime(self.used) }.into_builder();
        if let Some(since) = self.since {
            out.append("since", since);
        }
        out.finish_buffer()
    }

    /// Reads a stored scope.
    fn decode(bytes: &[u8]) -> Result<Recorded> {
        let doc = Doc::validate(bytes).map_err(|_| damaged())?;
        let Some(Value::DateTime(used)) = doc.get("used") else { return Err(damaged()) };
        let since = match doc.get("since") {
            Some(Value::Timestamp(since)) => Some(since),
            None => None,
            Some(_) => return Err(damaged()),
        };
        Ok(Recorded { since, used, usage: Usage::new(used) })
    }
}

/// What is stored of the log as a whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    /// Events up to and including this time were deleted because of their age or number.
    pub trimmed: Timestamp,
    /// A random number by which tokens of other stores are recognized.
    pub origin: u32,
    /// A time of the clock, noted now and then: times were given out up to some seconds later.
    pub clock: Timestamp,
}

impl Default for Header {
    fn default() -> Header {
        let [a, b, c, d, ..] = random_uuid();
        let zero = Timestamp::from_bits(0);
        Header { trimmed: zero, origin: u32::from_be_bytes([a, b, c, d]), clock: zero }
    }
}

impl Header {
    /// Reads the stored header; a new one if there is none.
    pub fn read(engine: &dyn Engine) -> Result<Header> {
        match engine.get(Space::Meta, &Key::EventHeader.bytes())? {
            Some(stored) => Header::decode(&stored),
            None => Ok(Header::default()),
        }
    }

    fn decode(bytes: &[u8]) -> Result<Header> {
        let doc = Doc::validate(bytes).map_err(|_| damaged())?;
        let (Some(Value::Timestamp(trimmed)), Some(Value::Int32(origin)), Some(Value::Timestamp(clock))) =
            (doc.get("trimmed"), doc.get("origin"), doc.get("clock"))
        else {
            return Err(damaged());
        };
        Ok(Header { trimmed, origin: origin.cast_unsigned(), clock })
    }

    fn encode(self) -> DocBuf {
        doc! { "trimmed": self.trimmed, "origin": self.origin.cast_signed(), "clock": self.clock }
    }
}

fn damaged() -> Error {
    Error::Damaged("the list of recorded changes".to_owned())
}

/// Everything that is recorded. Copies share the counts of open streams.
#[derive(Clone, Debug)]
pub(super) struct Recordings {
    scopes: BTreeMap<EventScope, Recorded>,
    pub header: Header,
}

impl Recordings {
    /// Reads the stored list.
    pub fn read(engine: &dyn Engine, header: Header) -> Result<Recordings> {
        let mut scopes = BTreeMap::new();
        let prefix = keys::recorded_scopes_prefix();
        for pair in engine.snapshot().scan(Space::Meta, KeyRange::prefix(prefix), Direction::Forward) {
            let (key, value) = pair?;
            let scope = scope_of_key(&key[prefix.len()..]).ok_or_else(damaged)?;
            scopes.insert(scope, Recorded::decode(&value)?);
        }
        Ok(Recordings { scopes, header })
    }

    /// Whether both lists have the same scopes.
    pub fn have_the_scopes_of(&self, other: &Recordings) -> bool {
        self.scopes.keys().eq(other.scopes.keys())
    }

    /// Takes over from an earlier list which streams this process has open.
    pub fn keep_usage(&mut self, earlier: &Recordings) {
        for (scope, recorded) in &mut self.scopes {
            if let Some(known) = earlier.scopes.get(scope) {
                known.usage.last.fetch_max(recorded.used, Ordering::SeqCst);
                recorded.usage = known.usage.clone();
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.scopes.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&EventScope, &Recorded)> {
        self.scopes.iter()
    }

    /// Whether changes of a collection are recorded. An event of a whole database has no collection's name.
    pub fn include(&self, name: &Namespace) -> bool {
        if self.scopes.is_empty() {
            return false;
        }
        let collection = EventScope::Collection(name.clone());
        self.scopes.contains_key(&EventScope::Everything)
            || self.scopes.contains_key(&EventScope::Database(name.database.clone()))
            || match name.collection.is_empty() {
                false => self.scopes.contains_key(&collection),
                true => self.scopes.range(collection..).next().is_some_and(|(scope, _)| {
                    matches!(scope, EventScope::Collection(found) if found.database == name.database)
                }),
            }
    }

    /// The recorded scopes that contain all of `scope`.
    fn covering(&self, scope: &EventScope) -> impl Iterator<Item = &Recorded> {
        let database = match scope {
            EventScope::Collection(name) => Some(EventScope::Database(name.database.clone())),
            _ => None,
        };
        let everything = self.scopes.get(&EventScope::Everything);
        let database = database.and_then(|database| self.scopes.get(&database));
        let own = self.scopes.get(scope);
        [everything, database, own].into_iter().flatten()
    }

    /// The time from which on every change in a scope was recorded.
    pub fn since(&self, scope: &EventScope) -> Option<Timestamp> {
        self.covering(scope).filter_map(|recorded| recorded.since).min()
    }

    /// Whether the log holds everything in `scope` that happened after `position`.
    pub fn hold(&self, scope: &EventScope, position: Position) -> bool {
        Position::after(self.header.trimmed) <= position
            && self.since(scope).is_some_and(|since| Position::before(since) <= position)
    }

    /// A lease of a scope that is recorded.
    pub fn lease(&self, scope: &EventScope) -> Option<StreamLease> {
        let recorded = self.scopes.get(scope).filter(|recorded| recorded.since.is_some());
        recorded.map(|recorded| StreamLease::new(&recorded.usage))
    }

    /// Refuses another scope if there are too many.
    pub fn check_room(&self) -> Result<()> {
        if self.scopes.len() < MAX_SCOPES {
            return Ok(());
        }
        let text = format!(
            "change streams record {MAX_SCOPES} collections and databases already; watch a whole database instead"
        );
        Err(Error::refused(TOO_MANY, text))
    }

    /// Adds or replaces a scope.
    pub fn set(&mut self, scope: EventScope, recorded: Recorded) {
        self.scopes.insert(scope, recorded);
    }

    pub fn remove(&mut self, scope: &EventScope) {
        self.scopes.remove(scope);
    }

    /// Writes the header.
    pub fn put_header(&self, batch: &mut Batch) {
        batch.put(Space::Meta, Key::EventHeader.bytes(), self.header.encode().into_bytes());
    }

    /// Writes a scope.
    pub fn put(scope: &EventScope, recorded: &Recorded, batch: &mut Batch) {
        batch.put(Space::Meta, key_of_scope(scope), recorded.encode());
    }

    /// Deletes a scope.
    pub fn delete(scope: &EventScope, batch: &mut Batch) {
        batch.delete(Space::Meta, key_of_scope(scope));
    }
}

/// Checks the stored header, or a stored scope with its key behind the prefix.
pub(crate) fn check_stored(scope: Option<&[u8]>, value: &[u8]) -> Result<()> {
    match scope {
        None => Header::decode(value).map(drop),
        Some(key) => {
            scope_of_key(key).ok_or_else(damaged)?;
            Recorded::decode(value).map(drop)
        }
    }
}

fn key_of_scope(scope: &EventScope) -> Vec<u8> {
    let (database, collection) = match scope {
        EventScope::Everything => (None, None),
        EventScope::Database(database) => (Some(database.as_str()), None),
        EventScope::Collection(name) => (Some(name.database.as_str()), Some(name.collection.as_str())),
    };
    Key::RecordedScope { database, collection }.bytes()
}

/// The scope of a key without its prefix.
fn scope_of_key(key: &[u8]) -> Option<EventScope> {
    let text = std::str::from_utf8(key).ok()?;
    Some(match text.split_once('\0') {
        None if text.is_empty() => EventScope::Everything,
        None => EventScope::Database(text.to_owned()),
        Some((database, collection)) => EventScope::Collection(Namespace {
            database: database.to_owned(),
            collection: collection.to_owned(),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(database: &str, collection: &str) -> Namespace {
        Namespace { database: database.to_owned(), collection: collection.to_owned() }
    }

    fn recordings(scopes: &[EventScope]) -> Recordings {
        let mut recordings = Recordings { scopes: BTreeMap::new(), header: Header::default() };
        for scope in scopes {
            let since = Some(Timestamp { seconds: 10, increment: 5 });
            recordings.set(scope.clone(), Recorded { since, ..Recorded::begin() });
        }
        recordings
    }

    #[test]
    fn a_scope_whose_beginning_was_interrupted_is_recorded_and_has_no_lease() {
        let scope = EventScope::Collection(name("b", "x"));
        let mut recordings = recordings(&[]);
        for (since, is_complete) in [(None, false), (Some(Timestamp { seconds: 10, increment: 5 }), true)] {
            let stored = Recorded { since, ..Recorded::begin() }.encode();
            recordings.set(scope.clone(), Recorded::decode(&stored).unwrap());
            assert!(recordings.include(&name("b", "x")));
            assert_eq!(recordings.lease(&scope).is_some(), is_complete);
            assert_eq!(recordings.since(&scope), since);
        }
    }

    #[test]
    fn an_event_of_a_database_is_recorded_if_one_of_its_collections_is() {
        let recordings = recordings(&[EventScope::Collection(name("b", "x"))]);
        assert!(recordings.include(&name("b", "x")) && recordings.include(&name("b", "")));
        assert!(!recordings.include(&name("b", "y")));
        assert!(!recordings.include(&name("a", "")) && !recordings.include(&name("c", "")));
    }

    #[test]
    fn history_holds_from_since_and_behind_what_was_trimmed() {
        let scope = EventScope::Collection(name("a", "x"));
        let mut recordings = recordings(&[EventScope::Database("a".to_owned())]);
        let at = |increment| Timestamp { seconds: 10, increment };
        assert!(!recordings.hold(&scope, Position::before(at(4))));
        assert!(recordings.hold(&scope, Position::before(at(5))));
        assert!(!recordings.hold(&EventScope::Everything, Position::before(at(5))));
        recordings.header.trimmed = at(7);
        assert!(!recordings.hold(&scope, Position { time: at(7).to_bits(), number: 0 }));
        assert!(recordings.hold(&scope, Position::after(at(7))));
    }

    #[test]
    fn a_scope_is_read_from_its_key() {
        for scope in [
            EventScope::Everything,
            EventScope::Database("a".to_owned()),
            EventScope::Collection(name("a", "b.c")),
        ] {
            let key = key_of_scope(&scope);
            assert_eq!(scope_of_key(&key[keys::recorded_scopes_prefix().len()..]), Some(scope));
        }
    }

    #[test]
    fn copies_share_the_counts_of_streams() {
        let scope = EventScope::Everything;
        let recordings = recordings(std::slice::from_ref(&scope));
        let lease = recordings.lease(&scope).unwrap();
        let copy = recordings.clone();
        drop(lease);
        assert!(copy.iter().all(|(_, recorded)| !recorded.usage.is_open()));
    }
}

//! A collection's sequence of changes, and what is counted along with it.

use crate::change::Change;
use crate::error::{Error, Result};
use crate::keys::{self, CollectionId, RevisionKey, read_number, write_number};
use crate::locks::lock;
use crate::record;
use diwan_kv::{Batch, Direction, Engine, KeyRange, Snapshot, Space};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Gives out sequences. Whoever commits changes holds [`Sequence::lock`] meanwhile.
pub(crate) struct Sequence {
    state: Mutex<SequenceState>,
    // Copies for readers, who must not wait for a commit.
    last: AtomicU64,
    count: AtomicU64,
    deleted: AtomicU64,
    bytes: AtomicU64,
    tombstones: AtomicBool,
    /// No tombstone of a change up to this one is there any more.
    expired: AtomicU64,
    /// The note as it is stored.
    noted: Mutex<Note>,
}

/// The state that a commit moves on.
pub(crate) struct SequenceState {
    /// The sequence of the newest change.
    pub last: u64,
    /// How many documents there are.
    pub count: u64,
    /// How many deleted documents are remembered.
    pub deleted: u64,
    /// How many bytes of BSON they take.
    pub bytes: u64,
    /// Whether there may be tombstones; not taken back when the last has gone.
    pub tombstones: bool,
    /// The newest position in a capped collection.
    pub position: u64,
}

/// The part of the state that is stored beside the change log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Note {
    /// Bytes of BSON.
    pub bytes: u64,
    /// The newest position in a capped collection.
    pub position: u64,
    /// The sequence as of which all this was noted.
    pub last: u64,
    /// How many documents there were, and how many deleted ones were remembered; older versions did not note it.
    pub counts: Option<(u64, u64)>,
    /// No tombstone of a change up to this one is there any more.
    pub expired: u64,
}

impl Note {
    /// The value that is stored.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        let (count, deleted) = self.counts.unwrap_or_default();
        for number in [self.bytes, self.position, self.last, count, deleted, self.expired] {
            write_number(&mut out, number);
        }
        out
    }

    /// Reads a stored value.
    pub fn parse(value: &[u8]) -> Result<Note> {
        let read = || {
            let mut numbers = numbers(value);
            let mut next = || numbers.next();
            let (bytes, position) = (next()?, next()?);
            // The first version did not note the sequence.
            let last = next().unwrap_or(0);
            let note = Note { bytes, position, last, counts: None, expired: 0 };
            Some(match (next(), next(), next()) {
                (Some(count), Some(deleted), Some(expired)) => {
                    Note { counts: Some((count, deleted)), expired, ..note }
                }
                _ => note,
            })
        };
        read().ok_or_else(|| Error::Damaged("a collection's size".to_owned()))
    }
}

impl Sequence {
    /// Reads the state back. A note that is `exact` tells all of it: the store was closed. Otherwise the newest change does.
    pub fn recover(
        engine: &dyn Engine,
        collection: CollectionId,
        capped: bool,
        note: Option<Note>,
        exact: bool,
    ) -> Result<Sequence> {
        let noted = note.unwrap_or_default();
        let state = match (exact, note, noted.counts) {
            (true, None, _) => SequenceState::new(0, 0, 0, 0, 0),
            (true, Some(_), Some((count, deleted))) => {
                SequenceState::new(noted.last, count, deleted, noted.bytes, noted.position)
            }
            _ => read_state(engine.snapshot().as_ref(), collection, capped, noted)?,
        };
        let sequence = Sequence {
            last: AtomicU64::new(0),
            count: AtomicU64::new(0),
            deleted: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            tombstones: AtomicBool::new(false),
            expired: AtomicU64::new(noted.expired.min(state.last)),
            state: Mutex::new(state),
            noted: Mutex::new(noted),
        };
        sequence.publish(&lock(&sequence.state));
        Ok(sequence)
    }

    /// Reads the state anew, after another process has changed it.
    pub fn follow(&self, snapshot: &dyn Snapshot, collection: CollectionId, capped: bool) -> Result<()> {
        let noted = *lock(&self.noted);
        let read = read_state(snapshot, collection, capped, noted)?;
        let mut state = lock(&self.state);
        *state = read;
        self.publish(&state);
        Ok(())
    }

    /// Takes over a state that another process has noted.
    pub fn set(&self, noted: &SequenceState) {
        let mut state = lock(&self.state);
        let tombstones = state.tombstones || noted.tombstones;
        *state = SequenceState { tombstones, ..*noted };
        self.publish(&state);
    }

    /// The state, held until its change is committed; [`Sequence::publish`] makes it known.
    pub fn lock(&self) -> MutexGuard<'_, SequenceState> {
        lock(&self.state)
    }

    /// Shows readers the state after a commit.
    pub fn publish(&self, state: &SequenceState) {
        self.count.store(state.count, Ordering::Relaxed);
        self.deleted.store(state.deleted, Ordering::Relaxed);
        self.bytes.store(state.bytes, Ordering::Relaxed);
        self.tombstones.store(state.tombstones, Ordering::Relaxed);
        self.last.store(state.last, Ordering::Release);
    }

    /// The same where later commits may have been shown already.
    pub fn publish_later(&self, state: &SequenceState) {
        let _one_at_a_time = lock(&self.state);
        if state.last > self.last() {
            self.publish(state);
        }
    }

    pub fn last(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }

    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub fn deleted(&self) -> u64 {
        self.deleted.load(Ordering::Relaxed)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether an insert may meet a tombstone.
    pub fn may_have_tombstones(&self) -> bool {
        self.tombstones.load(Ordering::Relaxed)
    }

    /// The sequence up to which no tombstone is there any more.
    pub fn expired(&self) -> u64 {
        self.expired.load(Ordering::Relaxed)
    }

    /// Says that there is no tombstone of any change up to `sequence`.
    pub fn set_expired(&self, sequence: u64) {
        self.expired.fetch_max(sequence, Ordering::Relaxed);
    }

    /// The same as the last note has it.
    pub fn noted_expiry(&self) -> u64 {
        lock(&self.noted).expired
    }

    /// The note to be stored, if it differs from the stored one. The caller calls [`Sequence::noted`] once it is stored.
    pub fn news(&self) -> Option<Note> {
        let noted = *lock(&self.noted);
        let state = lock(&self.state);
        let note = Note {
            bytes: state.bytes,
            position: state.position,
            last: state.last,
            counts: Some((state.count, state.deleted)),
            expired: self.expired(),
        };
        (note != noted && note.last > 0).then_some(note)
    }

    /// Says that a note is stored.
    pub fn noted(&self, note: Note) {
        *lock(&self.noted) = note;
    }
}

impl SequenceState {
    /// Adds the state to a batch that leaves it so, for other processes.
    pub fn note(&self, collection: CollectionId, batch: &mut Batch) {
        let mut note = Vec::with_capacity(32);
        let numbers = [self.last, self.count, self.deleted, self.bytes, self.position];
        for number in [u64::from(collection.0)].into_iter().chain(numbers) {
            write_number(&mut note, number);
        }
        batch.note(note);
    }

    /// Reads a note.
    pub fn of_note(note: &[u8]) -> Result<(CollectionId, SequenceState)> {
        let read = || {
            let mut numbers = numbers(note);
            let mut next = || numbers.next();
            let collection = CollectionId(u32::try_from(next()?).ok()?);
            Some((collection, SequenceState::new(next()?, next()?, next()?, next()?, next()?)))
        };
        read().ok_or_else(|| Error::Damaged("a note of another process".to_owned()))
    }

    fn new(last: u64, count: u64, deleted: u64, bytes: u64, position: u64) -> SequenceState {
        // Where every change added a document, none was ever deleted.
        SequenceState { last, count, deleted, bytes, tombstones: last != count, position }
    }
}

/// The numbers that bytes consist of, up to what is none.
fn numbers(mut bytes: &[u8]) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let (number, rest) = read_number(bytes)?;
        bytes = rest;
        Some(number)
    })
}

/// The state that the newest change tells.
fn read_state(
    snapshot: &dyn Snapshot,
    collection: CollectionId,
    capped: bool,
    noted: Note,
) -> Result<SequenceState> {
    let prefix = keys::collection_prefix(collection);
    let range = KeyRange::prefix(&prefix);
    let Some(newest) = snapshot.scan(Space::Log, range.clone(), Direction::Reverse).next() else {
        return Ok(SequenceState::new(0, 0, 0, 0, 0));
    };
    let (key, value) = newest?;
    let damaged = || Error::Damaged(keys::describe(Space::Log, &key));
    let (last, _) = key.get(prefix.len()..).and_then(read_number).ok_or_else(damaged)?;
    let change = Change::parse(last, &value)?;
    let deleted = match change.deleted {
        Some(deleted) => deleted,
        None => count_tombstones(snapshot, &prefix)?,
    };
    let bytes = match change.bytes {
        Some(bytes) => bytes,
        // Changes of older versions did not tell.
        None if noted.last == last => noted.bytes,
        None => count_bytes(snapshot, range)?,
    };
    let position = if capped { noted.position.max(newest_position(snapshot, collection)?) } else { 0 };
    Ok(SequenceState::new(last, change.count, deleted, bytes, position))
}

/// For the log of a version that did not note how many there are.
fn count_tombstones(snapshot: &dyn Snapshot, prefix: &[u8]) -> Result<u64> {
    let mut count = 0;
    snapshot.visit(Space::Revisions, KeyRange::prefix(prefix), &mut |key, _| {
        if let Some((_, RevisionKey::Tombstone)) = RevisionKey::split(&key[prefix.len()..]) {
            count += 1;
        }
        ControlFlow::Continue(())
    })?;
    Ok(count)
}

fn count_bytes(snapshot: &dyn Snapshot, range: KeyRange) -> Result<u64> {
    let mut bytes = 0;
    snapshot.visit(Space::Records, range, &mut |_, value| {
        bytes += record::document(value).map_or(0, |doc| doc.as_bytes().len() as u64);
        ControlFlow::Continue(())
    })?;
    Ok(bytes)
}

fn newest_position(snapshot: &dyn Snapshot, collection: CollectionId) -> Result<u64> {
    let prefix = keys::natural_prefix(collection);
    let newest = snapshot.scan(Space::Indexes, KeyRange::prefix(&prefix), Direction::Reverse).next();
    let Some((key, _)) = newest.transpose()? else { return Ok(0) };
    let position = key.get(prefix.len()..).and_then(read_number);
    position.map(|(position, _)| position).ok_or_else(|| Error::Damaged(keys::describe(Space::Indexes, &key)))
}

//! A collection's sequence of changes, and what is counted along with it.

use crate::change::Change;
use crate::error::{Error, Result};
use crate::keys::{self, CollectionId, Key, RevisionKey, read_number, write_number};
use crate::locks::lock;
use crate::record;
use diwan_kv::{Direction, Engine, KeyRange, Snapshot, Space};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Gives out sequences. Whoever commits changes holds [`Sequence::lock`] meanwhile.
pub(crate) struct Sequence {
    state: Mutex<State>,
    // Copies for readers, who must not wait for a commit.
    last: AtomicU64,
    count: AtomicU64,
    deleted: AtomicU64,
    bytes: AtomicU64,
    tombstones: AtomicBool,
    other_bodies: AtomicBool,
}

/// The state that a commit moves on.
pub(crate) struct State {
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

impl Sequence {
    /// Reads the state back: the newest change tells the sequence and the count, the last note the bytes. A capped
    /// collection is bounded by its bytes and ordered by its positions, so it does not rely on a note that is older than
    /// its last change.
    pub fn recover(engine: &dyn Engine, collection: CollectionId, capped: bool) -> Result<Sequence> {
        let snapshot = engine.snapshot();
        let prefix = keys::collection_prefix(collection);
        let range = KeyRange::prefix(&prefix);
        let mut noted = 0;
        let mut state = State { last: 0, count: 0, deleted: 0, bytes: 0, tombstones: false, position: 0 };
        if let Some(newest) = snapshot.scan(Space::Log, range.clone(), Direction::Reverse).next() {
            let (key, value) = newest?;
            let damaged = || Error::Damaged(keys::describe(Space::Log, &key));
            let (sequence, _) = key.get(prefix.len()..).and_then(read_number).ok_or_else(damaged)?;
            let change = Change::parse(sequence, &value)?;
            state.count = change.count;
            state.last = sequence;
            state.deleted = match change.deleted {
                Some(deleted) => deleted,
                None => count_tombstones(snapshot.as_ref(), &prefix)?,
            };
        }
        if let Some(note) = snapshot.get(Space::Meta, &Key::Size(collection).bytes())? {
            let mut rest: &[u8] = &note;
            for field in [&mut state.bytes, &mut state.position, &mut noted] {
                let (number, after) =
                    read_number(rest).ok_or_else(|| Error::Damaged("a collection's size".to_owned()))?;
                *field = number;
                rest = after;
            }
        }
        if capped && noted != state.last {
            state.bytes = count_bytes(snapshot.as_ref(), range.clone())?;
            state.position = state.position.max(newest_position(snapshot.as_ref(), collection)?);
        }
        let mut revisions = snapshot.scan(Space::Revisions, range, Direction::Forward);
        state.tombstones = revisions.next().transpose()?.is_some();
        let sequence = Sequence {
            last: AtomicU64::new(0),
            count: AtomicU64::new(0),
            deleted: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            tombstones: AtomicBool::new(false),
            other_bodies: AtomicBool::new(state.tombstones),
            state: Mutex::new(state),
        };
        sequence.publish(&lock(&sequence.state));
        Ok(sequence)
    }

    /// The state, held until its change is committed; [`Sequence::publish`] makes it known.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Shows readers the state after a commit.
    pub fn publish(&self, state: &State) {
        self.count.store(state.count, Ordering::Relaxed);
        self.deleted.store(state.deleted, Ordering::Relaxed);
        self.bytes.store(state.bytes, Ordering::Relaxed);
        self.tombstones.store(state.tombstones, Ordering::Relaxed);
        self.last.store(state.last, Ordering::Release);
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

    /// Notes that a body of a revision that does not win is being stored.
    pub fn note_other_bodies(&self) {
        self.other_bodies.store(true, Ordering::Relaxed);
    }

    /// Whether there may be bodies of revisions that do not win.
    pub fn may_have_other_bodies(&self) -> bool {
        self.other_bodies.load(Ordering::Relaxed)
    }

    /// Whether an insert may meet a tombstone.
    pub fn may_have_tombstones(&self) -> bool {
        self.tombstones.load(Ordering::Relaxed)
    }

    /// The note of what the change log does not tell: bytes and the capped position, and as of which sequence.
    pub fn note(&self) -> Vec<u8> {
        let state = lock(&self.state);
        let mut out = Vec::new();
        write_number(&mut out, state.bytes);
        write_number(&mut out, state.position);
        write_number(&mut out, state.last);
        out
    }
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

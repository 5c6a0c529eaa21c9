//! The unit of writing: puts, deletes and the conditions under which they happen.

use crate::{Bytes, Error, MAX_KEY_LEN, Result, Space};

/// One write of a [`Batch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The space written to.
    pub space: Space,
    /// The key written.
    pub key: Bytes,
    /// The new value; `None` deletes the key.
    pub value: Option<Bytes>,
}

/// A condition under which a [`Batch`] is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The space of the key.
    pub space: Space,
    /// The key that the condition is about.
    pub key: Bytes,
    /// The value the key must have; `None`: the key must be absent.
    pub expected: Option<Bytes>,
}

/// Writes that happen together or not at all, under conditions checked in the same instant.
///
/// A batch writes a key at most once: it is not defined which of two writes would win.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    writes: Vec<Write>,
    conditions: Vec<Condition>,
    notes: Vec<Bytes>,
    takes_reserve: bool,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty batch with room for `writes` writes.
    pub fn with_capacity(writes: usize) -> Self {
        Self { writes: Vec::with_capacity(writes), ..Self::default() }
    }

    /// Sets `key` to `value`.
    pub fn put(&mut self, space: Space, key: impl Into<Bytes>, value: impl Into<Bytes>) {
        self.writes.push(Write { space, key: key.into(), value: Some(value.into()) });
    }

    /// Removes `key`, whether it exists or not.
    pub fn delete(&mut self, space: Space, key: impl Into<Bytes>) {
        self.writes.push(Write { space, key: key.into(), value: None });
    }

    /// Applies the batch only if `key` has no value.
    pub fn require_absent(&mut self, space: Space, key: impl Into<Bytes>) {
        self.conditions.push(Condition { space, key: key.into(), expected: None });
    }

    /// Applies the batch only if `key` has exactly `value`.
    pub fn require_equal(&mut self, space: Space, key: impl Into<Bytes>, value: impl Into<Bytes>) {
        self.conditions.push(Condition { space, key: key.into(), expected: Some(value.into()) });
    }

    /// Adds a note for the [observers](crate::Peers) of other processes: what they would otherwise have to read.
    pub fn note(&mut self, note: impl Into<Bytes>) {
        self.notes.push(note.into());
    }

    /// The notes, in the order in which they were added.
    pub fn notes(&self) -> &[Bytes] {
        &self.notes
    }

    /// Lets the batch through while the disk is almost full: for writes that free space, and the notes that they need.
    pub fn take_reserve(&mut self) {
        self.takes_reserve = true;
    }

    /// Whether it is applied while the disk is almost full.
    pub fn takes_reserve(&self) -> bool {
        self.takes_reserve || self.writes.is_empty()
    }

    /// The writes, in the order they were made.
    pub fn writes(&self) -> &[Write] {
        &self.writes
    }

    /// The conditions, in the order they were required.
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// The number of writes.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether nothing would be written.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// The bytes of all keys and values written.
    pub fn bytes(&self) -> usize {
        self.writes.iter().map(|w| w.key.len() + w.value.as_ref().map_or(0, |v| v.len())).sum()
    }

    /// Appends the writes and conditions of another batch. Whether this batch takes the reserve stays as it is.
    pub fn append(&mut self, mut other: Batch) {
        self.writes.append(&mut other.writes);
        self.conditions.append(&mut other.conditions);
        self.notes.append(&mut other.notes);
    }

    /// The writes, for an engine that applies them.
    pub fn into_writes(self) -> Vec<Write> {
        self.writes
    }

    /// An error if a key is empty or longer than an engine takes.
    pub fn check_keys(&self) -> Result<()> {
        let written = self.writes.iter().map(|w| w.key.len());
        let looked_up = self.conditions.iter().map(|c| c.key.len());
        match written.chain(looked_up).find(|len| *len == 0 || *len > MAX_KEY_LEN) {
            Some(len) => Err(Error::KeyLength(len)),
            None => Ok(()),
        }
    }
}

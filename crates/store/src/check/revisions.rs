//! The revisions of a collection, a document's at a time, in the order of the documents.

use crate::error::Result;
use crate::keys::{self, read_number};
use crate::record::Tombstone;
use diwan_kv::{Bytes, Direction, KeyRange, Pairs, Snapshot, Space};
use diwan_value::key;

/// What is remembered of one document.
pub(super) struct Group {
    /// The key bytes of its `_id`.
    pub id: Vec<u8>,
    /// If it is deleted, its tombstone.
    pub tombstone: Option<Bytes>,
    /// How many ancestors its present revision has.
    pub ancestors: u64,
    /// The greatest generation among them, 0 if there are none.
    pub newest: u64,
    /// What does not read as it should.
    pub faults: Vec<String>,
}

/// Reads groups one after another.
pub(super) struct Groups {
    pairs: Pairs,
    prefix: usize,
    /// The first pair of the next group.
    ahead: Option<(Bytes, Bytes)>,
    /// Keys that are no revision's, in words.
    pub strays: Vec<String>,
}

impl Groups {
    pub fn new(snapshot: &dyn Snapshot, prefix: &[u8]) -> Groups {
        let pairs = snapshot.scan(Space::Revisions, KeyRange::prefix(prefix), Direction::Forward);
        Groups { pairs, prefix: prefix.len(), ahead: None, strays: Vec::new() }
    }

    /// The next group, if it is of a document up to and including `id`; of any document if there is none.
    pub fn next_up_to(&mut self, id: Option<&[u8]>) -> Result<Option<Group>> {
        let mut group: Option<Group> = None;
        loop {
            if self.ahead.is_none() {
                self.ahead = self.pairs.next().transpose()?;
            }
            let Some((key, value)) = &self.ahead else { return Ok(group) };
            let Some((own, generation)) = split(self.prefix, key) else {
                self.strays.push(keys::describe(Space::Revisions, key));
                self.ahead = None;
                continue;
            };
            let fits = match &group {
                Some(group) => own == group.id,
                None => id.is_none_or(|id| own <= id),
            };
            if !fits {
                return Ok(group);
            }
            group.get_or_insert_with(|| Group::of(own)).add(generation, value);
            self.ahead = None;
        }
    }
}

/// The id and the generation of a key.
fn split(prefix: usize, raw: &[u8]) -> Option<(&[u8], u64)> {
    let rest = raw.get(prefix..)?;
    let (id, rest) = rest.split_at_checked(key::skip(rest, key::Direction::Ascending)?)?;
    let (generation, rest) = read_number(rest)?;
    rest.is_empty().then_some((id, generation))
}

impl Group {
    fn of(id: &[u8]) -> Group {
        Group { id: id.to_vec(), tombstone: None, ancestors: 0, newest: 0, faults: Vec::new() }
    }

    fn add(&mut self, generation: u64, value: &Bytes) {
        if generation == 0 {
            match Tombstone::parse(value) {
                Ok(_) => self.tombstone = Some(value.clone()),
                Err(error) => self.faults.push(error.to_string()),
            }
            return;
        }
        if value.len() != 16 {
            self.faults.push(format!("revision {generation} has a hash of {} bytes", value.len()));
        }
        if self.ancestors > 0 && generation != self.newest + 1 {
            self.faults.push(format!("no revision lies between {} and {generation}", self.newest));
        }
        self.ancestors += 1;
        self.newest = generation;
    }
}

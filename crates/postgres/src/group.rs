//! A group of batches that travel in one transaction: what must be read for their conditions, which of them apply, and what
//! is written in the end.
//!
//! The batches take effect one after another, in the order of the group. So a condition is checked against what the
//! batches before it write, and then against the tables.

use crate::key::{Columns, is_long};
use crate::statements::Kind;
use crate::value::Stored;
use diwan_kv::{Batch, Bytes, CommitId, Condition, Result, Space};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::mpsc::SyncSender;
use std::time::Instant;
use tokio_postgres::types::ToSql;

/// About how many bytes one statement carries.
const STATEMENT_BYTES: usize = 4 << 20;

/// A batch that waits for its turn.
pub(crate) struct Commit {
    writes: Vec<Write>,
    conditions: Vec<Condition>,
    /// What other processes are told.
    pub notes: Vec<Bytes>,
    /// The bytes of keys and values.
    pub bytes: usize,
    /// What its evaluation knew of other processes' writes.
    pub generation: u64,
    /// When it began to wait.
    pub since: Instant,
    /// Where its outcome goes.
    pub reply: SyncSender<Result<CommitId>>,
}

struct Write {
    space: Space,
    key: Bytes,
    /// The value and its stored form.
    value: Option<Value>,
}

impl Commit {
    /// Compresses the values, in the caller's thread.
    pub fn new(batch: Batch, generation: u64, reply: SyncSender<Result<CommitId>>) -> Commit {
        let bytes = batch.bytes();
        let conditions = batch.conditions().to_vec();
        let notes = batch.notes().to_vec();
        let stored = |value: Bytes| {
            let stored = Stored::of(&value);
            (value, stored)
        };
        let write = |write: diwan_kv::Write| Write {
            space: write.space,
            key: write.key,
            value: write.value.map(stored),
        };
        let writes = batch.into_writes().into_iter().map(write).collect();
        Commit { writes, conditions, notes, bytes, generation, since: Instant::now(), reply }
    }
}

impl Commit {
    /// The keys that it writes.
    pub fn keys(&self) -> impl Iterator<Item = (Space, Bytes)> {
        self.writes.iter().map(|write| (write.space, write.key.clone()))
    }

    /// Whether it has conditions.
    pub fn has_conditions(&self) -> bool {
        !self.conditions.is_empty()
    }
}

/// The present values of the keys that conditions are about.
pub(crate) type Known = HashMap<(Space, Bytes), Bytes>;

/// The keys whose values the conditions of a group need, each once.
pub(crate) fn looked_up(commits: &[Commit]) -> Vec<(Space, Vec<&[u8]>)> {
    let mut seen = HashSet::new();
    let mut spaces: BTreeMap<Space, Vec<&[u8]>> = BTreeMap::new();
    for condition in commits.iter().flat_map(|commit| &commit.conditions) {
        if seen.insert((condition.space, &*condition.key)) {
            spaces.entry(condition.space).or_default().push(&condition.key);
        }
    }
    spaces.into_iter().collect()
}

fn kind(key: &[u8], is_put: bool) -> Kind {
    match (is_put, is_long(key)) {
        (true, false) => Kind::Put,
        (true, true) => Kind::PutLong,
        (false, false) => Kind::Delete,
        (false, true) => Kind::DeleteLong,
    }
}

/// What becomes of a group.
pub(crate) struct Decision<'a> {
    /// For each batch the first condition that does not hold.
    pub failed: Vec<Option<usize>>,
    /// The writes: the last one of each key, in the order of the keys.
    pub writes: BTreeMap<(Space, &'a [u8]), Option<&'a Stored>>,
    /// The notes of the batches that are applied.
    pub notes: Vec<&'a Bytes>,
}

/// A value, and the form that it is stored in.
type Value = (Bytes, Stored);

/// Decides about the batches, one after another.
pub(crate) fn decide<'a>(commits: &'a [Commit], known: &Known) -> Decision<'a> {
    let mut written: HashMap<(Space, &[u8]), Option<&Value>> = HashMap::new();
    let mut failed = Vec::with_capacity(commits.len());
    let mut notes = Vec::new();
    for commit in commits {
        let holds = |condition: &Condition| {
            let present = match written.get(&(condition.space, &*condition.key)) {
                Some(value) => value.map(|(value, _)| value),
                None => known.get(&(condition.space, condition.key.clone())),
            };
            present == condition.expected.as_ref()
        };
        let first = commit.conditions.iter().position(|condition| !holds(condition));
        if first.is_none() {
            for write in &commit.writes {
                written.insert((write.space, &*write.key), write.value.as_ref());
            }
            notes.extend(&commit.notes);
        }
        failed.push(first);
    }
    let writes = written.into_iter().map(|(key, value)| (key, value.map(|(_, stored)| stored))).collect();
    Decision { failed, writes, notes }
}

/// One statement with what it writes.
pub(crate) struct Statement<'a> {
    pub kind: Kind,
    pub space: Space,
    heads: Vec<&'a [u8]>,
    rests: Vec<Vec<u8>>,
    tails: Vec<Option<&'a [u8]>>,
    values: Vec<&'a Stored>,
}

impl<'a> Statement<'a> {
    fn new(kind: Kind, space: Space) -> Statement<'a> {
        let (heads, rests, tails, values) = Default::default();
        Statement { kind, space, heads, rests, tails, values }
    }

    fn add(&mut self, key: &'a [u8], stored: Option<&'a Stored>) {
        let columns = Columns::of(key);
        self.heads.push(columns.head);
        if matches!(self.kind, Kind::PutLong | Kind::DeleteLong) {
            self.rests.push(columns.rest().to_vec());
            self.tails.push(columns.tail);
        }
        self.values.extend(stored);
    }

    /// The parameters, in the order of [`Kind`].
    pub fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
        match self.kind {
            Kind::Put => vec![&self.heads, &self.values],
            Kind::PutLong => vec![&self.heads, &self.rests, &self.tails, &self.values],
            Kind::DeleteLong => vec![&self.heads[0], &self.rests[0]],
            _ => vec![&self.heads],
        }
    }
}

impl Decision<'_> {
    /// The statements for the writes.
    pub fn statements(&self) -> Vec<Statement<'_>> {
        let mut made: Vec<Statement<'_>> = Vec::new();
        let mut open: HashMap<(Kind, Space), (usize, usize)> = HashMap::new();
        for ((space, key), stored) in &self.writes {
            let kind = kind(key, stored.is_some());
            let bytes = key.len() + stored.map_or(0, Stored::len);
            match open.get_mut(&(kind, *space)) {
                Some((at, filled)) if kind != Kind::DeleteLong && *filled + bytes <= STATEMENT_BYTES => {
                    made[*at].add(key, *stored);
                    *filled += bytes;
                }
                _ => {
                    open.insert((kind, *space), (made.len(), bytes));
                    let mut statement = Statement::new(kind, *space);
                    statement.add(key, *stored);
                    made.push(statement);
                }
            }
        }
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    fn commit(fill: impl FnOnce(&mut Batch)) -> Commit {
        let mut batch = Batch::new();
        fill(&mut batch);
        Commit::new(batch, 0, sync_channel(1).0)
    }

    #[test]
    fn conditions_see_what_earlier_batches_write() {
        let commits = [
            commit(|b| {
                b.require_equal(Space::Meta, *b"n", *b"1");
                b.put(Space::Meta, *b"n", *b"2");
            }),
            commit(|b| {
                b.require_absent(Space::Meta, *b"m");
                b.require_equal(Space::Meta, *b"n", *b"1");
                b.put(Space::Meta, *b"n", *b"3");
            }),
            commit(|b| {
                b.require_equal(Space::Meta, *b"n", *b"2");
                b.delete(Space::Meta, *b"n");
            }),
            commit(|b| {
                b.require_absent(Space::Meta, *b"n");
                b.put(Space::Log, *b"l", *b"x");
            }),
        ];
        let keys = looked_up(&commits);
        assert_eq!(keys, [(Space::Meta, vec![&b"n"[..], b"m"])]);
        let known = Known::from([((Space::Meta, Bytes::from(*b"n")), Bytes::from(*b"1"))]);
        let decision = decide(&commits, &known);
        assert_eq!(decision.failed, [None, Some(1), None, None]);
        let written: Vec<_> = decision.writes.iter().map(|(key, value)| (*key, value.is_some())).collect();
        assert_eq!(written, [((Space::Meta, &b"n"[..]), false), ((Space::Log, b"l"), true)]);
    }

    #[test]
    fn statements_are_bounded_and_delete_long_keys_alone() {
        let commits = [commit(|b| {
            for n in 0..6u8 {
                b.put(
                    Space::Records,
                    [n],
                    (0..1_000_000u64).map(|i| (i * i % 251) as u8 ^ n).collect::<Vec<_>>(),
                );
                b.put(Space::Indexes, vec![n; 3000], *b"");
                b.delete(Space::Log, vec![n; 3000]);
                b.delete(Space::Meta, [n]);
            }
        })];
        let decision = decide(&commits, &Known::new());
        let statements = decision.statements();
        assert_eq!(statements.iter().map(|s| s.heads.len()).sum::<usize>(), 24);
        assert_eq!(statements.iter().filter(|s| s.kind == Kind::DeleteLong).count(), 6);
        for statement in statements {
            let bytes: usize = statement.values.iter().map(|stored| stored.len()).sum();
            assert!(bytes <= STATEMENT_BYTES);
        }
    }
}

//! Results of retryable writes, remembered durably: a record is part of the batch that it tells of, so that a write
//! whose answer was lost is answered again and not done again, also after a restart.
//!
//! A record's value: the transaction number (8 bytes, big-endian), the time in seconds since the Unix epoch, how many
//! statements it covers, their numbers, then the result as BSON, empty for inserts.

use crate::clock;
use crate::error::{Error, Result};
use crate::keys::{self, Key, read_number, write_number};
use diwan_kv::{Batch, Direction, Engine, KeyRange, Space};
use diwan_query::code;
use diwan_value::{Doc, DocBuf};
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// What is to be remembered of a write.
#[derive(Clone, Copy, Debug)]
pub struct RetryRecord<'a> {
    /// The session's identifier.
    pub session: &'a [u8],
    /// The number that the client gave the command.
    pub transaction: i64,
    /// The number of the (first) statement.
    pub statement: u32,
    /// What the client is to be answered; `None` for inserts, whose answer is known.
    pub result: Option<Doc<'a>>,
}

impl RetryRecord<'_> {
    /// Adds the record of one statement to a batch.
    pub(crate) fn write(&self, batch: &mut Batch) {
        self.write_statements(batch, std::iter::once(self.statement));
    }

    /// Adds the record of several statements of one command to a batch, by their offsets from this one.
    pub(crate) fn write_offsets(&self, batch: &mut Batch, offsets: impl Iterator<Item = u32> + Clone) {
        self.write_statements(batch, offsets.map(|offset| self.statement.saturating_add(offset)));
    }

    fn write_statements(&self, batch: &mut Batch, statements: impl Iterator<Item = u32> + Clone) {
        let Some(first) = statements.clone().next() else { return };
        let mut value = Vec::with_capacity(32);
        value.extend_from_slice(&self.transaction.to_be_bytes());
        write_number(&mut value, clock::now_seconds());
        write_number(&mut value, statements.clone().count() as u64);
        for statement in statements {
            write_number(&mut value, statement.into());
        }
        if let Some(result) = self.result {
            value.extend_from_slice(result.as_bytes());
        }
        batch.put(Space::Meta, Key::Retry { session: self.session, statement: first }.bytes(), value);
    }
}

/// A statement that was done before.
#[derive(Clone, Debug)]
pub struct RememberedStatement {
    /// Its number.
    pub statement: u32,
    /// What the client was answered; `None` for an insert.
    pub result: Option<DocBuf>,
}

/// A record as it is stored.
struct Stored {
    transaction: i64,
    noted_at: u64,
    statements: Vec<RememberedStatement>,
}

impl Stored {
    fn parse(value: &[u8]) -> Result<Stored> {
        let read = || {
            let (transaction, rest) = value.split_first_chunk::<8>()?;
            let (noted_at, rest) = read_number(rest)?;
            let (count, mut rest) = read_number(rest)?;
            let mut numbers = Vec::new();
            for _ in 0..count {
                let (number, after) = read_number(rest)?;
                numbers.push(u32::try_from(number).ok()?);
                rest = after;
            }
            let result = match rest {
                [] => None,
                bytes => Some(DocBuf::validate(bytes.to_vec()).ok()?),
            };
            let statements = numbers
                .into_iter()
                .map(|statement| RememberedStatement { statement, result: result.clone() })
                .collect();
            Some(Stored { transaction: i64::from_be_bytes(*transaction), noted_at, statements })
        };
        read().ok_or_else(|| Error::Damaged("the record of a retryable write".to_owned()))
    }
}

/// Which numbers the sessions have used, and which of them are at work.
#[derive(Default)]
pub(crate) struct RetryTable {
    sessions: Mutex<HashMap<Box<[u8]>, Session>>,
    /// Told when a session is no longer busy.
    free: Condvar,
}

#[derive(Default)]
struct Session {
    /// The greatest transaction number seen since the start.
    newest: Option<i64>,
    /// When it was last used.
    used: u64,
    /// Whether a write of the session is under way.
    busy: bool,
}

/// A session's turn: until this is dropped, no other retryable write of the session begins. So a write that is sent
/// again while it is still being done waits, and finds it done.
pub struct SessionTurn {
    table: Arc<RetryTable>,
    session: Box<[u8]>,
}

impl Drop for SessionTurn {
    fn drop(&mut self) {
        if let Some(session) = self.table.sessions.lock().get_mut(&self.session) {
            session.busy = false;
        }
        self.table.free.notify_all();
    }
}

/// For how long results are remembered: as long as a session lives, in seconds.
const RETENTION_SECONDS: u64 = 30 * 60;

impl RetryTable {
    /// What the session did under this number before: nothing if the number is new. A number older than the
    /// session's newest is refused.
    pub fn begin(
        self: &Arc<Self>,
        engine: &dyn Engine,
        session: &[u8],
        transaction: i64,
    ) -> Result<(Vec<RememberedStatement>, SessionTurn)> {
        let (turn, known) = self.take_turn(session);
        if known.is_some_and(|known| known < transaction) {
            self.note(session, transaction);
            return Ok((Vec::new(), turn));
        }
        let stored = read_session(engine, session)?;
        let newest = stored.iter().map(|record| record.transaction).chain(known).max();
        if let Some(newest) = newest
            && newest > transaction
        {
            return Err(Error::refused(
                code::TRANSACTION_TOO_OLD,
                format!(
                    "Retryable write with txnNumber {transaction} is prohibited on session because a newer \
                     retryable write with txnNumber {newest} has already started on this session."
                ),
            ));
        }
        self.note(session, transaction);
        let done = stored
            .into_iter()
            .filter(|record| record.transaction == transaction)
            .flat_map(|record| record.statements)
            .collect();
        Ok((done, turn))
    }

    /// Waits until no other write of the session is under way; also gives its newest number.
    fn take_turn(self: &Arc<Self>, session: &[u8]) -> (SessionTurn, Option<i64>) {
        let mut sessions = self.sessions.lock();
        let newest = loop {
            let state = sessions.entry(session.into()).or_default();
            if !state.busy {
                state.busy = true;
                state.used = clock::now_seconds();
                break state.newest;
            }
            self.free.wait(&mut sessions);
        };
        (SessionTurn { table: self.clone(), session: session.into() }, newest)
    }

    fn note(&self, session: &[u8], transaction: i64) {
        if let Some(state) = self.sessions.lock().get_mut(session) {
            state.newest = Some(transaction);
        }
    }

    /// Forgets what is older than a session lives.
    pub fn expire(&self, engine: &dyn Engine) -> Result<()> {
        let oldest = clock::now_seconds().saturating_sub(RETENTION_SECONDS);
        self.sessions.lock().retain(|_, session| session.busy || session.used >= oldest);
        let mut expired = Vec::new();
        engine.snapshot().visit(Space::Meta, KeyRange::prefix(b"r"), &mut |key, value| {
            if Stored::parse(value).is_ok_and(|record| record.noted_at < oldest) {
                expired.push(key.to_vec());
            }
            if expired.len() < 10_000 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        if !expired.is_empty() {
            let mut batch = Batch::with_capacity(expired.len());
            batch.take_reserve();
            expired.into_iter().for_each(|key| batch.delete(Space::Meta, key));
            engine.commit(batch)?;
        }
        Ok(())
    }
}

/// Says what is wrong with a stored record, if anything.
pub(crate) fn check_record(key: &[u8], value: &[u8]) -> Result<()> {
    let session = |key: &[u8]| {
        let (length, rest) = read_number(key.get(1..)?)?;
        rest.len().checked_sub(usize::try_from(length).ok()?).filter(|&rest| rest == 4)
    };
    if session(key).is_none() {
        return Err(Error::Damaged("the key of a retryable write".to_owned()));
    }
    Stored::parse(value).map(|_| ())
}

fn read_session(engine: &dyn Engine, session: &[u8]) -> Result<Vec<Stored>> {
    let range = KeyRange::prefix(&keys::retry_prefix(session));
    let snapshot = engine.snapshot();
    let mut records = Vec::new();
    for pair in snapshot.scan(Space::Meta, range, Direction::Forward) {
        records.push(Stored::parse(&pair?.1)?);
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_kv::MemoryEngine;
    use diwan_value::doc;

    fn remember(engine: &dyn Engine, transaction: i64, statement: u32, result: Option<Doc<'_>>) {
        let mut batch = Batch::new();
        RetryRecord { session: b"s", transaction, statement, result }.write(&mut batch);
        engine.commit(batch).unwrap();
    }

    #[test]
    fn results_survive_a_new_table() {
        let engine = MemoryEngine::new();
        let table = || Arc::new(RetryTable::default());
        assert!(table().begin(&engine, b"s", 5).unwrap().0.is_empty());
        remember(&engine, 5, 2, Some(doc! { "n": 1 }.as_doc()));
        let remembered = table().begin(&engine, b"s", 5).unwrap().0;
        assert_eq!(remembered.len(), 1);
        assert_eq!(remembered[0].statement, 2);
        assert_eq!(remembered[0].result, Some(doc! { "n": 1 }));
    }

    #[test]
    fn older_numbers_are_refused_and_newer_ones_start_afresh() {
        let engine = MemoryEngine::new();
        let table = Arc::new(RetryTable::default());
        table.begin(&engine, b"s", 5).unwrap();
        remember(&engine, 5, 0, None);
        assert!(table.begin(&engine, b"s", 6).unwrap().0.is_empty());
        assert!(matches!(table.begin(&engine, b"s", 5), Err(Error::Query(error)) if error.code == 225));
        assert!(matches!(Arc::new(RetryTable::default()).begin(&engine, b"s", 4), Err(Error::Query(_))));
        assert!(table.begin(&engine, b"other", 1).unwrap().0.is_empty());
    }

    #[test]
    fn a_retry_waits_for_the_write_under_way() {
        let engine = MemoryEngine::new();
        let table = Arc::new(RetryTable::default());
        let (done, turn) = table.begin(&engine, b"s", 5).unwrap();
        assert!(done.is_empty());
        std::thread::scope(|scope| {
            let retry = scope.spawn(|| table.begin(&engine, b"s", 5).unwrap().0);
            // Another session does not wait.
            assert!(table.begin(&engine, b"other", 1).unwrap().0.is_empty());
            remember(&engine, 5, 0, None);
            drop(turn);
            assert_eq!(retry.join().unwrap().len(), 1);
        });
    }
}

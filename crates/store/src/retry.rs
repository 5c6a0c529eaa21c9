//! Durable results of retryable writes. A write's retry record is part of its batch. So if the answer to a write was lost,
//! a retry returns the stored result and does not write again, also after a restart.
//!
//! A record's value: the transaction number (8 bytes, big-endian), the time in seconds since the Unix epoch, how many
//! statements it covers, their numbers, then the result as BSON, empty for inserts.

use crate::clock;
use crate::error::{Error, Result};
use crate::keys::{self, Key, read_number, write_number};
use crate::shared_store::{evaluate, turn as own_turn};
use diwan_kv::{Batch, Bytes, Direction, Engine, KeyRange, Space};
use diwan_query::{Interrupt, code};
use diwan_value::{Doc, DocBuf};
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::time::Duration;

/// The retry record of a write.
#[derive(Clone, Copy, Debug)]
pub struct RetryRecord<'a> {
    /// The session's identifier.
    pub session: &'a [u8],
    /// The number that the client gave the command.
    pub transaction: i64,
    /// The number of the (first) statement.
    pub statement: u32,
    /// The result to answer a retry with; `None` for inserts, whose result is always the same.
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

/// A statement that was executed before.
#[derive(Clone, Debug)]
pub struct RememberedStatement {
    /// Its number.
    pub statement: u32,
    /// The result that the client was sent; `None` for an insert.
    pub result: Option<DocBuf>,
}

/// A stored record, parsed.
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
///
/// The table knows each session that has records, so that expiry reads the records of those that are due and of no others:
/// sessions that wrote since the start are entered as they write, those of before by a pass over all records after it.
#[derive(Default)]
pub(crate) struct RetryTable {
    sessions: Mutex<HashMap<Box<[u8]>, Session>>,
    /// How far the pass over the records of before the start is.
    pass: Mutex<Pass>,
    /// Told when a session is no longer busy.
    free: Condvar,
}

#[derive(Default)]
enum Pass {
    #[default]
    NotBegun,
    /// All up to this key have been read.
    Reached(Bytes),
    Done,
}

struct Session {
    /// The greatest transaction number seen since the start.
    newest: Option<i64>,
    /// When it was last used.
    used: u64,
    /// A time before which none of its records was noted.
    oldest: u64,
    /// Whether a write of the session is under way.
    busy: bool,
    /// Whether another process may have written records of the session that were not read here.
    written_elsewhere: bool,
}

impl Session {
    fn new(now: u64) -> Session {
        Session { newest: None, used: now, oldest: now, busy: false, written_elsewhere: false }
    }
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

/// How often a command that waits for its session's turn checks whether it was interrupted.
const CHECK_EVERY: Duration = Duration::from_millis(50);
/// For how long results are remembered: as long as a session lives, in seconds.
const RETENTION_SECONDS: u64 = 30 * 60;
/// How many records expiry reads or removes at a time.
const EXPIRY_RUN: usize = 10_000;

impl RetryTable {
    /// What the session did under this number before: nothing if the number is new. A number older than the
    /// session's newest is refused. `interrupt` ends the wait for the session's turn, whose holder may wait for a
    /// transaction.
    pub fn begin(
        self: &Arc<Self>,
        engine: &dyn Engine,
        session: &[u8],
        transaction: i64,
        interrupt: &Interrupt,
    ) -> Result<(Vec<RememberedStatement>, SessionTurn)> {
        let (turn, known, written_elsewhere) = self.take_turn(session, interrupt)?;
        // If another process does it at this moment, the commit is refused, and `check_new` finds it then.
        if !written_elsewhere && known.is_some_and(|known| known < transaction) {
            self.note(session, transaction);
            return Ok((Vec::new(), turn));
        }
        let stored = self.read(engine, session)?;
        let newest = stored.iter().map(|record| record.transaction).chain(known).max();
        if let Some(newest) = newest
            && newest > transaction
        {
            self.note(session, newest);
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

    /// The records of a session. They cover what other processes have written before.
    fn read(&self, engine: &dyn Engine, session: &[u8]) -> Result<Vec<Stored>> {
        let set = |written_elsewhere| {
            if let Some(state) = self.sessions.lock().get_mut(session) {
                state.written_elsewhere = written_elsewhere;
            }
        };
        // Another process may write one more while they are read.
        set(false);
        read_session(engine, session).inspect_err(|_| set(true))
    }

    /// Waits until no other write of the session is under way. Also gives its newest number, and whether another process may have
    /// written records of it that were not read here.
    fn take_turn(
        self: &Arc<Self>,
        session: &[u8],
        interrupt: &Interrupt,
    ) -> Result<(SessionTurn, Option<i64>, bool)> {
        let mut sessions = self.sessions.lock();
        let (newest, written_elsewhere) = loop {
            let now = clock::now_seconds();
            let state = sessions.entry(session.into()).or_insert_with(|| Session::new(now));
            if !state.busy {
                state.busy = true;
                state.used = now;
                state.oldest = state.oldest.min(now);
                break (state.newest, state.written_elsewhere);
            }
            interrupt.check_waiting()?;
            self.free.wait_for(&mut sessions, CHECK_EVERY);
        };
        Ok((SessionTurn { table: self.clone(), session: session.into() }, newest, written_elsewhere))
    }

    /// Notes that another process has written a record with this key; `None` stands for any records.
    pub fn follow(&self, key: Option<&[u8]>) {
        let mut sessions = self.sessions.lock();
        match key {
            Some(key) => {
                if let Some(state) = session_of(key).and_then(|session| sessions.get_mut(session)) {
                    state.written_elsewhere = true;
                }
            }
            None => sessions.values_mut().for_each(|state| state.written_elsewhere = true),
        }
    }

    /// Whether another process may have written records of a session that were not read here.
    pub fn is_written_elsewhere(&self, session: &[u8]) -> bool {
        self.sessions.lock().get(session).is_none_or(|state| state.written_elsewhere)
    }

    /// Fails if another process has done one of the statements meanwhile. The caller has a turn of this process, so that none is
    /// done after this. `count` statements follow one another from the record's on.
    pub fn check_new(&self, engine: &dyn Engine, record: &RetryRecord<'_>, count: usize) -> Result<()> {
        if engine.peers().is_none() || !self.is_written_elsewhere(record.session) {
            return Ok(());
        }
        let statements = record.statement..=record.statement.saturating_add(count as u32 - 1);
        let is_done = read_session(engine, record.session)?.iter().any(|stored| {
            stored.transaction == record.transaction
                && stored.statements.iter().any(|done| statements.contains(&done.statement))
        });
        if !is_done {
            return Ok(());
        }
        Err(Error::refused(code::WRITE_CONFLICT, "another process has executed this retryable write"))
    }

    fn note(&self, session: &[u8], transaction: i64) {
        if let Some(state) = self.sessions.lock().get_mut(session) {
            state.newest = state.newest.max(Some(transaction));
        }
    }

    /// Removes the records that are older than a session lives at `now` (seconds since 1970), until `is_over` returns true.
    /// Returns whether all are removed.
    pub fn expire(
        self: &Arc<Self>,
        engine: &dyn Engine,
        now: u64,
        is_over: &dyn Fn() -> bool,
    ) -> Result<bool> {
        if !self.enter_all(engine, is_over)? {
            return Ok(false);
        }
        let oldest = now.saturating_sub(RETENTION_SECONDS);
        let due: Vec<Box<[u8]>> = {
            let sessions = self.sessions.lock();
            let due = sessions.iter().filter(|(_, state)| !state.busy && state.oldest < oldest);
            due.map(|(session, _)| session.clone()).collect()
        };
        for session in due {
            if is_over() {
                return Ok(false);
            }
            // While it is held no write renews a record of the session.
            if let Some(turn) = self.try_take_turn(&session) {
                self.expire_session(engine, &turn, oldest)?;
            }
        }
        Ok(true)
    }

    /// Removes the records of a session that are due.
    fn expire_session(&self, engine: &dyn Engine, turn: &SessionTurn, oldest: u64) -> Result<()> {
        evaluate(engine, || self.try_expire_session(engine, turn, oldest))
    }

    fn try_expire_session(&self, engine: &dyn Engine, turn: &SessionTurn, oldest: u64) -> Result<()> {
        // Another process may renew a record of the session.
        let _own = own_turn(engine);
        let mut kept = u64::MAX;
        let mut expired = Vec::new();
        let range = KeyRange::prefix(&keys::retry_prefix(&turn.session));
        engine.snapshot().visit(Space::Meta, range, &mut |key, value| {
            match Stored::parse(value) {
                Ok(record) if record.noted_at >= oldest => kept = kept.min(record.noted_at),
                // A damaged record can never be used.
                _ => expired.push(key.to_vec()),
            }
            ControlFlow::Continue(())
        })?;
        for run in expired.chunks(EXPIRY_RUN) {
            let mut batch = Batch::with_capacity(run.len());
            batch.take_reserve();
            run.iter().for_each(|key| batch.delete(Space::Meta, key.as_slice()));
            engine.commit(batch)?;
        }
        let mut sessions = self.sessions.lock();
        if let Some(state) = sessions.get_mut(&turn.session) {
            if kept == u64::MAX && state.used < oldest {
                sessions.remove(&turn.session);
                // A write that waits for the turn enters the session anew.
                self.free.notify_all();
            } else {
                // No record can have been added while the turn is held.
                state.oldest = if kept == u64::MAX { state.used } else { kept };
            }
        }
        Ok(())
    }

    /// Enters the sessions that have records of before the start; says whether all are entered.
    fn enter_all(&self, engine: &dyn Engine, is_over: &dyn Fn() -> bool) -> Result<bool> {
        let mut pass = self.pass.lock();
        // Other processes' sessions write all the time.
        if engine.peers().is_some() && matches!(*pass, Pass::Done) {
            *pass = Pass::NotBegun;
        }
        loop {
            let mut range = KeyRange::prefix(keys::all_retries_prefix());
            match &*pass {
                Pass::Done => return Ok(true),
                Pass::Reached(last) => range.start = Bound::Excluded(last.clone()),
                Pass::NotBegun => {}
            }
            let (mut count, mut last) = (0, None);
            engine.snapshot().visit(Space::Meta, range, &mut |key, value| {
                if let (Some(session), Ok(record)) = (session_of(key), Stored::parse(value)) {
                    let mut sessions = self.sessions.lock();
                    let noted_at = record.noted_at;
                    let state = sessions.entry(session.into()).or_insert_with(|| Session::new(noted_at));
                    state.used = state.used.max(noted_at);
                    state.oldest = state.oldest.min(noted_at);
                }
                count += 1;
                last = Some(Bytes::from(key));
                if count < EXPIRY_RUN { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            *pass = match last {
                Some(last) if count == EXPIRY_RUN => Pass::Reached(last),
                _ => Pass::Done,
            };
            if is_over() {
                return Ok(matches!(*pass, Pass::Done));
            }
        }
    }

    /// The turn of a session that is known and not busy.
    fn try_take_turn(self: &Arc<Self>, session: &[u8]) -> Option<SessionTurn> {
        let mut sessions = self.sessions.lock();
        let state = sessions.get_mut(session).filter(|state| !state.busy)?;
        state.busy = true;
        Some(SessionTurn { table: self.clone(), session: session.into() })
    }
}

/// The session in the key of a record.
fn session_of(key: &[u8]) -> Option<&[u8]> {
    let (length, rest) = read_number(key.get(1..)?)?;
    let (session, statement) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    (statement.len() == 4).then_some(session)
}

/// Says what is wrong with a stored record, if anything.
pub(crate) fn check_record(key: &[u8], value: &[u8]) -> Result<()> {
    if session_of(key).is_none() {
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
    use diwan_kv::{Fault, FaultEngine, MemoryEngine};
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
        assert!(table().begin(&engine, b"s", 5, &Interrupt::new()).unwrap().0.is_empty());
        remember(&engine, 5, 2, Some(doc! { "n": 1 }.as_doc()));
        let remembered = table().begin(&engine, b"s", 5, &Interrupt::new()).unwrap().0;
        assert_eq!(remembered.len(), 1);
        assert_eq!(remembered[0].statement, 2);
        assert_eq!(remembered[0].result, Some(doc! { "n": 1 }));
    }

    #[test]
    fn older_numbers_are_refused_and_newer_ones_start_afresh() {
        let engine = MemoryEngine::new();
        let table = Arc::new(RetryTable::default());
        table.begin(&engine, b"s", 5, &Interrupt::new()).unwrap();
        remember(&engine, 5, 0, None);
        assert!(table.begin(&engine, b"s", 6, &Interrupt::new()).unwrap().0.is_empty());
        assert!(
            matches!(table.begin(&engine, b"s", 5, &Interrupt::new()), Err(Error::Query(error)) if error.code == 225)
        );
        assert!(matches!(
            Arc::new(RetryTable::default()).begin(&engine, b"s", 4, &Interrupt::new()),
            Err(Error::Query(_))
        ));
        assert!(table.begin(&engine, b"other", 1, &Interrupt::new()).unwrap().0.is_empty());
    }

    #[test]
    fn begin_finds_statements_of_another_process_after_it_refused_an_older_number() {
        let engine = MemoryEngine::new();
        let table = Arc::new(RetryTable::default());
        let begin = |transaction| table.begin(&engine, b"s", transaction, &Interrupt::new());
        begin(5).unwrap();
        remember(&engine, 7, 0, None);
        table.follow(Some(&Key::Retry { session: b"s", statement: 0 }.bytes()));
        assert!(matches!(begin(6), Err(Error::Query(error)) if error.code == 225));
        assert_eq!(begin(7).unwrap().0.len(), 1);
        assert!(begin(6).is_err() && begin(8).unwrap().0.is_empty());
    }

    #[test]
    fn begin_reads_records_of_another_process_again_after_a_failed_read() {
        let engine = FaultEngine::new(MemoryEngine::new());
        let table = Arc::new(RetryTable::default());
        let begin = |transaction| table.begin(&engine, b"s", transaction, &Interrupt::new());
        begin(5).unwrap();
        remember(&engine, 6, 0, None);
        table.follow(Some(&Key::Retry { session: b"s", statement: 0 }.bytes()));
        engine.fail(Fault::Read, 1);
        assert!(begin(6).is_err());
        assert_eq!(begin(6).unwrap().0.len(), 1);
    }

    #[test]
    fn a_retry_waits_for_the_write_under_way() {
        let engine = MemoryEngine::new();
        let table = Arc::new(RetryTable::default());
        let (done, turn) = table.begin(&engine, b"s", 5, &Interrupt::new()).unwrap();
        assert!(done.is_empty());
        std::thread::scope(|scope| {
            let retry = scope.spawn(|| table.begin(&engine, b"s", 5, &Interrupt::new()).unwrap().0);
            // Another session does not wait.
            assert!(table.begin(&engine, b"other", 1, &Interrupt::new()).unwrap().0.is_empty());
            remember(&engine, 5, 0, None);
            drop(turn);
            assert_eq!(retry.join().unwrap().len(), 1);
        });
    }

    #[test]
    fn a_wait_for_the_write_under_way_can_be_interrupted() {
        let engine = MemoryEngine::new();
        let table = Arc::new(RetryTable::default());
        let _turn = table.begin(&engine, b"s", 5, &Interrupt::new()).unwrap();
        let interrupt = Interrupt::new();
        interrupt.kill();
        assert!(matches!(table.begin(&engine, b"s", 5, &interrupt), Err(Error::Query(_))));
    }

    /// A record of statement `statement`, noted at this time.
    fn remember_at(engine: &dyn Engine, session: &[u8], statement: u32, noted_at: u64) {
        let mut value = 5i64.to_be_bytes().to_vec();
        for number in [noted_at, 1, statement.into()] {
            write_number(&mut value, number);
        }
        let mut batch = Batch::new();
        batch.put(Space::Meta, Key::Retry { session, statement }.bytes(), value);
        engine.commit(batch).unwrap();
    }

    fn statements(engine: &dyn Engine, session: &[u8]) -> Vec<u32> {
        let records = read_session(engine, session).unwrap();
        records.iter().flat_map(|record| &record.statements).map(|done| done.statement).collect()
    }

    #[test]
    fn a_record_that_is_renewed_while_others_expire_stays() {
        let engine = MemoryEngine::new();
        let table = Arc::new(RetryTable::default());
        let now = clock::now_seconds();
        let later = now + RETENTION_SECONDS + 10;
        remember_at(&engine, b"s", 0, now);
        remember_at(&engine, b"idle", 0, now);
        assert!(table.expire(&engine, now, &|| false).unwrap());
        // The session writes again: the record it will renew is due, but its turn is taken.
        let (_, turn) = table.begin(&engine, b"s", 6, &Interrupt::new()).unwrap();
        assert!(table.expire(&engine, later, &|| false).unwrap());
        assert_eq!(statements(&engine, b"s"), [0]);
        assert!(statements(&engine, b"idle").is_empty());
        remember_at(&engine, b"s", 0, later);
        drop(turn);
        assert!(table.expire(&engine, later, &|| false).unwrap());
        assert_eq!(statements(&engine, b"s"), [0], "the renewed record is new");
        assert!(table.expire(&engine, later + RETENTION_SECONDS + 1, &|| false).unwrap());
        assert!(statements(&engine, b"s").is_empty());
        assert!(table.sessions.lock().is_empty());
    }

    #[test]
    fn old_records_of_a_living_session_expire_and_new_ones_stay() {
        let engine = MemoryEngine::new();
        let table = Arc::new(RetryTable::default());
        let now = clock::now_seconds();
        remember_at(&engine, b"s", 7, now - RETENTION_SECONDS - 10);
        remember_at(&engine, b"s", 0, now);
        // A pass that is interrupted goes on.
        let calls = std::cell::Cell::new(0);
        table.expire(&engine, now, &|| calls.replace(calls.get() + 1) == 0).unwrap();
        assert!(table.expire(&engine, now, &|| false).unwrap());
        assert_eq!(statements(&engine, b"s"), [0]);
        assert_eq!(table.begin(&engine, b"s", 5, &Interrupt::new()).unwrap().0.len(), 1);
    }
}

//! Cursors: document sources that clients read batch by batch.
//!
//! The registry holds a cursor while it is idle. A `getMore` takes the cursor out and puts it back, so a cursor has one
//! reader at a time. A cursor that is killed while it is out is interrupted, and dropped when it comes back.

use crate::connection::room::SHORT_BATCH;
use crate::error::{CommandError, Result, code};
use crate::monitoring::metrics::Counter;
use crate::request::arguments::SessionId;
use crate::rights::Right;
use diwan_access::Owner;
use diwan_query::Interrupt;
use diwan_query::pipeline::DocSource;
use diwan_store::Collection;
use diwan_store::events::StreamState;
use diwan_value::{Doc, DocBuf, DocBuilder, MAX_DOCUMENT_BYTES};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The size of the first batch if the client does not set one.
pub(crate) const FIRST_BATCH: u64 = 101;

/// The maximum size of a batch in bytes. A single longer document still makes a batch.
const BATCH_BYTES: usize = MAX_DOCUMENT_BYTES;

/// The tailable part of a cursor.
#[derive(Clone)]
pub(crate) struct Tail {
    /// Whether a `getMore` without documents waits for new ones.
    pub await_data: bool,
    /// What ends the wait.
    pub news: News,
}

/// Where the news of a tailable cursor come from.
#[derive(Clone)]
pub(crate) enum News {
    /// The changes of a collection.
    Collection(Arc<Collection>),
    /// The events of a change stream.
    Stream(Arc<StreamState>),
    /// The entries of the operation log.
    Oplog(Arc<StreamState>),
}

impl News {
    /// How far the source has come, before a batch is read.
    pub(crate) fn mark(&self) -> u64 {
        match self {
            News::Collection(collection) => collection.last_sequence(),
            News::Stream(_) | News::Oplog(_) => 0,
        }
    }
}

/// A source of documents, and the state that is kept between its batches.
pub(crate) struct Cursor {
    /// Whose it is.
    pub owner: Owner,
    /// The rights that its command needed.
    pub rights: Vec<Right>,
    source: Box<dyn DocSource>,
    /// A document that did not fit into the last batch.
    held: Option<DocBuf>,
    /// The token of the last document of a change stream that was sent.
    last_token: Option<DocBuf>,
    pub database: String,
    /// The collection in the replies' `ns`. Lists have a pseudo-collection such as `$cmd.listCollections`.
    pub collection: String,
    pub session: Option<SessionId>,
    /// The number of the transaction that it belongs to.
    pub transaction: Option<i64>,
    /// Whether the cursor stays open however long it is idle.
    pub no_timeout: bool,
    pub tail: Option<Tail>,
    /// How many documents the `limit` still allows. The batch that reaches it is the last one; the source itself would
    /// report its end only at the next read.
    pub left: Option<u64>,
    /// The unused part of the operation's `maxTimeMS`. An `awaitData` cursor has a limit for each `getMore` instead.
    time_left: Option<Duration>,
    /// The interrupt that the source was opened with. It stops every read of the source.
    interrupt: Interrupt,
    /// Counts the cursor when it is closed. `None` if the cursor never was in the registry.
    lifetime: Option<Lifetime>,
}

/// Counters of the cursors that stayed open after their first batch.
#[derive(Debug, Default)]
pub(crate) struct CursorCounters {
    /// How many were opened.
    pub opened: Counter,
    /// How many closed cursors had more than one batch.
    pub more_than_one_batch: Counter,
    /// How many were closed because they were idle for too long.
    pub timed_out: Counter,
    /// How many were closed, by their lifespan: a counter for each limit, and one for those beyond the last limit.
    pub lifespans: [Counter; LIFESPANS.len() + 1],
}

/// The upper limits of the lifespan classes, in seconds.
const LIFESPANS: [u64; 6] = [1, 5, 15, 30, 60, 600];

impl CursorCounters {
    /// The names of the lifespan classes.
    pub(crate) const LIFESPAN_NAMES: [&str; LIFESPANS.len() + 1] = [
        "lessThan1Second",
        "lessThan5Seconds",
        "lessThan15Seconds",
        "lessThan30Seconds",
        "lessThan1Minute",
        "lessThan10Minutes",
        "greaterThanOrEqual10Minutes",
    ];
}

/// Counts one cursor when it is dropped.
struct Lifetime {
    counters: Arc<CursorCounters>,
    opened: Instant,
    has_second_batch: bool,
}

impl Drop for Lifetime {
    fn drop(&mut self) {
        let seconds = self.opened.elapsed().as_secs();
        let class = LIFESPANS.iter().take_while(|limit| seconds >= **limit).count();
        self.counters.lifespans[class].add(1);
        self.counters.more_than_one_batch.add(u64::from(self.has_second_batch));
    }
}

impl Cursor {
    pub(crate) fn new(source: Box<dyn DocSource>, database: &str, collection: &str) -> Cursor {
        Cursor {
            owner: None,
            rights: Vec::new(),
            source,
            held: None,
            last_token: None,
            database: database.to_owned(),
            collection: collection.to_owned(),
            session: None,
            transaction: None,
            no_timeout: false,
            tail: None,
            left: None,
            time_left: None,
            interrupt: Interrupt::new(),
            lifetime: None,
        }
    }

    /// Ends a batch that was read under `interrupt`. Time between batches does not count against `maxTimeMS`.
    pub(crate) fn pause(&mut self, interrupt: &Interrupt) {
        let awaits = self.tail.as_ref().is_some_and(|tail| tail.await_data);
        self.time_left = interrupt
            .deadline()
            .filter(|_| !awaits)
            .map(|deadline| deadline.saturating_duration_since(Instant::now()));
        interrupt.set_deadline(None);
        self.interrupt = interrupt.clone();
    }

    /// Starts the next batch, and returns the interrupt for reading it.
    pub(crate) fn resume(&self) -> Interrupt {
        self.interrupt.set_deadline(self.time_left.map(|left| Instant::now() + left));
        self.interrupt.clone()
    }

    /// Appends up to `limit` documents to the open array of `reply`, fewer if the batch reaches [`BATCH_BYTES`]. Returns
    /// their number, and whether the cursor has ended. Before the reply grows beyond [`SHORT_BATCH`], `grow` is asked for
    /// each document whether the batch may have it. A `single` batch goes on nevertheless: no other follows.
    pub(crate) fn fill(
        &mut self,
        limit: u64,
        single: bool,
        interrupt: &Interrupt,
        reply: &mut DocBuilder,
        mut grow: impl FnMut(usize) -> Result<bool>,
    ) -> Result<(u64, bool)> {
        let start = reply.len();
        let mut count = 0;
        while count < limit {
            let held = self.held.take();
            let doc = match &held {
                Some(doc) => doc.as_doc(),
                None if self.source.advance(interrupt)? => self.source.current(),
                None => return Ok((count, true)),
            };
            let length = reply.len() + doc.as_bytes().len();
            let is_full = length - start > BATCH_BYTES || length > SHORT_BATCH && !grow(length)? && !single;
            if count > 0 && is_full {
                self.held = Some(doc.to_owned());
                break;
            }
            reply.append_indexed(count as usize, doc);
            if self.tail.as_ref().is_some_and(|tail| matches!(tail.news, News::Stream(_))) {
                self.last_token = doc.get_doc("_id").map(Doc::to_owned);
            }
            count += 1;
            if let Some(left) = &mut self.left {
                *left = left.saturating_sub(1);
            }
        }
        Ok((count, self.left == Some(0)))
    }

    /// The token of a change stream behind the documents that the client has.
    pub(crate) fn resume_token(&self) -> Option<DocBuf> {
        let Some(Tail { news: News::Stream(state), .. }) = &self.tail else { return None };
        // A document that waits for the next batch was read, but the client does not have it.
        let held = self.held.as_ref().and_then(|_| self.last_token.clone());
        Some(held.unwrap_or_else(|| state.token().to_doc()))
    }

    /// Whether a change stream has shown its last event.
    pub(crate) fn has_stream_ended(&self) -> bool {
        match &self.tail {
            Some(Tail { news: News::Stream(state), .. }) => self.held.is_none() && state.has_ended(),
            _ => false,
        }
    }

    /// The `ns` in replies.
    pub(crate) fn namespace(&self) -> String {
        format!("{}.{}", self.database, self.collection)
    }
}

/// An entry of the registry.
enum Slot {
    /// The cursor is not being read. A `getMore` may wait for its news: then `waiting` ends the wait.
    Idle { cursor: Box<Cursor>, since: Instant, waiting: Weak<Notify> },
    /// A command has taken the cursor out. `interrupt` stops its read.
    InUse { interrupt: Interrupt, session: Option<SessionId>, owner: Owner },
}

impl Slot {
    fn idle(cursor: Box<Cursor>, waiting: Weak<Notify>) -> Slot {
        Slot::Idle { cursor, since: Instant::now(), waiting }
    }

    /// Ends the command that reads the cursor or waits for it.
    fn interrupt(&self) {
        match self {
            Slot::Idle { waiting, .. } => {
                if let Some(waiting) = waiting.upgrade() {
                    waiting.notify_one();
                }
            }
            Slot::InUse { interrupt, .. } => interrupt.kill(),
        }
    }

    /// Whether an idle cursor belongs to a transaction.
    fn is_of(&self, of: SessionId, number: i64) -> bool {
        let Slot::Idle { cursor, .. } = self else { return false };
        cursor.session == Some(of) && cursor.transaction == Some(number)
    }
}

/// The open cursors of the server.
#[derive(Default)]
pub(crate) struct Cursors {
    open: Mutex<HashMap<i64, Slot>>,
    counters: Arc<CursorCounters>,
}

/// The number of open cursors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenCursors {
    pub total: usize,
    /// Those with `noCursorTimeout`.
    pub no_timeout: usize,
    /// Those that a command is reading.
    pub pinned: usize,
}

impl Cursors {
    /// Registers a cursor for later batches, and returns its number, which is positive.
    pub(crate) fn insert(&self, mut cursor: Cursor) -> Result<i64> {
        cursor.source.suspend();
        self.counters.opened.add(1);
        let (counters, opened) = (self.counters.clone(), Instant::now());
        cursor.lifetime = Some(Lifetime { counters, opened, has_second_batch: false });
        let mut open = self.open.lock();
        loop {
            let random = getrandom::u64()
                .map_err(|_| CommandError::new(code::INTERNAL_ERROR, "the system has no random bytes"))?;
            let id = (random >> 1) as i64;
            if id != 0 && !open.contains_key(&id) {
                open.insert(id, Slot::idle(Box::new(cursor), Weak::new()));
                return Ok(id);
            }
        }
    }

    /// Takes a cursor out to read it, if `check` allows it. The caller must pass it to [`Cursors::put_back`] or call
    /// [`Cursors::remove`]. A command that has waited for the cursor takes it `again`.
    pub(crate) fn take(
        &self,
        id: i64,
        again: bool,
        check: impl FnOnce(&Cursor) -> Result<()>,
    ) -> Result<Box<Cursor>> {
        let in_use = || CommandError::new(code::CURSOR_IN_USE, format!("cursor id {id} is already in use"));
        let mut open = self.open.lock();
        match open.get(&id) {
            Some(Slot::Idle { cursor, waiting, .. }) => {
                check(cursor)?;
                if !again && waiting.strong_count() > 0 {
                    return Err(in_use());
                }
            }
            Some(Slot::InUse { .. }) => return Err(in_use()),
            None if again => return Err(killed()),
            None => return Err(not_found(id)),
        }
        let Some(Slot::Idle { mut cursor, .. }) = open.remove(&id) else { return Err(not_found(id)) };
        if let Some(lifetime) = &mut cursor.lifetime {
            lifetime.has_second_batch = true;
        }
        let (interrupt, owner) = (cursor.interrupt.clone(), cursor.owner.clone());
        let slot = Slot::InUse { interrupt, session: cursor.session, owner };
        open.insert(id, slot);
        Ok(cursor)
    }

    /// Puts a cursor back after a batch. A cursor that was killed meanwhile is dropped, and false is returned. The command
    /// waits for news of the cursor as long as `waiting` exists.
    pub(crate) fn put_back(&self, id: i64, mut cursor: Box<Cursor>, waiting: Option<&Arc<Notify>>) -> bool {
        cursor.source.suspend();
        match self.open.lock().get_mut(&id) {
            Some(slot) => {
                *slot = Slot::idle(cursor, waiting.map_or_else(Weak::new, Arc::downgrade));
                true
            }
            None => false,
        }
    }

    /// Removes a cursor that has ended or failed.
    pub(crate) fn remove(&self, id: i64) {
        self.open.lock().remove(&id);
    }

    /// Whose an open cursor is. `None` if no cursor has that number.
    pub(crate) fn owner(&self, id: i64) -> Option<Owner> {
        self.open.lock().get(&id).map(|slot| match slot {
            Slot::Idle { cursor, .. } => cursor.owner.clone(),
            Slot::InUse { owner, .. } => owner.clone(),
        })
    }

    /// Kills a cursor. False if no cursor has that number.
    pub(crate) fn kill(&self, id: i64) -> bool {
        // Dropping an idle cursor may take long, so it happens after the lock is released.
        let slot = self.open.lock().remove(&id);
        slot.as_ref().inspect(|slot| slot.interrupt()).is_some()
    }

    /// Kills the cursors of ended sessions.
    pub(crate) fn kill_sessions(&self, sessions: &[SessionId]) {
        self.open.lock().retain(|_, slot| {
            let session = match slot {
                Slot::Idle { cursor, .. } => cursor.session,
                Slot::InUse { session, .. } => *session,
            };
            let ended = session.is_some_and(|session| sessions.contains(&session));
            if ended {
                slot.interrupt();
            }
            !ended
        });
    }

    /// Kills the cursors of a transaction that has ended.
    pub(crate) fn end_transaction(&self, session: SessionId, number: i64) {
        let gone: Vec<(i64, Slot)> =
            self.open.lock().extract_if(|_, slot| slot.is_of(session, number)).collect();
        drop(gone);
    }

    /// Closes the cursors that have been idle for `timeout`, and returns how many.
    pub(crate) fn expire(&self, now: Instant, timeout: Duration) -> usize {
        let mut open = self.open.lock();
        let before = open.len();
        open.retain(|_, slot| match slot {
            Slot::Idle { cursor, since, waiting } => {
                let is_used = cursor.no_timeout || waiting.strong_count() > 0;
                is_used || now.duration_since(*since) < timeout
            }
            Slot::InUse { .. } => true,
        });
        let expired = before - open.len();
        self.counters.timed_out.add(expired as u64);
        expired
    }

    /// The number of open cursors.
    pub(crate) fn count(&self) -> OpenCursors {
        let open = self.open.lock();
        let no_timeout = |slot: &&Slot| matches!(slot, Slot::Idle { cursor, .. } if cursor.no_timeout);
        let pinned = |slot: &&Slot| matches!(slot, Slot::InUse { .. });
        OpenCursors {
            total: open.len(),
            no_timeout: open.values().filter(no_timeout).count(),
            pinned: open.values().filter(pinned).count(),
        }
    }

    /// The counters of closed and open cursors.
    pub(crate) fn counters(&self) -> &CursorCounters {
        &self.counters
    }
}

/// The error of a command whose cursor was killed while it read the cursor or waited for it.
pub(crate) fn killed() -> CommandError {
    CommandError::new(code::CURSOR_KILLED, "operation was interrupted because its cursor was killed")
}

/// The error for a cursor that does not exist, or does not exist any more.
pub(crate) fn not_found(id: i64) -> CommandError {
    CommandError::new(code::CURSOR_NOT_FOUND, format!("cursor id {id} not found"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_query::pipeline::DocList;
    use diwan_value::doc;

    fn cursor(count: i32) -> Cursor {
        let docs = (0..count).map(|n| doc! { "n": n }).collect();
        Cursor::new(Box::new(DocList::new(docs)), "test", "c")
    }

    fn fill(cursor: &mut Cursor, limit: u64) -> (u64, bool) {
        let mut reply = DocBuilder::new();
        reply.begin_array("batch");
        cursor.fill(limit, false, &Interrupt::new(), &mut reply, |_| Ok(true)).unwrap()
    }

    #[test]
    fn fill_stops_at_the_limit() {
        let mut cursor = cursor(5);
        assert_eq!(fill(&mut cursor, 3), (3, false));
        assert_eq!(fill(&mut cursor, 3), (2, true));
    }

    #[test]
    fn fill_stops_at_the_batch_bytes() {
        let long = "x".repeat(BATCH_BYTES / 2);
        let docs = (0..3).map(|_| doc! { "s": long.as_str() }).collect();
        let mut cursor = Cursor::new(Box::new(DocList::new(docs)), "test", "c");
        assert_eq!(fill(&mut cursor, u64::MAX), (1, false));
        assert_eq!(fill(&mut cursor, u64::MAX), (1, false));
        assert_eq!(fill(&mut cursor, u64::MAX), (1, true));
    }

    #[test]
    fn fill_ends_a_batch_that_may_not_grow_unless_it_is_the_only_one() {
        let long = "x".repeat(SHORT_BATCH / 2);
        let filled = |single| {
            let docs = (0..3).map(|_| doc! { "s": long.as_str() }).collect();
            let mut cursor = Cursor::new(Box::new(DocList::new(docs)), "test", "c");
            let mut reply = DocBuilder::new();
            reply.begin_array("batch");
            cursor.fill(3, single, &Interrupt::new(), &mut reply, |_| Ok(false)).unwrap().0
        };
        assert_eq!((filled(false), filled(true)), (1, 3));
    }

    #[test]
    fn taken_cursor_cannot_be_taken_again_and_is_interrupted_by_kill() {
        let cursors = Cursors::default();
        let id = cursors.insert(cursor(5)).unwrap();
        assert!(id > 0);
        let taken = cursors.take(id, false, |_| Ok(())).unwrap();
        let interrupt = taken.resume();
        assert_eq!(cursors.take(id, false, |_| Ok(())).err().unwrap().code, code::CURSOR_IN_USE);
        assert!(!cursors.kill(id ^ 1));
        assert!(cursors.kill(id));
        assert!(interrupt.check().is_err());
        assert!(!cursors.put_back(id, taken, None));
        assert_eq!(cursors.take(id, false, |_| Ok(())).err().unwrap().code, code::CURSOR_NOT_FOUND);
    }

    #[test]
    fn cursor_that_a_command_waits_for_is_in_use_and_its_kill_ends_the_wait() {
        let cursors = Cursors::default();
        let id = cursors.insert(cursor(5)).unwrap();
        let taken = cursors.take(id, false, |_| Ok(())).unwrap();
        let notify = Arc::new(Notify::new());
        assert!(cursors.put_back(id, taken, Some(&notify)));
        assert_eq!(cursors.take(id, false, |_| Ok(())).err().unwrap().code, code::CURSOR_IN_USE);
        let later = Instant::now() + Duration::from_secs(60);
        assert_eq!(cursors.expire(later, Duration::from_secs(60)), 0);
        assert!(cursors.kill(id));
        let mut wait = std::pin::pin!(notify.notified());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(wait.as_mut().poll(&mut context).is_ready());
        assert_eq!(cursors.take(id, true, |_| Ok(())).err().unwrap().code, code::CURSOR_KILLED);
    }

    #[test]
    fn cursor_is_free_again_when_the_command_that_waited_is_gone() {
        let cursors = Cursors::default();
        let id = cursors.insert(cursor(5)).unwrap();
        let taken = cursors.take(id, false, |_| Ok(())).unwrap();
        let notify = Arc::new(Notify::new());
        assert!(cursors.put_back(id, taken, Some(&notify)));
        drop(notify);
        assert!(cursors.take(id, false, |_| Ok(())).is_ok());
    }

    #[test]
    fn time_limit_counts_only_while_a_batch_is_read() {
        let mut cursor = cursor(1);
        let interrupt = Interrupt::with_deadline(Some(Instant::now() + Duration::from_secs(60)));
        cursor.pause(&interrupt);
        assert!(interrupt.deadline().is_none());
        let deadline = cursor.resume().deadline().unwrap();
        assert!(deadline > Instant::now() + Duration::from_secs(50));
        interrupt.set_deadline(Some(Instant::now()));
        cursor.pause(&interrupt);
        assert!(cursor.resume().check().is_err());
    }

    #[test]
    fn expire_closes_idle_cursors() {
        let cursors = Cursors::default();
        cursors.insert(cursor(5)).unwrap();
        cursors.insert(Cursor { no_timeout: true, ..cursor(5) }).unwrap();
        let later = Instant::now() + Duration::from_secs(60);
        assert_eq!(cursors.expire(later, Duration::from_secs(60)), 1);
        assert_eq!(cursors.count(), OpenCursors { total: 1, no_timeout: 1, pinned: 0 });
        assert_eq!((cursors.counters().opened.get(), cursors.counters().timed_out.get()), (2, 1));
    }

    #[test]
    fn counters_count_closed_cursors() {
        let cursors = Cursors::default();
        let (read, unread) = (cursors.insert(cursor(5)).unwrap(), cursors.insert(cursor(5)).unwrap());
        let taken = cursors.take(read, false, |_| Ok(())).unwrap();
        assert_eq!(cursors.count(), OpenCursors { total: 2, no_timeout: 0, pinned: 1 });
        cursors.put_back(read, taken, None);
        assert!(cursors.kill(read) && cursors.kill(unread));
        let counters = cursors.counters();
        let counted = (&counters.opened, &counters.more_than_one_batch, &counters.timed_out);
        assert_eq!((counted.0.get(), counted.1.get(), counted.2.get()), (2, 1, 0));
        assert_eq!(counters.lifespans.iter().map(Counter::get).sum::<u64>(), 2);
        // A cursor that was never registered is not counted.
        drop(cursor(1));
        assert_eq!(counters.lifespans.iter().map(Counter::get).sum::<u64>(), 2);
    }
}

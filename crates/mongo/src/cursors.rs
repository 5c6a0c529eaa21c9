//! Cursors: sources of documents that are read batch by batch, by clients who may never come back.
//!
//! A cursor is in the registry while it is idle. Whoever reads on takes it out and puts it back, so that two readers
//! never meet; a cursor that is killed meanwhile is interrupted, and dropped instead of put back.

use crate::arguments::SessionId;
use crate::error::{CommandError, Result, code};
use crate::metrics::Counter;
use diwan_query::Interrupt;
use diwan_query::pipeline::DocSource;
use diwan_value::{DocBuf, DocBuilder, MAX_DOCUMENT_BYTES};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many documents a first batch has when the client does not say.
pub(crate) const FIRST_BATCH: u64 = 101;

/// How many bytes of documents one batch holds, unless a single document is longer.
const BATCH_BYTES: usize = MAX_DOCUMENT_BYTES;

/// What a tailable cursor is read for.
#[derive(Clone)]
pub(crate) struct Tail {
    /// Whether a reader waits for new documents.
    pub await_data: bool,
    /// The collection whose changes are waited for.
    pub collection: Arc<diwan_store::Collection>,
}

/// A source of documents with what must be remembered between its batches.
pub(crate) struct Cursor {
    source: Box<dyn DocSource>,
    /// A document that did not fit the last batch.
    held: Option<DocBuf>,
    pub database: String,
    /// The collection as replies name it: a pseudo-collection for lists.
    pub collection: String,
    pub session: Option<SessionId>,
    /// Not closed when nobody reads it.
    pub no_timeout: bool,
    pub tail: Option<Tail>,
    /// How many documents there are still at most: a batch that reaches the limit is the last one, which the source would
    /// only say if it were asked again.
    pub left: Option<u64>,
    /// What is left of the operation's `maxTimeMS`. Readers who wait for new documents have limits of their own.
    time_left: Option<Duration>,
    /// What its source was opened with, and is stopped by.
    interrupt: Interrupt,
    /// Counts it when it is closed, if it was ever kept.
    life: Option<Life>,
}

/// What the cursors of a server have done that were kept after their first batch.
#[derive(Debug, Default)]
pub(crate) struct Lives {
    /// How many were kept.
    pub opened: Counter,
    /// How many of those that are closed were read on.
    pub read_on: Counter,
    /// How many were closed because nobody read them.
    pub timed_out: Counter,
    /// How many were closed, by how long they were open: each up to the limit of its place, the last ones beyond all.
    pub lifespans: [Counter; LIFESPANS.len() + 1],
}

/// The limits in seconds of the classes of lifespans.
const LIFESPANS: [u64; 6] = [1, 5, 15, 30, 60, 600];

impl Lives {
    /// The names of the classes of lifespans.
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

/// The time that one cursor is open.
struct Life {
    lives: Arc<Lives>,
    begun: Instant,
    read_on: bool,
}

impl Drop for Life {
    fn drop(&mut self) {
        let seconds = self.begun.elapsed().as_secs();
        let class = LIFESPANS.iter().take_while(|limit| seconds >= **limit).count();
        self.lives.lifespans[class].add(1);
        self.lives.read_on.add(u64::from(self.read_on));
    }
}

impl Cursor {
    pub(crate) fn new(source: Box<dyn DocSource>, database: &str, collection: &str) -> Cursor {
        Cursor {
            source,
            held: None,
            database: database.to_owned(),
            collection: collection.to_owned(),
            session: None,
            no_timeout: false,
            tail: None,
            left: None,
            time_left: None,
            interrupt: Interrupt::new(),
            life: None,
        }
    }

    /// Ends the reading of a batch under `interrupt`: until the next one no time passes.
    pub(crate) fn pause(&mut self, interrupt: &Interrupt) {
        let awaits = self.tail.as_ref().is_some_and(|tail| tail.await_data);
        self.time_left = interrupt
            .deadline()
            .filter(|_| !awaits)
            .map(|deadline| deadline.saturating_duration_since(Instant::now()));
        interrupt.set_deadline(None);
        self.interrupt = interrupt.clone();
    }

    /// Begins the reading of the next batch; what may stop it.
    pub(crate) fn resume(&self) -> Interrupt {
        self.interrupt.set_deadline(self.time_left.map(|left| Instant::now() + left));
        self.interrupt.clone()
    }

    /// Appends up to `limit` documents to the open array of `reply`, fewer if they grow too large. Says how many, and
    /// whether the source has ended.
    pub(crate) fn fill(
        &mut self,
        limit: u64,
        interrupt: &Interrupt,
        reply: &mut DocBuilder,
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
            if count > 0 && reply.len() - start + doc.as_bytes().len() > BATCH_BYTES {
                self.held = Some(doc.to_owned());
                break;
            }
            reply.append_indexed(count as usize, doc);
            count += 1;
            if let Some(left) = &mut self.left {
                *left = left.saturating_sub(1);
            }
        }
        Ok((count, self.left == Some(0)))
    }

    /// The namespace as replies name it.
    pub(crate) fn namespace(&self) -> String {
        format!("{}.{}", self.database, self.collection)
    }
}

/// A place in the registry.
enum Place {
    /// Nobody reads.
    Idle { cursor: Box<Cursor>, since: Instant },
    /// Somebody reads; what stops that.
    InUse { interrupt: Interrupt, session: Option<SessionId> },
}

/// The open cursors of the server.
#[derive(Default)]
pub(crate) struct Cursors {
    open: Mutex<HashMap<i64, Place>>,
    lives: Arc<Lives>,
}

/// How many cursors there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Open {
    pub total: usize,
    /// Those that never time out.
    pub no_timeout: usize,
    /// Those that somebody reads.
    pub pinned: usize,
}

impl Cursors {
    /// Keeps a cursor until its next batch is asked for; returns its number, which is positive.
    pub(crate) fn insert(&self, mut cursor: Cursor) -> Result<i64> {
        cursor.source.suspend();
        self.lives.opened.add(1);
        cursor.life = Some(Life { lives: self.lives.clone(), begun: Instant::now(), read_on: false });
        let mut open = self.open.lock();
        loop {
            let random = getrandom::u64()
                .map_err(|_| CommandError::new(code::INTERNAL_ERROR, "the system has no random bytes"))?;
            let id = (random >> 1) as i64;
            if id != 0 && !open.contains_key(&id) {
                open.insert(id, Place::Idle { cursor: Box::new(cursor), since: Instant::now() });
                return Ok(id);
            }
        }
    }

    /// Takes a cursor out to read it, after `check`. It must come back by [`Cursors::put_back`], or be removed.
    pub(crate) fn take(&self, id: i64, check: impl FnOnce(&Cursor) -> Result<()>) -> Result<Box<Cursor>> {
        let mut open = self.open.lock();
        match open.get(&id) {
            Some(Place::Idle { cursor, .. }) => check(cursor)?,
            Some(Place::InUse { .. }) => {
                return Err(CommandError::new(
                    code::CURSOR_IN_USE,
                    format!("cursor id {id} is already in use"),
                ));
            }
            None => return Err(not_found(id)),
        }
        let Some(Place::Idle { mut cursor, .. }) = open.remove(&id) else { return Err(not_found(id)) };
        if let Some(life) = &mut cursor.life {
            life.read_on = true;
        }
        let place = Place::InUse { interrupt: cursor.interrupt.clone(), session: cursor.session };
        open.insert(id, place);
        Ok(cursor)
    }

    /// Puts a cursor back after a batch. One that was killed meanwhile is dropped; then the answer is false.
    pub(crate) fn put_back(&self, id: i64, mut cursor: Box<Cursor>) -> bool {
        cursor.source.suspend();
        match self.open.lock().get_mut(&id) {
            Some(place) => {
                *place = Place::Idle { cursor, since: Instant::now() };
                true
            }
            None => false,
        }
    }

    /// Forgets a cursor that has ended or failed.
    pub(crate) fn remove(&self, id: i64) {
        self.open.lock().remove(&id);
    }

    /// Kills a cursor; false if there is none of that number.
    pub(crate) fn kill(&self, id: i64) -> bool {
        // An idle one is dropped without the lock.
        let place = self.open.lock().remove(&id);
        if let Some(Place::InUse { interrupt, .. }) = &place {
            interrupt.kill();
        }
        place.is_some()
    }

    /// Kills the cursors of ended sessions.
    pub(crate) fn kill_sessions(&self, sessions: &[SessionId]) {
        self.open.lock().retain(|_, place| {
            let (session, interrupt) = match place {
                Place::Idle { cursor, .. } => (&cursor.session, None),
                Place::InUse { session, interrupt, .. } => (&*session, Some(interrupt)),
            };
            let ended = session.as_ref().is_some_and(|session| sessions.contains(session));
            if ended && let Some(interrupt) = interrupt {
                interrupt.kill();
            }
            !ended
        });
    }

    /// Closes the cursors that nobody has read for `timeout`. Those of sessions live as long as their sessions.
    pub(crate) fn expire(&self, now: Instant, timeout: Duration) -> usize {
        let mut open = self.open.lock();
        let before = open.len();
        open.retain(|_, place| match place {
            Place::Idle { cursor, since } => cursor.no_timeout || now.duration_since(*since) < timeout,
            Place::InUse { .. } => true,
        });
        let expired = before - open.len();
        self.lives.timed_out.add(expired as u64);
        expired
    }

    /// How many cursors are open.
    pub(crate) fn count(&self) -> Open {
        let open = self.open.lock();
        let no_timeout = |place: &&Place| matches!(place, Place::Idle { cursor, .. } if cursor.no_timeout);
        let pinned = |place: &&Place| matches!(place, Place::InUse { .. });
        Open {
            total: open.len(),
            no_timeout: open.values().filter(no_timeout).count(),
            pinned: open.values().filter(pinned).count(),
        }
    }

    /// What the cursors have done so far.
    pub(crate) fn lives(&self) -> &Lives {
        &self.lives
    }
}

/// The error of a cursor that is not there (any more).
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
        cursor.fill(limit, &Interrupt::new(), &mut reply).unwrap()
    }

    #[test]
    fn batches_end_where_the_client_says() {
        let mut cursor = cursor(5);
        assert_eq!(fill(&mut cursor, 3), (3, false));
        assert_eq!(fill(&mut cursor, 3), (2, true));
    }

    #[test]
    fn a_batch_stays_below_its_bytes() {
        let long = "x".repeat(BATCH_BYTES / 2);
        let docs = (0..3).map(|_| doc! { "s": long.as_str() }).collect();
        let mut cursor = Cursor::new(Box::new(DocList::new(docs)), "test", "c");
        assert_eq!(fill(&mut cursor, u64::MAX), (1, false));
        assert_eq!(fill(&mut cursor, u64::MAX), (1, false));
        assert_eq!(fill(&mut cursor, u64::MAX), (1, true));
    }

    #[test]
    fn a_cursor_has_one_reader_and_may_be_killed() {
        let cursors = Cursors::default();
        let id = cursors.insert(cursor(5)).unwrap();
        assert!(id > 0);
        let taken = cursors.take(id, |_| Ok(())).unwrap();
        let interrupt = taken.resume();
        assert_eq!(cursors.take(id, |_| Ok(())).err().unwrap().code, code::CURSOR_IN_USE);
        assert!(!cursors.kill(id ^ 1));
        assert!(cursors.kill(id));
        assert!(interrupt.check().is_err());
        assert!(!cursors.put_back(id, taken));
        assert_eq!(cursors.take(id, |_| Ok(())).err().unwrap().code, code::CURSOR_NOT_FOUND);
    }

    #[test]
    fn time_passes_while_somebody_reads() {
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
    fn forgotten_cursors_are_closed() {
        let cursors = Cursors::default();
        cursors.insert(cursor(5)).unwrap();
        cursors.insert(Cursor { no_timeout: true, ..cursor(5) }).unwrap();
        let later = Instant::now() + Duration::from_secs(60);
        assert_eq!(cursors.expire(later, Duration::from_secs(60)), 1);
        assert_eq!(cursors.count(), Open { total: 1, no_timeout: 1, pinned: 0 });
        assert_eq!((cursors.lives().opened.get(), cursors.lives().timed_out.get()), (2, 1));
    }

    #[test]
    fn lives_of_closed_cursors_are_counted() {
        let cursors = Cursors::default();
        let (read, unread) = (cursors.insert(cursor(5)).unwrap(), cursors.insert(cursor(5)).unwrap());
        let taken = cursors.take(read, |_| Ok(())).unwrap();
        assert_eq!(cursors.count(), Open { total: 2, no_timeout: 0, pinned: 1 });
        cursors.put_back(read, taken);
        assert!(cursors.kill(read) && cursors.kill(unread));
        let lives = cursors.lives();
        assert_eq!((lives.opened.get(), lives.read_on.get(), lives.timed_out.get()), (2, 1, 0));
        assert_eq!(lives.lifespans.iter().map(Counter::get).sum::<u64>(), 2);
        // One batch that holds all makes no cursor that anybody could read on.
        drop(cursor(1));
        assert_eq!(lives.lifespans.iter().map(Counter::get).sum::<u64>(), 2);
    }
}

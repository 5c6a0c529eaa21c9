//! What this process knows of the store, and how it learns what other processes have written.
//!
//! Two numbers of groups of commits say how far it has come:
//! - `marked`: the marker has been told of all groups up to it. A snapshot that shows later ones reads the [journal]
//!   first.
//! - `known`: the observer has been told, too, so that the state in memory is as of it. A group of this process is only applied
//!   if the head still has this number.
//!
//! When the committer finds another number it refuses the group and all batches of the same *generation*. A generation ends
//! when the observer has been told, which waits until no turn is taken. So what was evaluated before is never applied after.

use crate::committer::Job;
use crate::connection::Connection;
use crate::error::{Answer, engine_error, io_error};
use crate::head::{self, Head};
use crate::journal::{self, ROWS};
use crate::lease::Lease;
use crate::locks::living;
use crate::pool::Pool;
use crate::wait::wait;
use diwan_kv::{Bytes, Changes, Commits, Error, KeptOut, Marker, Observer, Peers, Result, Space, Turns};
use parking_lot::{Condvar, Mutex};
use std::collections::{HashMap, VecDeque};
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;
use tokio_postgres::Row;

/// The beginning of errors of reading the journal.
const FOLLOWING: &str = "reading what other processes have written to PostgreSQL";

/// A process that has not read the journal for so long may not know of a dropped index: it reads it before it reads anything else.
const LONGEST_BEHIND: Duration = Duration::from_secs(30);

/// For how long after another process's group the head's lock is asked for before a write is evaluated.
const CONTENDED: Duration = Duration::from_secs(1);

/// After how long a process is given up whose session has ended.
const GONE_AFTER: Duration = Duration::from_secs(30);

/// After so long without a look for a missing process, its time of absence begins anew.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(120);

/// About how many keys are kept for the observer.
const MOST_PENDING: usize = 500_000;

/// No generation is refused.
const NONE: u64 = u64::MAX;

/// How far this process has come, and whom it tells.
pub(crate) struct Following {
    pool: Arc<Pool>,
    jobs: UnboundedSender<Job>,
    own: u32,
    /// The first part of the keys of advisory locks: the schema's number.
    class: i32,
    turns: Turns,
    lease: Lease,
    /// Held for a moment only: the committer takes it, and must not wait for an answer of the server.
    heads: Mutex<Heads>,
    /// Held while the journal is read.
    reading: Mutex<()>,
    generation: AtomicU64,
    refused: AtomicU64,
    /// The state in memory may be wrong: the outcome of a group could not be found out.
    is_unsure: AtomicBool,
    asking: Mutex<Asking>,
    answered: Condvar,
    caught_up: Mutex<Instant>,
    /// When another process's group was last found where one of this process was to be.
    contended: Mutex<Option<Instant>>,
    marker: OnceLock<Marker>,
    observer: OnceLock<Observer>,
    leads: AtomicBool,
    has_others: AtomicBool,
    /// When processes were first and last seen without a session.
    missing: Mutex<HashMap<u32, (Instant, Instant)>>,
}

/// How far marker and observer have been told.
struct Heads {
    known: Head,
    marked: Head,
    /// What the observer has not been told yet.
    pending: VecDeque<(Head, Changes)>,
    keys: usize,
    /// What this process's groups would have written that failed.
    failed: Vec<(Space, Bytes)>,
}

/// Requests for the news. One that begins later than a caller serves all that wait.
#[derive(Default)]
struct Asking {
    begun: u64,
    ended: u64,
    is_running: bool,
}

impl Following {
    /// For a process with this number that knows the store as of `head`.
    pub fn new(pool: Arc<Pool>, jobs: UnboundedSender<Job>, own: u32, class: i32, head: Head) -> Following {
        Following {
            pool,
            jobs,
            own,
            class,
            turns: Turns::default(),
            lease: Lease::default(),
            heads: Mutex::new(Heads {
                known: head,
                marked: head,
                pending: VecDeque::new(),
                keys: 0,
                failed: Vec::new(),
            }),
            reading: Mutex::new(()),
            generation: AtomicU64::new(0),
            refused: AtomicU64::new(NONE),
            is_unsure: AtomicBool::new(false),
            asking: Mutex::default(),
            answered: Condvar::new(),
            caught_up: Mutex::new(Instant::now()),
            contended: Mutex::new(None),
            marker: OnceLock::new(),
            observer: OnceLock::new(),
            leads: AtomicBool::new(false),
            has_others: AtomicBool::new(true),
            missing: Mutex::default(),
        }
    }

    /// The group as of which the state in memory is.
    pub fn known(&self) -> Head {
        self.heads.lock().known
    }

    /// The last group that the marker has been told of.
    pub fn marked(&self) -> Head {
        self.heads.lock().marked
    }

    /// The generation of what is evaluated now. Constant within a turn.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Whether batches of a generation are refused.
    pub fn is_refused(&self, generation: u64) -> bool {
        self.refused.load(Ordering::SeqCst) == generation || generation != self.generation()
    }

    /// Refuses all batches of the present generation. The committer has found another process's group.
    pub fn refuse(&self) {
        self.contend();
        self.end_generation();
    }

    fn contend(&self) {
        *self.contended.lock() = Some(Instant::now());
    }

    fn end_generation(&self) {
        self.refused.store(self.generation(), Ordering::SeqCst);
    }

    /// The same after batches of this process have failed, which would have written these keys: what was begun after them relied
    /// on them, and what they are about is read anew.
    pub fn fail(&self, keys: impl Iterator<Item = (Space, Bytes)>) {
        self.heads.lock().failed.extend(keys);
        self.end_generation();
    }

    /// The same, where the store may have anything.
    pub fn doubt(&self) {
        self.is_unsure.store(true, Ordering::SeqCst);
        self.end_generation();
    }

    /// Says that this process's group `to` has been applied after `from`.
    pub fn advance(&self, from: Head, to: Head) {
        self.heads.lock().advance(from, to);
    }

    /// The first part of the keys of advisory locks.
    pub fn class(&self) -> i32 {
        self.class
    }

    /// The number of this process.
    pub fn process(&self) -> i64 {
        self.own.into()
    }

    /// The lease. While this process has it, it needs no journal.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Has the committer take the lease.
    pub fn take_lease(&self) {
        // Without a committer the engine has been closed.
        let _ = self.jobs.send(Job::Lease);
    }

    /// Notes whether this process leads, and whether there are others.
    pub fn note(&self, leads: bool, has_others: bool) {
        self.leads.store(leads, Ordering::SeqCst);
        self.has_others.store(has_others, Ordering::SeqCst);
    }

    /// Whether other processes may have to be told of a group.
    pub fn has_others(&self) -> bool {
        self.has_others.load(Ordering::SeqCst)
    }

    /// Tells the marker of all that a snapshot shows. The connection is the snapshot's.
    pub fn mark_through(&self, head: Head, connection: &Connection) -> Result<()> {
        if !self.lacks(head) {
            return Ok(());
        }
        let _reading = self.reading.lock();
        while self.lacks(head) {
            let rows = self.read(connection, head.number);
            let count = rows.map_err(|error| engine_error(FOLLOWING, &error))??;
            if count == 0 {
                // The rows have been deleted, or the server was restored.
                self.heads.lock().tell(self.marker.get(), head, Changes::Everything);
                self.doubt();
            }
        }
        Ok(())
    }

    fn lacks(&self, head: Head) -> bool {
        let marked = self.marked();
        marked.number < head.number || marked.number == head.number && marked != head
    }

    /// Refuses to read from a state in memory that may be very old, as that of a process that was suspended.
    pub fn check_fresh(&self) -> Result<()> {
        if self.turns.is_inside() || self.caught_up.lock().elapsed() < LONGEST_BEHIND {
            return Ok(());
        }
        let text = "this process was suspended, or PostgreSQL was away; try again";
        Err(io_error(FOLLOWING, ErrorKind::TimedOut, text.into()))
    }

    /// Reads some rows of the journal after `marked`, and returns how many. The caller holds `reading`.
    fn read(&self, connection: &Connection, upto: i64) -> Answer<Result<usize>> {
        let from = self.marked();
        let rows = wait(connection.journal(from.number, upto))?;
        Ok(self.mark_rows(&rows)?.map(|()| rows.len()))
    }

    /// Tells the marker of rows that follow one another. It may have been told of the first ones already.
    fn mark_rows(&self, rows: &[Row]) -> Answer<Result<()>> {
        for row in rows {
            let head = journal::head_of(row)?;
            let before = Head { number: head.number - 1, stamp: row.try_get(1)? };
            let changes = match journal::decode(row.try_get(3)?) {
                Ok(changes) => changes,
                Err(error) => return Ok(Err(error)),
            };
            let mut heads = self.heads.lock();
            if heads.marked == before {
                heads.tell(self.marker.get(), head, changes);
            } else if heads.marked.number < head.number {
                // Rows between them have been deleted, or the server was restored.
                heads.tell(self.marker.get(), head, Changes::Everything);
            }
        }
        Ok(Ok(()))
    }

    /// Learns the news while the head's lock is held. `rows` are those of the journal from `marked` on, itself included. Batches that
    /// were evaluated without them are refused.
    pub fn mark_locked(&self, marked: Head, rows: &[Row]) -> Answer<Result<()>> {
        let is_there = rows.first().map(journal::head_of).transpose()? == Some(marked);
        if !is_there {
            let last = rows.last().map(journal::head_of).transpose()?;
            // Rows have been deleted, or the server was restored.
            let last = last.unwrap_or(Head { number: marked.number, stamp: 0 });
            self.heads.lock().tell(self.marker.get(), last, Changes::Everything);
            self.doubt();
            return Ok(Ok(()));
        }
        if let Err(error) = self.mark_rows(&rows[1..])? {
            return Ok(Err(error));
        }
        if self.marked().number > self.known().number {
            self.contend();
            self.end_generation();
        }
        Ok(Ok(()))
    }

    /// Reads the journal to its end. A read that another thread begins after this call serves as well.
    fn read_news(&self) -> Result<()> {
        let mut asking = self.asking.lock();
        let needed = asking.begun + 1;
        loop {
            if asking.ended >= needed {
                return Ok(());
            }
            if !asking.is_running {
                break;
            }
            self.answered.wait(&mut asking);
        }
        asking.is_running = true;
        asking.begun += 1;
        let begun = asking.begun;
        drop(asking);
        let outcome = self.read_to_end();
        let mut asking = self.asking.lock();
        asking.is_running = false;
        if outcome.is_ok() {
            asking.ended = begun;
        }
        drop(asking);
        self.answered.notify_all();
        outcome
    }

    fn read_to_end(&self) -> Result<()> {
        let _reading = self.reading.lock();
        self.pool.with_shared(FOLLOWING, |connection| {
            loop {
                match self.read(connection, i64::MAX)? {
                    Ok(count) if count as i64 == ROWS => {}
                    outcome => return Ok(outcome.map(drop)),
                }
            }
        })?
    }

    /// Whether the observer has not been told of everything, or is just being told.
    fn is_behind(&self) -> bool {
        let is_refused = self.refused.load(Ordering::SeqCst) == self.generation();
        let heads = self.heads.lock();
        is_refused || heads.marked.number > heads.known.number
    }

    /// Tells the observer of what the marker has been told, unless it knows. The marker knows the state at `now`.
    fn observe_news(&self, now: Instant) -> Result<()> {
        if self.is_behind() {
            let _alone = self.turns.exclude();
            if self.is_behind() {
                self.observe_pending()?;
            }
        }
        let mut caught_up = self.caught_up.lock();
        *caught_up = now.max(*caught_up);
        Ok(())
    }

    /// Tells the observer of what the marker has been told. No turn is taken.
    fn observe_pending(&self) -> Result<()> {
        if self.is_unsure.load(Ordering::SeqCst) {
            let head = self.pool.with_shared(FOLLOWING, |connection| {
                wait(head::read_after(&connection.client, "", &connection.schema))
            })?;
            let mut heads = self.heads.lock();
            // The number may be lower than before.
            heads.known = Head { number: head.number - 1, stamp: 0 };
            heads.tell(self.marker.get(), head, Changes::Everything);
        }
        let (changes, failed) = {
            let mut heads = self.heads.lock();
            let known = heads.known.number;
            heads.keys = 0;
            let news = heads.pending.drain(..).filter(|(head, _)| head.number > known);
            (news.collect::<Vec<_>>(), std::mem::take(&mut heads.failed))
        };
        let last = changes.last().map(|(head, _)| *head);
        let observe = |changes: &Changes| self.observer.get().map_or(Ok(()), |observer| observer(changes));
        let mut observed = if failed.is_empty() {
            Ok(())
        } else {
            observe(&Changes::Keys { keys: failed.clone(), notes: Vec::new() })
        };
        observed = observed.and_then(|()| changes.iter().try_for_each(|(_, changes)| observe(changes)));
        if let Err(error) = observed {
            let mut heads = self.heads.lock();
            heads.failed.extend(failed);
            for pair in changes.into_iter().rev() {
                heads.pending.push_front(pair);
            }
            return Err(error);
        }
        if let Some(last) = last {
            self.heads.lock().known = last;
        }
        self.is_unsure.store(false, Ordering::SeqCst);
        self.generation.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

impl Heads {
    /// If the observer has not been told of all before the group, the group is learned from the journal, too.
    fn advance(&mut self, from: Head, to: Head) {
        if self.known == from && self.marked == from {
            (self.known, self.marked) = (to, to);
        }
    }

    fn tell(&mut self, marker: Option<&Marker>, head: Head, changes: Changes) {
        if let Some(marker) = marker {
            marker(&changes);
        }
        self.marked = head;
        self.keys += if let Changes::Keys { keys, .. } = &changes { keys.len() } else { 0 };
        if matches!(changes, Changes::Everything) || self.keys > MOST_PENDING {
            self.pending.clear();
            self.keys = 0;
            self.pending.push_back((head, Changes::Everything));
        } else {
            self.pending.push_back((head, changes));
        }
    }
}

impl Peers for Following {
    fn own(&self) -> u32 {
        self.own
    }

    fn lives(&self, process: u32) -> Result<bool> {
        let living =
            self.pool.with_shared(FOLLOWING, |connection| wait(living(&connection.client, self.class)))?;
        Ok(living.contains(&process.into()))
    }

    fn is_gone(&self, process: u32) -> Result<bool> {
        let lives = self.lives(process)?;
        let mut missing = self.missing.lock();
        if lives {
            missing.remove(&process);
            return Ok(false);
        }
        let now = Instant::now();
        let (first, last) = missing.entry(process).or_insert((now, now));
        if now - *last > FORGOTTEN_AFTER {
            // It may have had a session in between.
            *first = now;
        }
        *last = now;
        Ok(now - *first > GONE_AFTER)
    }

    fn leads(&self) -> bool {
        self.leads.load(Ordering::SeqCst)
    }

    fn mark(&self, marker: Marker) {
        let _ = self.marker.set(marker);
    }

    fn observe(&self, observer: Observer) {
        let _ = self.observer.set(observer);
    }

    fn turns(&self) -> &Turns {
        &self.turns
    }

    fn catch_up(&self) -> Result<()> {
        if self.turns.is_inside() {
            return Ok(());
        }
        let now = Instant::now();
        if !self.lease.is_held() {
            self.read_news()?;
        }
        self.observe_news(now)
    }

    fn is_caught_up(&self) -> bool {
        self.lease.is_held() && !self.is_behind()
    }

    fn is_contended(&self) -> bool {
        self.contended.lock().is_some_and(|at| at.elapsed() < CONTENDED)
    }

    fn keep_out(&self, commits: Commits) -> Result<KeptOut<'_>> {
        let now = Instant::now();
        let (reply, replied) = sync_channel(1);
        self.jobs.send(Job::Lock(reply)).map_err(|_| Error::Closed)?;
        replied.recv().map_err(|_| Error::Closed)??;
        let kept_out = self.turns.keep_out(commits);
        self.observe_news(now)?;
        Ok(kept_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_after_one_that_the_observer_does_not_know_is_learned_from_the_journal() {
        let head = |number| Head { number, stamp: number };
        let mut heads = Heads {
            known: head(11),
            marked: head(11),
            pending: VecDeque::new(),
            keys: 0,
            failed: Vec::new(),
        };
        heads.tell(None, head(12), Changes::Ranges(Vec::new()));
        heads.advance(head(12), head(13));
        assert_eq!((heads.known, heads.marked), (head(11), head(12)));
        heads.known = head(12);
        heads.advance(head(12), head(13));
        assert_eq!((heads.known, heads.marked), (head(13), head(13)));
    }
}

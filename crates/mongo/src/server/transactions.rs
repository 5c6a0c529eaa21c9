//! The transactions of sessions: which is open, which was committed or aborted, and whose turn it is.
//!
//! A session has one transaction at a time, and a transaction runs one statement at a time. What a session's newest
//! transaction came to is kept until the session ends, so that a commit may be repeated.

use crate::error::{CommandError, Result, code};
use crate::monitoring::metrics::Counter;
use crate::request::arguments::SessionId;
use crate::server::cursors::Cursors;
use crate::server::sessions;
use diwan_access::Owner;
use diwan_kv::CommitId;
use diwan_query::Interrupt;
use diwan_store::{Store, Transaction, TransactionOrigin};
use diwan_value::{DocBuf, Timestamp, Value, doc};
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The newest transaction of a session.
struct Entry {
    number: i64,
    state: State,
    began: Began,
}

/// When and by whom a transaction was begun.
#[derive(Clone)]
struct Began {
    at: Instant,
    wall_millis: i64,
    owner: Owner,
    level: Option<String>,
    snapshot: Timestamp,
}

enum State {
    /// No statement is under way.
    Idle(Box<Transaction>),
    /// A statement has taken the transaction.
    Busy(After),
    Committed(Option<CommitId>),
    Aborted,
    /// The session went on with retryable writes.
    None,
}

/// What becomes of a transaction after the statement that is under way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    GoesOn,
    Aborted,
    /// It is aborted, and its session has ended.
    Forgotten,
}

/// Counters for `serverStatus`.
#[derive(Debug, Default)]
pub(crate) struct TransactionCounters {
    pub started: Counter,
    pub committed: Counter,
    pub aborted: Counter,
}

/// The transactions of all sessions.
#[derive(Default)]
pub(crate) struct Transactions {
    sessions: Mutex<HashMap<SessionId, Entry>>,
    /// Told when a statement has ended.
    idle: Condvar,
    /// The number of sessions with an entry: most servers have none, and their writes need not look.
    count: AtomicUsize,
    /// The cursors of a transaction end with it: they keep its snapshot and its writes.
    cursors: Arc<Cursors>,
    pub counters: TransactionCounters,
}

/// A statement's turn in its transaction. Unless it is [kept](TransactionTurn::keep), the transaction is aborted.
pub(crate) struct TransactionTurn<'a> {
    transactions: &'a Transactions,
    session: SessionId,
    pub number: i64,
    transaction: Option<Box<Transaction>>,
    kept: bool,
}

/// How many transactions are open.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OpenTransactions {
    pub active: usize,
    pub inactive: usize,
}

/// How a client wants to begin a transaction.
pub(crate) struct Beginning<'a> {
    pub owner: Owner,
    /// The level of the read concern.
    pub level: Option<&'a str>,
    pub wall_millis: i64,
}

impl Transactions {
    pub(crate) fn new(cursors: Arc<Cursors>) -> Transactions {
        Transactions { cursors, ..Transactions::default() }
    }

    /// Begins a transaction, whose first statement gets its turn. One that the session had open is aborted.
    /// `interrupt` ends the wait for a retryable write of the session.
    pub(crate) fn begin(
        &self,
        store: &Store,
        session: SessionId,
        number: i64,
        beginning: Beginning<'_>,
        interrupt: &Interrupt,
        open: impl FnOnce() -> Result<Transaction>,
    ) -> Result<TransactionTurn<'_>> {
        check_new(self.sessions.lock().get(&session), number)?;
        // Numbers of retryable writes and of transactions before a restart. A retryable write of the session may wait for
        // another transaction, so the lock is not held here.
        if store.has_committed(&session, number, interrupt)? {
            return Err(committed(number));
        }
        let transaction = Box::new(open()?);
        let mut sessions = self.sessions.lock();
        check_new(sessions.get(&session), number)?;
        self.counters.started.add(1);
        let began = Began {
            at: Instant::now(),
            wall_millis: beginning.wall_millis,
            owner: beginning.owner,
            level: beginning.level.map(str::to_owned),
            snapshot: transaction.started(),
        };
        let entry = Entry { number, state: State::Busy(After::GoesOn), began };
        match sessions.insert(session, entry) {
            Some(mut replaced) => {
                let ended = self.stop(&mut replaced, After::Aborted);
                drop(sessions);
                self.finish(session, replaced.number, ended);
            }
            None => {
                self.count.fetch_add(1, Ordering::Relaxed);
                drop(sessions);
            }
        }
        Ok(TransactionTurn {
            transactions: self,
            session,
            number,
            transaction: Some(transaction),
            kept: false,
        })
    }

    /// The turn of a further statement. Waits for the one that is under way.
    pub(crate) fn resume(&self, session: SessionId, number: i64) -> Result<TransactionTurn<'_>> {
        let mut sessions = self.sessions.lock();
        loop {
            let Some(entry) = sessions.get_mut(&session) else { return Err(none_in_progress(number, None)) };
            if entry.number > number {
                return Err(too_old(number, entry.number));
            }
            if entry.number < number {
                return Err(none_in_progress(number, Some(entry.number)));
            }
            match &entry.state {
                State::Idle(_) => {
                    let State::Idle(transaction) =
                        std::mem::replace(&mut entry.state, State::Busy(After::GoesOn))
                    else {
                        continue;
                    };
                    let transaction = Some(transaction);
                    return Ok(TransactionTurn {
                        transactions: self,
                        session,
                        number,
                        transaction,
                        kept: false,
                    });
                }
                State::Busy(_) => self.idle.wait(&mut sessions),
                State::Committed(_) => return Err(committed(number)),
                State::Aborted => return Err(aborted(number)),
                State::None => return Err(none_in_progress(number, Some(number))),
            }
        }
    }

    /// Commits a transaction, also if it was committed before. Returns the commit that the acknowledgement waits for;
    /// `None` if it is not known.
    pub(crate) fn commit(
        &self,
        store: &Store,
        session: SessionId,
        number: i64,
        interrupt: &Interrupt,
    ) -> Result<Option<CommitId>> {
        let mut turn = match self.resume(session, number) {
            Ok(turn) => turn,
            Err(error) if error.code == code::TRANSACTION_COMMITTED => {
                return Ok(match self.sessions.lock().get(&session) {
                    Some(Entry { state: State::Committed(commit), .. }) => *commit,
                    _ => None,
                });
            }
            Err(error) if error.code == code::NO_SUCH_TRANSACTION && !self.is_known(&session, number) => {
                return if store.has_committed(&session, number, interrupt)? { Ok(None) } else { Err(error) };
            }
            Err(error) => return Err(error),
        };
        let Some(transaction) = turn.transaction.take() else { return Err(aborted(number)) };
        let owner = self.sessions.lock().get(&session).and_then(|entry| entry.began.owner.clone());
        let lsid = sessions::describe_id(&session, &owner);
        let origin = TransactionOrigin { key: &session, session: lsid.as_doc(), number };
        let commit = transaction.commit(Some(origin))?;
        turn.end(State::Committed(commit));
        self.counters.committed.add(1);
        Ok(commit)
    }

    /// Aborts a transaction.
    pub(crate) fn abort(&self, session: SessionId, number: i64) -> Result<()> {
        drop(self.resume(session, number)?);
        Ok(())
    }

    fn is_known(&self, session: &SessionId, number: i64) -> bool {
        self.sessions.lock().get(session).is_some_and(|entry| entry.number == number)
    }

    /// Aborts the open transaction of a session that goes on with a greater number outside of transactions. A smaller
    /// number is refused.
    pub(crate) fn outdate(&self, session: SessionId, number: i64) -> Result<()> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let mut sessions = self.sessions.lock();
        let Some(entry) = sessions.get_mut(&session) else { return Ok(()) };
        if entry.number > number {
            return Err(too_old(number, entry.number));
        }
        if entry.number == number && !matches!(entry.state, State::None) {
            let text = format!(
                "Cannot run a retryable write with txnNumber {number}: a transaction has this number"
            );
            return Err(CommandError::new(50911, text));
        }
        let (before, ended) = (entry.number, self.stop(entry, After::Aborted));
        // The turn of a statement still looks for its number.
        if !matches!(entry.state, State::Busy(_)) {
            (entry.number, entry.state) = (number, State::None);
        }
        drop(sessions);
        self.finish(session, before, ended);
        Ok(())
    }

    /// Aborts the open transactions of these sessions, and forgets what their transactions came to.
    pub(crate) fn end_sessions(&self, ended: &[SessionId]) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut sessions = self.sessions.lock();
        let mut gone = Vec::new();
        for session in ended {
            let Some(entry) = sessions.get_mut(session) else { continue };
            let number = entry.number;
            gone.extend(self.stop(entry, After::Forgotten).map(|ended| (*session, number, ended)));
            // The turn of a statement removes its entry itself.
            if !matches!(entry.state, State::Busy(_)) {
                sessions.remove(session);
                self.count.fetch_sub(1, Ordering::Relaxed);
            }
        }
        drop(sessions);
        self.finish_all(gone);
    }

    /// Aborts the transactions that have been open for longer than `lifetime`. Returns their sessions.
    pub(crate) fn expire(&self, lifetime: Duration) -> Vec<SessionId> {
        let (mut expired, mut gone) = (Vec::new(), Vec::new());
        let mut sessions = self.sessions.lock();
        for (session, entry) in sessions.iter_mut() {
            let is_open = matches!(entry.state, State::Idle(_) | State::Busy(After::GoesOn));
            if is_open && entry.began.at.elapsed() >= lifetime {
                gone.extend(self.stop(entry, After::Aborted).map(|ended| (*session, entry.number, ended)));
                expired.push(*session);
            }
        }
        drop(sessions);
        self.finish_all(gone);
        expired
    }

    /// Aborts a transaction, at once or after the statement that is under way. The caller finishes it after the lock is
    /// released.
    fn stop(&self, entry: &mut Entry, after: After) -> Option<Box<Transaction>> {
        match &mut entry.state {
            State::Idle(_) => {
                self.counters.aborted.add(1);
                match std::mem::replace(&mut entry.state, State::Aborted) {
                    State::Idle(transaction) => Some(transaction),
                    _ => None,
                }
            }
            State::Busy(then) => {
                *then = after;
                None
            }
            State::Committed(_) | State::Aborted | State::None => None,
        }
    }

    /// Closes a transaction that was stopped, and its cursors.
    fn finish(&self, session: SessionId, number: i64, ended: Option<Box<Transaction>>) {
        if ended.is_some() {
            self.cursors.end_transaction(session, number);
        }
    }

    fn finish_all(&self, ended: Vec<(SessionId, i64, Box<Transaction>)>) {
        for (session, number, transaction) in ended {
            self.finish(session, number, Some(transaction));
        }
    }

    /// Aborts all open transactions, and refuses to go on with those that run a statement.
    pub(crate) fn abort_all(&self) {
        self.expire(Duration::ZERO);
    }

    /// How many are open.
    pub(crate) fn open(&self) -> OpenTransactions {
        let sessions = self.sessions.lock();
        let mut open = OpenTransactions::default();
        for entry in sessions.values() {
            match entry.state {
                State::Idle(_) => open.inactive += 1,
                State::Busy(_) => open.active += 1,
                _ => {}
            }
        }
        open
    }

    /// The documents of `currentOp` about open transactions between two statements, with their owners.
    pub(crate) fn describe_idle(&self, host: &str, lifetime: Duration) -> Vec<(Owner, DocBuf)> {
        let sessions = self.sessions.lock();
        let mut shown = Vec::new();
        for (session, Entry { number, state, began }) in sessions.iter() {
            let State::Idle(transaction) = state else { continue };
            let open = began.at.elapsed().as_micros() as i64;
            let expiry = began.wall_millis + lifetime.as_millis() as i64;
            let mut concern = diwan_value::DocBuilder::new();
            if let Some(level) = &began.level {
                concern.append("level", level.as_str());
            }
            let entry = doc! {
                "type": "idleSession",
                "host": host,
                "desc": "inactive transaction",
                "active": false,
                "lsid": (sessions::describe_id(session, &began.owner)),
                "transaction": {
                    "parameters": { "txnNumber": *number, "autocommit": false, "readConcern": (concern.finish()) },
                    "readTimestamp": (began.snapshot),
                    "startWallClockTime": (Value::DateTime(began.wall_millis)),
                    "timeOpenMicros": open,
                    "expiryTime": (Value::DateTime(expiry)),
                    "writtenBytes": (transaction.written_bytes() as i64)
                }
            };
            shown.push((began.owner.clone(), entry));
        }
        shown
    }
}

impl TransactionTurn<'_> {
    /// The store that the statement runs on.
    pub(crate) fn store(&self) -> Option<&Arc<Store>> {
        self.transaction.as_ref().map(|transaction| transaction.store())
    }

    /// Keeps the transaction open after the statement. Fails if it was aborted meanwhile.
    pub(crate) fn keep(mut self) -> Result<()> {
        let Some(transaction) = self.transaction.take() else { return Err(aborted(self.number)) };
        if self.end(State::Idle(transaction)) { Ok(()) } else { Err(aborted(self.number)) }
    }

    /// Gives the turn back. Whether the transaction stays open: it may have been aborted meanwhile.
    fn end(&mut self, state: State) -> bool {
        self.kept = true;
        let transactions = self.transactions;
        let mut rejected = None;
        let mut sessions = transactions.sessions.lock();
        // The session may have a newer transaction.
        let entry = sessions.get_mut(&self.session).filter(|entry| entry.number == self.number);
        let after = match &entry {
            Some(Entry { state: State::Busy(after), .. }) => *after,
            _ => After::Aborted,
        };
        let stays_open = matches!(state, State::Idle(_)) && after == After::GoesOn;
        if !stays_open && !matches!(state, State::Committed(_)) {
            transactions.counters.aborted.add(1);
        }
        if let Some(entry) = entry {
            entry.state = match state {
                State::Idle(transaction) if !stays_open => {
                    rejected = Some(transaction);
                    State::Aborted
                }
                state => state,
            };
            if after == After::Forgotten {
                sessions.remove(&self.session);
                transactions.count.fetch_sub(1, Ordering::Relaxed);
            }
        } else if let State::Idle(transaction) = state {
            rejected = Some(transaction);
        }
        drop(sessions);
        drop(rejected);
        if !stays_open {
            transactions.cursors.end_transaction(self.session, self.number);
        }
        transactions.idle.notify_all();
        stays_open
    }
}

impl Drop for TransactionTurn<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.transaction = None;
            self.end(State::Aborted);
        }
    }
}

/// Refuses a number that the session's newest transaction does not allow.
fn check_new(newest: Option<&Entry>, number: i64) -> Result<()> {
    let Some(entry) = newest else { return Ok(()) };
    if entry.number > number {
        return Err(too_old(number, entry.number));
    }
    if entry.number < number {
        return Ok(());
    }
    let state = match entry.state {
        State::Idle(_) | State::Busy(_) => "TransactionState::kInProgress",
        State::Committed(_) => "TransactionState::kCommitted",
        State::Aborted => "TransactionState::kAbortedWithoutPrepare",
        State::None => "TransactionState::kExecutedRetryableWrite",
    };
    let text = format!(
        "Cannot start a transaction at given transaction number {number} a transaction with the same number is in state {state}"
    );
    Err(CommandError::new(50911, text))
}

fn too_old(number: i64, newest: i64) -> CommandError {
    let text = format!(
        "Cannot start transaction {number} on session because a newer transaction with txnNumber {newest} has already started on this session."
    );
    CommandError::new(code::TRANSACTION_TOO_OLD, text)
}

fn none_in_progress(number: i64, active: Option<i64>) -> CommandError {
    let text = format!(
        "Given transaction number {number} does not match any in-progress transactions. The active transaction number is {}",
        active.unwrap_or(-1)
    );
    CommandError::new(code::NO_SUCH_TRANSACTION, text)
}

fn aborted(number: i64) -> CommandError {
    CommandError::new(
        code::NO_SUCH_TRANSACTION,
        format!("Transaction with {{ txnNumber: {number} }} has been aborted."),
    )
}

fn committed(number: i64) -> CommandError {
    let text = format!("Transaction with {{ txnNumber: {number} }} has been committed.");
    CommandError::new(code::TRANSACTION_COMMITTED, text)
}

#[cfg(test)]
mod tests;

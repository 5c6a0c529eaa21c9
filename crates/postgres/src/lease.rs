//! The lease: while one process has it, no other can commit. So the holder knows all that was committed, and need not read the
//! [journal](crate::journal) when a command begins.
//!
//! The row of `processes` has the number of the holder: 0 stands for none, a negative number for a holder that is asked to give the lease
//! back. A group is only applied if its process has the lease, or no process has it.
//!
//! The leading process takes the lease when it sees no other process. It confirms it every [`CONFIRM_EVERY`], and relies on a confirmation
//! for [`VALID`]. A process that wants to commit asks for the lease, and waits until it is given back. If the holder does not answer, it waits for
//! [`VALID`], after which the holder relies on nothing any more, be it dead, suspended or cut off.

use crate::error::Answer;
use parking_lot::Mutex;
use std::time::{Duration, Instant};
use tokio_postgres::{Client, SimpleQueryMessage};

/// How often the holder confirms its lease.
pub(crate) const CONFIRM_EVERY: Duration = Duration::from_millis(500);

/// For how long a confirmation holds, from the moment at which it was asked for.
const VALID: Duration = Duration::from_secs(2);

/// How often a process that has asked for the lease looks whether it was given back.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The lease as a process knows it.
#[derive(Default)]
pub(crate) struct Lease(Mutex<State>);

#[derive(Default)]
struct State {
    /// Until when the process relies on having the lease; none if it does not have it.
    until: Option<Instant>,
    /// How often it was found that it does not have it.
    ends: u64,
}

/// An attempt to take the lease.
pub(crate) struct Attempt {
    began: Instant,
    ends: u64,
}

impl Lease {
    /// Whether this process has the lease.
    pub fn is_held(&self) -> bool {
        self.0.lock().until.is_some_and(|until| Instant::now() < until)
    }

    /// To be called before the lease is taken.
    pub fn attempt(&self) -> Attempt {
        Attempt { began: Instant::now(), ends: self.0.lock().ends }
    }

    /// Says that this process has taken the lease, and knows all that was committed. It may have been asked to give it back meanwhile.
    pub fn begin(&self, attempt: &Attempt) {
        let mut state = self.0.lock();
        if state.ends == attempt.ends {
            state.until = Some(attempt.began + VALID);
        }
    }

    /// Says that this process still has the lease; false if it has not begun. It was looked up at `asked`.
    pub fn confirm(&self, asked: Instant) -> bool {
        let mut state = self.0.lock();
        state.until = state.until.map(|_| asked + VALID);
        state.until.is_some()
    }

    /// Says that this process does not rely on having the lease any more.
    pub fn end(&self) {
        let mut state = self.0.lock();
        state.until = None;
        state.ends += 1;
    }
}

/// The holder of the lease: a process's number, negative if it is asked to give it back, or 0.
pub(crate) async fn holder(client: &Client, schema: &str) -> Answer<i64> {
    let answers = client.simple_query(&format!("SELECT lease FROM {schema}.processes WHERE one = 1")).await?;
    let found = answers.iter().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    });
    Ok(found.unwrap_or_default())
}

/// Whether a process may commit while `holder` has the lease.
pub(crate) fn may_commit(own: i64, holder: i64) -> bool {
    holder == 0 || holder.abs() == own
}

/// The statement with which a process takes a free lease, or confirms its own.
pub(crate) fn take(schema: &str, own: i64) -> String {
    format!("UPDATE {schema}.processes SET lease = {own} WHERE one = 1 AND lease IN (0, {own})")
}

/// The statement with which a process gives the lease back.
pub(crate) fn give_back(schema: &str, own: i64) -> String {
    format!("UPDATE {schema}.processes SET lease = 0 WHERE one = 1 AND abs(lease) = {own}")
}

/// Waits until another process does not have the lease any more. `client` has no open transaction.
pub(crate) async fn await_return(client: &Client, schema: &str, own: i64) -> Answer<()> {
    let mut asked = Instant::now();
    loop {
        let holder = holder(client, schema).await?;
        if may_commit(own, holder) {
            return Ok(());
        }
        if holder > 0 {
            let ask = format!(
                "UPDATE {schema}.processes SET lease = -lease WHERE one = 1 AND lease = {holder}; NOTIFY {schema}"
            );
            client.batch_execute(&ask).await?;
            asked = Instant::now();
        } else if asked.elapsed() > VALID {
            let end = format!("UPDATE {schema}.processes SET lease = 0 WHERE one = 1 AND lease = {holder}");
            client.batch_execute(&end).await?;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confirmation_holds_for_a_while_and_begins_nothing() {
        let lease = Lease::default();
        assert!(!lease.confirm(Instant::now()) && !lease.is_held());
        lease.begin(&lease.attempt());
        assert!(lease.is_held());
        let long_ago = Instant::now().checked_sub(VALID).unwrap();
        assert!(lease.confirm(long_ago) && !lease.is_held());
        assert!(lease.confirm(Instant::now()) && lease.is_held());
        lease.end();
        assert!(!lease.is_held() && !lease.confirm(Instant::now()));
    }

    #[test]
    fn a_lease_that_was_asked_for_while_it_was_taken_does_not_begin() {
        let lease = Lease::default();
        let attempt = lease.attempt();
        lease.end();
        lease.begin(&attempt);
        assert!(!lease.is_held());
    }

    #[test]
    fn only_the_holder_may_commit() {
        assert!(may_commit(2, 0) && may_commit(2, 2) && may_commit(2, -2));
        assert!(!may_commit(2, 3) && !may_commit(2, -3));
    }
}

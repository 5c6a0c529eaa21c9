//! The followers of a primary: who they are, how far each has come, and who waits for them.
//!
//! A report is what the primary tells a follower that asks for news. Reports are numbered. A follower that asks again
//! says which report it has durably applied. The numbers of each start are greater than those before. A writer that waits for followers takes the number of the next report after its
//! write is visible: a report with that number or a greater one names the write, or a state after it.

use crate::clock;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long a follower may be silent before it is forgotten. It sends a message at least every five seconds.
const SILENCE: Duration = Duration::from_secs(20);

/// How often a waiting writer looks whether it should go on.
const STEP: Duration = Duration::from_millis(100);

/// What a follower says of itself in each message.
#[derive(Clone, Debug, Default)]
pub struct Announcement {
    /// Identifies it.
    pub member: String,
    /// Its address for MongoDB's clients.
    pub host: String,
    /// The number of the last report that it has durably applied.
    pub acknowledged: u64,
    /// The primary's time, in bits, up to which it has applied everything.
    pub applied: u64,
    /// Whether its copy is complete, so that clients read from it.
    pub complete: bool,
}

/// A follower as its primary sees it.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its address for MongoDB's clients.
    pub host: String,
    /// The primary's time, in bits, up to which it has applied everything.
    pub applied: u64,
    /// Whether its copy is complete.
    pub complete: bool,
    /// How long ago its last message came.
    pub silent: Duration,
    /// How long it has been known.
    pub known: Duration,
}

/// Why a write is not on as many followers as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotReplicated {
    /// There are fewer followers.
    TooFew,
    /// The time is over.
    Late,
    /// The caller does not wait any longer.
    Abandoned,
}

struct Known {
    said: Announcement,
    /// The number of the last report that it was sent.
    sent: u64,
    seen: Instant,
    since: Instant,
}

struct State {
    /// The number of the last report.
    reports: u64,
    /// The greatest number that a writer waits for.
    wanted: u64,
    /// How often those who make reports were woken.
    nudges: u64,
    known: BTreeMap<String, Known>,
}

impl Default for State {
    fn default() -> State {
        // A number of an earlier start acknowledges nothing.
        let reports = (clock::now_millis().max(0) as u64) << 10;
        State { reports, wanted: 0, nudges: 0, known: BTreeMap::new() }
    }
}

/// The followers of a primary.
#[derive(Default)]
pub(super) struct Members {
    state: Mutex<State>,
    /// Wakes writers.
    acknowledged: Condvar,
    /// Wakes those who make reports.
    nudged: Condvar,
}

impl Members {
    /// Notes a message. Returns whether what drivers see changed.
    pub fn announce(&self, said: Announcement) -> bool {
        let now = Instant::now();
        let mut state = self.state.lock();
        // What was not reported cannot be acknowledged.
        let said = Announcement { acknowledged: said.acknowledged.min(state.reports), ..said };
        let is_news = match state.known.get_mut(&said.member) {
            Some(known) => {
                let is_news = known.said.host != said.host;
                // A message of another thread of the follower may be older.
                let acknowledged = known.said.acknowledged.max(said.acknowledged);
                (known.said, known.seen) = (Announcement { acknowledged, ..said }, now);
                is_news
            }
            None => {
                let name = said.member.clone();
                state.known.insert(name, Known { said, sent: 0, seen: now, since: now });
                true
            }
        };
        drop(state);
        self.acknowledged.notify_all();
        is_news
    }

    /// Forgets silent followers. Returns whether there were some.
    pub fn forget_silent(&self) -> bool {
        let mut state = self.state.lock();
        let before = state.known.len();
        state.known.retain(|_, known| known.seen.elapsed() < SILENCE);
        state.known.len() < before
    }

    pub fn next_report(&self) -> u64 {
        let mut state = self.state.lock();
        state.reports += 1;
        state.reports
    }

    /// Wakes those who make reports.
    pub fn nudge(&self) {
        self.state.lock().nudges += 1;
        self.nudged.notify_all();
    }

    /// Whether a writer waits for a report to this follower, and how often reporters were woken so far.
    pub fn is_report_wanted(&self, member: &str) -> (bool, u64) {
        let state = self.state.lock();
        let sent = state.known.get(member).map_or(u64::MAX, |known| known.sent);
        (state.wanted > sent, state.nudges)
    }

    /// Notes that a follower is sent a report.
    pub fn note_sent(&self, member: &str, report: u64) {
        if let Some(known) = self.state.lock().known.get_mut(member) {
            known.sent = known.sent.max(report);
        }
    }

    /// Waits until reporters have been woken more often than `nudges` times, or until `deadline`.
    pub fn wait_for_nudge(&self, nudges: u64, deadline: Instant) {
        let mut state = self.state.lock();
        while state.nudges <= nudges && !self.nudged.wait_until(&mut state, deadline).timed_out() {}
    }

    pub fn list(&self) -> Vec<Member> {
        let state = self.state.lock();
        let shown = |known: &Known| Member {
            host: known.said.host.clone(),
            applied: known.said.applied,
            complete: known.said.complete,
            silent: known.seen.elapsed(),
            known: known.since.elapsed(),
        };
        state.known.values().map(shown).collect()
    }

    pub fn wait(
        &self,
        count: usize,
        deadline: Option<Instant>,
        go_on: impl Fn() -> bool,
    ) -> Result<(), NotReplicated> {
        let mut state = self.state.lock();
        let wanted = state.reports + 1;
        // A report that is being made may or may not name the write. So another one must follow, news or not.
        state.wanted = state.wanted.max(wanted);
        state.nudges += 1;
        self.nudged.notify_all();
        loop {
            let has_it = |known: &&Known| known.said.acknowledged >= wanted;
            if state.known.values().filter(has_it).count() >= count {
                return Ok(());
            }
            let is_heard = |known: &&Known| known.seen.elapsed() < SILENCE;
            if state.known.values().filter(is_heard).count() < count {
                return Err(NotReplicated::TooFew);
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Err(NotReplicated::Late);
            }
            if !go_on() {
                return Err(NotReplicated::Abandoned);
            }
            let until = deadline.map_or(now + STEP, |deadline| deadline.min(now + STEP));
            self.acknowledged.wait_until(&mut state, until);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn said(member: &str, acknowledged: u64) -> Announcement {
        Announcement {
            member: member.to_owned(),
            host: member.to_owned(),
            acknowledged,
            ..Announcement::default()
        }
    }

    #[test]
    fn wait_ends_with_the_acknowledgement_of_a_later_report() {
        let members = Arc::new(Members::default());
        assert_eq!(members.wait(1, None, || true), Err(NotReplicated::TooFew));
        assert!(members.announce(said("a", 0)));
        let before = members.next_report();
        let waiting = members.clone();
        let writer = std::thread::spawn(move || waiting.wait(1, None, || true));
        std::thread::sleep(Duration::from_millis(30));
        // The report was made before the write.
        assert!(!members.announce(said("a", before)));
        std::thread::sleep(Duration::from_millis(30));
        assert!(!writer.is_finished());
        let after = members.next_report();
        members.announce(said("a", after));
        assert_eq!(writer.join().unwrap(), Ok(()));
        assert_eq!(members.wait(2, None, || true), Err(NotReplicated::TooFew));
        let soon = Instant::now() + Duration::from_millis(20);
        assert_eq!(members.wait(1, Some(soon), || true), Err(NotReplicated::Late));
        assert_eq!(members.wait(1, None, || false), Err(NotReplicated::Abandoned));
    }

    #[test]
    fn announce_ignores_acknowledgements_of_reports_that_were_not_made() {
        let members = Members::default();
        members.announce(said("a", u64::MAX));
        let soon = Instant::now() + Duration::from_millis(5);
        assert_eq!(members.wait(1, Some(soon), || true), Err(NotReplicated::Late));
    }
}

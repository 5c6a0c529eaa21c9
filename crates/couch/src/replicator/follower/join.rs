//! How a server becomes a follower: it reaches the primary, decides whether it may follow, and has the users before it
//! listens.

use super::client::Report;
use super::{Follower, PAUSE, failed};
use crate::replicator::failure::{Failure, Kind};
use diwan_store::replica::news::{Description, Kind as Named, News};
use diwan_store::replica::{Identity, Role};
use std::time::{Duration, Instant};

/// How often an unreachable primary is logged.
const LOGGED_EVERY: Duration = Duration::from_secs(30);

/// What a server has to do before it copies.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    /// Nothing.
    Follow,
    /// It gives the primary what only it has.
    Rejoin,
}

impl Follower {
    /// Reaches the primary and begins to follow it. A server that has a complete copy goes on at once, reachable or not;
    /// any other waits until the primary can be reached. Fails if this server must not follow it. Call it from a thread
    /// that may block.
    pub fn join(&self) -> Result<(), String> {
        let identity = self.store.replica().identity();
        let goes_on = identity.role == Role::Follower && identity.complete && !self.settings.rejoins;
        if goes_on {
            let report = self.client.news(&self.greeting(false), 0, Duration::ZERO);
            // The follower's thread meets the same error and logs it.
            if !report.is_ok_and(|report| report.member != identity.followed) {
                return Ok(());
            }
        }
        let refused = |reason: String| format!("cannot follow {}: {reason}", self.client.shown());
        loop {
            let report = self.reach()?;
            let identity = self.store.replica().identity();
            let way = decide(&identity, &report, self.store.has_documents(), self.settings.rejoins);
            match self.join_by(&way.map_err(refused)?, &report) {
                // The primary went away. The parts that are done are not repeated.
                Err(failure) if failure.is_passing() => {
                    tracing::warn!(primary = self.client.shown(), %failure, "cannot join; trying again");
                    self.stop.sleep(PAUSE).map_err(|failure| failure.to_string())?;
                }
                outcome => return outcome.map_err(|failure| refused(failure.to_string())),
            }
        }
    }

    fn join_by(&self, way: &Way, report: &Report) -> Result<(), Failure> {
        if *way == Way::Rejoin {
            self.rejoin(report)?;
        }
        self.begin(report, way).map_err(failed)?;
        self.copy_users(report)
    }

    /// Asks the primary for everything until it answers.
    fn reach(&self) -> Result<Report, String> {
        let mut logged: Option<Instant> = None;
        loop {
            match self.client.news(&self.greeting(false), 0, Duration::ZERO) {
                Ok(report) => return Ok(report),
                Err(failure) if failure.kind == Kind::Stopped => return Err("stopped".to_owned()),
                Err(failure) if failure.is_passing() => {
                    if logged.is_none_or(|at| at.elapsed() >= LOGGED_EVERY) {
                        logged = Some(Instant::now());
                        tracing::warn!(primary = self.client.shown(), %failure, "waiting for the primary");
                    }
                    if self.stop.sleep(PAUSE).is_err() {
                        return Err("stopped".to_owned());
                    }
                }
                Err(failure) => return Err(format!("cannot follow {}: {failure}", self.client.shown())),
            }
        }
    }

    fn begin(&self, report: &Report, way: &Way) -> diwan_store::Result<()> {
        if *way == Way::Rejoin {
            // Documents that were copied before may have changed there without leaving a trace.
            self.store.forget_positions()?;
        }
        self.store.begin_following(&report.set, &report.set_name, report.term, &report.member)?;
        self.know(report);
        tracing::info!(primary = self.client.shown(), term = report.term, "following");
        Ok(())
    }

    /// Remembers what a report says of the primary.
    fn know(&self, report: &Report) {
        let replica = self.store.replica();
        // Its own address is in the list only while the primary knows it. The face adds it.
        let mut hosts = vec![report.host.clone()];
        hosts.extend(report.others.iter().cloned());
        replica.note_primary(|primary| {
            (primary.host, primary.hosts) = (report.host.clone(), hosts);
            primary.url = self.client.shown().to_owned();
        });
    }

    /// Checks that a report comes from the primary that is followed.
    pub(super) fn recognize(&self, report: &Report) -> Result<(), Failure> {
        let identity = self.store.replica().identity();
        if identity.followed == report.member && identity.set == report.set && identity.term <= report.term {
            if identity.term < report.term || identity.set_name != report.set_name {
                self.store
                    .identify(|identity| {
                        (identity.term, identity.set_name) = (report.term, report.set_name.clone());
                    })
                    .map_err(failed)?;
            }
            self.know(report);
            return Ok(());
        }
        let reason = "another server answers there than the one that was followed: start the follower anew, so that it \
                      can decide";
        Err(Failure::new("other_primary", reason))
    }

    /// Copies the register of users before the server listens, so that each reader needs the same rights as on the primary.
    fn copy_users(&self, report: &Report) -> Result<(), Failure> {
        let is_register = |description: &&Description| {
            description.namespace.database == "admin" && matches!(description.kind, Named::Collection(_))
        };
        let names = report.news.names.iter().filter(is_register).cloned().collect();
        let register = News { names, ..News::default() };
        // A leftover of the same name is replaced by the first round. A server that had one has users.
        self.store.reconcile(&register, &self.interrupt).map_err(failed)?;
        self.copy_all(&register)
    }
}

/// Whether this server may follow the one that made the report.
fn decide(own: &Identity, report: &Report, has_documents: bool, rejoins: bool) -> Result<Way, String> {
    let give = "--rejoin follows anyway: what only this server has is then sent to the primary";
    if own.member == report.member {
        return Err("a server cannot follow itself".to_owned());
    }
    if !has_documents {
        return Ok(Way::Follow);
    }
    let is_related = own.set == report.set;
    match own.role {
        _ if rejoins => Ok(Way::Rejoin),
        _ if !is_related => Err(format!(
            "this server has documents of its own, and has nothing to do with that one. Give --data an empty directory. \
             {give}"
        )),
        Role::Follower if report.term < own.term => Err(format!(
            "it is the primary of term {}, but this server followed one of term {}, which took its place. Follow that \
             one. {give}",
            report.term, own.term
        )),
        Role::Follower if own.followed == report.member => Ok(Way::Follow),
        Role::Primary if report.term <= own.term => Err(format!(
            "this server was made the primary of term {}, and that one is of term {}. Start this one without --follow, \
             and the other one with --follow and this server's URL. {give}",
            own.term, report.term
        )),
        // It was the primary before, or it followed another one: it may have what the new primary never got.
        Role::Primary | Role::Follower => Ok(Way::Rejoin),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decide_lets_relatives_follow_the_later_term() {
        let own = |role, term, followed: &str| Identity {
            member: "me".into(),
            set: "s".into(),
            term,
            role,
            followed: followed.into(),
            ..Identity::default()
        };
        let of = |member: &str, set: &str, term| Report {
            member: member.into(),
            set: set.into(),
            set_name: String::new(),
            term,
            host: String::new(),
            others: Vec::new(),
            time: 0,
            number: 0,
            news: News::default(),
        };
        let (follower, primary) = (own(Role::Follower, 2, "p"), own(Role::Primary, 2, "p"));
        let decide = |own: &Identity, report: &Report| decide(own, report, true, false);
        assert_eq!(decide(&follower, &of("p", "s", 2)), Ok(Way::Follow));
        assert_eq!(decide(&follower, &of("q", "s", 3)), Ok(Way::Rejoin));
        assert_eq!(decide(&primary, &of("p", "s", 3)), Ok(Way::Rejoin));
        assert!(decide(&follower, &of("p", "s", 1)).unwrap_err().contains("term 2"));
        assert!(decide(&primary, &of("p", "s", 1)).unwrap_err().contains("without --follow"));
        assert!(decide(&primary, &of("p", "s", 2)).unwrap_err().contains("--rejoin"));
        assert!(decide(&primary, &of("p", "other", 9)).unwrap_err().contains("empty directory"));
        assert!(decide(&primary, &of("me", "s", 9)).unwrap_err().contains("itself"));
        let fresh = Identity::default();
        assert_eq!(super::decide(&fresh, &of("p", "s", 1), false, false), Ok(Way::Follow));
        assert_eq!(super::decide(&fresh, &of("p", "s", 1), true, true), Ok(Way::Rejoin));
    }
}

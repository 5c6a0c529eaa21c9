//! Limits what the hashing of passwords costs the other clients.

use hmac::{Hmac, Mac};
use parking_lot::{Condvar, Mutex};
use sha2::Sha256;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The most computations that wait for their turn.
const MOST_WAITING: usize = 64;
/// How long a computation waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most checks that are remembered, and for how long.
const MOST_VERDICTS: usize = 1024;
const REMEMBERED: Duration = Duration::from_secs(600);

/// Too many passwords are being checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many passwords are being checked: try again later")]
pub struct Busy;

/// Runs hash computations, a few at a time.
pub struct HashingPool {
    concurrent: usize,
    state: Mutex<Waiting>,
    freed: Condvar,
}

#[derive(Default)]
struct Waiting {
    running: usize,
    waiting: usize,
}

impl HashingPool {
    /// A pool that uses half of the processors.
    #[allow(clippy::new_without_default)]
    pub fn new() -> HashingPool {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        HashingPool {
            concurrent: (processors / 2).max(1),
            state: Mutex::new(Waiting::default()),
            freed: Condvar::new(),
        }
    }

    /// Runs `compute` in this thread when it is its turn.
    pub fn run<T>(&self, compute: impl FnOnce() -> T) -> Result<T, Busy> {
        let _turn = self.turn()?;
        Ok(compute())
    }

    fn turn(&self) -> Result<Turn<'_>, Busy> {
        let mut state = self.state.lock();
        if state.running >= self.concurrent {
            if state.waiting >= MOST_WAITING {
                return Err(Busy);
            }
            state.waiting += 1;
            let end = Instant::now() + PATIENCE;
            let late = self.freed.wait_while_for(
                &mut state,
                |state| state.running >= self.concurrent,
                end.saturating_duration_since(Instant::now()),
            );
            state.waiting -= 1;
            if late.timed_out() && state.running >= self.concurrent {
                return Err(Busy);
            }
        }
        state.running += 1;
        Ok(Turn(self))
    }
}

/// The right to compute, until it is dropped.
struct Turn<'a>(&'a HashingPool);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.state.lock().running -= 1;
        self.0.freed.notify_one();
    }
}

/// Passwords that were right a short while ago. What is kept is a keyed hash, with a key that only this process knows.
pub struct Verdicts {
    key: [u8; 32],
    known: Mutex<HashMap<[u8; 32], Instant>>,
}

impl Verdicts {
    /// No passwords.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Verdicts {
        let mut key = [0; 32];
        let is_random = getrandom::fill(&mut key).is_ok();
        // Without random numbers nothing is remembered: see `remember`.
        Verdicts { key: if is_random { key } else { [0; 32] }, known: Mutex::default() }
    }

    /// Whether this password was right for the user with this verifier.
    pub fn knows(&self, user: &str, fingerprint: &[u8], password: &str) -> bool {
        let id = self.id(user, fingerprint, password);
        id.is_some_and(|id| self.known.lock().get(&id).is_some_and(|at| at.elapsed() < REMEMBERED))
    }

    /// Remembers that the password is right.
    pub fn remember(&self, user: &str, fingerprint: &[u8], password: &str) {
        let Some(id) = self.id(user, fingerprint, password) else { return };
        let mut known = self.known.lock();
        if known.len() >= MOST_VERDICTS {
            known.retain(|_, at| at.elapsed() < REMEMBERED);
        }
        if known.len() >= MOST_VERDICTS
            && let Some(oldest) = known.iter().min_by_key(|(_, at)| **at).map(|(id, _)| *id)
        {
            known.remove(&oldest);
        }
        known.insert(id, Instant::now());
    }

    /// The keyed hash. A changed verifier gives another one.
    fn id(&self, user: &str, fingerprint: &[u8], password: &str) -> Option<[u8; 32]> {
        if self.key == [0; 32] {
            return None;
        }
        let mut hash = Hmac::<Sha256>::new_from_slice(&self.key).ok()?;
        for part in [user.as_bytes(), fingerprint, password.as_bytes()] {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Some(hash.finalize().into_bytes().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn pool_runs_few_computations_at_once_and_refuses_a_flood() {
        let pool = HashingPool { concurrent: 1, ..HashingPool::new() };
        let (running, most, refused) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..100 {
                scope.spawn(|| {
                    let outcome = pool.run(|| {
                        most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_millis(5));
                        running.fetch_sub(1, Ordering::SeqCst);
                    });
                    if outcome.is_err() {
                        refused.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(most.load(Ordering::SeqCst), 1);
        assert!(refused.load(Ordering::SeqCst) <= 100 - 1 - MOST_WAITING);
    }

    #[test]
    fn verdict_holds_for_its_user_password_and_verifier() {
        let verdicts = Verdicts::new();
        verdicts.remember("ada", b"one", "secret");
        assert!(verdicts.knows("ada", b"one", "secret"));
        assert!(!verdicts.knows("ada", b"two", "secret"));
        assert!(!verdicts.knows("ada", b"one", "Secret"));
        assert!(!verdicts.knows("bob", b"one", "secret"));
    }

    #[test]
    fn verdicts_are_bounded() {
        let verdicts = Verdicts::new();
        for number in 0..2000 {
            verdicts.remember(&number.to_string(), b"", "");
        }
        assert!(verdicts.known.lock().len() <= MOST_VERDICTS);
        assert!(verdicts.knows("1999", b"", ""));
    }
}

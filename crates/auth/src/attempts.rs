//! Slows those who guess passwords, without locking the owner out.
//!
//! Failures are counted for an account together with an address, for an address, and for an account. Each attempt
//! counts as a failure when it begins; a success takes its count back. Counts halve every thirty seconds. Attempts that
//! must wait do so one after the other, so many at once are as slow as a sequence of them; one that would wait too long
//! is refused.

use crate::hashing::Busy;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Failures that cost nothing: of an account, and of an address, which many users may share.
const FREE: f64 = 5.0;
const FREE_OF_ADDRESS: f64 = 50.0;
/// The delay after the first failure that costs something. Each further one doubles it.
const FIRST: Duration = Duration::from_millis(100);
/// The longest delay.
const LONGEST: Duration = Duration::from_secs(10);
/// The longest time that an attempt waits for those before it.
const LONGEST_WAIT: Duration = Duration::from_secs(20);
/// The longest delay by failures of an account from other addresses: the owner waits no longer.
const LONGEST_FOR_ACCOUNT: Duration = Duration::from_secs(2);
/// After this time a count is half of what it was.
const HALF_LIFE: Duration = Duration::from_secs(30);
/// How long an address is known after a success.
const KNOWN: Duration = Duration::from_secs(24 * 3600);
/// The most counters, and the most of them for names from one address.
const MOST: usize = 16_384;
const MOST_OF_ADDRESS: usize = 64;

/// What is counted.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Address(IpAddr),
    Account(String),
    Both(String, IpAddr),
}

struct Count {
    failures: f64,
    at: Instant,
    /// When the last attempt that waits is checked.
    last: Instant,
    /// When the account signed in from the address last.
    succeeded: Option<Instant>,
}

impl Count {
    fn now(&self, now: Instant) -> f64 {
        let halvings = now.saturating_duration_since(self.at).as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.failures * 0.5_f64.powf(halvings)
    }
}

/// The counts of failures.
#[derive(Default)]
pub struct Attempts {
    counts: Mutex<HashMap<Key, Count>>,
}

impl Attempts {
    /// No failures.
    pub fn new() -> Attempts {
        Attempts::default()
    }

    /// Begins an attempt. Returns how long it must wait before its password is checked. [`Attempts::succeeded`] follows
    /// if the password is right. Fails if too many attempts wait already.
    pub fn begin(&self, account: &str, address: IpAddr, now: Instant) -> Result<Duration, Busy> {
        let address = group(address);
        let both = Key::Both(account.to_owned(), address);
        let mut counts = self.counts.lock();
        let is_known = counts
            .get(&both)
            .is_some_and(|count| count.succeeded.is_some_and(|at| now.saturating_duration_since(at) < KNOWN));
        make_room(&mut counts, address, now);
        let mut add = |key: Key, free: f64, counts_here: bool, longest: Duration| {
            let new = Count { failures: 0.0, at: now, last: now, succeeded: None };
            let count = counts.entry(key).or_insert(new);
            let failures = count.now(now);
            (count.failures, count.at) = (failures + 1.0, now);
            let delay = if counts_here { delay(failures - free).min(longest) } else { Duration::ZERO };
            if delay.is_zero() {
                return Duration::ZERO;
            }
            let ready = count.last.max(now) + delay;
            let wait = ready.saturating_duration_since(now);
            if wait <= LONGEST_WAIT {
                count.last = ready;
            }
            wait
        };
        // An address from which the account has signed in waits for failures of this account there alone.
        let own = add(both, FREE, true, LONGEST);
        let near = add(Key::Address(address), FREE_OF_ADDRESS, !is_known, LONGEST);
        let far = add(Key::Account(account.to_owned()), FREE, !is_known, LONGEST_FOR_ACCOUNT);
        // Failures from elsewhere never refuse an attempt.
        let wait = own.max(near);
        if wait > LONGEST_WAIT { Err(Busy) } else { Ok(wait.max(far.min(LONGEST_FOR_ACCOUNT))) }
    }

    /// The password of an attempt was right: it counts no more, and the address is known.
    pub fn succeeded(&self, account: &str, address: IpAddr, now: Instant) {
        let address = group(address);
        let mut counts = self.counts.lock();
        let both = Key::Both(account.to_owned(), address);
        for key in [Key::Address(address), Key::Account(account.to_owned())] {
            if let Some(count) = counts.get_mut(&key) {
                (count.failures, count.at) = ((count.now(now) - 1.0).max(0.0), now);
            }
        }
        counts.insert(both, Count { failures: 0.0, at: now, last: now, succeeded: Some(now) });
    }
}

/// The delay after so many failures that cost something.
fn delay(failures: f64) -> Duration {
    if failures < 0.0 {
        return Duration::ZERO;
    }
    let doublings = failures.floor().min(16.0) as i32;
    FIRST.mul_f64(2_f64.powi(doublings)).min(LONGEST)
}

/// An IPv6 host has a network of addresses, which count as one.
fn group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address => address,
    }
}

/// Evicts counters: those that say nothing any more; those of an address that tries many names; the oldest.
fn make_room(counts: &mut HashMap<Key, Count>, address: IpAddr, now: Instant) {
    if counts.len() < MOST {
        return;
    }
    let says_something = |count: &Count| {
        count.now(now) > 0.5 || count.succeeded.is_some_and(|at| now.saturating_duration_since(at) < KNOWN)
    };
    counts.retain(|_, count| says_something(count));
    let is_of = |key: &Key| matches!(key, Key::Both(_, of) if *of == address);
    if counts.keys().filter(|key| is_of(key)).count() > MOST_OF_ADDRESS {
        counts.retain(|key, _| !is_of(key));
    }
    if counts.len() >= MOST {
        let mut ages: Vec<Instant> = counts.values().map(|count| count.at).collect();
        let middle = ages.len() / 2;
        let (_, median, _) = ages.select_nth_unstable(middle);
        let median = *median;
        counts.retain(|_, count| count.at > median);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn delay_grows_after_five_failures_and_fades() {
        let (attempts, start) = (Attempts::new(), Instant::now());
        let mut now = start;
        let mut waits = Vec::new();
        for _ in 0..9 {
            let wait = attempts.begin("ada", address(1), now).unwrap();
            waits.push(wait);
            now += wait;
        }
        assert_eq!(waits[..5], [Duration::ZERO; 5]);
        assert!(waits.is_sorted() && waits[5] == FIRST && waits[8] >= 2 * FIRST, "{waits:?}");
        let later = now + Duration::from_secs(300);
        assert_eq!(attempts.begin("ada", address(1), later), Ok(Duration::ZERO));
    }

    #[test]
    fn attempts_at_once_wait_one_after_the_other_and_a_flood_is_refused() {
        let (attempts, now) = (Attempts::new(), Instant::now());
        let waits: Vec<_> = (0..100).map(|_| attempts.begin("ada", address(1), now)).collect();
        let allowed: Vec<Duration> = waits.iter().filter_map(|wait| wait.ok()).collect();
        assert!(allowed.is_sorted() && allowed.len() < 20, "{allowed:?}");
        assert!(waits.iter().any(Result::is_err));
        // A flood that was refused does not make those wait longer who come later.
        let later = now + Duration::from_secs(400);
        assert_eq!(attempts.begin("ada", address(1), later), Ok(Duration::ZERO));
    }

    #[test]
    fn owner_is_not_slowed_by_failures_of_others() {
        let (attempts, now) = (Attempts::new(), Instant::now());
        attempts.begin("ada", address(1), now).unwrap();
        attempts.succeeded("ada", address(1), now);
        for attacker in 2..200 {
            let _ = attempts.begin("ada", address(attacker), now);
        }
        for name in 0..200 {
            let _ = attempts.begin(&format!("name-{name}"), address(1), now);
        }
        assert_eq!(attempts.begin("ada", address(1), now), Ok(Duration::ZERO));
        assert_eq!(attempts.begin("ada", address(201), now), Ok(LONGEST_FOR_ACCOUNT));
        assert_eq!(attempts.begin("bob", address(201), now), Ok(Duration::ZERO));
    }

    #[test]
    fn one_address_with_many_names_is_slowed_and_refused() {
        let (attempts, now) = (Attempts::new(), Instant::now());
        let waits: Vec<_> =
            (0..80).map(|name| attempts.begin(&format!("name-{name}"), address(1), now)).collect();
        assert!(waits[..50].iter().all(|wait| *wait == Ok(Duration::ZERO)));
        assert!(waits[50] == Ok(FIRST) && waits[79].is_err());
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_together() {
        let (attempts, now) = (Attempts::new(), Instant::now());
        for host in 0..60_u16 {
            let host = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, host));
            let _ = attempts.begin("ada", host, now);
        }
        let host = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 9, 9, 9, 9));
        assert_ne!(attempts.begin("bob", host, now), Ok(Duration::ZERO));
    }

    #[test]
    fn table_is_bounded() {
        let (attempts, now) = (Attempts::new(), Instant::now());
        for name in 0..40_000_u32 {
            let [_, b, c, d] = name.to_be_bytes();
            let at = now + Duration::from_millis(u64::from(name));
            let _ = attempts.begin(&name.to_string(), IpAddr::from([10, b, c, d]), at);
        }
        assert!(attempts.counts.lock().len() <= MOST + 3);
    }
}

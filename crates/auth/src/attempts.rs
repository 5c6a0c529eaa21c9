//! Slows those who guess passwords, without locking the owner out.
//!
//! Failures are counted for an account together with an address, for an address, and for an account. Each attempt
//! counts as a failure when it begins, so a burst of attempts is slowed as much as a sequence of them; a success takes
//! its count back. Counts halve every thirty seconds.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Failures that cost nothing.
const FREE: f64 = 5.0;
/// The delay after the first failure that costs something. Each further one doubles it.
const FIRST: Duration = Duration::from_millis(100);
/// The longest delay.
const LONGEST: Duration = Duration::from_secs(10);
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
    /// if the password is right.
    pub fn begin(&self, account: &str, address: IpAddr, now: Instant) -> Duration {
        let address = group(address);
        let both = Key::Both(account.to_owned(), address);
        let mut counts = self.counts.lock();
        let is_known = counts
            .get(&both)
            .is_some_and(|count| count.succeeded.is_some_and(|at| now.saturating_duration_since(at) < KNOWN));
        make_room(&mut counts, address, now);
        let mut add = |key: Key| {
            let count = counts.entry(key).or_insert(Count { failures: 0.0, at: now, succeeded: None });
            let failures = count.now(now);
            (count.failures, count.at) = (failures + 1.0, now);
            failures
        };
        let near = add(both).max(add(Key::Address(address)));
        let far = add(Key::Account(account.to_owned()));
        let far = if is_known { Duration::ZERO } else { delay(far).min(LONGEST_FOR_ACCOUNT) };
        delay(near).max(far)
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
        counts.insert(both, Count { failures: 0.0, at: now, succeeded: Some(now) });
    }
}

fn delay(failures: f64) -> Duration {
    if failures < FREE {
        return Duration::ZERO;
    }
    let doublings = (failures - FREE).floor().min(16.0) as i32;
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
        let (attempts, now) = (Attempts::new(), Instant::now());
        let delays: Vec<Duration> = (0..9).map(|_| attempts.begin("ada", address(1), now)).collect();
        assert_eq!(delays[..5], [Duration::ZERO; 5]);
        assert_eq!(delays[5..8], [100, 200, 400].map(Duration::from_millis));
        for _ in 0..20 {
            attempts.begin("ada", address(1), now);
        }
        assert_eq!(attempts.begin("ada", address(1), now), LONGEST);
        let later = now + Duration::from_secs(300);
        assert_eq!(attempts.begin("ada", address(1), later), Duration::ZERO);
    }

    #[test]
    fn owner_is_not_slowed_by_failures_from_elsewhere() {
        let (attempts, now) = (Attempts::new(), Instant::now());
        attempts.begin("ada", address(1), now);
        attempts.succeeded("ada", address(1), now);
        for attacker in 2..200 {
            attempts.begin("ada", address(attacker), now);
        }
        assert_eq!(attempts.begin("ada", address(1), now), Duration::ZERO);
        assert_eq!(attempts.begin("ada", address(201), now), LONGEST_FOR_ACCOUNT);
        assert_eq!(attempts.begin("bob", address(201), now), Duration::ZERO);
    }

    #[test]
    fn one_address_with_many_names_is_slowed() {
        let (attempts, now) = (Attempts::new(), Instant::now());
        for name in 0..30 {
            attempts.begin(&format!("name-{name}"), address(1), now);
        }
        assert_eq!(attempts.begin("ada", address(1), now), LONGEST);
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_together() {
        let (attempts, now) = (Attempts::new(), Instant::now());
        for host in 0..10_u16 {
            let host = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, host));
            attempts.begin("ada", host, now);
        }
        let host = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 9, 9, 9, 9));
        assert!(attempts.begin("bob", host, now) > Duration::ZERO);
    }

    #[test]
    fn table_is_bounded() {
        let (attempts, now) = (Attempts::new(), Instant::now());
        for name in 0..40_000_u32 {
            let [_, b, c, d] = name.to_be_bytes();
            attempts.begin(
                &name.to_string(),
                IpAddr::from([10, b, c, d]),
                now + Duration::from_millis(u64::from(name)),
            );
        }
        assert!(attempts.counts.lock().len() <= MOST + 3);
    }
}

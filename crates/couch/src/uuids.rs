//! Generates document ids with CouchDB's algorithms. `sequential` is the default: 26 random hex digits and 6 increasing ones, so that
//! documents created one after the other on a server are adjacent in key order.
//!
//! The `uuid` crate has no such algorithm, and CouchDB's random ids are 16 random bytes without the version bits of a
//! standard UUID.

use crate::server::Couch;
use parking_lot::Mutex;

/// How an id is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// Adjacent ids with a common random prefix.
    Sequential,
    /// Random digits alone.
    Random,
    /// The time in microseconds, and random digits.
    UtcRandom,
    /// The time in microseconds, and a text that the server's owner chooses.
    UtcId,
}

impl Algorithm {
    /// The algorithm of this name in CouchDB's settings.
    fn from_name(name: &str) -> Option<Algorithm> {
        match name {
            "sequential" => Some(Algorithm::Sequential),
            "random" => Some(Algorithm::Random),
            "utc_random" => Some(Algorithm::UtcRandom),
            "utc_id" => Some(Algorithm::UtcId),
            _ => None,
        }
    }

    /// Whether there is an algorithm of this name.
    pub(crate) fn is_known(name: &str) -> bool {
        Algorithm::from_name(name).is_some()
    }
}

impl Couch {
    /// Returns a new document id, made as the settings say.
    pub(crate) fn new_id(&self) -> String {
        let name = self.setting("uuids", "algorithm").unwrap_or_default();
        match Algorithm::from_name(&name).unwrap_or(Algorithm::Sequential) {
            Algorithm::Sequential => self.uuids.next(),
            Algorithm::Random => random(),
            Algorithm::UtcRandom => microseconds() + &random()[..18],
            Algorithm::UtcId => microseconds() + &self.setting("uuids", "utc_id_suffix").unwrap_or_default(),
        }
    }
}

/// The time since 1970 in microseconds, as 14 hex digits.
fn microseconds() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!("{:014x}", now.unwrap_or_default().as_micros())
}

/// Generates ids.
pub(crate) struct Uuids {
    sequential: Mutex<Sequential>,
    /// Offset of the ids that [`Uuids::of_request`] derives from request numbers.
    requests: u64,
}

/// The state of the `sequential` algorithm.
struct Sequential {
    prefix: [u8; 13],
    counter: u32,
}

/// At this value the counter restarts with a new prefix, before it would exceed six digits.
const END: u32 = 0xff_f000;

impl Uuids {
    /// Creates an independent generator.
    pub(crate) fn new() -> Uuids {
        let mut requests = [0; 8];
        fill(&mut requests);
        Uuids {
            sequential: Mutex::new(Sequential { prefix: [0; 13], counter: END }),
            requests: u64::from_be_bytes(requests),
        }
    }

    /// Derives the id of a request from its number: 10 hex digits, unlikely to repeat soon.
    pub(crate) fn of_request(&self, number: u64) -> String {
        // Multiplying by an odd constant is a bijection modulo 2^64 that spreads consecutive numbers.
        let spread = self.requests.wrapping_add(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut out = String::with_capacity(10);
        push_hex(&mut out, &spread.to_be_bytes()[..5]);
        out
    }

    /// Returns a new document id of 32 hex digits.
    pub(crate) fn next(&self) -> String {
        let mut sequential = self.sequential.lock();
        if sequential.counter >= END {
            fill(&mut sequential.prefix);
            sequential.counter = 0;
        }
        let mut step = [0; 2];
        fill(&mut step);
        sequential.counter += 1 + u32::from(u16::from_be_bytes(step)) % 0xffe;
        let mut out = String::with_capacity(32);
        push_hex(&mut out, &sequential.prefix);
        push_hex(&mut out, &sequential.counter.to_be_bytes()[1..]);
        out
    }
}

/// Returns 32 random hex digits.
pub(crate) fn random() -> String {
    let mut bytes = [0; 16];
    fill(&mut bytes);
    let mut out = String::with_capacity(32);
    push_hex(&mut out, &bytes);
    out
}

/// Appends bytes as lower-case hex digits.
pub(crate) fn push_hex(out: &mut String, bytes: &[u8]) {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

/// Fills a buffer with random bytes. If the operating system has none, the clock is used: ids need to be distinct,
/// not secret.
fn fill(bytes: &mut [u8]) {
    if getrandom::fill(bytes).is_err() {
        let nanos = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos());
        for (byte, source) in bytes.iter_mut().zip(nanos.to_le_bytes().into_iter().cycle()) {
            *byte = source;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_increase_and_have_32_digits() {
        let uuids = Uuids::new();
        let ids: Vec<String> = (0..1000).map(|_| uuids.next()).collect();
        assert!(ids.iter().all(|id| id.len() == 32));
        assert!(ids.windows(2).filter(|pair| pair[0] < pair[1]).count() >= 998);
        assert_ne!(random(), random());
        let requests: std::collections::HashSet<String> = (0..1000).map(|n| uuids.of_request(n)).collect();
        assert!(requests.len() == 1000 && requests.iter().all(|id| id.len() == 10));
    }
}

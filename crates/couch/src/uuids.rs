//! New document ids, as CouchDB's `sequential` algorithm makes them: 26 random hex digits and 6 that only rise, so that
//! documents of one server lie side by side in the order in which they came.

use parking_lot::Mutex;

/// Makes ids.
pub struct Uuids {
    state: Mutex<State>,
    /// Where the ids of requests begin.
    requests: u64,
}

struct State {
    prefix: [u8; 13],
    counter: u32,
}

/// The counter begins anew, with another prefix, before it takes a seventh digit.
const END: u32 = 0xff_f000;

impl Uuids {
    /// A generator of its own.
    pub fn new() -> Uuids {
        let mut requests = [0; 8];
        fill(&mut requests);
        Uuids {
            state: Mutex::new(State { prefix: [0; 13], counter: END }),
            requests: u64::from_be_bytes(requests),
        }
    }

    /// The id of a request by its number: 10 hex digits, no two the same for long.
    pub fn of_request(&self, number: u64) -> String {
        // An odd factor takes numbers to numbers one to one, and spreads them.
        let spread = self.requests.wrapping_add(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut out = String::with_capacity(10);
        push_hex(&mut out, &spread.to_be_bytes()[..5]);
        out
    }

    /// A new id: 32 hex digits.
    pub fn next(&self) -> String {
        let mut state = self.state.lock();
        if state.counter >= END {
            fill(&mut state.prefix);
            state.counter = 0;
        }
        let mut step = [0; 2];
        fill(&mut step);
        state.counter += 1 + u32::from(u16::from_be_bytes(step)) % 0xffe;
        let mut out = String::with_capacity(32);
        push_hex(&mut out, &state.prefix);
        push_hex(&mut out, &state.counter.to_be_bytes()[1..]);
        out
    }
}

/// 32 random hex digits.
pub fn random() -> String {
    let mut bytes = [0; 16];
    fill(&mut bytes);
    let mut out = String::with_capacity(32);
    push_hex(&mut out, &bytes);
    out
}

/// Appends bytes as hex digits.
pub fn push_hex(out: &mut String, bytes: &[u8]) {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

/// Random bytes; without the system's source, what remains is the clock's.
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
    fn ids_rise_and_have_32_digits() {
        let uuids = Uuids::new();
        let ids: Vec<String> = (0..1000).map(|_| uuids.next()).collect();
        assert!(ids.iter().all(|id| id.len() == 32));
        assert!(ids.windows(2).filter(|pair| pair[0] < pair[1]).count() >= 998);
        assert_ne!(random(), random());
        let requests: std::collections::HashSet<String> = (0..1000).map(|n| uuids.of_request(n)).collect();
        assert!(requests.len() == 1000 && requests.iter().all(|id| id.len() == 10));
    }
}

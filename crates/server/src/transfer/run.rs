//! A run of pairs on its way from one engine to another.

use diwan_kv::SortedPairs;

/// The bytes of a full run: many small ones cost the target more, and two runs are in memory at a time.
const FULL: usize = 32 << 20;

/// Pairs in their order, one after another in one buffer.
#[derive(Default)]
pub struct Run {
    bytes: Vec<u8>,
    /// The lengths of each key and value.
    lengths: Vec<(u32, u32)>,
}

impl Run {
    /// Adds a pair behind the others.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.lengths.push((key.len() as u32, value.len() as u32));
    }

    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Whether there are enough pairs to write them.
    pub fn is_full(&self) -> bool {
        self.bytes.len() + size_of_val(self.lengths.as_slice()) >= FULL
    }

    /// The pairs.
    pub fn pairs(&self) -> SortedPairs<'_> {
        let mut rest = self.bytes.as_slice();
        Box::new(self.lengths.iter().map(move |(key, value)| {
            let (pair, behind) = rest.split_at((key + value) as usize);
            rest = behind;
            pair.split_at(*key as usize)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_returns_its_pairs_in_order() {
        let mut run = Run::default();
        assert!(run.is_empty() && run.pairs().next().is_none());
        let pairs = [(&b"a"[..], &b""[..]), (b"bc", b"value"), (b"c", b"v")];
        pairs.iter().for_each(|(key, value)| run.add(key, value));
        assert!(run.pairs().eq(pairs) && !run.is_empty() && !run.is_full());
    }

    #[test]
    fn run_is_full_by_the_bytes_and_the_number_of_its_pairs() {
        let mut run = Run::default();
        run.add(b"large", &vec![0; FULL]);
        assert!(run.is_full());
        let mut run = Run::default();
        (0..FULL / 8).for_each(|_| run.add(b"k", b""));
        assert!(run.is_full());
    }
}

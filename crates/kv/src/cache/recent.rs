//! The log of recent writes: the keys that recent commits wrote, and which commits are still running.

use super::interval::{Interval, after};
use crate::{Bytes, KeyRange, Space};
use std::collections::VecDeque;

/// How many keys are remembered, and how many bytes of keys: enough for the duration of a scan under heavy writing.
const KEYS: usize = 1 << 16;
const BYTES: usize = 4 << 20;
/// How many deleted ranges are remembered.
const RANGES: usize = 64;

/// For each space, an interval that holds every key written since the last call of [`Recent::take_written`].
pub(super) type Written = [Option<Interval>; Space::ALL.len()];

/// The writes that have begun, and may have ended. They are numbered from 0 in the order in which they began.
#[derive(Default)]
pub(super) struct Recent {
    keys: VecDeque<(u64, Space, Bytes)>,
    /// How many bytes these keys have.
    key_bytes: usize,
    ranges: VecDeque<(u64, Space, KeyRange)>,
    /// Whether each of the writes from `settled` on has ended. The first has not.
    under_way: VecDeque<bool>,
    /// All writes with lower numbers have ended.
    settled: u64,
    /// The log has forgotten nothing from this number on.
    complete: u64,
    /// For each space, an interval with everything written since the last call of [`Recent::take_written`].
    written: [Option<(Bytes, LastKey)>; Space::ALL.len()],
}

/// The last written key. `None`: the interval extends to the end of the space.
type LastKey = Option<Bytes>;

impl Recent {
    /// Begins a commit that writes these keys. Returns its number.
    pub fn begin<'a>(&mut self, keys: impl Iterator<Item = (Space, &'a Bytes)>) -> u64 {
        let number = self.next();
        for (space, key) in keys {
            self.key_bytes += key.len();
            self.keys.push_back((number, space, key.clone()));
        }
        while self.keys.len() > KEYS || self.key_bytes > BYTES {
            self.forget(|recent| {
                let (number, _, key) = recent.keys.pop_front()?;
                recent.key_bytes -= key.len();
                Some(number)
            });
        }
        number
    }

    /// Begins a deletion or an ingest of a range. Returns its number.
    pub fn begin_range(&mut self, space: Space, range: KeyRange) -> u64 {
        let number = self.next();
        let interval = Interval::of(range.clone());
        self.note_written(space, &interval.from, interval.to.as_ref());
        self.ranges.push_back((number, space, range));
        if self.ranges.len() > RANGES {
            self.forget(|recent| recent.ranges.pop_front().map(|(number, ..)| number));
        }
        number
    }

    /// Notes that keys from `first` to `last` are written.
    pub fn note_written(&mut self, space: Space, first: &Bytes, last: Option<&Bytes>) {
        match &mut self.written[space.index()] {
            Some((low, high)) => {
                if first < low {
                    *low = first.clone();
                }
                match (&high, last) {
                    (Some(known), Some(last)) if last <= known => {}
                    (None, _) => {}
                    (Some(_), last) => *high = last.cloned(),
                }
            }
            unknown => *unknown = Some((first.clone(), last.cloned())),
        }
    }

    /// The intervals that were written since the last call.
    pub fn take_written(&mut self) -> Written {
        let interval =
            |(first, last): (Bytes, LastKey)| Interval { from: first, to: last.map(|last| after(&last)) };
        std::mem::take(&mut self.written).map(|written| written.map(interval))
    }

    fn next(&mut self) -> u64 {
        self.under_way.push_back(false);
        self.settled + self.under_way.len() as u64 - 1
    }

    fn forget(&mut self, oldest: impl FnOnce(&mut Recent) -> Option<u64>) {
        if let Some(number) = oldest(self) {
            self.complete = self.complete.max(number + 1);
        }
    }

    /// Ends the write with this number. Returns the number below which all writes have ended.
    pub fn end(&mut self, number: u64) -> u64 {
        if let Some(ended) = self.under_way.get_mut((number - self.settled) as usize) {
            *ended = true;
        }
        while self.under_way.front() == Some(&true) {
            self.under_way.pop_front();
            self.settled += 1;
        }
        self.settled
    }

    /// The keys of a space between `low` and `high` that were written under numbers from `since` on, sorted, each once.
    /// `None` if the log has forgotten some of them, or if a part of the interval was deleted or ingested as a range.
    pub fn written(&self, since: u64, space: Space, low: &[u8], high: Option<&[u8]>) -> Option<Vec<Bytes>> {
        let within = |key: &[u8]| key >= low && high.is_none_or(|high| key < high);
        let overlaps = |range: &KeyRange| {
            let (_, end) = range.as_slices();
            let starts_before_high = match (high, &range.start) {
                (Some(high), std::ops::Bound::Included(start) | std::ops::Bound::Excluded(start)) => {
                    **start < *high
                }
                _ => true,
            };
            let ends_after_low = match end {
                std::ops::Bound::Included(end) | std::ops::Bound::Excluded(end) => end >= low,
                std::ops::Bound::Unbounded => true,
            };
            starts_before_high && ends_after_low
        };
        if since < self.complete
            || self
                .ranges
                .iter()
                .any(|(number, of, range)| *number >= since && *of == space && overlaps(range))
        {
            return None;
        }
        let first = self.keys.partition_point(|(number, ..)| *number < since);
        let wanted = |(_, of, key): &&(u64, Space, Bytes)| *of == space && within(key);
        let mut keys: Vec<Bytes> =
            self.keys.range(first..).filter(wanted).map(|(.., key)| key.clone()).collect();
        keys.sort_unstable();
        keys.dedup();
        Some(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDS: Space = Space::Records;

    #[test]
    fn written_returns_keys_of_running_and_later_commits() {
        let mut recent = Recent::default();
        let keys = |names: &[&str]| names.iter().map(|name| Bytes::from(*name)).collect::<Vec<_>>();
        let first = recent.begin(keys(&["a", "m"]).iter().map(|key| (RECORDS, key)));
        let second = recent.begin(keys(&["b", "a"]).iter().map(|key| (RECORDS, key)));
        assert_eq!(recent.end(second), 0);
        assert_eq!(recent.written(0, RECORDS, b"a", Some(b"m")), Some(keys(&["a", "b"])));
        assert_eq!(recent.written(0, Space::Indexes, b"a", Some(b"m")), Some(vec![]));
        assert_eq!(recent.end(first), 2);
        assert_eq!(recent.written(1, RECORDS, b"a", None), Some(keys(&["a", "b"])));
        assert_eq!(recent.written(2, RECORDS, b"a", None), Some(vec![]));
        let range = recent.begin_range(RECORDS, KeyRange::half_open(*b"c", *b"d"));
        assert_eq!(recent.written(2, RECORDS, b"a", Some(b"c")), Some(vec![]));
        assert_eq!(recent.written(2, RECORDS, b"a", Some(b"ca")), None);
        assert_eq!(recent.written(range + 1, RECORDS, b"a", None), Some(vec![]));
        assert_eq!(recent.written(2, RECORDS, b"e", None), Some(vec![]));
    }

    #[test]
    fn written_returns_nothing_for_forgotten_commits() {
        let mut recent = Recent::default();
        let key = [Bytes::from("k")];
        for _ in 0..KEYS + 10 {
            let number = recent.begin(key.iter().map(|key| (RECORDS, key)));
            recent.end(number);
        }
        assert_eq!(recent.written(9, RECORDS, b"a", None), None);
        assert_eq!(recent.written(10, RECORDS, b"a", None), Some(key.to_vec()));
    }

    #[test]
    fn the_bytes_of_long_keys_are_limited() {
        let mut recent = Recent::default();
        let key = [Bytes::from(vec![7; BYTES / 8])];
        for _ in 0..10 {
            let number = recent.begin(key.iter().map(|key| (RECORDS, key)));
            recent.end(number);
        }
        assert_eq!(recent.keys.len(), 8);
        assert_eq!(recent.written(1, RECORDS, b"", None), None);
        assert_eq!(recent.written(2, RECORDS, b"", None), Some(key.to_vec()));
    }
}

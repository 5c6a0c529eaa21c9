//! Sets of keys of one index field, as intervals between cuts of the ascending key order.

use diwan_kv::{Bytes, KeyRange};
use std::cmp::Ordering;
use std::ops::Bound;

/// A place between keys. No key of a whole value is a prefix of another, so a cut lies just before or just after all
/// keys that begin with some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Before all keys.
    Min,
    /// Before the keys that begin with these bytes.
    Before(Vec<u8>),
    /// After the keys that begin with these bytes.
    After(Vec<u8>),
    /// After all keys.
    Max,
}

impl Cut {
    /// The least byte string above the cut; `None` if there is none.
    fn position(&self) -> Option<Vec<u8>> {
        match self {
            Cut::Min => Some(Vec::new()),
            Cut::Before(bytes) => Some(bytes.clone()),
            Cut::After(bytes) => successor(bytes.clone()),
            Cut::Max => None,
        }
    }

    fn complemented(&self) -> Cut {
        let flip = |bytes: &[u8]| bytes.iter().map(|byte| !byte).collect();
        match self {
            Cut::Min => Cut::Max,
            Cut::Before(bytes) => Cut::After(flip(bytes)),
            Cut::After(bytes) => Cut::Before(flip(bytes)),
            Cut::Max => Cut::Min,
        }
    }
}

impl PartialOrd for Cut {
    fn partial_cmp(&self, other: &Cut) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Cut {
    fn cmp(&self, other: &Cut) -> Ordering {
        match (self.position(), other.position()) {
            (Some(mine), Some(theirs)) => mine.cmp(&theirs),
            (mine, theirs) => theirs.is_some().cmp(&mine.is_some()),
        }
    }
}

/// The least byte string above all that begin with `bytes`.
fn successor(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    while bytes.last() == Some(&0xFF) {
        bytes.pop();
    }
    *bytes.last_mut()? += 1;
    Some(bytes)
}

/// The keys between two cuts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    /// The start of the interval.
    pub start: Cut,
    /// The end of the interval.
    pub end: Cut,
}

impl Interval {
    /// The bytes of the one value that the interval holds, if it is a point.
    pub fn point(&self) -> Option<&[u8]> {
        match (&self.start, &self.end) {
            (Cut::Before(start), Cut::After(end)) if start == end => Some(start),
            _ => None,
        }
    }

    /// Whether a field's key bytes lie in the interval.
    pub fn contains(&self, key: &[u8]) -> bool {
        let above = match &self.start {
            Cut::Min => true,
            Cut::Before(bytes) => key >= bytes.as_slice(),
            Cut::After(bytes) => key > bytes.as_slice() && !key.starts_with(bytes),
            Cut::Max => false,
        };
        above
            && match &self.end {
                Cut::Min => false,
                Cut::Before(bytes) => key < bytes.as_slice(),
                Cut::After(bytes) => key < bytes.as_slice() || key.starts_with(bytes),
                Cut::Max => true,
            }
    }

    /// The range of keys that consist of `prefix` and a key of the interval.
    pub fn range(&self, prefix: &[u8]) -> KeyRange {
        let full = |bytes: &[u8]| [prefix, bytes].concat();
        let start = match &self.start {
            Cut::Min => Some(prefix.to_vec()),
            Cut::Before(bytes) => Some(full(bytes)),
            Cut::After(bytes) => successor(full(bytes)),
            Cut::Max => successor(prefix.to_vec()),
        };
        let end = match &self.end {
            Cut::Min => Some(prefix.to_vec()),
            Cut::Before(bytes) => Some(full(bytes)),
            Cut::After(bytes) => successor(full(bytes)),
            Cut::Max => successor(prefix.to_vec()),
        };
        let start = start.map_or(Bound::Unbounded, |bytes| Bound::Included(Bytes::from(bytes)));
        let end = end.map_or(Bound::Unbounded, |bytes| Bound::Excluded(Bytes::from(bytes)));
        KeyRange::new(start, end)
    }
}

/// Disjoint intervals in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Intervals(Vec<Interval>);

impl Intervals {
    /// No key.
    pub fn empty() -> Intervals {
        Intervals(Vec::new())
    }

    /// Every key.
    pub fn all() -> Intervals {
        Intervals::between(Cut::Min, Cut::Max)
    }

    /// The keys of one value.
    pub fn point(bytes: Vec<u8>) -> Intervals {
        Intervals::between(Cut::Before(bytes.clone()), Cut::After(bytes))
    }

    /// The keys that begin with these bytes, which are only a part of a value's key.
    pub fn prefixed(bytes: Vec<u8>) -> Intervals {
        let end = successor(bytes.clone()).map_or(Cut::Max, Cut::Before);
        Intervals::between(Cut::Before(bytes), end)
    }

    /// The keys between two cuts.
    pub fn between(start: Cut, end: Cut) -> Intervals {
        if start < end { Intervals(vec![Interval { start, end }]) } else { Intervals::empty() }
    }

    /// The intervals.
    pub fn as_slice(&self) -> &[Interval] {
        &self.0
    }

    /// Whether the set holds every key.
    pub fn is_all(&self) -> bool {
        matches!(self.0.as_slice(), [Interval { start: Cut::Min, end: Cut::Max }])
    }

    /// Whether the set holds no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all intervals are single values.
    pub fn is_points(&self) -> bool {
        self.0.iter().all(|interval| interval.point().is_some())
    }

    /// Whether the set holds a field's key bytes.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.0.iter().any(|interval| interval.contains(key))
    }

    /// The keys of either set.
    pub fn union(mut self, other: Intervals) -> Intervals {
        self.0.extend(other.0);
        self.0.sort_by(|a, b| a.start.cmp(&b.start).then_with(|| a.end.cmp(&b.end)));
        let mut merged: Vec<Interval> = Vec::with_capacity(self.0.len());
        for next in self.0 {
            match merged.last_mut() {
                Some(last) if next.start <= last.end && next != *last && !touching_points(last, &next) => {
                    if next.end > last.end {
                        last.end = next.end;
                    }
                }
                Some(last) if next == *last => {}
                _ => merged.push(next),
            }
        }
        Intervals(merged)
    }

    /// The keys of both sets.
    pub fn intersection(&self, other: &Intervals) -> Intervals {
        let mut both = Vec::new();
        for mine in &self.0 {
            for theirs in &other.0 {
                let start = mine.start.clone().max(theirs.start.clone());
                let end = mine.end.clone().min(theirs.end.clone());
                if start < end {
                    both.push(Interval { start, end });
                }
            }
        }
        Intervals(both)
    }

    /// The keys that the set does not hold.
    pub fn complement(&self) -> Intervals {
        let mut rest = Vec::new();
        let mut start = Cut::Min;
        for interval in &self.0 {
            if start < interval.start {
                rest.push(Interval { start, end: interval.start.clone() });
            }
            start = interval.end.clone();
        }
        if start < Cut::Max {
            rest.push(Interval { start, end: Cut::Max });
        }
        Intervals(rest)
    }

    /// The same keys of a descending field, whose bytes are complemented.
    pub fn descending(&self) -> Intervals {
        Intervals(
            self.0
                .iter()
                .rev()
                .map(|interval| Interval {
                    start: interval.end.complemented(),
                    end: interval.start.complemented(),
                })
                .collect(),
        )
    }
}

/// Whether two points are adjacent. They are not merged, since a point can be looked up.
fn touching_points(left: &Interval, right: &Interval) -> bool {
    left.end == right.start && left.point().is_some() && right.point().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(byte: u8) -> Intervals {
        Intervals::point(vec![byte, 7])
    }

    #[test]
    fn union_keeps_points_apart() {
        let set = point(5).union(point(3)).union(point(5));
        assert_eq!(set.as_slice().len(), 2);
        assert!(set.is_points());
        assert!(set.contains(&[3, 7]) && set.contains(&[3, 7, 9]) && !set.contains(&[4, 7]));
    }

    #[test]
    fn union_merges_overlapping_intervals() {
        let low = Intervals::between(Cut::Min, Cut::Before(vec![9]));
        let high = Intervals::between(Cut::After(vec![4]), Cut::Max);
        assert!(low.clone().union(high.clone()).is_all());
        let both = low.intersection(&high);
        assert!(both.contains(&[5]) && !both.contains(&[4, 1]) && !both.contains(&[9]));
        assert_eq!(both.complement().complement(), both);
        assert!(point(3).intersection(&point(4)).is_empty());
    }

    #[test]
    fn descending_holds_the_complemented_keys() {
        let set = Intervals::between(Cut::After(vec![3, 1]), Cut::Before(vec![7]));
        let turned = set.descending();
        for key in [vec![3, 1, 5], vec![3, 2], vec![6, 255], vec![7], vec![2]] {
            let flipped: Vec<u8> = key.iter().map(|byte| !byte).collect();
            assert_eq!(set.contains(&key), turned.contains(&flipped), "{key:?}");
        }
    }
}

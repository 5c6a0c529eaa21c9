//! Intervals of keys: from one key, included, to another key, excluded, or to the end of the space.

use crate::{Bytes, KeyRange};
use std::ops::Bound;

/// The keys from `from`, included, to `to`, excluded.
pub(super) struct Interval {
    pub from: Bytes,
    /// `None`: to the end of the space.
    pub to: Option<Bytes>,
}

impl Interval {
    /// The interval of a range's keys.
    pub fn of(range: KeyRange) -> Interval {
        let from = match range.start {
            Bound::Included(key) => key,
            Bound::Excluded(key) => after(&key),
            Bound::Unbounded => Bytes::default(),
        };
        let to = match range.end {
            Bound::Included(key) => Some(after(&key)),
            Bound::Excluded(key) => Some(key),
            Bound::Unbounded => None,
        };
        Interval { from, to }
    }

    /// Whether no key lies in the interval.
    pub fn is_empty(&self) -> bool {
        self.to.as_ref().is_some_and(|to| self.from >= *to)
    }

    /// The smallest interval that includes this one and another.
    pub fn around(&self, other: &Interval) -> Interval {
        let from = (&self.from).min(&other.from).clone();
        let to = self.to.as_ref().zip(other.to.as_ref()).map(|(to, other)| to.max(other).clone());
        Interval { from, to }
    }

    /// The part of the interval before a key.
    pub fn up_to(&self, end: Option<&Bytes>) -> Interval {
        let to = match (&self.to, end) {
            (Some(to), Some(end)) => Some(to.min(end).clone()),
            (to, end) => to.as_ref().or(end).cloned(),
        };
        Interval { from: self.from.clone(), to }
    }

    /// The part of the interval from a key on.
    pub fn beginning_at(&self, start: Option<&Bytes>) -> Interval {
        let from = start.map_or(&self.from, |start| start.max(&self.from)).clone();
        Interval { from, to: self.to.clone() }
    }

    /// The interval as a range for the engine.
    pub fn range(&self) -> KeyRange {
        let start = if self.from.is_empty() { Bound::Unbounded } else { Bound::Included(self.from.clone()) };
        KeyRange::new(start, self.to.clone().map_or(Bound::Unbounded, Bound::Excluded))
    }

    /// Whether all keys from `low` up to `high` lie in the interval.
    pub fn includes(&self, low: &Bytes, high: Option<&Bytes>) -> bool {
        self.from <= *low
            && match (&self.to, high) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(to), Some(high)) => high <= to,
            }
    }
}

/// The first key after this one.
pub(super) fn after(key: &[u8]) -> Bytes {
    [key, &[0]].concat().into()
}

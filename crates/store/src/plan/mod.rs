//! The planner: chooses how a query finds its documents, from its filter, sort and hint.
//!
//! All operations use this one planner. A plan never changes a query's result: it finds a superset of the matches, and
//! the part of the filter that the bounds do not guarantee is evaluated for each document. If several indexes fit
//! equally well, a short trial on their first entries decides.
//!
//! Reading order: `interval` (sets of keys), `bounds` and `mango` (from conditions to sets of keys), `imply` (partial
//! indexes), `cover` and `residue` (what an index scan need not read or evaluate), `choose` (the choice), `limits`
//! (`min` and `max`), `explain` and `summary` (output).

mod bounds;
mod choose;
mod cover;
mod explain;
mod imply;
mod interval;
mod limits;
mod mango;
mod residue;
mod summary;

pub use choose::{Hint, Planner};
pub use explain::{Shape, explain_plan};
use interval::{Interval, Intervals};
pub use limits::IndexLimits;
pub(crate) use summary::BY_ID;

use crate::index::Index;
use diwan_kv::{Direction, KeyRange};
use diwan_query::filter::Filter;
use diwan_value::Path;
use interval::Cut;
use std::sync::Arc;

/// How documents are found.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// No document can match: the filter contradicts itself.
    Nothing,
    /// By lookups of ids.
    Ids(Vec<Vec<u8>>),
    /// By a scan of the documents in the order of their ids, within bounds on the id.
    Collection {
        /// The direction of the scan.
        direction: Direction,
        /// The bounds; all ids if the filter has no condition on them.
        ids: Intervals,
    },
    /// By a scan of a capped collection in the order of insertion.
    Natural {
        /// The direction of the scan.
        direction: Direction,
    },
    /// By the entries of an index.
    Index(IndexScan),
    /// By several accesses, one for each branch of an `$or`.
    Union(Vec<Access>),
}

/// A scan of an index.
#[derive(Clone, Debug)]
pub(crate) struct IndexScan {
    /// The index.
    pub index: Arc<Index>,
    /// The direction of the scan.
    pub direction: Direction,
    /// The bounds: for each field a set of keys, in the index's bytes (complemented if the field descends).
    pub bounds: Vec<Intervals>,
    /// In a wildcard index, the path whose entries are scanned.
    pub wildcard_path: Option<String>,
    /// The filter that remains for documents whose entries are within the bounds.
    pub rest: Arc<Filter>,
    /// Set if the index covers the query, so that documents are not fetched: a bit for each field that the query reads.
    /// If an entry has null for such a field, the field may be missing, and the document is fetched after all.
    pub covered: Option<u64>,
    /// The part of the index between `min` and `max`. If set, the bounds are not used.
    pub limits: Option<KeyLimits>,
}

/// A part of an index: from one whole key (included) to another (excluded).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyLimits {
    /// The bytes of the first key.
    pub start: Vec<u8>,
    /// The bytes of the key after the last.
    pub end: Vec<u8>,
}

/// The most ranges that the points of leading fields are expanded into.
const MAX_RANGES: usize = 2000;

impl IndexScan {
    /// The ranges of raw keys to scan, in the scan's order, and how many leading fields they bound exactly. `prefix` is
    /// the index's.
    pub fn ranges(&self, prefix: &[u8]) -> (Vec<KeyRange>, usize) {
        if let Some(limits) = &self.limits {
            return (vec![limits.range(prefix)], 0);
        }
        let fields = self.point_fields();
        let mut prefixes = vec![prefix.to_vec()];
        for set in &self.bounds[..fields] {
            prefixes = prefixes
                .iter()
                .flat_map(|prefix| {
                    set.as_slice().iter().map(|one| [prefix, one.point().unwrap_or_default()].concat())
                })
                .collect();
        }
        let mut ranges: Vec<KeyRange> = match self.bounds.get(fields) {
            None => prefixes.iter().map(|prefix| KeyRange::prefix(prefix)).collect(),
            Some(set) => prefixes
                .iter()
                .flat_map(|prefix| set.as_slice().iter().map(|one| one.range(prefix)))
                .collect(),
        };
        if self.direction == Direction::Reverse {
            ranges.reverse();
        }
        (ranges, self.ranged_fields())
    }

    /// How many leading fields are bound to points, as long as their combinations are few enough for a range each.
    fn point_fields(&self) -> usize {
        let mut ranges = 1;
        let makes_few = |set: &&Intervals| {
            ranges *= set.as_slice().len();
            set.is_points() && ranges <= MAX_RANGES
        };
        self.bounds.iter().take_while(makes_few).count()
    }

    /// How many leading fields the ranges of raw keys bound exactly, if no limits are set.
    pub fn ranged_fields(&self) -> usize {
        (self.point_fields() + 1).min(self.bounds.len())
    }

    /// The paths of the bounded fields among the leading `fields`.
    pub fn bounded_paths(&self, fields: usize) -> impl Iterator<Item = &Path> {
        let fields = self.index.spec.fields.iter().zip(&self.bounds).take(fields);
        fields.filter(|(_, set)| !set.is_all()).map(|(field, _)| &field.path)
    }

    /// Whether the fields of an entry's key from `first` on are within their bounds.
    pub fn admits(&self, key: &[u8], first: usize) -> bool {
        if self.bounds[first..].iter().all(Intervals::is_all) {
            return true;
        }
        let mut rest = key;
        for (at, set) in self.bounds.iter().enumerate() {
            let direction = self.field_direction(at);
            let Some(length) = diwan_value::key::skip(rest, direction) else { return false };
            if at >= first && !set.contains(&rest[..length]) {
                return false;
            }
            rest = &rest[length..];
        }
        true
    }

    /// The names of a key's fields, as `explain` and `returnKey` show them.
    pub fn field_names(&self) -> impl Iterator<Item = &str> {
        let fields = match &self.wildcard_path {
            Some(_) => [].iter(),
            None => self.index.spec.fields.iter(),
        };
        let wildcard = self.wildcard_path.as_deref().map(|path| ["$_path", path]);
        wildcard.into_iter().flatten().chain(fields.map(|field| field.path.as_str()))
    }

    /// The order of a field's keys in the index.
    pub fn field_direction(&self, at: usize) -> diwan_value::key::Direction {
        match self.index.spec.fields.get(at) {
            Some(field) if self.wildcard_path.is_none() => field.direction(),
            _ => diwan_value::key::Direction::Ascending,
        }
    }
}

/// How many embedded documents contain both of two fields.
pub(crate) fn shared_objects(one: &Path, other: &Path) -> usize {
    let around = |path: &Path| path.depth() - 1;
    one.names()
        .take(around(one))
        .zip(other.names().take(around(other)))
        .take_while(|(one, other)| one == other)
        .count()
}

impl KeyLimits {
    /// The limits as bounds on the one field of an index.
    fn interval(&self) -> Intervals {
        Intervals::between(Cut::Before(self.start.clone()), Cut::Before(self.end.clone()))
    }

    /// The range of raw keys behind an index's prefix.
    fn range(&self, prefix: &[u8]) -> KeyRange {
        let (start, end) = (Cut::Before(self.start.clone()), Cut::Before(self.end.clone()));
        Interval { start, end }.range(prefix)
    }
}

/// A plan: how documents are found, which of them match, and whether they come in order.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How documents are found.
    pub(crate) access: Access,
    /// The whole filter.
    pub filter: Arc<Filter>,
    /// Whether documents are found in the requested order.
    pub sorted: bool,
    /// The rejected plans, for `explain`.
    pub(crate) rejected: Vec<Access>,
}

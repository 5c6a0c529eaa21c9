//! The planner: from a filter, a sort and a hint to the way in which documents are found.
//!
//! There is one for everything that looks documents up. It never changes what is found: a plan names a superset of the
//! matches, and each is asked what of the filter the bounds do not settle. Where several indexes fit, a short trial on their first entries decides.

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
pub use interval::{Interval, Intervals};
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
pub enum Access {
    /// There is nothing to find: the filter contradicts itself.
    Nothing,
    /// By ids.
    Ids(Vec<Vec<u8>>),
    /// By a scan of the documents in the order of their ids, within bounds on the id.
    Collection {
        /// Which way.
        direction: Direction,
        /// The bounds; everything if the filter says nothing of ids.
        ids: Intervals,
    },
    /// By a scan of a capped collection in the order of insertion.
    Natural {
        /// Which way.
        direction: Direction,
    },
    /// By the entries of an index.
    Index(IndexScan),
    /// By several ways, one for each branch of an `$or`.
    Union(Vec<Access>),
}

/// A scan of an index.
#[derive(Clone, Debug)]
pub struct IndexScan {
    /// The index.
    pub index: Arc<Index>,
    /// Which way.
    pub direction: Direction,
    /// The keys of interest, a set for each field, in the bytes of the index (complemented where it descends).
    pub bounds: Vec<Intervals>,
    /// The path of a wildcard index's entries.
    pub wildcard_path: Option<String>,
    /// What documents must satisfy whose entries are within the bounds.
    pub rest: Arc<Filter>,
    /// If the entries tell all that the query asks, so that documents are not fetched: the fields that it looks at, a bit
    /// each. Where an entry has null for one, it may be missing, and the document is fetched after all.
    pub covered: Option<u64>,
    /// The part of the index that `min` and `max` leave; then nothing else bounds the scan.
    pub limits: Option<KeyLimits>,
}

/// A part of an index: whole keys from one on, up to another that is not in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyLimits {
    /// The bytes of the first key.
    pub start: Vec<u8>,
    /// The bytes of the key that ends it.
    pub end: Vec<u8>,
}

/// At most so many ranges are made of the points of leading fields.
const MAX_RANGES: usize = 2000;

impl IndexScan {
    /// The ranges of raw keys to be scanned, after the index's prefix, in the scan's order; and how many leading fields
    /// they bound exactly.
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

    /// How many leading fields are bound to points, of which there are not too many for a range each.
    fn point_fields(&self) -> usize {
        let mut ranges = 1;
        let makes_few = |set: &&Intervals| {
            ranges *= set.as_slice().len();
            set.is_points() && ranges <= MAX_RANGES
        };
        self.bounds.iter().take_while(makes_few).count()
    }

    /// How many leading fields the ranges of raw keys bound exactly, where no limits do.
    pub fn ranged_fields(&self) -> usize {
        (self.point_fields() + 1).min(self.bounds.len())
    }

    /// The paths of those of the leading `fields` that are bounded.
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

/// How many objects lie around both of two fields.
pub fn shared_objects(one: &Path, other: &Path) -> usize {
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
    pub access: Access,
    /// What each must satisfy.
    pub filter: Arc<Filter>,
    /// Whether they come in the order that was asked for.
    pub sorted: bool,
    /// The other plans that were looked at, for `explain`.
    pub rejected: Vec<Access>,
}

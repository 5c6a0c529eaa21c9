//! Scans: find documents by a plan's access, and match them.
//!
//! The state of a scan is its position: the current leg and the last key read. The engine's iterator is released
//! between two batches of a cursor and reopened after the position. If few documents match, the scan reads
//! [ahead](super::ahead).

use super::ahead::Ahead;
use super::as_query_error;
use super::entry::{entry_document, from_entry};
use super::seen::Seen;
use crate::collection::{Collection, ReadView, StoredDocument, id_key};
use crate::error::{Error, Result};
use crate::keys::{self, read_number};
use crate::plan::{Access, IndexScan, Plan};
use diwan_kv::{Bytes, Direction, KeyRange, Pairs, Space};
use diwan_query::filter::Filter;
use diwan_query::pipeline::DocSource;
use diwan_query::{Examined, Interrupt, code};
use diwan_value::{Doc, DocBuf, Value, doc};
use std::ops::Bound;
use std::sync::Arc;

/// The statistics of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanStats {
    /// The number of index entries.
    pub keys_examined: u64,
    /// The number of documents.
    pub docs_examined: u64,
    /// The number of documents that matched.
    pub returned: u64,
}

impl ScanStats {
    fn examined(&self) -> Examined {
        Examined { keys: self.keys_examined, documents: self.docs_examined }
    }
}

/// One part of a plan's access: the access itself, or a branch of a union.
enum Leg {
    Ids { ids: Vec<Vec<u8>>, next: usize },
    Records(Ranges),
    Natural { after: Option<u64>, direction: Direction },
    Index { scan: Box<IndexScan>, ranges: Ranges, bounded: usize },
}

/// Ranges of raw keys that are read one after another, with the position in them.
struct Ranges {
    ranges: Vec<KeyRange>,
    at: usize,
    after: Option<Bytes>,
    direction: Direction,
}

impl Ranges {
    fn new(ranges: Vec<KeyRange>, direction: Direction) -> Ranges {
        Ranges { ranges, at: 0, after: None, direction }
    }

    /// The rest of the current range.
    fn rest(&self) -> Option<KeyRange> {
        let mut range = self.ranges.get(self.at)?.clone();
        if let Some(after) = &self.after {
            match self.direction {
                Direction::Forward => range.start = Bound::Excluded(after.clone()),
                Direction::Reverse => range.end = Bound::Excluded(after.clone()),
            }
        }
        Some(range)
    }

    /// Moves to the position after a key, in whichever range it lies.
    fn go_on_after(&mut self, key: Bytes) {
        let is_behind = |range: &KeyRange| match self.direction {
            Direction::Forward => match &range.end {
                Bound::Unbounded => false,
                Bound::Included(end) => *end <= key,
                Bound::Excluded(end) => *end <= key,
            },
            Direction::Reverse => match &range.start {
                Bound::Unbounded => false,
                Bound::Included(start) | Bound::Excluded(start) => *start >= key,
            },
        };
        self.at = self.ranges.iter().take_while(|range| is_behind(range)).count();
        self.after = self.ranges.get(self.at).filter(|range| range.contains(&key)).map(|_| key);
    }

    fn next_range(&mut self) {
        self.at += 1;
        self.after = None;
    }
}

/// The state that a suspension releases.
struct Open {
    view: ReadView,
    pairs: Option<Pairs>,
    ahead: Option<Ahead>,
    /// The statistics when this was opened.
    before: ScanStats,
}

impl Open {
    fn new(view: ReadView, before: ScanStats) -> Open {
        Open { view, pairs: None, ahead: None, before }
    }

    /// Whether so few of the documents read since then match that reading ahead pays.
    fn meets_few_matches(&self, stats: ScanStats) -> bool {
        let examined = stats.docs_examined - self.before.docs_examined;
        examined >= FEW_FROM && (stats.returned - self.before.returned) * FEW < examined
    }
}

/// The current document of a scan.
pub(super) enum Current {
    None,
    Stored(StoredDocument),
    /// Rebuilt from an entry of a covering index.
    Built(DocBuf),
}

/// A running scan.
pub struct Scan {
    collection: Arc<Collection>,
    /// What is asked of each document that is found.
    filter: Arc<Filter>,
    legs: Vec<Leg>,
    leg: usize,
    open: Option<Open>,
    /// Ids already found, where a document may be found twice.
    seen: Option<Seen>,
    /// Whether those ids may go to the disk.
    may_spill: bool,
    current: Current,
    /// The buffer in which the next document is rebuilt.
    spare: Vec<u8>,
    stats: ScanStats,
    ticks: u32,
    tailable: bool,
    /// The names of the plan's accesses, until they are added to the operation's tally.
    summaries: Vec<Arc<str>>,
    keys: Keys,
    /// The index key by which the document was found, if it was requested.
    key: DocBuf,
}

/// The keys that a scan keeps for [`Scan::key`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keys {
    /// None.
    #[default]
    None,
    /// The keys of secondary indexes.
    Secondary,
    /// Those, and the `_id` if documents are found by it.
    All,
}

/// After `FEW_FROM` documents a scan decides whether it has few matches: fewer than one in `FEW` documents.
const FEW_FROM: u64 = 64;
const FEW: u64 = 4;
/// After how many steps the interrupt is checked.
const TICKS: u32 = 256;

impl Scan {
    /// A scan by `plan` that begins on `view`.
    pub fn new(view: ReadView, plan: &Plan) -> Scan {
        let collection = view.collection().clone();
        let mut legs = Vec::new();
        add_legs(&mut legs, &plan.access, &collection);
        let several = matches!(plan.access, Access::Union(_))
            || legs.iter().any(|leg| matches!(leg, Leg::Index { scan, .. } if scan.index.is_multikey()));
        let filter = match &plan.access {
            Access::Index(scan) => scan.rest.clone(),
            _ => plan.filter.clone(),
        };
        Scan {
            collection,
            filter,
            legs,
            leg: 0,
            open: Some(Open::new(view, ScanStats::default())),
            seen: several.then(Seen::default),
            may_spill: true,
            current: Current::None,
            spare: Vec::new(),
            stats: ScanStats::default(),
            ticks: 0,
            tailable: false,
            summaries: plan.access.summaries(),
            keys: Keys::None,
            key: DocBuf::new(),
        }
    }

    /// The statistics so far.
    pub fn stats(&self) -> ScanStats {
        self.stats
    }

    /// The current document as it is stored; `None` before the first one, and if an index covers the query.
    pub fn stored(&self) -> Option<&StoredDocument> {
        match &self.current {
            Current::Stored(stored) => Some(stored),
            _ => None,
        }
    }

    /// The position, for [`Scan::go_on_after`]; `None` if resuming there could find a document twice.
    pub fn position(&self) -> Option<Vec<u8>> {
        let ([leg], None) = (self.legs.as_slice(), &self.seen) else { return None };
        match leg {
            Leg::Ids { ids, next } => ids.get(next.checked_sub(1)?).cloned(),
            Leg::Records(ranges) | Leg::Index { ranges, .. } => {
                Some(ranges.after.as_ref()?.get(self.prefix(leg).len()..)?.to_vec())
            }
            Leg::Natural { .. } => None,
        }
    }

    /// Resumes after the position of another scan by the same plan.
    pub fn go_on_after(&mut self, position: &[u8]) {
        let Some(prefix) = self.legs.first().map(|leg| self.prefix(leg)) else { return };
        match self.legs.first_mut() {
            Some(Leg::Ids { ids, next }) => {
                *next = ids.iter().position(|id| id == position).map_or(0, |at| at + 1);
            }
            Some(Leg::Records(ranges) | Leg::Index { ranges, .. }) => {
                ranges.go_on_after([prefix.as_slice(), position].concat().into());
            }
            Some(Leg::Natural { .. }) | None => {}
        }
    }

    /// The first bytes of all keys of a leg.
    fn prefix(&self, leg: &Leg) -> Vec<u8> {
        match leg {
            Leg::Index { scan, .. } => keys::index_prefix(scan.index.id),
            _ => keys::collection_prefix(self.collection.id),
        }
    }

    /// Keeps the buffer of a document that is no longer needed.
    fn reuse(&mut self, done: Current) {
        if let Current::Built(doc) = done {
            self.spare = doc.into_bytes();
            self.spare.clear();
        }
    }

    /// Advances to the next match, and adds what it examined to the operation's tally.
    pub fn step(&mut self, interrupt: &Interrupt) -> Result<bool> {
        let before = self.stats;
        let found = self.find_next(interrupt);
        let tally = interrupt.tally();
        std::mem::take(&mut self.summaries).iter().for_each(|plan| tally.note_plan(plan));
        tally.add(self.stats.examined().since(before.examined()));
        found
    }

    fn find_next(&mut self, interrupt: &Interrupt) -> Result<bool> {
        let before = std::mem::replace(&mut self.current, Current::None);
        self.reuse(before);
        loop {
            self.ticks += 1;
            if self.ticks.is_multiple_of(TICKS) {
                interrupt.check()?;
            }
            if let Some(found) = self.next_ahead(interrupt)? {
                self.stats.returned += 1;
                self.current = Current::Stored(found);
                return Ok(true);
            }
            match self.next_candidate()? {
                None => {
                    self.current = Current::None;
                    return Ok(false);
                }
                Some(candidate) => {
                    let doc = match &candidate {
                        Current::None => continue,
                        Current::Stored(stored) => stored.doc(),
                        Current::Built(doc) => doc.as_doc(),
                    };
                    if self.filter.matches(doc)? {
                        self.stats.returned += 1;
                        self.current = candidate;
                        return Ok(true);
                    }
                    self.reuse(candidate);
                }
            }
        }
    }

    /// Whether the scan of a capped collection goes on at its end with what is inserted later.
    pub fn set_tailable(&mut self, tailable: bool) {
        self.tailable = tailable;
    }

    /// Forbids the scan to use temporary files when its memory is used up.
    pub fn forbid_disk_use(&mut self) {
        self.may_spill = false;
        if let Some(seen) = &mut self.seen {
            seen.forbid_spilling();
        }
    }

    /// Sets the keys that are kept for [`Scan::key`].
    pub fn remember_keys(&mut self, keys: Keys) {
        self.keys = keys;
    }

    /// The index key by which the current document was found, under the index's field names; empty if it was found
    /// without.
    pub fn key(&self) -> Doc<'_> {
        self.key.as_doc()
    }

    fn open(&mut self) -> Result<&mut Open> {
        if self.open.is_none() {
            let view = self.collection.view();
            if view.schema.dropped {
                return Err(self.collection.dropped_error());
            }
            if let Some(Leg::Index { scan, .. }) = self.legs.get(self.leg)
                && !view.schema.indexes.iter().any(|index| index.id == scan.index.id)
            {
                return Err(Error::refused(
                    code::QUERY_PLAN_KILLED,
                    format!("query plan killed :: caused by :: index '{}' dropped", scan.index.spec.name),
                ));
            }
            self.mind_arrays();
            self.open = Some(Open::new(view, self.stats));
        }
        self.open.as_mut().ok_or_else(|| Error::refused(code::INTERNAL_ERROR, "a scan without a view"))
    }

    /// Adapts the scan to indexes that have become multikey since it was planned: their entries do not cover documents,
    /// and a document may have several.
    fn mind_arrays(&mut self) {
        for leg in &mut self.legs {
            if let Leg::Index { scan, .. } = leg
                && scan.index.is_multikey()
            {
                scan.covered = None;
                let seen = self.seen.get_or_insert_default();
                if !self.may_spill {
                    seen.forbid_spilling();
                }
            }
        }
    }

    /// The next match of a scan that reads ahead; `None` if it does not, or at the end of the range.
    fn next_ahead(&mut self, interrupt: &Interrupt) -> Result<Option<StoredDocument>> {
        let (Some(open), [Leg::Records(ranges)]) = (&mut self.open, self.legs.as_mut_slice()) else {
            return Ok(None);
        };
        let ahead = match &mut open.ahead {
            Some(ahead) => ahead,
            None => {
                let goes_on = ranges.direction == Direction::Forward && self.keys != Keys::All;
                if !goes_on || !open.meets_few_matches(self.stats) {
                    return Ok(None);
                }
                let Some(rest) = ranges.rest() else { return Ok(None) };
                open.pairs = None;
                open.ahead.insert(Ahead::new(rest))
            }
        };
        let found = ahead.next(&open.view, &self.filter, &mut self.stats, interrupt)?;
        match found {
            Some(found) => {
                ranges.after = Some(found.key);
                Ok(Some(found.document))
            }
            None => {
                open.ahead = None;
                ranges.next_range();
                Ok(None)
            }
        }
    }

    /// The next document that may match; `Current::None` for one to skip.
    fn next_candidate(&mut self) -> Result<Option<Current>> {
        loop {
            if self.leg >= self.legs.len() {
                return Ok(None);
            }
            self.open()?;
            let (Some(open), leg) = (self.open.as_mut(), &mut self.legs[self.leg]) else {
                return Ok(None);
            };
            let found = match leg {
                Leg::Ids { ids, next } => match ids.get(*next) {
                    None => None,
                    Some(id) => {
                        *next += 1;
                        self.stats.keys_examined += 1;
                        Some(open.view.get(id)?.map_or(Current::None, Current::Stored))
                    }
                },
                Leg::Records(ranges) => next_pair(open, ranges, Space::Records)?
                    .map(|(_, value)| StoredDocument::new(value).map(Current::Stored))
                    .transpose()?,
                Leg::Natural { after, direction } => {
                    if self.tailable && open.pairs.is_none() {
                        check_position(open, &self.collection, *after)?;
                    }
                    next_natural(open, &self.collection, after, *direction)?
                }
                Leg::Index { scan, ranges, bounded } => {
                    let entry = next_pair(open, ranges, Space::Indexes)?;
                    match entry {
                        None => None,
                        Some((key, value)) => {
                            self.stats.keys_examined += 1;
                            if self.keys != Keys::None {
                                self.key = entry_document(scan, &key, &value)?;
                            }
                            Some(from_entry(
                                &open.view,
                                scan,
                                *bounded,
                                &key,
                                &value,
                                std::mem::take(&mut self.spare),
                            )?)
                        }
                    }
                }
            };
            let Some(found) = found else {
                if self.tailable && matches!(leg, Leg::Natural { .. }) {
                    self.open = None;
                    return Ok(None);
                }
                open.pairs = None;
                self.leg += 1;
                continue;
            };
            if let Current::Stored(stored) = &found {
                self.stats.docs_examined += 1;
                if self.keys == Keys::All && !matches!(leg, Leg::Index { .. }) {
                    let id = stored.doc().get("_id").unwrap_or(Value::Null);
                    self.key = doc! { "_id": id };
                }
                if let Some(seen) = &mut self.seen
                    && !seen
                        .insert(&self.collection, id_key(stored.doc().get("_id").unwrap_or(Value::Null))?)?
                {
                    return Ok(Some(Current::None));
                }
            }
            return Ok(Some(found));
        }
    }
}

impl DocSource for Scan {
    fn advance(&mut self, interrupt: &Interrupt) -> diwan_query::Result<bool> {
        self.step(interrupt).map_err(as_query_error)
    }

    fn current(&self) -> Doc<'_> {
        match &self.current {
            Current::None => Doc::EMPTY,
            Current::Stored(stored) => stored.doc(),
            Current::Built(doc) => doc.as_doc(),
        }
    }

    fn suspend(&mut self) {
        self.open = None;
    }
}

fn add_legs(legs: &mut Vec<Leg>, access: &Access, collection: &Collection) {
    match access {
        Access::Nothing => {}
        Access::Ids(ids) => legs.push(Leg::Ids { ids: ids.clone(), next: 0 }),
        Access::Natural { direction } => legs.push(Leg::Natural { after: None, direction: *direction }),
        Access::Collection { direction, ids } => {
            let prefix = keys::collection_prefix(collection.id);
            let mut ranges: Vec<KeyRange> = ids.as_slice().iter().map(|one| one.range(&prefix)).collect();
            if *direction == Direction::Reverse {
                ranges.reverse();
            }
            legs.push(Leg::Records(Ranges::new(ranges, *direction)));
        }
        Access::Index(scan) => {
            scan.index.note_access();
            let (ranges, bounded) = scan.ranges(&keys::index_prefix(scan.index.id));
            let ranges = Ranges::new(ranges, scan.direction);
            legs.push(Leg::Index { scan: Box::new(scan.clone()), ranges, bounded });
        }
        Access::Union(branches) => branches.iter().for_each(|branch| add_legs(legs, branch, collection)),
    }
}

/// The next raw pair of the ranges.
fn next_pair(open: &mut Open, ranges: &mut Ranges, space: Space) -> Result<Option<(Bytes, Bytes)>> {
    loop {
        let pairs = match &mut open.pairs {
            Some(pairs) => pairs,
            None => {
                let Some(rest) = ranges.rest() else { return Ok(None) };
                open.pairs.insert(open.view.snapshot().scan(space, rest, ranges.direction))
            }
        };
        match pairs.next() {
            Some(pair) => {
                let (key, value) = pair?;
                ranges.after = Some(key.clone());
                return Ok(Some((key, value)));
            }
            None => {
                open.pairs = None;
                ranges.next_range();
            }
        }
    }
}

/// The next document of a capped collection.
fn next_natural(
    open: &mut Open,
    collection: &Collection,
    after: &mut Option<u64>,
    direction: Direction,
) -> Result<Option<Current>> {
    let prefix = keys::natural_prefix(collection.id);
    let pairs = match &mut open.pairs {
        Some(pairs) => pairs,
        None => {
            let mut ranges = Ranges::new(vec![KeyRange::prefix(&prefix)], direction);
            ranges.after = after.map(|position| {
                let mut key = prefix.clone();
                keys::write_number(&mut key, position);
                Bytes::from(key)
            });
            let rest = ranges.rest().unwrap_or_else(KeyRange::all);
            open.pairs.insert(open.view.snapshot().scan(Space::Indexes, rest, direction))
        }
    };
    let Some(pair) = pairs.next() else { return Ok(None) };
    let (key, id) = pair?;
    let (position, _) = key
        .get(prefix.len()..)
        .and_then(read_number)
        .ok_or_else(|| Error::Damaged(keys::describe(Space::Indexes, &key)))?;
    *after = Some(position);
    Ok(Some(open.view.get(&id)?.map_or(Current::None, Current::Stored)))
}

/// Fails if the capped collection has deleted the document at the position, since documents after it may also be
/// deleted.
fn check_position(open: &Open, collection: &Collection, after: Option<u64>) -> Result<()> {
    let Some(position) = after else { return Ok(()) };
    let mut key = keys::natural_prefix(collection.id);
    keys::write_number(&mut key, position);
    if open.view.snapshot().get(Space::Indexes, &key)?.is_none() {
        return Err(Error::refused(
            code::CAPPED_POSITION_LOST,
            format!(
                "CollectionScan died due to position in capped collection being deleted. Last seen record id: \
                 RecordId({position})"
            ),
        ));
    }
    Ok(())
}

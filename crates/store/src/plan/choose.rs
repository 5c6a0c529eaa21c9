//! Choosing a plan.

use super::bounds::{BoundsOf, Condition, conditions_at, names_elements, of_type};
use super::imply::{compares_text, implies};
use super::interval::Intervals;
use super::{Access, IndexScan, Plan};
use crate::collection::ReadView;
use crate::error::{Error, Result};
use crate::index::{FieldOrder, Index, IndexKind, same_pattern};
use diwan_kv::Direction;
use diwan_query::code;
use diwan_query::filter::{Comparison, ElemMatch, Filter, Predicate, Relation};
use diwan_query::sort::Sort;
use diwan_value::{Collator, Path, Type, Value, hash_value, key};
use std::sync::Arc;

/// The access that a caller insists on.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Hint {
    /// No hint.
    #[default]
    None,
    /// An index, by its name.
    Name(String),
    /// An index, by its key pattern.
    Key(diwan_value::DocBuf),
    /// A scan of the collection.
    Natural(Direction),
}

impl Hint {
    /// Reads the `hint` argument of a command.
    pub fn parse(value: Option<Value<'_>>) -> Result<Hint> {
        match value {
            None => Ok(Hint::None),
            Some(Value::String(name)) => Ok(Hint::Name(name.to_owned())),
            Some(Value::Document(doc)) if doc.is_empty() => Ok(Hint::None),
            Some(Value::Document(doc)) => match doc.get("$natural") {
                None => Ok(Hint::Key(doc.to_owned())),
                Some(value) => match value.as_i64_exact() {
                    Some(1) => Ok(Hint::Natural(Direction::Forward)),
                    Some(-1) => Ok(Hint::Natural(Direction::Reverse)),
                    _ => Err(Error::refused(code::BAD_VALUE, "$natural hint must be 1 or -1")),
                },
            },
            Some(_) => Err(Error::refused(code::FAILED_TO_PARSE, "Hint must be a string or an object")),
        }
    }
}

/// A query to be planned.
pub struct Planner<'a> {
    /// The collection as of the moment of planning.
    pub view: &'a ReadView,
    /// The filter.
    pub filter: Arc<Filter>,
    /// The requested order.
    pub sort: Option<&'a Sort>,
    /// The collation by which the query compares strings.
    pub collator: Option<Arc<Collator>>,
    /// The access that the caller insists on.
    pub hint: Hint,
    /// Whether the documents must be found in the order of their insertion, which only a scan of a capped collection
    /// gives.
    pub tailable: bool,
    /// The only paths that the caller reads, if it knows them. A scan of an index that holds them need not fetch
    /// documents.
    pub needed: Option<Vec<Path>>,
}

/// How many entries a trial reads of each candidate.
const TRIAL_ENTRIES: usize = 101;

/// How many skipped entries cost as much as one entry whose document is fetched.
const PASSED_OVER: usize = 8;

/// A candidate plan.
struct Candidate {
    access: Access,
    sorted: bool,
    /// How many leading fields are bound to points.
    points: usize,
    /// Whether the first field is bounded.
    bounded: bool,
    /// Whether the index lacks documents, so that a full scan of it reads less than a scan of the collection.
    narrow: bool,
}

impl Planner<'_> {
    /// Chooses the plan.
    pub fn plan(&self) -> Result<Plan> {
        if matches!(*self.filter, Filter::AlwaysFalse) {
            return Ok(self.finish(Access::Nothing, true, Vec::new()));
        }
        if self.tailable {
            let access = Access::Natural { direction: Direction::Forward };
            return Ok(self.finish(access, true, Vec::new()));
        }
        if let Some(candidate) = self.hinted()? {
            return Ok(self.finish(candidate.access, candidate.sorted, Vec::new()));
        }
        // Lookups of ids are the cheapest access. They may still need a sort.
        if self.sort.and_then(Sort::natural).is_none()
            && let Some(found) = self.by_ids()
        {
            let sorted = match &found {
                Access::Ids(ids) => ids.len() <= 1 || self.id_order() == Some(Direction::Forward),
                _ => true,
            };
            if sorted || self.sort.is_none() {
                return Ok(self.finish(found, true, Vec::new()));
            }
        }
        let mut candidates: Vec<Candidate> = Vec::new();
        for index in self.usable_indexes() {
            candidates.extend(self.candidate(index, false));
        }
        let scan = self.collection_scan();
        if scan.bounded {
            candidates.push(scan);
        }
        // If no single index bounds the query, each branch of an `$or` may have one that does.
        if !candidates.iter().any(|candidate| candidate.bounded)
            && let Some(union) = self.union()?
        {
            return Ok(self.finish(union, self.sort.is_none(), Vec::new()));
        }
        let scan = self.collection_scan();
        if candidates.is_empty() {
            return Ok(self.finish(scan.access, scan.sorted, Vec::new()));
        }
        // A full scan of an index costs more than a scan of the collection, unless it covers the query or lacks
        // documents.
        if !candidates.iter().any(|candidate| candidate.bounded) && scan.sorted {
            let is_less = |candidate: &Candidate| candidate.narrow && self.sort.is_none();
            candidates.retain(|candidate| covers(&candidate.access) || is_less(candidate));
            candidates.push(scan);
        }
        self.best(candidates)
    }

    pub(super) fn finish(&self, access: Access, sorted: bool, rejected: Vec<Access>) -> Plan {
        Plan { access, filter: self.filter.clone(), sorted: sorted || self.sort.is_none(), rejected }
    }

    /// The indexes that the query may use: they are ready, not hidden, and hold every document that can match.
    fn usable_indexes(&self) -> impl Iterator<Item = &Arc<Index>> {
        self.view.schema.secondary().iter().filter(|index| {
            index.is_ready()
                && !index.spec.hidden
                && index.spec.partial_filter.as_ref().is_none_or(|partial| {
                    let alike = same_collation(index.spec.collator.as_ref(), self.collator.as_ref());
                    (alike || !compares_text(partial)) && implies(&self.filter, partial)
                })
        })
    }

    /// The candidate that the hint names.
    fn hinted(&self) -> Result<Option<Candidate>> {
        let Some(index) = self.hinted_index()? else {
            if let Hint::Natural(direction) = &self.hint {
                let mut scan = self.collection_scan();
                if let Access::Collection { direction: own, .. } | Access::Natural { direction: own } =
                    &mut scan.access
                {
                    scan.sorted &= *own == *direction;
                    *own = *direction;
                }
                return Ok(Some(scan));
            }
            return Ok(None);
        };
        if index.spec.is_id_index() {
            return Ok(Some(match self.by_ids() {
                Some(access) => {
                    let sorted = self.id_order() == Some(Direction::Forward);
                    Candidate { access, sorted, points: 1, bounded: true, narrow: false }
                }
                None => self.collection_scan(),
            }));
        }
        Ok(self.candidate(index, true))
    }

    /// The index that the hint names.
    pub(super) fn hinted_index(&self) -> Result<Option<&Arc<Index>>> {
        let index = match &self.hint {
            Hint::None | Hint::Natural(_) => return Ok(None),
            Hint::Name(name) => self.view.schema.indexes.iter().find(|index| &index.spec.name == name),
            Hint::Key(pattern) => self
                .view
                .schema
                .indexes
                .iter()
                .find(|index| same_pattern(index.spec.key.as_doc(), pattern.as_doc())),
        };
        let Some(index) = index.filter(|index| index.is_ready() && !index.spec.hidden) else {
            return Err(
                self.no_plan(code::BAD_VALUE, "hint provided does not correspond to an existing index")
            );
        };
        Ok(Some(index))
    }

    /// The error of a query that cannot be planned.
    pub(super) fn no_plan(&self, code: i32, why: &str) -> Error {
        let namespace = self.view.collection().namespace();
        Error::refused(
            code,
            format!("error processing query: ns={namespace} planner returned error :: caused by :: {why}"),
        )
    }

    /// Lookups of ids, if the filter allows only certain ids.
    fn by_ids(&self) -> Option<Access> {
        let ids = self.id_bounds()?;
        if ids.is_empty() {
            return Some(Access::Nothing);
        }
        if !ids.is_points() {
            return None;
        }
        let points = ids.as_slice().iter().filter_map(|one| one.point().map(<[u8]>::to_vec));
        Some(Access::Ids(points.collect()))
    }

    /// The bounds of the filter on ids.
    fn id_bounds(&self) -> Option<Intervals> {
        let conditions = conditions_at(&self.filter, &Path::new("_id"));
        if conditions.is_empty() {
            return None;
        }
        let bounds = BoundsOf {
            index_collator: None,
            same_collation: self.collator.is_none(),
            multikey: false,
            positional: false,
            sparse: false,
        };
        bounds.all(&conditions)
    }

    /// The direction in which a scan by id gives the sort's order; `None` if it does not. Without a sort it is forward.
    pub(super) fn id_order(&self) -> Option<Direction> {
        match self.sort {
            None => Some(Direction::Forward),
            Some(sort) => match sort.parts() {
                [first, ..] if first.path.as_str() == "_id" && self.collator.is_none() => {
                    Some(scan_direction(first.direction))
                }
                _ => None,
            },
        }
    }

    fn collection_scan(&self) -> Candidate {
        let natural = self.sort.and_then(Sort::natural);
        let insists = natural.is_some() || matches!(self.hint, Hint::Natural(_));
        if self.view.schema.options.capped.is_some() && (insists || self.id_bounds().is_none()) {
            let direction = natural.map_or(Direction::Forward, scan_direction);
            let sorted = self.sort.is_none() || natural.is_some();
            return Candidate {
                access: Access::Natural { direction },
                sorted,
                points: 0,
                bounded: false,
                narrow: false,
            };
        }
        let ids = self.id_bounds().unwrap_or_else(Intervals::all);
        let direction = natural.map(scan_direction).or_else(|| self.id_order());
        let bounded = !ids.is_all();
        Candidate {
            sorted: direction.is_some(),
            access: Access::Collection { direction: direction.unwrap_or(Direction::Forward), ids },
            points: 0,
            bounded,
            narrow: false,
        }
    }

    /// A scan of an index, if it bounds, sorts or covers the query, lacks documents, or is hinted (`asked_for`).
    fn candidate(&self, index: &Arc<Index>, asked_for: bool) -> Option<Candidate> {
        let spec = &index.spec;
        let same_collation = same_collation(spec.collator.as_ref(), self.collator.as_ref());
        if spec.kind == IndexKind::Wildcard {
            return self.wildcard(index, same_collation);
        }
        let mut bounds = Vec::with_capacity(spec.fields.len());
        // If several fields share an array, only one may be bounded, since different elements may satisfy the
        // predicates.
        let mut array_bounded = false;
        for (at, field) in spec.fields.iter().enumerate() {
            let conditions = conditions_at(&self.filter, &field.path);
            let is_multikey = index.has_arrays(at);
            let maker = BoundsOf {
                index_collator: spec.collator.as_ref(),
                same_collation,
                multikey: is_multikey,
                positional: names_elements(&field.path),
                // A document lacks an entry only if all fields are missing. So it suffices that one field must exist.
                sparse: spec.sparse && at == 0,
            };
            let set = maker.all(&conditions);
            if set.is_none() && at == 0 && !asked_for {
                return None;
            }
            let mut set = set.unwrap_or_else(Intervals::all);
            if is_multikey && !set.is_all() && std::mem::replace(&mut array_bounded, true) {
                set = Intervals::all();
            }
            bounds.push(match field.order {
                FieldOrder::Ascending => set,
                FieldOrder::Descending => set.descending(),
                FieldOrder::Hashed => self.hashed(&conditions, spec.collator.as_deref()),
            });
        }
        let points = bounds.iter().take_while(|set| !set.is_empty() && set.is_points()).count();
        let bounded = !bounds[0].is_all();
        if bounds.iter().any(Intervals::is_empty) {
            return Some(Candidate {
                access: Access::Nothing,
                sorted: true,
                points: usize::MAX,
                bounded: true,
                narrow: false,
            });
        }
        let order = self.sort_through(index, &bounds, same_collation);
        let direction = order.unwrap_or(Direction::Forward);
        let rest = self.unsettled(spec, index.is_multikey(), &bounds);
        let covered = self.covered_by(index, &rest);
        // For a sparse index, the bounds made sure that every match has the field.
        let narrow = spec.sparse || spec.partial_filter.is_some();
        if !bounded && order.is_none() && covered.is_none() && !narrow && !asked_for {
            return None;
        }
        let scan = IndexScan {
            index: index.clone(),
            direction,
            bounds,
            wildcard_path: None,
            rest,
            covered,
            limits: None,
        };
        let sorted = order.is_some() || narrow && self.sort.is_none();
        Some(Candidate { access: Access::Index(scan), sorted, points, bounded, narrow })
    }

    /// The bounds of a hashed field: points for equality, all keys for any other condition.
    fn hashed(&self, conditions: &[Condition<'_>], collator: Option<&Collator>) -> Intervals {
        let point = |value: Value<'_>| {
            let mut bytes = Vec::new();
            key::encode_order(&mut bytes, Value::Int64(hash_value(value)), key::Direction::Ascending, None);
            Intervals::point(bytes)
        };
        if collator.is_some() || self.collator.is_some() {
            return Intervals::all();
        }
        for condition in conditions {
            match condition {
                Condition::Match(Predicate::Eq(operand)) if !matches!(operand.value(), Value::Array(_)) => {
                    return point(operand.value());
                }
                Condition::Compare(Comparison { relation: Relation::Equal, value, .. })
                    if !matches!(value.as_value(), Value::Array(_) | Value::Undefined) =>
                {
                    return point(value.as_value());
                }
                Condition::Match(Predicate::In(set)) if set.patterns().is_empty() => {
                    return set
                        .values()
                        .iter()
                        .map(|operand| point(operand.value()))
                        .fold(Intervals::empty(), Intervals::union);
                }
                _ => {}
            }
        }
        Intervals::all()
    }

    /// A scan of a wildcard index's entries of one path.
    fn wildcard(&self, index: &Arc<Index>, same_collation: bool) -> Option<Candidate> {
        condition_paths(&self.filter)
            .into_iter()
            .find_map(|path| self.wildcard_at(index, path, same_collation))
    }

    fn wildcard_at(&self, index: &Arc<Index>, path: Path, same_collation: bool) -> Option<Candidate> {
        let spec = &index.spec;
        let root = spec.fields[0].path.as_str().trim_end_matches("$**").trim_end_matches('.');
        let under_root = root.is_empty() || path.starts_with(&Path::new(root));
        let numeric = (0..path.depth()).any(|at| path.index(at).is_some());
        if !under_root || numeric || !spec.wildcard_covers(path.as_str()) {
            return None;
        }
        let maker = BoundsOf {
            index_collator: spec.collator.as_ref(),
            same_collation,
            multikey: index.is_multikey(),
            positional: false,
            sparse: true,
        };
        let conditions = conditions_at(&self.filter, &path);
        if !conditions.iter().all(Condition::wants_scalars) {
            return None;
        }
        let values = maker.all(&conditions)?;
        if values.is_all() || values.is_empty() {
            return None;
        }
        let mut name = Vec::new();
        key::encode_order(&mut name, Value::String(path.as_str()), key::Direction::Ascending, None);
        let scan = IndexScan {
            index: index.clone(),
            direction: Direction::Forward,
            bounds: vec![Intervals::point(name), values],
            wildcard_path: Some(path.as_str().to_owned()),
            rest: self.filter.clone(),
            covered: None,
            limits: None,
        };
        Some(Candidate { access: Access::Index(scan), sorted: false, points: 1, bounded: true, narrow: true })
    }

    /// The direction in which a scan within the bounds gives the sort's order; `None` if it does not.
    pub(super) fn sort_through(
        &self,
        index: &Index,
        bounds: &[Intervals],
        same_collation: bool,
    ) -> Option<Direction> {
        let sort = self.sort?;
        if sort.natural().is_some() || !same_collation {
            return None;
        }
        let spec = &index.spec;
        if sort.is_couchdb() && spec.collator.is_some() {
            return None;
        }
        let mut direction = None;
        let mut at = 0;
        for part in sort.parts() {
            loop {
                let field = spec.fields.get(at)?;
                let is_point = bounds[at].as_slice().len() == 1 && bounds[at].is_points();
                if field.path == part.path {
                    // A document with several entries would be found by the first of them, which need not be its sort
                    // key.
                    if index.has_arrays(at) {
                        return None;
                    }
                    // A field that is bound to one value does not affect the order.
                    if !is_point {
                        let unlike = sort.is_couchdb() && index.has_unlike(at);
                        if field.order == FieldOrder::Hashed
                            || unlike && !is_alike(&bounds[at], field.direction())
                        {
                            return None;
                        }
                        let same = (field.order == FieldOrder::Ascending)
                            == (part.direction == key::Direction::Ascending);
                        let this = if same { Direction::Forward } else { Direction::Reverse };
                        if *direction.get_or_insert(this) != this {
                            return None;
                        }
                    }
                    at += 1;
                    break;
                }
                if !is_point || index.has_arrays(at) {
                    return None;
                }
                at += 1;
            }
        }
        // Several points in fields before the sorted ones would give several sorted runs.
        let runs = bounds.iter().take(at).filter(|set| set.as_slice().len() > 1 && set.is_points()).count();
        (runs == 0).then_some(direction.unwrap_or(Direction::Forward))
    }

    /// A union of one access for each branch of an `$or`, if none of them scans the collection.
    fn union(&self) -> Result<Option<Access>> {
        let branches = match self.filter.as_ref() {
            Filter::Or(branches) => branches,
            Filter::And(all) => match all.children().iter().find_map(|child| match child {
                Filter::Or(branches) => Some(branches),
                _ => None,
            }) {
                Some(branches) => branches,
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        let mut found = Vec::with_capacity(branches.len());
        for branch in branches {
            let planner = Planner {
                view: self.view,
                filter: Arc::new(branch.clone()),
                sort: None,
                collator: self.collator.clone(),
                hint: Hint::None,
                tailable: false,
                needed: None,
            };
            match planner.plan()?.access {
                Access::Collection { ids, .. } if ids.is_all() => return Ok(None),
                Access::Natural { .. } => return Ok(None),
                Access::Nothing => {}
                Access::Union(inner) => found.extend(inner),
                access => found.push(access),
            }
        }
        Ok(Some(Access::Union(found)))
    }

    /// The best candidate: by rank, or by a trial if the ranks do not settle which reads less.
    fn best(&self, mut candidates: Vec<Candidate>) -> Result<Plan> {
        let rank = |candidate: &Candidate| {
            (
                candidate.bounded,
                candidate.points,
                candidate.sorted,
                candidate.narrow,
                covers(&candidate.access),
                matches!(candidate.access, Access::Index(_)),
            )
        };
        candidates.sort_by_key(|candidate| std::cmp::Reverse(rank(candidate)));
        let others = candidates.iter().skip(1).filter(|candidate| candidate.bounded);
        if !others.clone().all(|other| self.settles(&candidates[0], other)) {
            let mut best = (usize::MAX, 0);
            for (at, candidate) in candidates.iter().enumerate().filter(|(_, candidate)| candidate.bounded) {
                // A plan that needs a sort must find all documents first.
                let penalty = if candidate.sorted || self.sort.is_none() { 0 } else { 1 };
                let cost = self.trial(&candidate.access, TRIAL_ENTRIES.min(best.0))? + penalty;
                best = best.min((cost, at));
            }
            candidates.swap(0, best.1);
        }
        let mut candidates = candidates.into_iter();
        let Some(first) = candidates.next() else {
            return Ok(self.finish(Access::Nothing, true, Vec::new()));
        };
        let rejected = candidates.filter(|candidate| candidate.bounded).map(|candidate| candidate.access);
        Ok(self.finish(first.access, first.sorted, rejected.collect()))
    }

    /// Whether one candidate never reads more than the other, because it bounds every field that the other bounds.
    fn settles(&self, one: &Candidate, other: &Candidate) -> bool {
        let Access::Index(scan) = &one.access else { return false };
        // Without arrays, and under the query's collation, bounds are as narrow as the filter.
        let exact = scan.wildcard_path.is_none()
            && !scan.index.is_multikey()
            && same_collation(scan.index.spec.collator.as_ref(), self.collator.as_ref());
        // Later fields let the scan skip entries, but it still reads these entries.
        let bounds = |path: &Path| scan.bounded_paths(scan.ranged_fields()).any(|own| own == path);
        exact
            && (one.sorted || !other.sorted || self.sort.is_none())
            && match &other.access {
                Access::Collection { .. } => bounds(&Path::new("_id")),
                Access::Index(other) => {
                    other.wildcard_path.is_none() && other.bounded_paths(other.bounds.len()).all(bounds)
                }
                _ => false,
            }
    }

    /// The cost of the beginning of a scan, up to `most`. An entry whose document is fetched costs 1.
    fn trial(&self, access: &Access, most: usize) -> Result<usize> {
        match access {
            Access::Index(scan) => {
                let prefix = crate::keys::index_prefix(scan.index.id);
                let (ranges, bounded) = scan.ranges(&prefix);
                let (mut fetched, mut passed_over) = (0, 0);
                for range in ranges {
                    for entry in self.view.scan_index(&scan.index, range, scan.direction) {
                        match scan.admits(&entry?.key, bounded) {
                            true => fetched += 1,
                            false => passed_over += 1,
                        }
                        if fetched + passed_over / PASSED_OVER >= most {
                            return Ok(most);
                        }
                    }
                }
                Ok(fetched + passed_over / PASSED_OVER)
            }
            Access::Collection { ids, direction } => {
                let mut entries = 0;
                let prefix = crate::keys::collection_prefix(self.view.collection().id);
                for one in ids.as_slice() {
                    entries += self
                        .view
                        .snapshot()
                        .scan(diwan_kv::Space::Records, one.range(&prefix), *direction)
                        .take(most - entries)
                        .count();
                    if entries >= most {
                        break;
                    }
                }
                Ok(entries)
            }
            Access::Ids(ids) => Ok(ids.len()),
            Access::Nothing => Ok(0),
            Access::Natural { .. } | Access::Union(_) => Ok(most),
        }
    }
}

impl super::Plan {
    /// Whether an index covers the query, so that documents are not fetched.
    pub fn is_covered(&self) -> bool {
        covers(&self.access)
    }
}

fn covers(access: &Access) -> bool {
    matches!(access, Access::Index(scan) if scan.covered.is_some())
}

fn scan_direction(direction: key::Direction) -> Direction {
    match direction {
        key::Direction::Ascending => Direction::Forward,
        key::Direction::Descending => Direction::Reverse,
    }
}

/// Whether CouchDB's order and BSON's order agree on the values within these bounds.
fn is_alike(bounds: &Intervals, direction: key::Direction) -> bool {
    let ascending = match direction {
        key::Direction::Ascending => bounds.clone(),
        key::Direction::Descending => bounds.descending(),
    };
    let alike = [Type::Null, Type::Double, Type::String].map(of_type);
    let alike = alike.into_iter().fold(Intervals::empty(), Intervals::union);
    let within = |allowed: &Intervals| ascending.intersection(&allowed.complement()).is_empty();
    within(&alike) || within(&of_type(Type::Boolean))
}

/// Whether two collations are the same.
pub(super) fn same_collation(index: Option<&Arc<Collator>>, query: Option<&Arc<Collator>>) -> bool {
    match (index, query) {
        (None, None) => true,
        (Some(index), Some(query)) => index.collation().to_doc() == query.collation().to_doc(),
        _ => false,
    }
}

/// The paths of a filter's top-level conditions, including those inside an `$elemMatch`.
fn condition_paths(filter: &Filter) -> Vec<Path> {
    match filter {
        Filter::And(all) => all.children().iter().flat_map(condition_paths).collect(),
        Filter::Path(condition) => {
            let mut paths = vec![condition.path.clone()];
            if let Predicate::ElemMatch(ElemMatch::Object(inner)) = condition.predicate.as_ref() {
                paths.extend(condition_paths(inner).iter().map(|path| {
                    let names = condition.path.names().chain(path.names());
                    Path::from_names(names.map(str::to_owned))
                }));
            }
            paths
        }
        Filter::Expr(expr) => expr.comparisons().into_iter().map(|one| one.path.clone()).collect(),
        _ => Vec::new(),
    }
}

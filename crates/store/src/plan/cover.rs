//! Covering indexes: whether the entries of an index hold all fields that a query reads, so that documents are not
//! fetched.

use super::choose::Planner;
use super::shared_objects;
use crate::index::{FieldOrder, Index, IndexSpec};
use diwan_query::filter::Filter;
use diwan_value::Path;

impl Planner<'_> {
    /// If the entries of an index hold all fields that the query and the `rest` of the filter read: these fields, a bit
    /// each.
    pub(super) fn covered_by(&self, index: &Index, rest: &Filter) -> Option<u64> {
        let needed = self.needed.as_ref()?;
        let spec = &index.spec;
        let can_cover =
            !index.is_multikey() && spec.collator.is_none() && !spec.sparse && can_be_rebuilt(spec);
        let place = |path: &Path| spec.fields.iter().position(|field| field.path == *path);
        let conditions = condition_paths(rest).filter(|_| can_cover)?;
        let matched = conditions.iter().try_fold(0, |fields, path| Some(fields | 1 << place(path)?))?;
        // The key holds a field's whole value, so also the fields inside it.
        let holder = |path: &Path| spec.fields.iter().position(|field| path.starts_with(&field.path));
        needed.iter().try_fold(matched, |fields, path| Some(fields | 1 << holder(path)?))
    }
}

/// Whether documents can be rebuilt from an index's keys: keys hold the exact values, no field contains another, none
/// may be an array's element, and the fields of one embedded document are adjacent.
fn can_be_rebuilt(spec: &IndexSpec) -> bool {
    let fields = spec.fields.as_slice();
    fields.len() <= u64::BITS as usize
        && fields.iter().enumerate().all(|(at, field)| {
            let path = &field.path;
            field.order != FieldOrder::Hashed
                && (0..path.depth()).all(|at| path.index(at).is_none())
                && fields.iter().enumerate().all(|(other, one)| {
                    let between = fields.get(other + 1..at).unwrap_or_default();
                    let shared = shared_objects(&one.path, path);
                    other == at
                        || !path.starts_with(&one.path)
                            && between.iter().all(|field| shared_objects(&field.path, path) >= shared)
                })
        })
}

/// All paths that a filter reads; `None` if it reads the document in other ways.
fn condition_paths(filter: &Filter) -> Option<Vec<Path>> {
    match filter {
        Filter::AlwaysTrue | Filter::AlwaysFalse => Some(Vec::new()),
        Filter::And(all) => all_paths(all.children()),
        Filter::Or(all) | Filter::Nor(all) => all_paths(all),
        // An index does not distinguish null from a missing field.
        Filter::Path(condition) if !super::bounds::accepts_missing(&condition.predicate) => {
            Some(vec![condition.path.clone()])
        }
        _ => None,
    }
}

fn all_paths(filters: &[Filter]) -> Option<Vec<Path>> {
    let mut paths = Vec::new();
    for filter in filters {
        paths.extend(condition_paths(filter)?);
    }
    Some(paths)
}

//! Parsed finds that can be resumed where an earlier one stopped, for CouchDB's queries with bookmarks.
//!
//! The position of a query is a few bytes that the client keeps: the last key of a scan, or the last sort key. A plan
//! that may find a document twice has neither. Such a query is resumed by counting.

use crate::collection::{Collection, StoredDocument, id_key};
use crate::error::Result;
use crate::exec::{Scan, ScanStats};
use crate::plan::{Access, Hint, Plan, Planner};
use diwan_kv::Direction;
use diwan_query::external_sort::{ExternalSorter, SortedRecords};
use diwan_query::filter::Filter;
use diwan_query::pipeline::DocSource;
use diwan_query::sort::Sort;
use diwan_query::{Interrupt, MemoryBudget};
use diwan_value::{Value, key};
use std::path::PathBuf;
use std::sync::Arc;

/// A parsed find.
pub struct Query {
    /// The filter.
    pub filter: Arc<Filter>,
    /// The order. Documents with equal sort keys are ordered by their ids. Without a sort, an index is scanned in
    /// ascending order of its values.
    pub sort: Option<Sort>,
    /// The access to use.
    pub hint: Hint,
    /// The position to resume after.
    pub after: Option<Position>,
    /// How many documents the caller reads, if it knows. A sort then keeps no more.
    pub most: Option<usize>,
    /// Ends the query when it is killed or times out.
    pub interrupt: Interrupt,
    /// The directory for temporary files, if they are allowed.
    pub temporary: Option<PathBuf>,
}

/// The position of a query: its last document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// The last key of a scan of this index, or of the collection.
    Scan {
        /// The index's name; `None` for the collection.
        index: Option<String>,
        /// The key's bytes.
        key: Vec<u8>,
    },
    /// The last sort key, with the id.
    Sorted(Vec<u8>),
    /// The number of documents read.
    Count(u64),
}

/// A running query.
pub struct Running {
    plan: Plan,
    source: Source,
    interrupt: Interrupt,
    count: u64,
}

enum Source {
    Scan(Box<Scan>),
    Sorted { records: SortedRecords, stats: ScanStats, current: Option<StoredDocument> },
}

impl Collection {
    /// The plan of a query.
    pub fn plan_query(self: &Arc<Self>, query: &Query) -> Result<Plan> {
        self.planned(query).map(|(plan, _)| plan)
    }

    fn planned(self: &Arc<Self>, query: &Query) -> Result<(Plan, crate::collection::ReadView)> {
        let view = self.view();
        // A scan is resumed with the index that it began with.
        let hint = match (&query.after, &query.hint) {
            (Some(Position::Scan { index: Some(name), .. }), _) => Hint::Name(name.clone()),
            (_, hint) => hint.clone(),
        };
        let planner = Planner {
            view: &view,
            filter: query.filter.clone(),
            sort: query.sort.as_ref(),
            collator: self.schema().options.collator.clone(),
            hint,
            tailable: false,
            needed: None,
        };
        let mut plan = planner.plan()?;
        // As in CouchDB, where an index is read in ascending order however it was declared, unless a sort reverses it.
        if let (None, Access::Index(scan)) = (&query.sort, &mut plan.access)
            && scan.field_direction(0) == key::Direction::Descending
        {
            scan.direction = Direction::Reverse;
        }
        Ok((plan, view))
    }

    /// Starts a query.
    pub fn query(self: &Arc<Self>, query: &Query) -> Result<Running> {
        let (plan, view) = self.planned(query)?;
        let mut scan = Scan::new(view, &plan);
        let source = match query.sort.as_ref().filter(|_| !plan.sorted) {
            None => {
                if let Some(Position::Scan { index, key }) = &query.after {
                    // The key is meaningless for another plan. The query then starts from the beginning.
                    if index.as_deref() == plan.index_name() {
                        scan.go_on_after(key);
                    }
                }
                Source::Scan(Box::new(scan))
            }
            Some(sort) => {
                let after = match &query.after {
                    Some(Position::Sorted(key)) => key.as_slice(),
                    _ => &[],
                };
                let budget = MemoryBudget::in_directory(query.temporary.clone());
                let collator = self.schema().options.collator.clone();
                let mut sorter = ExternalSorter::for_sort(budget, query.most);
                let mut key = Vec::new();
                while scan.step(&query.interrupt)? {
                    let Some(stored) = scan.stored() else { continue };
                    key.clear();
                    sort.key(stored.doc(), collator.as_deref(), &mut key)?;
                    key.extend_from_slice(&id_key(stored.doc().get("_id").unwrap_or(Value::Null))?);
                    if key.as_slice() > after {
                        sorter.add(&key, stored.as_bytes())?;
                    }
                }
                Source::Sorted { stats: scan.stats(), records: sorter.finish()?, current: None }
            }
        };
        let mut running = Running { plan, source, interrupt: query.interrupt.clone(), count: 0 };
        if let Some(Position::Count(count)) = query.after {
            while running.count < count && running.advance()? {}
        }
        Ok(running)
    }
}

impl Running {
    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Advances to the next document. Returns false at the end.
    pub fn advance(&mut self) -> Result<bool> {
        let found = match &mut self.source {
            Source::Scan(scan) => scan.step(&self.interrupt)?,
            Source::Sorted { records, current, .. } => {
                let found = records.advance()?;
                *current = match found {
                    true => Some(StoredDocument::new(records.payload().into())?),
                    false => None,
                };
                found
            }
        };
        self.count += u64::from(found);
        Ok(found)
    }

    /// Releases the view of the store until the next advance.
    pub fn suspend(&mut self) {
        match &mut self.source {
            Source::Scan(scan) => scan.suspend(),
            Source::Sorted { records, .. } => records.suspend(),
        }
    }

    /// The current document.
    pub fn current(&self) -> Option<&StoredDocument> {
        match &self.source {
            Source::Scan(scan) => scan.stored(),
            Source::Sorted { current, .. } => current.as_ref(),
        }
    }

    /// The position after which a later query resumes. Meaningful only if there is a current document.
    pub fn position(&self) -> Position {
        let found = match &self.source {
            Source::Scan(scan) => scan
                .position()
                .map(|key| Position::Scan { index: self.plan.index_name().map(str::to_owned), key }),
            Source::Sorted { records, current, .. } => {
                current.as_ref().map(|_| Position::Sorted(records.key().to_vec()))
            }
        };
        found.unwrap_or(Position::Count(self.count))
    }

    /// How much the query has read so far.
    pub fn stats(&self) -> ScanStats {
        match &self.source {
            Source::Scan(scan) => scan.stats(),
            Source::Sorted { stats, .. } => *stats,
        }
    }
}

impl Plan {
    /// The name of the index that the plan scans, if it scans one.
    pub fn index_name(&self) -> Option<&str> {
        match &self.access {
            Access::Index(scan) => Some(&scan.index.spec.name),
            _ => None,
        }
    }

    /// Whether the plan scans the whole collection.
    pub fn reads_all(&self) -> bool {
        match &self.access {
            Access::Collection { ids, .. } => ids.is_all(),
            Access::Natural { .. } => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BuildProgress, IndexSpec, Namespace, Store, WriteOptions};
    use diwan_kv::MemoryEngine;
    use diwan_query::mango::{Selector, parse_sort};
    use diwan_value::{DocBuf, array, doc};

    fn query(selector: DocBuf, sort: Option<DocBuf>, after: Option<Position>) -> Query {
        let sort = sort.and_then(|sort| parse_sort(sort.as_doc().get("sort").unwrap()).unwrap());
        Query {
            filter: Arc::new(Selector::parse(selector.as_doc()).unwrap().stored()),
            sort,
            hint: Hint::None,
            after,
            most: None,
            interrupt: Interrupt::new(),
            temporary: None,
        }
    }

    #[test]
    fn resumed_queries_return_the_same_documents_as_one_query() {
        let store = Store::open(Arc::new(MemoryEngine::new())).unwrap();
        let collection = store.collection_or_create(&Namespace::new("a", "b").unwrap()).unwrap();
        let docs: Vec<DocBuf> =
            (0..100).map(|n: i32| doc! { "_id": n, "a": n * 7 % 10, "b": array![n % 3, n % 5] }).collect();
        let docs: Vec<_> = docs.iter().map(DocBuf::as_doc).collect();
        collection.insert(&docs, true, WriteOptions::default()).unwrap();
        for indexed in [false, true] {
            if indexed {
                let specs = [
                    doc! { "key": doc! { "a": 1 }, "name": "a" },
                    doc! { "key": doc! { "b": 1 }, "name": "b" },
                ];
                let specs = specs.iter().map(|spec| IndexSpec::parse(spec.as_doc(), None).unwrap()).collect();
                collection.create_indexes(specs, &Interrupt::new(), &BuildProgress::default()).unwrap();
            }
            for selector in [
                doc! {},
                doc! { "a": doc! { "$gt": 2 } },
                doc! { "a": doc! { "$in": array![1, 5, 3] } },
                doc! { "b": doc! { "$exists": true } },
            ] {
                for sort in [
                    None,
                    Some(doc! { "sort": array!["a"] }),
                    Some(doc! { "sort": array![doc! { "a": "desc" }] }),
                ] {
                    let all = read(&collection, &query(selector.clone(), sort.clone(), None), usize::MAX).0;
                    let (mut pages, mut after) = (Vec::new(), None);
                    loop {
                        let (page, position) =
                            read(&collection, &query(selector.clone(), sort.clone(), after.clone()), 7);
                        if page.is_empty() {
                            break;
                        }
                        pages.extend(page);
                        after = position;
                    }
                    assert_eq!(pages, all, "{:?} {:?}", selector.as_doc(), sort);
                }
            }
        }
    }

    fn read(collection: &Arc<Collection>, query: &Query, most: usize) -> (Vec<i64>, Option<Position>) {
        let mut running = collection.query(query).unwrap();
        let (mut ids, mut position) = (Vec::new(), None);
        while ids.len() < most && running.advance().unwrap() {
            ids.push(running.current().unwrap().doc().get("_id").unwrap().as_i64_exact().unwrap());
            position = Some(running.position());
        }
        (ids, position)
    }
}

//! A find that is parsed already and that can be taken up where an earlier one stopped: what CouchDB's queries need.
//!
//! Where an earlier one stopped is a few bytes that a client keeps: the key that a scan stood on, or the place of the
//! last document in a sorted order. A plan that may find a document twice has neither; such a query is taken up by
//! counting.

use crate::collection::{Collection, StoredDocument, id_key};
use crate::error::Result;
use crate::exec::{Scan, ScanStats};
use crate::plan::{Access, Hint, Plan, Planner};
use diwan_kv::Direction;
use diwan_query::Interrupt;
use diwan_query::external_sort::{DEFAULT_MEMORY_LIMIT, ExternalSorter, MemoryBudget, SortedRecords};
use diwan_query::filter::Filter;
use diwan_query::pipeline::DocSource;
use diwan_query::sort::Sort;
use diwan_value::{Value, key};
use std::path::PathBuf;
use std::sync::Arc;

/// A find, parsed.
pub struct Query {
    /// Which documents.
    pub filter: Arc<Filter>,
    /// In which order; documents that are equal in it come in the order of their ids. Without one those of an index ascend.
    pub sort: Option<Sort>,
    /// How to find them.
    pub hint: Hint,
    /// Behind which one to begin.
    pub after: Option<Position>,
    /// How many of them are read, where that is known: what a sort need not keep is not kept.
    pub most: Option<usize>,
    /// When to stop.
    pub interrupt: Interrupt,
    /// Where temporary files may be made.
    pub temporary: Option<PathBuf>,
}

/// Where a query stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// On this key, of this index or of the documents themselves.
    Scan {
        /// The index.
        index: Option<String>,
        /// The key's bytes.
        key: Vec<u8>,
    },
    /// On a document of this place in the sorted order.
    Sorted(Vec<u8>),
    /// On the document with this number, from 1.
    Count(u64),
}

/// A query under way.
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
        // A scan is taken up by the plan that it was begun with.
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
        // As in CouchDB, where an index ascends however it was declared, and only a sort turns it.
        if let (None, Access::Index(scan)) = (&query.sort, &mut plan.access)
            && scan.field_direction(0) == key::Direction::Descending
        {
            scan.direction = Direction::Reverse;
        }
        Ok((plan, view))
    }

    /// Begins a query.
    pub fn query(self: &Arc<Self>, query: &Query) -> Result<Running> {
        let (plan, view) = self.planned(query)?;
        let mut scan = Scan::new(view, &plan);
        let source = match query.sort.as_ref().filter(|_| !plan.sorted) {
            None => {
                if let Some(Position::Scan { index, key }) = &query.after {
                    // By another plan the key means nothing: the query begins anew rather than somewhere.
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
                let budget = MemoryBudget { limit: DEFAULT_MEMORY_LIMIT, directory: query.temporary.clone() };
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
    /// How documents are found.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Goes to the next document.
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

    /// Lets go of what pins a state of the store, until the next step.
    pub fn suspend(&mut self) {
        match &mut self.source {
            Source::Scan(scan) => scan.suspend(),
            // They lie in memory or in files of their own.
            Source::Sorted { .. } => {}
        }
    }

    /// The document it stands on.
    pub fn current(&self) -> Option<&StoredDocument> {
        match &self.source {
            Source::Scan(scan) => scan.stored(),
            Source::Sorted { current, .. } => current.as_ref(),
        }
    }

    /// Where it stands, to be taken up from there; means nothing when it stands on no document.
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

    /// What was read so far.
    pub fn stats(&self) -> ScanStats {
        match &self.source {
            Source::Scan(scan) => scan.stats(),
            Source::Sorted { stats, .. } => *stats,
        }
    }
}

impl Plan {
    /// The index that documents are found by, if it is one.
    pub fn index_name(&self) -> Option<&str> {
        match &self.access {
            Access::Index(scan) => Some(&scan.index.spec.name),
            _ => None,
        }
    }

    /// Whether every document of the collection is read.
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

    /// Pages of `size` documents one after another give what one query gives.
    #[test]
    fn pages_continue_each_other() {
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

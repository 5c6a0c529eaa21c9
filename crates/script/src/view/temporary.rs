//! Temporary views, built for one query: all documents are mapped on all cores, and their rows are sorted into a tree
//! that is dropped with the answer. A query that reduces everything to one row keeps no rows.

use super::answer::{Cursor, RowSource, ranges};
use super::build::stored_chunks;
use super::index::{reduce_sources, reduces};
use super::mapping::{Mapped, MappingPlan, Walk, threads};
use super::nodes::{NewNodes, StoredNodes};
use super::parameters::GroupLevel;
use super::rows::{Rows, Run, merge};
use super::{Documents, Row, TemporaryView, ViewHead, ViewQuery, ViewSink};
use crate::collate::Order;
use crate::design::Design;
use crate::error::{Error, Result};
use crate::json;
use crate::reduce::{Reduce, ReduceRow};
use crate::sandbox::{Limits, Mapper};
use crate::tree::{Layout, MemoryNodes, Nodes, Tree, TreeBuilder};
use diwan_kv::{Batch, Space};
use diwan_store::keys::Key;
use diwan_store::{Collection, MemoryPool, ReadView, Reservation, TemporaryNumber};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The most bytes of rows that are kept in memory, and the least if memory is scarce. Other rows are stored temporarily.
const MEMORY: usize = 48 << 20;
const LEAST_MEMORY: usize = 4 << 20;
/// The size of the stored runs' chunks.
const CHUNK_BYTES: usize = 64 << 10;
/// How many rows a thread reduces at once.
const REDUCED_ROWS: usize = 2000;

impl TemporaryView {
    /// The members of a request body that define the view. All others are parameters.
    pub const MEMBERS: &[&str] = &["language", "map", "options", "reduce"];

    /// Parses the request body of `_temp_view`.
    pub fn parse(body: &str) -> Result<TemporaryView> {
        let bad = |reason: &str| Error::Thrown { name: "bad_request".to_owned(), reason: reason.to_owned() };
        if !json::check(body) || json::kind(body) != Some(json::Kind::Object) {
            return Err(bad("Request body must be a JSON object"));
        }
        let text = |name: &str| {
            let value =
                json::member(body, name).filter(|value| json::kind(value) == Some(json::Kind::String));
            value.map(|value| json::unquote(value).into_owned())
        };
        let options = json::member(body, "options").unwrap_or("{}");
        let flag = |name: &str| json::member(options, name) == Some("true");
        Ok(TemporaryView {
            view: crate::design::ViewDefinition {
                map: text("map").ok_or_else(|| bad("`map` must be a string"))?,
                reduce: text("reduce"),
                raw_collation: json::member(options, "collation") == Some("\"raw\""),
            },
            language: text("language").unwrap_or_else(|| "javascript".to_owned()),
            options: crate::design::DesignOptions {
                local_seq: flag("local_seq"),
                include_design: flag("include_design"),
                partitioned: None,
            },
        })
    }
}

/// A temporary view that was built.
pub(super) enum BuiltView {
    /// All rows were reduced to one, or there were no rows.
    Reduced { value: Option<String>, sequence: u64 },
    /// The rows are in a tree.
    Rows { kept: NodeStore, tree: Tree, layout: Layout, design: Box<Design>, sequence: u64 },
}

/// The nodes of a temporary view.
pub(super) enum NodeStore {
    Memory {
        nodes: MemoryNodes,
        _reservation: Reservation,
    },
    /// In the store, until the number is dropped.
    Store(TemporaryNumber),
}

impl BuiltView {
    /// Sends rows from the cursor on until the sink stops. Returns whether there may be more.
    pub fn answer(
        &self,
        view: &ReadView,
        cursor: &mut Option<Cursor>,
        query: &ViewQuery,
        limits: Limits,
        documents: &dyn Documents,
        sink: &mut dyn ViewSink,
    ) -> Result<bool> {
        let (kept, tree, layout, design, sequence) = match self {
            BuiltView::Reduced { value, sequence } => {
                let update_seq = query.update_seq.then_some(*sequence);
                sink.head(&ViewHead { update_seq, ..ViewHead::default() })?;
                if let Some(value) = value {
                    sink.row(&Row { id: None, key: "null", value, doc: None })?;
                }
                return Ok(false);
            }
            BuiltView::Rows { kept, tree, layout, design, sequence } => {
                (kept, *tree, *layout, design, *sequence)
            }
        };
        let reduce = reduces(&reduce_sources(design), limits)?.pop().flatten();
        let stored;
        let nodes: &dyn Nodes = match kept {
            NodeStore::Memory { nodes, .. } => nodes,
            NodeStore::Store(number) => {
                stored = StoredNodes { snapshot: view.snapshot(), index: number.number(), view: 0 };
                &stored
            }
        };
        let has_reduce = reduce.is_some();
        let source = RowSource { nodes, tree, layout, has_reduce, reduce: reduce.as_ref(), view, sequence };
        source.answer(cursor, query, documents, sink)
    }
}

/// Builds a temporary view for a query.
pub(super) fn make(
    collection: &Arc<Collection>,
    temporary: &TemporaryView,
    query: &ViewQuery,
    limits: Limits,
    ended: &AtomicBool,
) -> Result<BuiltView> {
    let design = Design::temporary(temporary.view.clone(), &temporary.language, temporary.options);
    super::check_language(&design)?;
    let layout = Layout {
        order: if temporary.view.raw_collation { Order::Raw } else { Order::Unicode },
        partitioned: false,
    };
    let reduced = query.check(temporary.view.reduce.is_some())?;
    let wanted = ranges(query, layout)?;
    let mut made = reduces(&reduce_sources(&design), limits)?;
    let reduce = made.pop().flatten();
    let sequence = collection.last_sequence();
    let view = collection.view();
    let mappers = (0..threads()).map(|_| Mapper::new(limits, &design)).collect::<Result<Vec<_>>>()?;
    let mapped = AtomicU64::new(0);
    // Rows outside of the ranges count towards the totals of the head, but not in reductions.
    let only = reduced.then_some(wanted.as_slice());
    // No index is stored, so nothing has to tell later which rows a document emitted.
    let plan = MappingPlan {
        design: &design,
        layouts: vec![layout],
        ranges: only,
        keeps_records: false,
        ended,
        mapped: &mapped,
    };
    let walk = Walk::new(&view, None);
    walk.allow(u64::MAX);
    // A single reduction over all rows needs neither a sort nor a tree.
    if let Some(reduce @ Reduce::Builtin(..)) = &reduce
        && reduced
        && query.grouping()? == GroupLevel::None
        && query.keys.is_none()
    {
        let reduction = reduce_all(reduce, &plan, &mappers, &walk)?;
        let reduction = reduction.filter(|_| query.skip == 0 && query.limit != Some(0));
        let value = reduction.map(|reduction| reduce.finish(&reduction)).transpose()?;
        return Ok(BuiltView::Reduced { value, sequence });
    }
    let reservation = Mutex::new((MemoryPool::shared().reservation(true), 0));
    let spill = Spill { collection, reservation, number: Mutex::default(), runs: AtomicU64::new(0) };
    let mut parts = plan.map_walk(&mappers, &walk, &|part| spill.watch(part))?;
    drop(mappers);
    // The engine keeps in memory all that is written while a snapshot is open.
    drop(walk);
    drop(view);
    if !spill.fits() {
        parts.iter_mut().try_for_each(|part| spill.store(part))?;
    }
    let mut runs: Vec<Run<'_>> = parts.iter().flat_map(|part| &part.views).map(Run::of).collect();
    let reduce = reduce.as_ref().filter(|_| reduced);
    let number = spill.number.into_inner();
    let runs_stored = spill.runs.into_inner();
    // If no thread spilled, the tree is built in memory; otherwise it is built in the store from all runs.
    let (kept, tree) = match number {
        None => {
            let mut nodes = MemoryNodes::default();
            let mut builder = TreeBuilder::new(&mut nodes, layout, reduce);
            merge(runs, &mut |entry| builder.push(entry))?;
            let tree = builder.finish()?;
            (NodeStore::Memory { nodes, _reservation: spill.reservation.into_inner().0 }, tree)
        }
        Some(number) => {
            for run in 0..runs_stored {
                runs.push(Run::stored(stored_chunks(collection, number.number(), 0, run))?);
            }
            let commit = |batch: Batch| number.commit(batch).map(drop).map_err(Error::from);
            let mut nodes = NewNodes::new(number.number(), 0, &commit);
            let mut builder = TreeBuilder::new(&mut nodes, layout, reduce);
            merge(runs, &mut |entry| builder.push(entry))?;
            let tree = builder.finish()?;
            commit(nodes.finish())?;
            (NodeStore::Store(number), tree)
        }
    };
    drop(parts);
    Ok(BuiltView::Rows { kept, tree, layout, design: Box::new(design), sequence })
}

/// Moves rows into the store when memory has reached its limit.
struct Spill<'a> {
    collection: &'a Arc<Collection>,
    /// What the rows may take, and what those of all threads take.
    reservation: Mutex<(Reservation, usize)>,
    number: Mutex<Option<TemporaryNumber>>,
    runs: AtomicU64,
}

impl Spill<'_> {
    /// Counts the memory of a thread's output, and stores the output if memory is scarce.
    fn watch(&self, part: &mut Mapped) -> Result<()> {
        let memory = part.memory();
        {
            let (reservation, total) = &mut *self.reservation.lock();
            *total = *total - std::mem::replace(&mut part.counted, memory) + memory;
            // A tree is made of the rows while they are there. A run is not worth its keys before it has some rows.
            let fits = *total <= MEMORY && reservation.cover(2 * *total);
            if fits || memory < LEAST_MEMORY / threads() {
                return Ok(());
            }
        }
        self.store(part)
    }

    /// Whether all rows that were not stored may stay in memory, beside the tree that is made of them.
    fn fits(&self) -> bool {
        let (reservation, total) = &mut *self.reservation.lock();
        reservation.cover(2 * *total)
    }

    /// Moves what a thread has collected into the store.
    fn store(&self, part: &mut Mapped) -> Result<()> {
        self.reservation.lock().1 -= std::mem::take(&mut part.counted);
        let Some(rows) = part.views.first_mut() else { return Ok(()) };
        let mut rows: Rows = std::mem::take(rows);
        rows.sort();
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        let mut number = self.number.lock();
        let number = match &mut *number {
            Some(number) => number,
            none => none.insert(self.collection.temporary_number()?),
        };
        for (chunk, at) in rows.chunks(CHUNK_BYTES).zip(0..) {
            let mut batch = Batch::new();
            let key = Key::ViewRun { index: number.number(), view: 0, run, chunk: at };
            batch.put(Space::Indexes, key.bytes(), chunk);
            number.commit(batch)?;
        }
        Ok(())
    }
}

/// Reduces all rows to one; `None` if there are no rows.
fn reduce_all(
    reduce: &Reduce,
    plan: &MappingPlan<'_>,
    mappers: &[Mapper],
    walk: &Walk<'_>,
) -> Result<Option<Vec<u8>>> {
    let reductions: Mutex<Vec<Vec<u8>>> = Mutex::default();
    let fold = |part: &mut Mapped, least: usize| -> Result<()> {
        let Some(rows) = part.views.first_mut().filter(|rows| rows.len() >= least) else { return Ok(()) };
        let rows = std::mem::take(rows);
        let mut rows = rows.iter().map(|entry| ReduceRow {
            place: entry.place,
            key: entry.key,
            // Built-in functions ignore the id.
            id: "",
            value: entry.value,
        });
        let reduction = reduce.rows(&mut rows)?;
        let mut reductions = reductions.lock();
        reductions.push(reduction);
        if reductions.len() >= 64 {
            let merged = reduce.merge(&reductions.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
            *reductions = vec![merged];
        }
        Ok(())
    };
    let mut parts = plan.map_walk(mappers, walk, &|part| fold(part, REDUCED_ROWS))?;
    for part in &mut parts {
        fold(part, 1)?;
    }
    let reductions = reductions.into_inner();
    match reductions.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(only.clone())),
        several => reduce.merge(&several.iter().map(Vec::as_slice).collect::<Vec<_>>()).map(Some),
    }
}

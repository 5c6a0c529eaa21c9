//! Views that are made for one query: all documents are mapped with all cores, and what they emit is sorted into a tree
//! that nobody keeps. A query that reduces everything to one row keeps no rows at all.

use super::answer::{Cursor, Source, ranges};
use super::build::run_prefix;
use super::index::{reduce_sources, reduces};
use super::mapping::{Mapped, Plan, Walk, threads};
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
use crate::tree::{Builder, Layout, MemoryNodes, Nodes, Tree};
use diwan_kv::{Batch, Direction, KeyRange, Space};
use diwan_store::keys::Key;
use diwan_store::{Collection, ReadView, TemporaryNumber};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How many bytes of rows are kept in memory; more go into the store for a while.
const MEMORY: usize = 192 << 20;
/// How large the runs, and their parts, are that are stored.
const CHUNK_BYTES: usize = 64 << 10;
/// How many rows a thread reduces at once.
const REDUCED_ROWS: usize = 2000;

impl TemporaryView {
    /// The members of a request's body that make the view; all others are parameters.
    pub const MEMBERS: &[&str] = &["language", "map", "options", "reduce"];

    /// Reads the body of a request to `_temp_view`.
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

/// A temporary view that was made.
pub(super) enum Made {
    /// All rows were reduced to one, or there were none.
    Reduced { value: Option<String>, sequence: u64 },
    /// Its rows are in a tree.
    Rows { kept: Kept, tree: Tree, layout: Layout, design: Box<Design>, sequence: u64 },
}

/// Where the nodes of a temporary view are.
pub(super) enum Kept {
    Memory(MemoryNodes),
    /// In the store, as long as the number is held.
    Store(TemporaryNumber),
}

impl Made {
    /// Shows rows from the cursor on until the sink wants no more. Says whether there may be more.
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
            Made::Reduced { value, sequence } => {
                let update_seq = query.update_seq.then_some(*sequence);
                sink.head(&ViewHead { update_seq, ..ViewHead::default() })?;
                if let Some(value) = value {
                    sink.row(&Row { id: None, key: "null", value, doc: None })?;
                }
                return Ok(false);
            }
            Made::Rows { kept, tree, layout, design, sequence } => (kept, *tree, *layout, design, *sequence),
        };
        let reduce = reduces(&reduce_sources(design), limits)?.pop().flatten();
        let stored;
        let nodes: &dyn Nodes = match kept {
            Kept::Memory(nodes) => nodes,
            Kept::Store(number) => {
                stored = StoredNodes { snapshot: view.snapshot(), index: number.number(), view: 0 };
                &stored
            }
        };
        let has_reduce = reduce.is_some();
        let source = Source { nodes, tree, layout, has_reduce, reduce: reduce.as_ref(), view, sequence };
        source.answer(cursor, query, documents, sink)
    }
}

/// Makes a temporary view for a query.
pub(super) fn make(
    collection: &Arc<Collection>,
    temporary: &TemporaryView,
    query: &ViewQuery,
    limits: Limits,
    ended: &AtomicBool,
) -> Result<Made> {
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
    // Rows outside of the ranges count in the head of rows, not in reductions.
    let only = reduced.then_some(wanted.as_slice());
    let plan = Plan {
        design: &design,
        layouts: vec![layout],
        ranges: only,
        keeps_records: false,
        ended,
        mapped: &mapped,
    };
    let walk = Walk::new(&view, None);
    walk.allow(u64::MAX);
    if let Some(reduce @ Reduce::Builtin(_)) = &reduce
        && reduced
        && query.grouping()? == GroupLevel::None
        && query.keys.is_none()
    {
        let reduction = reduce_all(reduce, &plan, &mappers, &walk)?;
        let reduction = reduction.filter(|_| query.skip == 0 && query.limit != Some(0));
        let value = reduction.map(|reduction| reduce.finish(&reduction)).transpose()?;
        return Ok(Made::Reduced { value, sequence });
    }
    let spill = Spill { collection, number: Mutex::default(), runs: AtomicU64::new(0) };
    let parts = plan.map_walk(&mappers, &walk, &|part| spill.watch(part))?;
    drop(mappers);
    let mut runs: Vec<Run<'_>> = parts.iter().flat_map(|part| &part.views).map(Run::of).collect();
    let reduce = reduce.as_ref().filter(|_| reduced);
    let number = spill.number.into_inner();
    let (kept, tree) = match number {
        None => {
            let mut nodes = MemoryNodes::default();
            let mut builder = Builder::new(&mut nodes, layout, reduce);
            merge(runs, &mut |entry| builder.push(entry))?;
            let tree = builder.finish()?;
            (Kept::Memory(nodes), tree)
        }
        Some(number) => {
            let stored = collection.view();
            for run in 0..spill.runs.into_inner() {
                let prefix = run_prefix(number.number(), 0, run);
                let range = KeyRange::prefix(&prefix);
                runs.push(Run::stored(stored.snapshot().scan(Space::Indexes, range, Direction::Forward))?);
            }
            let commit = |batch: Batch| number.commit(batch).map(drop).map_err(Error::from);
            let mut nodes = NewNodes::new(number.number(), 0, &commit);
            let mut builder = Builder::new(&mut nodes, layout, reduce);
            merge(runs, &mut |entry| builder.push(entry))?;
            let tree = builder.finish()?;
            commit(nodes.finish())?;
            (Kept::Store(number), tree)
        }
    };
    drop(parts);
    Ok(Made::Rows { kept, tree, layout, design: Box::new(design), sequence })
}

/// Moves rows into the store when memory has enough of them.
struct Spill<'a> {
    collection: &'a Arc<Collection>,
    number: Mutex<Option<TemporaryNumber>>,
    runs: AtomicU64,
}

impl Spill<'_> {
    /// Looks at what a thread has collected.
    fn watch(&self, part: &mut Mapped) -> Result<()> {
        let share = MEMORY / threads();
        let Some(rows) = part.views.first_mut().filter(|rows| rows.memory() >= share) else { return Ok(()) };
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

/// Reduces all rows to one; nothing if there are none.
fn reduce_all(
    reduce: &Reduce,
    plan: &Plan<'_>,
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
            // No built-in function looks at it.
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

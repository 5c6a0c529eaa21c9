//! Builds an index: maps all documents, stores their rows in sorted runs, and merges the runs into trees.
//!
//! Documents are mapped in the order of their ids. The header has the last id and the number of runs, so a build can
//! continue after a kill. The index begins at the sequence from before the first document was read. Later changes are
//! applied from the change log, and the records of documents tell which rows they replace.

use super::header::{BuildState, Header};
use super::index::{Index, reduce_sources, reduces};
use super::mapping::{Mapped, MappingPlan, Walk, threads};
use super::nodes::NewNodes;
use super::rows::{Run, merge};
use super::tasks::Progress;
use crate::design::Design;
use crate::error::{Error, Result};
use crate::sandbox::Limits;
use crate::tree::TreeBuilder;
use diwan_kv::{Batch, KeyRange, Pairs, Space};
use diwan_store::keys::{self, IndexId, Key, ViewPart, write_number};
use diwan_store::{Collection, MemoryPool};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;

/// How many documents are mapped between two checkpoints.
const ROUND: u64 = 50_000;
/// How much the threads collect together in a round before they pause for a checkpoint: less if memory is scarce. One
/// round is written while the next one is mapped, and another may wait between them.
const ROUND_BYTES: usize = 20 << 20;
const LEAST_ROUND_BYTES: usize = 4 << 20;
const ROUNDS: usize = 3;
/// The size of a run's chunks, and of the batches that write them.
const CHUNK_BYTES: usize = 64 << 10;
const BATCH_BYTES: usize = 4 << 20;

/// Builds an index, continuing from the checkpoint in its header.
pub(super) fn build(
    index: &Index,
    mut header: Header,
    design: &Design,
    limits: Limits,
    ended: &AtomicBool,
    progress: &Progress,
) -> Result<Header> {
    let BuildState::Building { mut after, mut mapped, mut runs } = header.state.clone() else {
        return Ok(header);
    };
    let begins = after.is_none();
    for number in 0..header.views.len() as u32 {
        // Chunks of an interrupted round are not counted in the header, and the repeated round may have fewer chunks.
        let uncounted = KeyRange::half_open(
            run_prefix(index.number, number, runs),
            run_prefix(index.number, number + 1, 0),
        );
        index.collection.delete_view_keys(uncounted)?;
    }
    progress.work.done.store(mapped, Ordering::Relaxed);
    progress.total.store(index.collection.count(), Ordering::Relaxed);
    let mappers = index.take_mappers(threads(), limits, design)?;
    let plan = MappingPlan::kept(design, &header, ended, &progress.work.done);
    let mut reservation = MemoryPool::shared().reservation(true);
    let held = reservation.cover_part(ROUNDS * ROUND_BYTES, ROUNDS * LEAST_ROUND_BYTES);
    let share = held / ROUNDS / threads();
    // The next round is mapped while the previous one is written.
    let (rounds, to_write) = sync_channel::<(Vec<Mapped>, Header)>(1);
    let last = std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            for (parts, header) in to_write {
                store_runs(index, &parts, &header)?;
            }
            Ok(())
        });
        let mut map = || loop {
            // Each round has its own snapshot, because the engine keeps in memory all that is written while one is open. The
            // update that follows the build replaces the rows of documents that have changed since its beginning.
            let view = index.collection.view();
            let walk = Walk::new(&view, after.clone());
            // A thread whose output exceeds the limit stops the round early, which bounds the memory.
            walk.allow(ROUND);
            let parts = plan.map_walk(&mappers, &walk, &|part| {
                if part.memory() >= share {
                    walk.allow(0);
                }
                Ok(())
            })?;
            let (position, is_end) = walk.position();
            if is_end && begins && runs == 0 {
                // All rows are in memory, so there is neither a checkpoint nor a run to read back.
                return Ok(parts);
            }
            mapped = progress.work.done.load(Ordering::Relaxed);
            after = position;
            header.state =
                BuildState::Building { after: after.clone(), mapped, runs: runs + parts.len() as u64 };
            runs += parts.len() as u64;
            if rounds.send((parts, header.clone())).is_err() || is_end {
                return Ok(Vec::new());
            }
        };
        let outcome: Result<Vec<Mapped>> = map();
        // Closing the channel lets the writer finish.
        drop(rounds);
        let written = writer.join().unwrap_or(Err(Error::Ended));
        written.and(outcome)
    })?;
    index.give_back(mappers);
    finish(index, header, design, limits, &last)
}

/// Stores the rows of a round as runs and the records of its documents, and last the header that counts them.
pub(super) fn store_runs(index: &Index, parts: &[Mapped], header: &Header) -> Result<()> {
    let BuildState::Building { runs, .. } = header.state else { return Ok(()) };
    let mut batch = Batch::new();
    let mut bytes = 0;
    let mut put = |key: Vec<u8>, value: Vec<u8>| {
        bytes += key.len() + value.len();
        batch.put(Space::Indexes, key, value);
        if bytes < BATCH_BYTES {
            return Ok(());
        }
        bytes = 0;
        index.commit(std::mem::take(&mut batch), None)
    };
    for (part, run) in parts.iter().zip(runs - parts.len() as u64..) {
        for (rows, view) in part.views.iter().zip(0..) {
            for (chunk, number) in rows.chunks(CHUNK_BYTES).zip(0..) {
                put(Key::ViewRun { index: index.number, view, run, chunk: number }.bytes(), chunk)?;
            }
        }
        for (id, record) in &part.records {
            put(Key::ViewDocument(index.number, id).bytes(), record.clone())?;
        }
    }
    index.commit(batch, Some(header))
}

/// The chunks of a stored run, each read from a snapshot of its own. The engine keeps in memory all that is written while a
/// snapshot is open, and a merge writes as much as it reads. Stored runs do not change.
pub(super) fn stored_chunks(collection: &Arc<Collection>, index: IndexId, view: u32, run: u64) -> Pairs {
    let collection = collection.clone();
    Box::new((0..).map_while(move |chunk| {
        let key = Key::ViewRun { index, view, run, chunk }.bytes();
        let found = collection.view().snapshot().get(Space::Indexes, &key);
        found.map(|value| Some((key.into(), value?))).transpose()
    }))
}

/// The key prefix of a run's chunks.
pub(super) fn run_prefix(index: IndexId, view: u32, run: u64) -> Vec<u8> {
    let mut prefix = keys::view_part(index, ViewPart::Runs);
    write_number(&mut prefix, view.into());
    write_number(&mut prefix, run);
    prefix
}

/// Merges the runs, and the rows in memory, into trees.
fn finish(
    index: &Index,
    mut header: Header,
    design: &Design,
    limits: Limits,
    last: &[Mapped],
) -> Result<Header> {
    let BuildState::Building { runs, .. } = header.state else { return Ok(header) };
    let reduces = reduces(&reduce_sources(design), limits)?;
    let mut batch = Batch::new();
    for (view, reduce) in reduces.iter().enumerate() {
        let number = view as u32;
        let mut sources: Vec<Run<'_>> =
            last.iter().filter_map(|part| part.views.get(view)).map(Run::of).collect();
        for run in 0..runs {
            sources.push(Run::stored(stored_chunks(&index.collection, index.number, number, run))?);
        }
        let commit = |batch| index.commit(batch, None);
        let mut nodes = NewNodes::new(index.number, number, &commit);
        let mut builder = TreeBuilder::new(&mut nodes, header.views[view].layout, reduce.as_ref());
        merge(sources, &mut |entry| builder.push(entry))?;
        header.views[view].tree = builder.finish()?;
        batch.append(nodes.finish());
    }
    let mut bytes = 0;
    for (id, record) in last.iter().flat_map(|part| &part.records) {
        bytes += id.len() + record.len();
        batch.put(Space::Indexes, Key::ViewDocument(index.number, id).bytes(), record.clone());
        if bytes >= BATCH_BYTES {
            bytes = 0;
            index.commit(std::mem::take(&mut batch), None)?;
        }
    }
    header.state = BuildState::Ready { leftovers: runs > 0 };
    index.commit(batch, Some(&header))?;
    remove_leftovers(index, header)
}

/// Deletes the runs of a finished build.
pub(super) fn remove_leftovers(index: &Index, mut header: Header) -> Result<Header> {
    if header.state == (BuildState::Ready { leftovers: true }) {
        let runs = keys::view_part(index.number, ViewPart::Runs);
        index.collection.delete_view_keys(KeyRange::prefix(&runs))?;
        header.state = BuildState::Ready { leftovers: false };
        index.commit(Batch::new(), Some(&header))?;
    }
    Ok(header)
}

//! Building an index: all documents are mapped, their rows stored in sorted runs, the runs merged into trees.
//!
//! Documents are mapped in the order of their ids, so a header that names the last one and the number of runs is enough to
//! go on after a kill. The sequence of the index is that from before the first document was read; what happened
//! meanwhile comes by the change log afterwards, and the records of documents tell which rows it replaces.

use super::header::{Header, State};
use super::index::{Index, reduce_sources, reduces};
use super::mapping::{Mapped, Plan, Walk, threads};
use super::nodes::NewNodes;
use super::rows::{Run, merge};
use super::tasks::Progress;
use crate::design::Design;
use crate::error::{Error, Result};
use crate::sandbox::Limits;
use crate::tree::Builder;
use diwan_kv::{Batch, Direction, KeyRange, Space};
use diwan_store::keys::{self, IndexId, Key, ViewPart, write_number};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;

/// How many documents are mapped between two notes of how far the build has come.
const ROUND: u64 = 50_000;
/// How much a thread collects in a round before it pauses for the note.
const ROUND_BYTES: usize = 48 << 20;
/// How large the parts of a run are, and the batches in which they are written.
const CHUNK_BYTES: usize = 64 << 10;
const BATCH_BYTES: usize = 4 << 20;

/// Builds an index from where its header says it is.
pub(super) fn build(
    index: &Index,
    mut header: Header,
    design: &Design,
    limits: Limits,
    ended: &AtomicBool,
    progress: &Progress,
) -> Result<Header> {
    let State::Building { mut after, mut mapped, mut runs } = header.state.clone() else { return Ok(header) };
    let begins = after.is_none();
    for number in 0..header.views.len() as u32 {
        // What a build was writing when it was killed is not counted, and may have more chunks than what takes its place.
        let uncounted = KeyRange::half_open(
            run_prefix(index.number, number, runs),
            run_prefix(index.number, number + 1, 0),
        );
        index.collection.delete_view_keys(uncounted)?;
    }
    let view = index.collection.view();
    progress.work.done.store(mapped, Ordering::Relaxed);
    progress.total.store(index.collection.count(), Ordering::Relaxed);
    let mappers = index.take_mappers(threads(), limits, design)?;
    let plan = Plan::kept(design, &header, ended, &progress.work.done);
    let walk = Walk::new(&view, after.clone());
    // While one round's rows are written the next one is mapped.
    let (rounds, to_write) = sync_channel::<(Vec<Mapped>, Header)>(1);
    let last = std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            for (parts, header) in to_write {
                store_runs(index, &parts, &header)?;
            }
            Ok(())
        });
        let mut map = || loop {
            walk.allow(ROUND);
            let parts = plan.map_walk(&mappers, &walk, &|part| {
                if part.memory() >= ROUND_BYTES {
                    walk.allow(0);
                }
                Ok(())
            })?;
            let (position, is_end) = walk.position();
            if is_end && begins && runs == 0 {
                // All of it is in memory: there is nothing to go on from, and no run to be read back.
                return Ok(parts);
            }
            mapped = progress.work.done.load(Ordering::Relaxed);
            after = position;
            header.state = State::Building { after: after.clone(), mapped, runs: runs + parts.len() as u64 };
            runs += parts.len() as u64;
            if rounds.send((parts, header.clone())).is_err() || is_end {
                return Ok(Vec::new());
            }
        };
        let outcome: Result<Vec<Mapped>> = map();
        drop(rounds);
        let written = writer.join().unwrap_or(Err(Error::Ended));
        written.and(outcome)
    })?;
    index.give_back(mappers);
    finish(index, header, design, limits, &last)
}

/// Stores the rows of a round as runs, the records of its documents, and last the header that counts them.
pub(super) fn store_runs(index: &Index, parts: &[Mapped], header: &Header) -> Result<()> {
    let State::Building { runs, .. } = header.state else { return Ok(()) };
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

/// What the keys of a run's chunks begin with.
pub(super) fn run_prefix(index: IndexId, view: u32, run: u64) -> Vec<u8> {
    let mut prefix = keys::view_part(index, ViewPart::Runs);
    write_number(&mut prefix, view.into());
    write_number(&mut prefix, run);
    prefix
}

/// Makes trees of the runs, and of what is in memory.
fn finish(
    index: &Index,
    mut header: Header,
    design: &Design,
    limits: Limits,
    last: &[Mapped],
) -> Result<Header> {
    let State::Building { runs, .. } = header.state else { return Ok(header) };
    let reduces = reduces(&reduce_sources(design), limits)?;
    let snapshot = index.collection.view();
    let mut batch = Batch::new();
    for (view, reduce) in reduces.iter().enumerate() {
        let number = view as u32;
        let mut sources: Vec<Run<'_>> =
            last.iter().filter_map(|part| part.views.get(view)).map(Run::of).collect();
        for run in 0..runs {
            let range = KeyRange::prefix(&run_prefix(index.number, number, run));
            sources.push(Run::stored(snapshot.snapshot().scan(Space::Indexes, range, Direction::Forward))?);
        }
        let commit = |batch| index.commit(batch, None);
        let mut nodes = NewNodes::new(index.number, number, &commit);
        let mut builder = Builder::new(&mut nodes, header.views[view].layout, reduce.as_ref());
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
    header.state = State::Ready { leftovers: runs > 0 };
    index.commit(batch, Some(&header))?;
    drop(snapshot);
    remove_leftovers(index, header)
}

/// Deletes the runs of a build that has ended.
pub(super) fn remove_leftovers(index: &Index, mut header: Header) -> Result<Header> {
    if header.state == (State::Ready { leftovers: true }) {
        let runs = keys::view_part(index.number, ViewPart::Runs);
        index.collection.delete_view_keys(KeyRange::prefix(&runs))?;
        header.state = State::Ready { leftovers: false };
        index.commit(Batch::new(), Some(&header))?;
    }
    Ok(header)
}

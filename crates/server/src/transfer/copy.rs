//! Copies all pairs of one engine to another, and compares them.
//!
//! The pairs of each space are copied in their order, in runs that are each ingested as a whole. So at any instant a space of
//! the target has the first pairs of the source's. A resumed copy needs no other record of how far it came: it reads what is
//! there, expects the same at the beginning of the source, and goes on behind it.

use super::run::Run;
use diwan_kv::{Checksum, Engine, Error, KeyRange, Snapshot, Space};
use diwan_store::incoming::{Incoming, is_mark};
use std::mem;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

/// The checksums of all spaces, in the order of [`Space::ALL`].
pub type Sums = [Checksum; Space::ALL.len()];

/// What is being done with a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reading what an earlier move has copied.
    Resuming,
    /// Reading the source, and writing what the target does not have yet.
    Copying,
    /// Reading the target.
    Verifying,
}

/// How far a step has come.
pub struct Progress<'a> {
    /// The step.
    pub step: Step,
    /// The space.
    pub space: Space,
    /// What has been read.
    pub done: &'a Checksum,
}

/// Called after each pair that was read; breaks to end the work.
pub type Watch<'a> = dyn FnMut(Progress<'_>) -> ControlFlow<()> + 'a;

/// Why the work ended early.
#[derive(Debug)]
pub enum Failure {
    /// The watch ended it.
    Stopped,
    /// The source cannot be read.
    Source(Error),
    /// The target cannot be read or written.
    Target(Error),
    /// The source does not begin with what an earlier move has copied.
    Changed(Space),
    /// The target is not what was written to it.
    Different(Space),
    /// The system makes no thread.
    Thread(String),
}

/// Copies all that the target does not have yet. Returns the checksums of the source.
pub fn copy(
    source: &dyn Snapshot,
    target: &dyn Engine,
    incoming: &Incoming<'_>,
    watch: &mut Watch<'_>,
) -> Result<Sums, Failure> {
    let mut sums = Sums::default();
    for space in Space::ALL {
        let there = match incoming.is_resumed {
            true => read(target.snapshot().as_ref(), space, Step::Resuming, watch)?,
            false => Checksum::new(),
        };
        sums[space.index()] = thread::scope(|scope| {
            // A run is written while the next one is read.
            let (runs, waiting) = sync_channel::<Run>(0);
            let write = move || {
                waiting.into_iter().try_for_each(|run| {
                    incoming.check()?;
                    target.ingest(space, run.pairs())
                })
            };
            let writer = thread::Builder::new().name("diwan-move".into()).spawn_scoped(scope, write);
            let writer = writer.map_err(|error| Failure::Thread(error.to_string()))?;
            let sum = copy_space(source, space, &there, runs, watch);
            let written = writer.join().unwrap_or_else(|panic| resume_unwind(panic));
            written.map_err(Failure::Target).and(sum)
        })?;
    }
    Ok(sums)
}

/// Reads a space of the source, and hands over the pairs behind those that are there.
fn copy_space(
    source: &dyn Snapshot,
    space: Space,
    there: &Checksum,
    runs: SyncSender<Run>,
    watch: &mut Watch<'_>,
) -> Result<Checksum, Failure> {
    let mut sum = Checksum::new();
    let mut run = Run::default();
    let mut outcome = Ok(());
    let mut end = |failure| {
        outcome = Err(failure);
        ControlFlow::Break(())
    };
    let visited = source.visit(space, KeyRange::all(), &mut |key, value| {
        sum.add(key, value);
        if watch(Progress { step: Step::Copying, space, done: &sum }).is_break() {
            return end(Failure::Stopped);
        }
        if sum.pairs() > there.pairs() {
            run.add(key, value);
            if run.is_full() && runs.send(mem::take(&mut run)).is_err() {
                // The writer has ended, and says why.
                return end(Failure::Stopped);
            }
        } else if sum.pairs() == there.pairs() && sum != *there {
            return end(Failure::Changed(space));
        }
        ControlFlow::Continue(())
    });
    visited.map_err(Failure::Source)?;
    outcome?;
    if sum.pairs() < there.pairs() {
        return Err(Failure::Changed(space));
    }
    if !run.is_empty() {
        // The same.
        let _ = runs.send(run);
    }
    Ok(sum)
}

/// Reads the target and compares it with the checksums of the source.
pub fn verify(source: &Sums, target: &dyn Engine, watch: &mut Watch<'_>) -> Result<(), Failure> {
    let snapshot = target.snapshot();
    for (space, expected) in Space::ALL.into_iter().zip(source) {
        if read(snapshot.as_ref(), space, Step::Verifying, watch)? != *expected {
            return Err(Failure::Different(space));
        }
    }
    Ok(())
}

/// The checksum of a space of the target, without the mark.
fn read(target: &dyn Snapshot, space: Space, step: Step, watch: &mut Watch<'_>) -> Result<Checksum, Failure> {
    let mut sum = Checksum::new();
    let mut is_stopped = false;
    let visited = target.visit(space, KeyRange::all(), &mut |key, value| {
        if !is_mark(space, key) {
            sum.add(key, value);
        }
        let flow = watch(Progress { step, space, done: &sum });
        is_stopped = flow.is_break();
        flow
    });
    visited.map_err(Failure::Target)?;
    if is_stopped { Err(Failure::Stopped) } else { Ok(sum) }
}

//! The ordered key-value contract of Diwan and its engines; bytes only.
//!
//! An [`Engine`] holds a few fixed [`Space`]s, each an ordered map from keys to values. It is read through a
//! [`Snapshot`], which shows one state of all spaces together, and written by committing a [`Batch`], which is
//! applied as a whole or not at all. Engines give no meaning to keys and values.
//!
//! Many sorted pairs are written by [`Engine::ingest`], without the journal.
//!
//! A commit is acknowledged in two steps: when [`Engine::commit`] returns, the batch is visible and survives a
//! kill of the process; once the engine reports its [`CommitId`] durable, it also survives a loss of power.
//!
//! Engines: [`FjallEngine`] on disk, [`MemoryEngine`] in memory, [`OverlayEngine`] over a snapshot; around any of them [`CachedEngine`] keeps pairs in
//! memory, [`ContractEngine`] checks this contract and [`FaultEngine`] breaks it on purpose, for tests. [`open`] is the
//! usual way in.

mod batch;
mod cache;
mod checksum;
mod contract;
#[doc(hidden)]
pub mod contract_tests;
mod disk;
mod engine;
mod error;
mod fault;
mod memory;
mod overlay;
mod peers;
mod range;
mod space;
mod split;
mod ticker;

pub use batch::{Batch, Condition, Write};
pub use cache::CachedEngine;
pub use checksum::Checksum;
pub use contract::ContractEngine;
pub use disk::{FjallEngine, Options};
pub use engine::{
    BegunCommit, CommitId, Direction, DurableCallback, Engine, KeyVisitor, Pairs, Snapshot, SortedPairs,
    SpaceStats, SpaceVisitor, Stats, Visitor, delete_in_batches,
};
pub use error::{Error, LostJournal, Result};
pub use fault::{Fault, FaultEngine};
/// A cheaply cloned, immutable byte string; short ones are stored in place.
pub use fjall::Slice as Bytes;
pub use memory::MemoryEngine;
pub use overlay::OverlayEngine;
pub use peers::{Alone, Changes, Commits, KeptOut, Marker, Observer, Peers, Turn, Turns, evaluate};
pub use range::KeyRange;
pub use space::Space;

/// The longest key, in bytes, that an engine takes.
pub const MAX_KEY_LEN: usize = u16::MAX as usize;

/// Opens the engine on disk in the directory `path`, with a cache for queries around it; debug builds check its contract.
///
/// Of [`Options::cache_bytes`] the engine's blocks, which any read may need, get a quarter, and the cache's pages the rest.
pub fn open(path: impl AsRef<std::path::Path>, options: &Options) -> Result<Box<dyn Engine>> {
    let blocks = options.cache_bytes / 4;
    let engine = FjallEngine::open(path, &Options { cache_bytes: blocks, ..options.clone() })?;
    let engine = CachedEngine::new(engine, options.cache_bytes - blocks);
    if options.settle_in_background {
        engine.warm_in_background()?;
    }
    Ok(if cfg!(debug_assertions) { Box::new(ContractEngine::new(engine)) } else { Box::new(engine) })
}

#[cfg(test)]
mod tests;

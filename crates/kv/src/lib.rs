//! The ordered key-value contract of Diwan and its engines; bytes only.
//!
//! An [`Engine`] holds a few fixed [`Space`]s, each an ordered map from keys to values. It is read through a
//! [`Snapshot`], which shows one state of all spaces together, and written by committing a [`Batch`], which is
//! applied as a whole or not at all. What lies in keys and values is the caller's business.
//!
//! A commit is acknowledged in two steps: when [`Engine::commit`] returns, the batch is visible and survives a
//! kill of the process; once the engine reports its [`CommitId`] durable, it also survives a loss of power.
//!
//! Engines: [`FjallEngine`] on disk, [`MemoryEngine`] in memory.

mod batch;
mod disk;
mod engine;
mod error;
mod memory;
mod range;
mod space;
mod split;

pub use batch::{Batch, Condition, Write};
pub use disk::{FjallEngine, Options};
pub use engine::{CommitId, Direction, DurableCallback, Engine, Pairs, Snapshot, SpaceStats, Stats};
pub use error::{Error, LostJournal, Result};
/// A cheaply cloned, immutable byte string; short ones are stored in place.
pub use fjall::Slice as Bytes;
pub use memory::MemoryEngine;
pub use range::KeyRange;
pub use space::Space;

/// The longest key, in bytes, that an engine takes.
pub const MAX_KEY_LEN: usize = u16::MAX as usize;

#[cfg(test)]
mod tests;

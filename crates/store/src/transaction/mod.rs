//! Transactions: a private store over a snapshot, whose writes become visible as a whole or not at all.
//!
//! A transaction's statements run unchanged on a private [`Store`] and private collections. Their engine is an
//! [`OverlayEngine`]: a snapshot with the transaction's writes over it. So every operator, index
//! and stage reads the snapshot and the transaction's own writes.
//!
//! - `claims`: what a transaction writes, it claims until it ends, in the table of locks of the store outside. A writer
//!   outside that meets a claim waits; another transaction fails. A transaction that writes what has changed since its
//!   snapshot fails.
//! - `inside`: what the private store needs of the store outside, and how it opens collections.
//! - `commit`: the documents get their sequences, and all writes become one batch.
//!
//! Nothing reaches the engine before the commit but the numbers of new collections.

mod claims;
mod commit;
mod inside;
#[cfg(test)]
mod tests;

pub(crate) use claims::{ClaimWaiters, Claims};
pub use claims::{Claimant, MAX_WAITING_WRITERS};
pub(crate) use inside::Inside;

use crate::blob::Blobs;
use crate::error::Result;
use crate::feed::DatabaseFeed;
use crate::locks::LockTable;
use crate::numbers::Numbers;
use crate::store::{LARGE_WRITES, Shared, Store};
use diwan_kv::{CommitId, Engine, OverlayEngine, Snapshot};
use diwan_query::{Gate, Interrupt};
use diwan_value::{Doc, Timestamp};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The client's name of a transaction.
#[derive(Clone, Copy)]
pub struct TransactionOrigin<'a> {
    /// The key of the session's records of retryable writes.
    pub key: &'a [u8],
    /// The session's identifier as events show it.
    pub session: Doc<'a>,
    /// The number that the client gave the transaction.
    pub number: i64,
}

/// An open transaction. It ends with [`Transaction::commit`], or without effect when it is dropped.
pub struct Transaction {
    store: Arc<Store>,
    inside: Arc<Inside>,
    started: Timestamp,
}

impl Store {
    /// Begins a transaction over a snapshot as of now.
    pub fn begin_transaction(self: &Arc<Self>) -> Transaction {
        let (snapshot, started) = self.shared.events.snapshot(self.shared.engine.as_ref());
        self.begin_over(snapshot.into(), started)
    }

    /// Whether open transactions have written something: other writers may have to wait.
    pub fn has_claims(&self) -> bool {
        self.shared.documents.has_claims()
    }

    /// Waits until a transaction has ended, for a caller that begins its own anew then. Fails with
    /// [`Error::Claimed`](crate::Error::Claimed) if too many writers wait already.
    pub fn wait_for(&self, claimant: &Arc<Claimant>, interrupt: &Interrupt) -> Result<()> {
        self.shared.waiters.wait(claimant, interrupt)
    }

    fn begin_over(self: &Arc<Self>, snapshot: Arc<dyn Snapshot>, started: Timestamp) -> Transaction {
        let overlay = Arc::new(OverlayEngine::new(snapshot));
        let inside = Arc::new(Inside::new(self.clone(), overlay.clone()));
        let engine: Arc<dyn Engine> = overlay;
        let shared = Arc::new(Shared {
            engine,
            documents: LockTable::small(),
            unique_keys: LockTable::small(),
            large_writes: Gate::new(LARGE_WRITES),
            blobs: Blobs::default(),
            databases: DatabaseFeed::new(),
            events: self.shared.events.of_transaction(),
            retention: RwLock::default(),
            schema_changes: Mutex::new(()),
            numbers: Numbers::new(0),
            waiters: ClaimWaiters::none(),
            transaction_bytes: AtomicU64::new(0),
            retries: self.shared.retries.clone(),
            replica: self.shared.replica.clone(),
            inside: Some(inside.clone()),
        });
        Transaction { store: Store::inside(shared), inside, started }
    }
}

impl Transaction {
    /// Another transaction over the same snapshot.
    pub fn fork(&self) -> Transaction {
        self.inside.outside.begin_over(self.inside.overlay.base().clone(), self.started)
    }

    /// The private store, for the transaction's statements. They run one after another.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The time of the snapshot: it shows every commit up to then.
    pub fn started(&self) -> Timestamp {
        self.started
    }

    /// How many bytes the transaction has written.
    pub fn written_bytes(&self) -> u64 {
        self.inside.overlay.written_bytes()
    }

    /// Makes all writes visible together. With an origin, the commit is remembered:
    /// [`Store::has_committed`] knows it, also after a restart. `None` if nothing was written.
    pub fn commit(self, origin: Option<TransactionOrigin<'_>>) -> Result<Option<CommitId>> {
        commit::commit(&self, origin)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // Cursors may still read the private store, so its own drop may come later.
        self.inside.end();
    }
}

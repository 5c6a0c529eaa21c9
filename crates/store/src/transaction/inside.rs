//! The part of a transaction that its private store sees.

use super::claims::Claimant;
use crate::catalog::CatalogEntry;
use crate::collection::Collection;
use crate::error::{Error, Result};
use crate::keys::Key;
use crate::locks::LockTable;
use crate::namespace::Namespace;
use crate::store::{Entry, Shared, Store, ViewEntry};
use diwan_kv::{OverlayEngine, Space};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long a transaction waits for a writer that has locked what it wants to write, as in MongoDB.
const LOCK_PATIENCE: Duration = Duration::from_millis(50);

/// The most bytes that a transaction may write, and that all open ones may.
const MAX_BYTES: u64 = 256 << 20;
const MAX_BYTES_OF_ALL: u64 = 1 << 30;

/// What the private store of a transaction knows of the store outside.
pub(crate) struct Inside {
    pub outside: Arc<Store>,
    pub overlay: Arc<OverlayEngine>,
    claimant: Arc<Claimant>,
    /// Why the transaction can only be aborted: it has met somebody else's write, or it is too large.
    failure: OnceLock<(i32, String)>,
    documents: Mutex<HashSet<u64>>,
    unique_keys: Mutex<HashSet<u64>>,
    /// The numbers of the collections and indexes that the transaction has created. They are marked as dropped.
    pub numbers: Mutex<Vec<u32>>,
    /// Why a catalog entry could not be read. Its collection must not be taken for a missing one.
    unreadable: Mutex<Option<Error>>,
    /// How many written bytes are counted outside.
    counted: Mutex<u64>,
}

impl Inside {
    pub fn new(outside: Arc<Store>, overlay: Arc<OverlayEngine>) -> Inside {
        Inside {
            outside,
            overlay,
            claimant: Arc::default(),
            failure: OnceLock::new(),
            documents: Mutex::default(),
            unique_keys: Mutex::default(),
            numbers: Mutex::default(),
            unreadable: Mutex::default(),
            counted: Mutex::default(),
        }
    }

    /// The collection or view of that name as the snapshot has it. None also where it cannot be read:
    /// [`Inside::check_readable`] tells.
    pub fn open_entry(
        &self,
        shared: &Arc<Shared>,
        entries: &RwLock<BTreeMap<Namespace, Entry>>,
        namespace: &Namespace,
    ) -> Option<Entry> {
        match self.read_entry(shared, namespace) {
            Ok(entry) => {
                // Two threads of one statement may open it at once.
                let mut entries = entries.write();
                Some(entries.entry(namespace.clone()).or_insert(entry?).clone())
            }
            Err(error) => {
                tracing::error!(%error, collection = %namespace, "cannot read a catalog entry");
                *self.unreadable.lock() = Some(error);
                None
            }
        }
    }

    fn read_entry(&self, shared: &Arc<Shared>, namespace: &Namespace) -> Result<Option<Entry>> {
        let key = Key::Catalog { database: &namespace.database, collection: &namespace.collection }.bytes();
        let Some(stored) = self.overlay.base().get(Space::Meta, &key)? else { return Ok(None) };
        let counterpart = match self.outside.entry(namespace) {
            Some(Entry::Collection(collection))
                if Some(collection.uuid()) == CatalogEntry::uuid_of(&stored) =>
            {
                Some(collection)
            }
            _ => None,
        };
        let present = counterpart.as_ref().map(|collection| collection.catalog_entry(&collection.schema()));
        let entry = match present {
            // The usual case, in which nothing has to be parsed.
            Some(present) if present.encode().as_doc().as_bytes() == &*stored => present,
            present => {
                let entry = CatalogEntry::decode(&stored)?;
                // The snapshot may have entries whose multikey bits its catalog does not have yet.
                for index in present.iter().flat_map(|present| &present.indexes) {
                    let own = entry.indexes.iter().find(|own| own.id == index.id);
                    own.iter().for_each(|own| own.add_multikey(index.multikey()));
                }
                entry
            }
        };
        Ok(Some(match &entry.options.view {
            Some(view) => Entry::View(Arc::new(ViewEntry {
                namespace: namespace.clone(),
                uuid: entry.uuid,
                view: view.clone(),
                options: entry.options.clone(),
            })),
            None => {
                let collection =
                    Collection::open_inside(shared.clone(), namespace.clone(), entry, counterpart)?;
                Entry::Collection(Arc::new(collection))
            }
        }))
    }

    /// An error if a catalog entry could not be read.
    pub fn check_readable(&self) -> Result<()> {
        self.unreadable.lock().clone().map_or(Ok(()), Err)
    }

    /// Allocates a number outside. It is marked as dropped there until the commit.
    pub fn allocate(&self) -> Result<u32> {
        let number = self.outside.shared.next_number()?;
        self.numbers.lock().push(number);
        Ok(number)
    }

    /// Claims a document. Returns whether it was not claimed before.
    pub fn claim_document(&self, collection: &Collection, id: &[u8]) -> Result<bool> {
        self.claim(&self.outside.shared.documents, &self.documents, collection.id.0, id)
    }

    /// Claims a key of a unique index. Returns whether it was not claimed before.
    pub fn claim_unique_key(&self, index: u32, key: &[u8]) -> Result<bool> {
        self.claim(&self.outside.shared.unique_keys, &self.unique_keys, index, key)
    }

    fn claim(&self, table: &LockTable, own: &Mutex<HashSet<u64>>, owner: u32, key: &[u8]) -> Result<bool> {
        self.check_failure()?;
        let hash = table.claim(owner, key, &self.claimant, LOCK_PATIENCE).map_err(|holder| {
            let conflict = self.conflict();
            holder.map_or(conflict, Error::Claimed)
        })?;
        Ok(own.lock().insert(hash))
    }

    /// The error for a write that somebody else's write precludes. All later writes fail, too.
    pub fn conflict(&self) -> Error {
        self.fail(Error::write_conflict())
    }

    /// Refuses to go on after an error that precludes the commit.
    pub fn check_failure(&self) -> Result<()> {
        self.failure.get().map_or(Ok(()), |(code, text)| Err(Error::refused(*code, text.as_str())))
    }

    /// Makes an error that of all later writes.
    fn fail(&self, error: Error) -> Error {
        if let Error::Query(error) = &error {
            self.failure.get_or_init(|| (error.code, error.message.to_string()));
        }
        error
    }

    /// The hashes of the claimed documents and unique keys.
    pub fn claimed(&self) -> (Vec<u64>, Vec<u64>) {
        let all = |claims: &Mutex<HashSet<u64>>| claims.lock().iter().copied().collect();
        (all(&self.documents), all(&self.unique_keys))
    }

    /// Counts what the transaction has written and the bytes that it is about to write, and refuses more than there may
    /// be.
    pub fn check_size(&self, bytes: usize) -> Result<()> {
        self.check_failure()?;
        let written = self.overlay.written_bytes() + bytes as u64;
        let mut counted = self.counted.lock();
        // A counted write may have failed afterwards.
        let more = written.saturating_sub(*counted);
        *counted = written.max(*counted);
        let all = self.outside.shared.transaction_bytes.fetch_add(more, Ordering::Relaxed) + more;
        if written > MAX_BYTES {
            let text = format!(
                "Total size of all transaction operations must be less than {MAX_BYTES} bytes. Actual size is {written}"
            );
            return Err(self.fail(Error::refused(257, text)));
        }
        if all > MAX_BYTES_OF_ALL {
            let text = "transaction is too large and will not fit in the storage engine cache";
            return Err(self.fail(Error::refused(358, text)));
        }
        Ok(())
    }

    /// Ends the transaction: others may write what it has claimed.
    pub fn end(&self) {
        let shared = &self.outside.shared;
        shared.documents.release(std::mem::take(&mut *self.documents.lock()).into_iter());
        shared.unique_keys.release(std::mem::take(&mut *self.unique_keys.lock()).into_iter());
        self.claimant.end();
        shared.delete_later(std::mem::take(&mut *self.numbers.lock()));
        shared.transaction_bytes.fetch_sub(std::mem::take(&mut *self.counted.lock()), Ordering::Relaxed);
    }
}

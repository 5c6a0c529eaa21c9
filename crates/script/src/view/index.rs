//! An open index: the state shared by its readers, its builder and its removal.

use super::header::Header;
use crate::design::{Design, ViewDefinition};
use crate::error::{Error, Result};
use crate::reduce::Reduce;
use crate::reduce::builtin::Builtin;
use crate::sandbox::{Limits, Mapper, Reducer};
use diwan_kv::{Batch, Space};
use diwan_store::Collection;
use diwan_store::keys::IndexId;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// An open index.
pub(super) struct Index {
    pub number: IndexId,
    pub signature: [u8; 16],
    pub collection: Arc<Collection>,
    /// Held by the thread that builds or updates the index.
    pub updating: Mutex<()>,
    /// How many requests wait for that thread.
    pub waiting: AtomicU64,
    /// Whether the index was removed. Held while a batch is committed.
    removed: Mutex<bool>,
    /// The header that this process's batches rely on, while it has [claimed](super::claim) the index.
    pub(super) claimed: Mutex<Option<Vec<u8>>>,
    /// Unused contexts.
    mappers: Mutex<Vec<Mapper>>,
    /// Whether a background update is scheduled.
    pub following: AtomicBool,
}

impl Index {
    pub fn new(collection: Arc<Collection>, number: IndexId, signature: [u8; 16]) -> Index {
        Index {
            number,
            signature,
            collection,
            updating: Mutex::default(),
            waiting: AtomicU64::new(0),
            removed: Mutex::new(false),
            claimed: Mutex::default(),
            mappers: Mutex::default(),
            following: AtomicBool::new(false),
        }
    }

    /// Reads the current header.
    pub fn header(&self) -> Result<Header> {
        match self.collection.view().view_header(self.number)? {
            Some(bytes) => Header::decode(&bytes),
            None => Err(Error::Replaced),
        }
    }

    /// Commits a batch, with a new header if given. Fails if the index was removed.
    pub fn commit(&self, mut batch: Batch, header: Option<&Header>) -> Result<()> {
        let removed = self.removed.lock();
        if *removed {
            return Err(Error::Replaced);
        }
        let key = self.collection.view_header_key(self.number);
        let header = header.map(Header::encode);
        let mut claimed = self.claimed.lock();
        if let Some(claimed) = &*claimed {
            batch.require_equal(Space::Meta, key.clone(), claimed.as_slice());
        }
        if let Some(header) = &header {
            batch.put(Space::Meta, key, header.as_slice());
        }
        match self.collection.commit_view(batch) {
            // Another process has taken the index over.
            Err(diwan_store::Error::Engine(diwan_kv::Error::Conflict(_))) => return Err(Error::Replaced),
            outcome => outcome?,
        };
        if claimed.is_some() && header.is_some() {
            *claimed = header;
        }
        Ok(())
    }

    /// Removes the index.
    pub fn remove(&self) -> Result<()> {
        let mut removed = self.removed.lock();
        if !*removed {
            self.collection.drop_view_index(self.number)?;
            *removed = true;
        }
        Ok(())
    }

    pub fn is_removed(&self) -> bool {
        *self.removed.lock()
    }

    /// Takes `count` contexts with the map functions, creating them if necessary.
    pub fn take_mappers(&self, count: usize, limits: Limits, design: &Design) -> Result<Vec<Mapper>> {
        let mut mappers = std::mem::take(&mut *self.mappers.lock());
        while mappers.len() < count {
            mappers.push(Mapper::new(limits, design)?);
        }
        Ok(mappers)
    }

    /// Returns contexts after use without errors.
    pub fn give_back(&self, mappers: Vec<Mapper>) {
        let mut kept = self.mappers.lock();
        kept.extend(mappers);
        // One context is enough for occasional updates.
        kept.truncate(1);
    }
}

/// Counts a request that waits for another thread to build or update an index.
pub struct Waiting(Arc<Index>);

impl Waiting {
    pub(super) fn new(index: Arc<Index>) -> Waiting {
        index.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(index)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The reduce functions of the views, in order.
pub(super) fn reduces(views: &[(&str, Option<&str>)], limits: Limits) -> Result<Vec<Option<Reduce>>> {
    let mut reducer: Option<(Arc<Reducer>, usize)> = None;
    let mut reduces = Vec::with_capacity(views.len());
    for (name, source) in views {
        reduces.push(match source {
            None => None,
            Some(source) if source.starts_with('_') => {
                Some(Reduce::Builtin(Builtin::parse(source)?, limits.reduce))
            }
            Some(source) => {
                let (context, count) = match &mut reducer {
                    Some(made) => made,
                    made => made.insert((Arc::new(Reducer::new(limits)?), 0)),
                };
                context.add(name, source)?;
                *count += 1;
                Some(Reduce::Script(context.clone(), *count - 1))
            }
        });
    }
    Ok(reduces)
}

/// The names and reduce functions of a design document's views.
pub(super) fn reduce_sources(design: &Design) -> Vec<(&str, Option<&str>)> {
    let views = design.views().iter();
    views.map(|(name, view): (&String, &ViewDefinition)| (name.as_str(), view.reduce.as_deref())).collect()
}

//! An index in use: what its readers, its builder and whoever removes it share.

use super::header::Header;
use crate::design::{Design, ViewDefinition};
use crate::error::{Error, Result};
use crate::reduce::{Builtin, Reduce};
use crate::sandbox::{Limits, Mapper, Reducer};
use diwan_kv::{Batch, Space};
use diwan_store::Collection;
use diwan_store::keys::IndexId;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// An index.
pub(super) struct Index {
    pub number: IndexId,
    pub signature: [u8; 16],
    pub collection: Arc<Collection>,
    /// Held by whoever builds or updates it.
    pub updating: Mutex<()>,
    /// How many wait for that.
    pub waiting: AtomicU64,
    /// Whether it has been removed; held while a batch is committed.
    removed: Mutex<bool>,
    /// Contexts that are not in use.
    mappers: Mutex<Vec<Mapper>>,
    /// Somebody is about to bring it up to date in the background.
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
            mappers: Mutex::default(),
            following: AtomicBool::new(false),
        }
    }

    /// The header as of now.
    pub fn header(&self) -> Result<Header> {
        match self.collection.view().view_header(self.number)? {
            Some(bytes) => Header::decode(&bytes),
            None => Err(Error::Replaced),
        }
    }

    /// Commits a batch, with a new header if there is one.
    pub fn commit(&self, mut batch: Batch, header: Option<&Header>) -> Result<()> {
        let removed = self.removed.lock();
        if *removed {
            return Err(Error::Replaced);
        }
        if let Some(header) = header {
            batch.put(Space::Meta, self.collection.view_header_key(self.number), header.encode());
        }
        self.collection.commit_view(batch)?;
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

    /// So many contexts with the map functions.
    pub fn take_mappers(&self, count: usize, limits: Limits, design: &Design) -> Result<Vec<Mapper>> {
        let mut mappers = std::mem::take(&mut *self.mappers.lock());
        while mappers.len() < count {
            mappers.push(Mapper::new(limits, design)?);
        }
        Ok(mappers)
    }

    /// Gives contexts back in which nothing went wrong.
    pub fn give_back(&self, mappers: Vec<Mapper>) {
        let mut kept = self.mappers.lock();
        kept.extend(mappers);
        // One is enough for what changes from time to time.
        kept.truncate(1);
    }
}

/// One who waits for an index that somebody else builds or updates.
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

/// The reduce functions of views, in their order.
pub(super) fn reduces(views: &[(&str, Option<&str>)], limits: Limits) -> Result<Vec<Option<Reduce>>> {
    let mut reducer: Option<(Arc<Reducer>, usize)> = None;
    let mut reduces = Vec::with_capacity(views.len());
    for (name, source) in views {
        reduces.push(match source {
            None => None,
            Some(source) if source.starts_with('_') => Some(Reduce::Builtin(Builtin::parse(source)?)),
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

/// Names and reduce functions of a design document's views.
pub(super) fn reduce_sources(design: &Design) -> Vec<(&str, Option<&str>)> {
    let views = design.views().iter();
    views.map(|(name, view): (&String, &ViewDefinition)| (name.as_str(), view.reduce.as_deref())).collect()
}

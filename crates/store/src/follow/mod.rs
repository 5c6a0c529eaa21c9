//! Bringing the state in memory up to date after other processes have written ([`diwan_kv::Peers`]).
//!
//! The engine tells which keys were written, while no write of this process is evaluated. What the keys are about is read anew:
//! catalog entries, the sequences of collections, settings, recorded scopes, events. Subscribers are woken as after a write of
//! this process.

mod catalog;
mod news;

use crate::collection::Collection;
use crate::error::{Error, Result};
use crate::keys::{self, CollectionId, Key};
use crate::store::{Entry, Store, read_format};
use diwan_kv::{Changes, Direction, Engine, KeyRange, Snapshot, Space};
use news::{CollectionNews, News};
use parking_lot::Mutex;
use std::cell::LazyCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock, Weak};

/// The store that follows, once it is open.
type Follower = OnceLock<Weak<Store>>;

/// Following before the store is open.
pub(crate) struct Following(Option<Arc<Follower>>);

impl Following {
    /// Begins to collect what others write. The store is read after this.
    pub fn begin(engine: &dyn Engine) -> Following {
        let Some(peers) = engine.peers() else { return Following(None) };
        let follower: Arc<Follower> = Arc::default();
        let told = follower.clone();
        peers.observe(Box::new(move |changes| match told.get() {
            // It is told again.
            None => Err(diwan_kv::Error::Stale),
            Some(store) => store.upgrade().map_or(Ok(()), |store| store.follow(changes).map_err(of_engine)),
        }));
        Following(Some(follower))
    }

    /// Follows from now on.
    pub fn start(self, store: &Arc<Store>) -> Result<()> {
        if let Some(follower) = self.0 {
            let _ = follower.set(Arc::downgrade(store));
            store.catch_up()?;
        }
        Ok(())
    }
}

fn of_engine(error: Error) -> diwan_kv::Error {
    match error {
        Error::Engine(error) => error,
        other => diwan_kv::Error::Damaged(other.to_string().into()),
    }
}

/// The collections by their numbers, as far as they were asked for.
#[derive(Default)]
pub(crate) struct ByNumber(Mutex<HashMap<CollectionId, Weak<Collection>>>);

impl Store {
    /// Learns what other processes have committed before this call. Where there are none, it costs nothing.
    pub fn catch_up(&self) -> Result<()> {
        match self.shared.engine.peers() {
            Some(peers) => Ok(peers.catch_up()?),
            None => Ok(()),
        }
    }

    /// Whether [`Store::catch_up`] would have nothing to do, and not wait.
    pub fn is_caught_up(&self) -> bool {
        self.shared.engine.peers().is_none_or(|peers| peers.is_caught_up())
    }

    /// Whether this process does what one process does for all that have the store open.
    pub fn leads(&self) -> bool {
        self.shared.leads()
    }

    /// Whether other processes may have the store open.
    pub fn has_peers(&self) -> bool {
        self.shared.has_peers()
    }

    fn follow(&self, changes: &Changes) -> Result<()> {
        // Often the notes tell enough, and nothing has to be read.
        let snapshot = LazyCell::new(|| self.shared.engine.snapshot());
        let Some(news) = News::of(changes)? else { return self.follow_everything(snapshot.as_ref()) };
        if news.numbers {
            self.follow_numbers(snapshot.as_ref())?;
        }
        if news.recordings {
            self.follow_recordings()?;
        }
        news.retries.iter().for_each(|key| self.shared.retries.follow(Some(key)));
        if !news.names.is_empty() {
            let stored = news.names.iter().filter_map(|name| read_entry(snapshot.as_ref(), name).transpose());
            let stored = stored.collect::<Result<_>>()?;
            self.follow_catalog(stored, |name| news.names.contains(name))?;
        }
        for (id, news) in &news.collections {
            if let Some(collection) = self.by_number(*id) {
                self.follow_collection(&|| snapshot.as_ref(), &collection, Some(news))?;
            }
        }
        if news.events.is_empty() {
            return Ok(());
        }
        self.shared.events.follow(snapshot.as_ref(), &news.events)
    }

    fn follow_everything(&self, snapshot: &dyn Snapshot) -> Result<()> {
        self.follow_numbers(snapshot)?;
        self.follow_recordings()?;
        self.shared.retries.follow(None);
        let mut stored = BTreeMap::new();
        for pair in snapshot.scan(Space::Meta, KeyRange::prefix(keys::catalog_prefix()), Direction::Forward) {
            let (key, value) = pair?;
            let damaged = || Error::Damaged(keys::describe(Space::Meta, &key));
            stored.insert(keys::catalog_name(&key).ok_or_else(damaged)?, value);
        }
        self.follow_catalog(stored, |_| true)?;
        let entries: Vec<Entry> = self.entries().read().values().cloned().collect();
        for entry in entries {
            if let Entry::Collection(collection) = entry {
                self.follow_collection(&|| snapshot, &collection, None)?;
            }
        }
        self.shared.blobs.state.lock().totals.clear();
        self.shared.events.reset(snapshot)
    }

    /// Reads a collection's state anew. Without news, any of its documents may have changed.
    fn follow_collection<'s>(
        &self,
        snapshot: &dyn Fn() -> &'s dyn Snapshot,
        collection: &Collection,
        news: Option<&CollectionNews>,
    ) -> Result<()> {
        if news.is_none_or(|news| news.settings) {
            collection.follow_settings(snapshot())?;
        }
        if news.is_some_and(|news| news.blobs) {
            self.shared.blobs.state.lock().totals.remove(&collection.id);
        }
        if news.is_none_or(|news| news.documents) {
            match news.and_then(|news| news.state.as_ref()) {
                Some(state) => collection.sequence.set(state),
                None => collection.follow_sequence(snapshot())?,
            }
            collection.follow_documents(news.map(|news| news.ids.as_slice()));
        }
        Ok(())
    }

    fn follow_numbers(&self, snapshot: &dyn Snapshot) -> Result<()> {
        if let Some(format) = snapshot.get(Space::Meta, &Key::Format.bytes())? {
            *self.shared.numbers.next.lock() = read_format(&format)?;
        }
        Ok(())
    }

    fn follow_recordings(&self) -> Result<()> {
        if self.shared.events.follow_recordings(self.shared.engine.as_ref())? {
            self.shared.mark_recorded(self.entries(), |_| true);
        }
        Ok(())
    }

    fn by_number(&self, id: CollectionId) -> Option<Arc<Collection>> {
        let mut known = self.by_number.0.lock();
        if let Some(collection) = known.get(&id).and_then(Weak::upgrade) {
            return Some(collection);
        }
        known.clear();
        for entry in self.entries().read().values() {
            if let Entry::Collection(collection) = entry {
                known.insert(collection.id, Arc::downgrade(collection));
            }
        }
        known.get(&id).and_then(Weak::upgrade)
    }
}

/// A name with its stored entry.
fn read_entry(
    snapshot: &dyn Snapshot,
    name: &crate::Namespace,
) -> Result<Option<(crate::Namespace, diwan_kv::Bytes)>> {
    let key = Key::Catalog { database: &name.database, collection: &name.collection }.bytes();
    Ok(snapshot.get(Space::Meta, &key)?.map(|value| (name.clone(), value)))
}

//! Deleting the keys of dropped collections and indexes.

use super::schedule::{Progress, Slice, Task, isolated};
use super::{Entries, by_number};
use crate::blob;
use crate::collection::Collection;
use crate::error::Result;
use crate::keys::{self, CollectionId, IndexId, Key};
use crate::namespace::Namespace;
use crate::numbers::{NumberMark, marks};
use crate::ops::maker_of_temporary;
use crate::store::{Entry, Shared};
use diwan_kv::{Batch, Bytes, KeyRange, Peers, Space};
use std::collections::HashMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many keys are deleted between two checks of the slice's end.
const RUN: usize = 8192;

/// Deletes the keys of the collection and index numbers that the store has marked as dropped.
pub(super) struct DeleteDropped {
    shared: Arc<Shared>,
    entries: Entries,
    /// When marks of other processes were looked for last.
    searched: Instant,
    /// Marks that were found, and when first.
    found: HashMap<u32, Instant>,
}

/// How often marks are looked for that another process has left.
const SEARCH_EVERY: Duration = Duration::from_secs(15);

/// A process that lives deletes what it has dropped within this time.
const LEFT_AFTER: Duration = Duration::from_secs(180);

impl DeleteDropped {
    pub fn new(shared: Arc<Shared>, entries: Entries) -> DeleteDropped {
        DeleteDropped { shared, entries, searched: Instant::now(), found: HashMap::new() }
    }

    /// Takes over what processes that have ended have left: numbers that they have dropped or reserved, and temporary collections.
    fn take_over(&mut self) -> Result<()> {
        let Some(peers) = self.shared.engine.peers() else { return Ok(()) };
        if !peers.leads() || self.searched.elapsed() < SEARCH_EVERY {
            return Ok(());
        }
        self.searched = Instant::now();
        let marks = marks(self.shared.engine.snapshot().as_ref())?;
        self.found.retain(|number, _| marks.iter().any(|mark| mark.number == *number));
        for NumberMark { number, process } in marks {
            let is_left = match process {
                Some(process) => process != peers.own() && peers.is_gone(process)?,
                None => self.found.entry(number).or_insert_with(Instant::now).elapsed() > LEFT_AFTER,
            };
            if is_left {
                self.found.remove(&number);
                // An index whose build has ended with its process was never acknowledged.
                let mut collections = by_number(&self.entries).into_values();
                let is_built = |collection: &Arc<Collection>| {
                    collection.schema().secondary().iter().any(|index| index.id.0 == number)
                };
                match collections.find(is_built) {
                    Some(collection) => collection.remove_indexes(|index| index.id.0 == number)?,
                    None => self.shared.delete_later(vec![number]),
                }
            }
        }
        self.drop_temporary(peers)
    }

    /// Drops the temporary collections that processes which have ended have left.
    fn drop_temporary(&self, peers: &dyn Peers) -> Result<()> {
        let names: Vec<Namespace> = self.entries.read().keys().cloned().collect();
        for name in names {
            let Some(maker) = maker_of_temporary(&name).filter(|maker| *maker != peers.own()) else {
                continue;
            };
            if peers.is_gone(maker)? {
                self.shared.evaluate(|| {
                    let change = self.shared.change_schema();
                    // It has its own name by now if its last commit was made.
                    let found = self.entries.read().get(&name).cloned();
                    match found {
                        Some(Entry::Collection(left)) => {
                            self.shared.drop_collection(&self.entries, &change, &left)
                        }
                        _ => Ok(()),
                    }
                })?;
            }
        }
        Ok(())
    }
}

impl Task for DeleteDropped {
    fn name(&self) -> &'static str {
        "deleting dropped collections"
    }

    fn is_for_each_process(&self) -> bool {
        true
    }

    fn interval(&self) -> Duration {
        // Due whenever the thread wakes up. Dropping a collection wakes it.
        Duration::ZERO
    }

    fn work(&mut self, slice: &Slice<'_>) -> Result<Progress> {
        self.take_over()?;
        let mut failed = Vec::new();
        let mut progress = Progress::Done;
        while !slice.is_over()
            && let Some(number) = self.shared.take_dropped()
        {
            let name = format!("number {number}");
            match isolated(self.name(), Some(&name), || self.delete(number, slice)) {
                Some(Progress::Done) => {}
                Some(Progress::More) => {
                    self.shared.delete_next(number);
                    progress = Progress::More;
                    break;
                }
                None => failed.push(number),
            }
        }
        // Failed numbers are tried again in a later round, after all others.
        self.shared.delete_last(failed);
        Ok(progress)
    }
}

impl DeleteDropped {
    /// Deletes all keys of a number, which is either a collection's or an index's.
    fn delete(&self, number: u32, slice: &Slice<'_>) -> Result<Progress> {
        let engine = &self.shared.engine;
        let collection = CollectionId(number);
        let documents = keys::collection_prefix(collection);
        for (space, prefix) in [
            (Space::Records, documents.clone()),
            (Space::Log, documents.clone()),
            (Space::Revisions, documents.clone()),
            (Space::Attachments, documents),
            (Space::Indexes, keys::index_prefix(IndexId(number))),
            (Space::Indexes, keys::natural_prefix(collection)),
            (Space::Meta, keys::locals_prefix(collection)),
            (Space::Meta, keys::settings_prefix(collection)),
            (Space::Meta, keys::views_prefix(collection)),
        ] {
            if self.delete_range(space, KeyRange::prefix(&prefix), slice)? == Progress::More {
                return Ok(Progress::More);
            }
        }
        blob::delete_all(&self.shared, collection)?;
        let mut batch = Batch::new();
        batch.take_reserve();
        batch.delete(Space::Meta, Key::Size(collection).bytes());
        batch.delete(Space::Meta, Key::Dropped(number).bytes());
        engine.commit(batch)?;
        Ok(Progress::Done)
    }

    /// Deletes the keys of a range, [`RUN`] keys at a time.
    fn delete_range(&self, space: Space, mut range: KeyRange, slice: &Slice<'_>) -> Result<Progress> {
        let engine = &self.shared.engine;
        loop {
            let (mut count, mut next) = (0, None);
            engine.snapshot().visit(space, range.clone(), &mut |key, _| {
                count += 1;
                if count <= RUN {
                    return ControlFlow::Continue(());
                }
                next = Some(Bytes::from(key));
                ControlFlow::Break(())
            })?;
            let Some(next) = next else {
                if count > 0 {
                    engine.delete_range(space, range)?;
                }
                return Ok(Progress::Done);
            };
            engine.delete_range(space, KeyRange::new(range.start, Bound::Excluded(next.clone())))?;
            range.start = Bound::Included(next);
            if slice.is_over() {
                return Ok(Progress::More);
            }
        }
    }
}

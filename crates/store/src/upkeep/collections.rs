//! A task that processes one collection after another.

use super::Entries;
use super::schedule::{Progress, Slice, Task, isolated};
use crate::collection::Collection;
use crate::error::{Error, Result};
use crate::store::Entry;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Visits the collections that need the task. A collection that fails or takes long does not delay the others: a failed
/// one is visited again in the next round, an unfinished one moves to the end of the queue.
pub(super) struct EachCollection<I, C, W> {
    name: &'static str,
    entries: Entries,
    interval: I,
    /// Whether a collection may need the task. It is called for every collection, so it must not read from the engine.
    concerns: C,
    work: W,
    /// The collections that are still to be visited in this round.
    queue: VecDeque<Arc<Collection>>,
}

impl<I, C, W> EachCollection<I, C, W>
where
    I: Fn() -> Duration + Send,
    C: Fn(&Collection) -> bool + Send,
    W: Fn(&Arc<Collection>, &Slice<'_>) -> Result<Progress> + Send,
{
    pub fn new(name: &'static str, entries: Entries, interval: I, concerns: C, work: W) -> Self {
        EachCollection { name, entries, interval, concerns, work, queue: VecDeque::new() }
    }
}

impl<I, C, W> Task for EachCollection<I, C, W>
where
    I: Fn() -> Duration + Send,
    C: Fn(&Collection) -> bool + Send,
    W: Fn(&Arc<Collection>, &Slice<'_>) -> Result<Progress> + Send,
{
    fn name(&self) -> &'static str {
        self.name
    }

    fn interval(&self) -> Duration {
        (self.interval)()
    }

    fn work(&mut self, slice: &Slice<'_>) -> Result<Progress> {
        if self.queue.is_empty() {
            let entries = self.entries.read();
            self.queue.extend(entries.values().filter_map(|entry| match entry {
                Entry::Collection(collection) if (self.concerns)(collection) => Some(collection.clone()),
                _ => None,
            }));
        }
        while let Some(collection) = self.queue.pop_front() {
            let name = collection.namespace().to_string();
            let outcome = isolated(self.name, Some(&name), || match (self.work)(&collection, slice) {
                // A dropped collection needs no upkeep.
                Err(Error::CollectionDropped(_)) => Ok(Progress::Done),
                outcome => outcome,
            });
            if outcome == Some(Progress::More) {
                self.queue.push_back(collection);
            }
            if slice.is_over() {
                break;
            }
        }
        Ok(if self.queue.is_empty() { Progress::Done } else { Progress::More })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Namespace, Store};
    use diwan_kv::MemoryEngine;
    use parking_lot::{Mutex, RwLock};

    #[test]
    fn a_collection_that_fails_or_takes_long_does_not_hold_up_the_others() {
        let store = Store::open(Arc::new(MemoryEngine::new())).unwrap();
        let names = ["broken", "endless", "good", "panicking", "unconcerned"];
        let entries = names.map(|name| {
            let name = Namespace::new("test", name).unwrap();
            (name.clone(), Entry::Collection(store.collection_or_create(&name).unwrap()))
        });
        let entries: Entries = Arc::new(RwLock::new(entries.into_iter().collect()));
        let visits = Mutex::new(Vec::new());
        let is = |collection: &Collection, name: &str| collection.namespace().collection == name;
        let mut task = EachCollection::new(
            "a test",
            entries,
            || Duration::ZERO,
            |collection: &Collection| !is(collection, "unconcerned"),
            |collection: &Arc<Collection>, _: &Slice<'_>| {
                let name = collection.namespace().collection;
                let mut visits = visits.lock();
                visits.push(name.clone());
                let count = visits.iter().filter(|visit| **visit == name).count();
                drop(visits);
                match name.as_str() {
                    "broken" => Err(Error::Damaged("on purpose".to_owned())),
                    "panicking" => panic!("a collection of a test panics"),
                    "endless" if count < 3 => Ok(Progress::More),
                    _ => Ok(Progress::Done),
                }
            },
        );
        assert_eq!(task.work(&Slice::endless()).unwrap(), Progress::Done);
        let expected = ["broken", "endless", "good", "panicking", "endless", "endless"];
        assert_eq!(*visits.lock(), expected);
        // The next round visits all of them again.
        task.work(&Slice::endless()).unwrap();
        assert_eq!(visits.lock().len(), expected.len() + 4);
    }
}

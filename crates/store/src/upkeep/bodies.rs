//! Expiring bodies of superseded revisions, in the order in which they were superseded.

use super::schedule::{Progress, Slice, Task, isolated};
use super::{EXPIRY_EVERY, Entries, by_number};
use crate::clock;
use crate::collection::DueBody;
use crate::error::{Error, Result};
use crate::keys::{self, CollectionId, Key, RevisionKey, read_number};
use crate::record::Body;
use crate::store::Shared;
use diwan_kv::{Batch, Bytes, KeyRange, Space};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::time::Duration;

/// How long bodies of superseded revisions are kept, unless the collection is compacted before.
const KEEP_BODIES_SECONDS: u64 = 24 * 60 * 60;
/// How many keys are read at a time.
const RUN: usize = 4096;

/// Removes the bodies that were superseded long enough ago. It reads only the due keys ([`Key::DueBody`]) of those.
pub(super) struct ExpireBodies {
    shared: Arc<Shared>,
    entries: Entries,
    /// The last key that was read in this round.
    position: Option<Bytes>,
    /// The last key that `index_all` has read. Bodies that an earlier version stored have no due key yet.
    indexed: Option<Bytes>,
    /// Returns the time in seconds since 1970. Tests replace it.
    clock: fn() -> u64,
}

impl ExpireBodies {
    pub fn new(shared: Arc<Shared>, entries: Entries) -> ExpireBodies {
        ExpireBodies { shared, entries, position: None, indexed: None, clock: clock::now_seconds }
    }

    /// Writes the missing due keys of bodies that an earlier version stored.
    fn index_all(&mut self, slice: &Slice<'_>) -> Result<Progress> {
        let engine = &self.shared.engine;
        let complete = Key::DueBodiesComplete.bytes();
        if engine.get(Space::Meta, &complete)?.is_some() {
            return Ok(Progress::Done);
        }
        loop {
            let range = match &self.indexed {
                None => KeyRange::all(),
                Some(last) => KeyRange::new(Bound::Excluded(last.clone()), Bound::Unbounded),
            };
            let mut batch = Batch::new();
            batch.take_reserve();
            let (mut count, mut last) = (0, None);
            engine.snapshot().visit(Space::Revisions, range, &mut |key, value| {
                if let Some(due) = due_key(key, value) {
                    batch.put(Space::Revisions, due, Vec::new());
                }
                count += 1;
                last = Some(Bytes::from(key));
                if count < RUN { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            let is_last = count < RUN;
            if is_last {
                batch.put(Space::Meta, complete.as_slice(), Vec::new());
            }
            if !batch.is_empty() {
                engine.commit(batch)?;
            }
            if is_last {
                return Ok(Progress::Done);
            }
            self.indexed = last;
            if slice.is_over() {
                return Ok(Progress::More);
            }
        }
    }
}

/// The due key of a superseded body; `None` for any other pair.
fn due_key(key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    let (collection, rest) = read_number(key).filter(|&(collection, _)| collection != 0)?;
    let (id, RevisionKey::Body(revision)) = RevisionKey::split(rest)? else { return None };
    let superseded_at = Body::parse(value).ok()?.superseded_at?;
    let collection = CollectionId(u32::try_from(collection).ok()?);
    Some(Key::DueBody { superseded_at, collection, id, revision }.bytes())
}

impl Task for ExpireBodies {
    fn name(&self) -> &'static str {
        "expiring revisions"
    }

    fn interval(&self) -> Duration {
        EXPIRY_EVERY
    }

    fn work(&mut self, slice: &Slice<'_>) -> Result<Progress> {
        if self.index_all(slice)? == Progress::More {
            return Ok(Progress::More);
        }
        let oldest = (self.clock)().saturating_sub(KEEP_BODIES_SECONDS);
        let mut collections = None;
        loop {
            let mut range = keys::due_bodies(oldest);
            if let Some(last) = &self.position {
                range.start = Bound::Excluded(last.clone());
            }
            let mut found: BTreeMap<CollectionId, Vec<DueBody>> = BTreeMap::new();
            let mut obsolete = Batch::new();
            obsolete.take_reserve();
            let mut count = 0;
            self.shared.engine.snapshot().visit(Space::Revisions, range, &mut |key, _| {
                let due = Bytes::from(key);
                match keys::split_due_body(key) {
                    Some((collection, id, revision)) => {
                        let body = DueBody { due: due.clone(), id: id.to_vec(), revision };
                        found.entry(collection).or_default().push(body);
                    }
                    None => obsolete.delete(Space::Revisions, due.clone()),
                }
                self.position = Some(due);
                count += 1;
                if count < RUN { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            for (collection, bodies) in found {
                let collections = collections.get_or_insert_with(|| by_number(&self.entries));
                match collections.get(&collection) {
                    Some(collection) => {
                        let name = collection.namespace().to_string();
                        isolated("expiring revisions", Some(&name), || {
                            match collection.expire_bodies(&bodies, oldest) {
                                Err(Error::CollectionDropped(_)) => Ok(()),
                                outcome => outcome,
                            }
                        });
                    }
                    // The collection was dropped, and its bodies with it.
                    None => bodies.into_iter().for_each(|body| obsolete.delete(Space::Revisions, body.due)),
                }
            }
            if !obsolete.is_empty() {
                self.shared.engine.commit(obsolete)?;
            }
            if count < RUN {
                self.position = None;
                return Ok(Progress::Done);
            }
            if slice.is_over() {
                return Ok(Progress::More);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Entry;
    use crate::{Base, Namespace, RevisionEdit, Store, check};
    use diwan_kv::{Engine, MemoryEngine};
    use diwan_value::{Value, doc};
    use parking_lot::RwLock;

    const DAY: u64 = 24 * 60 * 60;

    /// A store with two collections, each with a document whose first body is superseded; its engine; and the task.
    fn superseded() -> (Arc<Store>, Arc<MemoryEngine>, ExpireBodies) {
        let engine = Arc::new(MemoryEngine::new());
        let store = Store::open(engine.clone()).unwrap();
        let entries = ["a", "b"].map(|name| {
            let name = Namespace::new("test", name).unwrap();
            let collection = store.collection_or_create(&name).unwrap();
            let mut base = Base::New;
            for n in 0..2 {
                let doc = doc! { "n": n };
                let id = Value::String("x");
                let edit =
                    RevisionEdit { id, base, deleted: false, doc: doc.as_doc(), attachments: Vec::new() };
                collection.edit_revisions(&[edit], true, None).unwrap();
                let found = collection.view().document(&crate::id_key(id).unwrap()).unwrap();
                base = Base::Leaf(found.unwrap().revision);
            }
            (name, Entry::Collection(collection))
        });
        let entries: Entries = Arc::new(RwLock::new(entries.into_iter().collect()));
        let task = ExpireBodies::new(store.shared.clone(), entries);
        (store, engine, task)
    }

    /// How many superseded bodies and how many due keys there are.
    fn counts(engine: &MemoryEngine) -> (usize, usize) {
        let (mut bodies, mut due) = (0, 0);
        let visitor = &mut |key: &[u8], value: &[u8]| {
            bodies += usize::from(due_key(key, value).is_some());
            due += usize::from(key[0] == 0);
            ControlFlow::Continue(())
        };
        engine.snapshot().visit(Space::Revisions, KeyRange::all(), visitor).unwrap();
        (bodies, due)
    }

    #[test]
    fn bodies_expire_when_they_are_due_and_not_before() {
        let (store, engine, mut task) = superseded();
        assert_eq!(counts(&engine), (2, 2));
        assert_eq!(task.work(&Slice::endless()).unwrap(), Progress::Done);
        assert_eq!(counts(&engine), (2, 2));
        // A dropped collection leaves due keys behind. They are removed like the others.
        store.drop_collection(&Namespace::new("test", "a").unwrap()).unwrap();
        task.entries.write().pop_first();
        task.clock = || clock::now_seconds() + DAY + 60;
        assert_eq!(task.work(&Slice::endless()).unwrap(), Progress::Done);
        assert_eq!(counts(&engine).1, 0);
        assert!(check(&store, &mut |_| ()).unwrap().findings.is_empty());
    }

    #[test]
    fn bodies_of_an_earlier_version_get_due_keys() {
        let (store, engine, mut task) = superseded();
        engine.delete_range(Space::Revisions, keys::all_due_bodies()).unwrap();
        engine.delete_range(Space::Meta, KeyRange::prefix(&Key::DueBodiesComplete.bytes())).unwrap();
        assert_eq!(counts(&engine), (2, 0));
        assert_eq!(task.work(&Slice::endless()).unwrap(), Progress::Done);
        assert_eq!(counts(&engine), (2, 2));
        assert!(check(&store, &mut |_| ()).unwrap().findings.is_empty());
        task.clock = || clock::now_seconds() + DAY + 60;
        task.work(&Slice::endless()).unwrap();
        assert_eq!(counts(&engine), (0, 0));
    }
}

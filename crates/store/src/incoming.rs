//! A store that is being filled with all pairs of another one, by `diwan move`.
//!
//! [`Key::Incoming`] marks it from before its first pair until it is known to be complete. Whoever opens or checks a marked
//! store is refused. All other pairs are copied as they are, so the new store is in the state in which the old one was
//! left: also [`Key::Closed`], after which nothing has been written, and without it a store that was not closed.

use crate::catalog::random_uuid;
use crate::error::{Error, Result};
use crate::keys::{self, Key, read_number};
use crate::store::read_format;
use diwan_kv::{self as kv, Batch, Bytes, Checksum, Direction, Engine, KeyRange, Snapshot, Space};
use diwan_query::code;
use std::ops::{Bound, ControlFlow};

/// The length of the number of a move, with which the mark's value begins.
const NUMBER: usize = 16;

/// A move into an engine, and the mark that it has set there.
pub struct Incoming<'a> {
    engine: &'a dyn Engine,
    /// The number of this move, and the name of its source.
    value: Bytes,
    /// Whether an earlier move was interrupted, so that pairs of it may be there.
    pub is_resumed: bool,
}

impl<'a> Incoming<'a> {
    /// Marks the engine durably, if it is empty or has the mark of an earlier move; else `None`. The move takes over from an
    /// earlier one that still runs. `source` names the origin of the pairs, for people.
    pub fn begin(engine: &'a dyn Engine, source: &str) -> Result<Option<Incoming<'a>>> {
        let mark = Key::Incoming.bytes();
        let snapshot = engine.snapshot();
        let earlier = snapshot.get(Space::Meta, &mark)?;
        if earlier.is_none() && !is_empty(snapshot.as_ref())? {
            return Ok(None);
        }
        drop(snapshot);
        let is_resumed = earlier.is_some();
        let value = Bytes::from([&random_uuid()[..], source.as_bytes()].concat());
        let mut batch = Batch::new();
        match earlier {
            Some(earlier) => batch.require_equal(Space::Meta, mark.clone(), earlier),
            None => {
                batch.require_absent(Space::Meta, mark.clone());
                batch.require_absent(Space::Meta, Key::Format.bytes());
            }
        }
        batch.put(Space::Meta, mark, value.clone());
        match engine.commit(batch) {
            Ok(commit) => engine.wait_durable(commit)?,
            Err(kv::Error::Conflict(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        Ok(Some(Incoming { engine, value, is_resumed }))
    }

    /// An error if a later move has taken over.
    pub fn check(&self) -> kv::Result<()> {
        match self.engine.get(Space::Meta, &Key::Incoming.bytes())? {
            Some(value) if value == self.value => Ok(()),
            _ => Err(kv::Error::Conflict(0)),
        }
    }

    /// Removes the mark durably: the store is complete.
    pub fn finish(self) -> kv::Result<()> {
        let mark = Key::Incoming.bytes();
        let mut batch = Batch::new();
        batch.take_reserve();
        batch.require_equal(Space::Meta, mark.clone(), self.value);
        batch.delete(Space::Meta, mark);
        self.engine.wait_durable(self.engine.commit(batch)?)
    }
}

/// Whether a pair is the mark, which is not part of what is moved.
pub fn is_mark(space: Space, key: &[u8]) -> bool {
    space == Space::Meta && key == Key::Incoming.bytes()
}

/// Whether an engine has a store that can be moved; false if it has none. An error if this program does not read its format, or
/// if it is itself incomplete.
pub fn is_complete_store(snapshot: &dyn Snapshot) -> Result<bool> {
    refuse(snapshot.get(Space::Meta, &Key::Incoming.bytes())?)?;
    match snapshot.get(Space::Meta, &Key::Format.bytes())? {
        Some(value) => read_format(&value).map(|_| true),
        None => Ok(false),
    }
}

/// A number that differs after every write to a store that its users could notice. Each of them changes the space `Meta` or
/// the last change in the log of a collection.
pub fn state(snapshot: &dyn Snapshot) -> Result<u128> {
    let mut sum = Checksum::new();
    snapshot.visit(Space::Meta, KeyRange::all(), &mut |key, value| {
        sum.add(key, value);
        ControlFlow::Continue(())
    })?;
    let mut rest = KeyRange::all();
    while let Some(last) = snapshot.scan(Space::Log, rest.clone(), Direction::Reverse).next() {
        let (key, value) = last?;
        sum.add(&key, &value);
        let (_, sequence) =
            read_number(&key).ok_or_else(|| Error::Damaged(keys::describe(Space::Log, &key)))?;
        rest.end = Bound::Excluded(key[..key.len() - sequence.len()].into());
    }
    Ok(sum.digest())
}

/// Refuses a store whose mark has a value.
pub(crate) fn refuse(mark: Option<Bytes>) -> Result<()> {
    let Some(value) = mark else { return Ok(()) };
    let source = String::from_utf8_lossy(value.get(NUMBER..).unwrap_or_default()).into_owned();
    Err(Error::refused(
        code::ILLEGAL_OPERATION,
        format!(
            "it is incomplete, because a move into it from {source} has not ended: run `diwan move` again to complete it, \
             or delete it"
        ),
    ))
}

fn is_empty(snapshot: &dyn Snapshot) -> kv::Result<bool> {
    for space in Space::ALL {
        if snapshot.scan(space, KeyRange::all(), Direction::Forward).next().transpose()?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check_engine;
    use crate::{Namespace, Store, WriteOptions};
    use diwan_kv::MemoryEngine;
    use diwan_value::{Doc, doc};
    use std::sync::Arc;

    #[test]
    fn a_marked_store_is_refused_until_the_move_has_finished() {
        let engine = Arc::new(MemoryEngine::new());
        let incoming = Incoming::begin(engine.as_ref(), "the old place").unwrap().unwrap();
        assert!(!incoming.is_resumed);
        for refused in [
            Store::open(engine.clone()).map(drop),
            check_engine(engine.as_ref(), &mut |_| {}).map(drop),
            is_complete_store(engine.snapshot().as_ref()).map(drop),
        ] {
            let text = refused.unwrap_err().to_string();
            assert!(text.contains("the old place") && text.contains("`diwan move` again"), "{text}");
        }
        incoming.finish().unwrap();
        Store::open(engine.clone()).unwrap().close().unwrap();
    }

    #[test]
    fn begin_refuses_an_engine_with_pairs_of_something_else() {
        for space in Space::ALL {
            let engine = MemoryEngine::new();
            let mut batch = Batch::new();
            batch.put(space, *b"key", *b"value");
            engine.commit(batch).unwrap();
            assert!(Incoming::begin(&engine, "").unwrap().is_none());
            assert_eq!(engine.get(Space::Meta, &Key::Incoming.bytes()).unwrap(), None);
        }
    }

    #[test]
    fn a_later_move_takes_over_from_an_earlier_one() {
        let engine = MemoryEngine::new();
        let first = Incoming::begin(&engine, "source").unwrap().unwrap();
        first.check().unwrap();
        let second = Incoming::begin(&engine, "source").unwrap().unwrap();
        assert!(second.is_resumed);
        assert!(matches!(first.check(), Err(kv::Error::Conflict(_))));
        assert!(matches!(first.finish(), Err(kv::Error::Conflict(_))));
        second.check().unwrap();
        second.finish().unwrap();
        assert!(is_empty(engine.snapshot().as_ref()).unwrap());
    }

    #[test]
    fn a_store_of_another_format_is_not_moved() {
        let engine = MemoryEngine::new();
        let mut batch = Batch::new();
        batch.put(Space::Meta, Key::Format.bytes(), &[99, 1][..]);
        engine.commit(batch).unwrap();
        let error = is_complete_store(engine.snapshot().as_ref()).unwrap_err().to_string();
        assert!(error.contains("format 99"), "{error}");
    }

    #[test]
    fn state_differs_after_every_write_and_stays_without_one() {
        let engine = Arc::new(MemoryEngine::new());
        let now = || state(engine.snapshot().as_ref()).unwrap();
        assert!(!is_complete_store(engine.snapshot().as_ref()).unwrap());
        let store = Store::open(engine.clone()).unwrap();
        assert!(is_complete_store(engine.snapshot().as_ref()).unwrap());
        let collection = |name: &str| {
            let created = store.create_collection(&Namespace::new("test", name).unwrap(), Doc::EMPTY);
            created.unwrap()
        };
        let mut seen = vec![now()];
        let mut note = |what: &str| {
            let state = now();
            assert_eq!(state, now());
            assert!(!seen.contains(&state), "{what} left the state as it was");
            seen.push(state);
        };
        let first = collection("first");
        note("creating a collection");
        let second = collection("second");
        note("creating another");
        for collection in [&first, &second, &first] {
            let document = doc! { "n": 1 };
            collection.insert(&[document.as_doc()], true, WriteOptions::default()).unwrap();
            note("inserting");
        }
        store.drop_collection(&second.namespace()).unwrap();
        note("dropping a collection");
        store.close().unwrap();
        note("closing");
    }
}

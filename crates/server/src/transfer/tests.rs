//! Moves between engines in memory: complete, interrupted at every run, onto damage, and from a source that has changed.

use super::copy::{Failure, Step, Sums, copy, verify};
use crate::place::Place;
use diwan_kv::{Batch, Engine, Fault, FaultEngine, KeyRange, MemoryEngine, Snapshot, Space};
use diwan_store::incoming::{Incoming, is_mark};
use diwan_store::{Namespace, Store, WriteOptions};
use diwan_value::doc;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A few pairs in each space, and enough in some for several runs.
fn filled() -> MemoryEngine {
    let engine = MemoryEngine::new();
    for space in Space::ALL {
        let (pairs, bytes) = match space {
            Space::Records => (9_000, 9_000),
            Space::Attachments => (400, 100_000),
            Space::Events => (0, 0),
            _ => (50, 10),
        };
        let pairs: Vec<(Vec<u8>, Vec<u8>)> = (0..pairs)
            .map(|number: u32| {
                (number.to_be_bytes().to_vec(), vec![number as u8; bytes + number as usize % 7])
            })
            .collect();
        engine.ingest(space, Box::new(pairs.iter().map(|(key, value)| (&key[..], &value[..])))).unwrap();
    }
    engine
}

fn write(engine: &dyn Engine, space: Space, key: &[u8], value: Option<&[u8]>) {
    let mut batch = Batch::new();
    match value {
        Some(value) => batch.put(space, key, value),
        None => batch.delete(space, key),
    }
    engine.commit(batch).unwrap();
}

/// All pairs but the mark.
fn pairs(snapshot: &dyn Snapshot) -> Vec<(Space, Vec<u8>, Vec<u8>)> {
    let mut pairs = Vec::new();
    let visited = snapshot.visit_all(&mut |space, key, value| {
        if !is_mark(space, key) {
            pairs.push((space, key.to_vec(), value.to_vec()));
        }
        ControlFlow::Continue(())
    });
    visited.unwrap();
    pairs
}

/// Copies and verifies, until `stop` says so.
fn transfer(
    source: &dyn Engine,
    target: &dyn Engine,
    mut stop: impl FnMut(Step, Space, u64) -> bool,
) -> Result<Sums, Failure> {
    let incoming = Incoming::begin(target, "the source").unwrap().unwrap();
    let mut watch =
        |progress: super::Progress<'_>| match stop(progress.step, progress.space, progress.done.pairs()) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
    let sums = copy(source.snapshot().as_ref(), target, &incoming, &mut watch)?;
    verify(&sums, target, &mut watch)?;
    incoming.finish().unwrap();
    Ok(sums)
}

#[test]
fn a_move_copies_every_pair_and_no_mark() {
    let (source, target) = (filled(), MemoryEngine::new());
    let sums = transfer(&source, &target, |_, _, _| false).unwrap();
    let copied = pairs(target.snapshot().as_ref());
    assert_eq!(copied, pairs(source.snapshot().as_ref()));
    assert_eq!(sums.iter().map(|sum| sum.pairs()).sum::<u64>(), copied.len() as u64);
    let all = target.snapshot().scan(Space::Meta, KeyRange::all(), diwan_kv::Direction::Forward).count();
    assert_eq!(all, 50, "the mark is gone");
}

#[test]
fn an_interrupted_move_goes_on_behind_what_is_there() {
    let (source, target) = (filled(), MemoryEngine::new());
    let mut there = 0;
    for (space, at) in
        [(Space::Meta, 1), (Space::Records, 3_800), (Space::Records, 8_999), (Space::Attachments, 399)]
    {
        let stop = |step, reached, pairs| step == Step::Copying && reached == space && pairs == at;
        assert!(matches!(transfer(&source, &target, stop), Err(Failure::Stopped)));
        let now = pairs(target.snapshot().as_ref()).len();
        assert!(now > there || there == 0, "{now} pairs after {there}");
        there = now;
    }
    let mut read_again = 0;
    let watch = |step, _, _| {
        read_again += u64::from(step == Step::Resuming);
        false
    };
    transfer(&source, &target, watch).unwrap();
    assert!(read_again >= there as u64, "what was there is compared");
    assert_eq!(pairs(target.snapshot().as_ref()), pairs(source.snapshot().as_ref()));
}

#[test]
fn a_move_onto_what_differs_from_the_source_is_refused() {
    let changes: [fn(&MemoryEngine); 4] = [
        |source| write(source, Space::Meta, &[0, 0, 0, 7], Some(b"changed")),
        |source| write(source, Space::Records, &[0, 0, 0, 7], None),
        |source| write(source, Space::Records, &[0, 0, 0, 7, 7], Some(b"new")),
        |source| assert_eq!(source.delete_range(Space::Records, KeyRange::all()).unwrap(), 9_000),
    ];
    for change in changes {
        let (source, target) = (filled(), MemoryEngine::new());
        let stop = |_, space, pairs| space == Space::Records && pairs == 8_000;
        assert!(matches!(transfer(&source, &target, stop), Err(Failure::Stopped)));
        let before = pairs(target.snapshot().as_ref());
        change(&source);
        assert!(matches!(transfer(&source, &target, |_, _, _| false), Err(Failure::Changed(_))));
        assert_eq!(pairs(target.snapshot().as_ref()), before, "nothing is written");
    }
}

#[test]
fn a_change_behind_what_was_copied_is_copied() {
    let (source, target) = (filled(), MemoryEngine::new());
    let stop = |_, space, pairs| space == Space::Records && pairs == 8_000;
    assert!(matches!(transfer(&source, &target, stop), Err(Failure::Stopped)));
    write(&source, Space::Records, &[9, 9], Some(b"new"));
    write(&source, Space::Records, &8_500_u32.to_be_bytes(), None);
    transfer(&source, &target, |_, _, _| false).unwrap();
    assert_eq!(pairs(target.snapshot().as_ref()), pairs(source.snapshot().as_ref()));
}

#[test]
fn verification_finds_a_pair_that_was_changed_added_or_lost() {
    for (key, value) in [
        (&[0, 0, 0, 7][..], Some(&b"flipped"[..])),
        (&[0, 0, 0, 7, 7], Some(b"added")),
        (&[0, 0, 0, 7], None),
    ] {
        let (source, target) = (filled(), MemoryEngine::new());
        let mut is_written = false;
        let outcome = transfer(&source, &target, |step, space, pairs| {
            if (step, space, pairs) == (Step::Copying, Space::Attachments, 1) && !is_written {
                is_written = true;
                write(&target, Space::Records, key, value);
            }
            false
        });
        assert!(matches!(outcome, Err(Failure::Different(Space::Records))));
        assert!(Incoming::begin(&target, "").unwrap().unwrap().is_resumed, "the mark stays");
    }
}

#[test]
fn failures_of_either_engine_end_the_move_and_are_told_apart() {
    let (source, target) = (FaultEngine::new(filled()), FaultEngine::new(MemoryEngine::new()));
    source.fail(Fault::Read, 5_000);
    assert!(matches!(transfer(&source, &target, |_, _, _| false), Err(Failure::Source(_))));
    target.set_full(true);
    let full = Incoming::begin(&target, "").map(drop).unwrap_err();
    assert!(full.is_out_of_space());
    target.set_full(false);
    let incoming = Incoming::begin(&target, "").unwrap().unwrap();
    target.set_full(true);
    let outcome = copy(source.snapshot().as_ref(), &target, &incoming, &mut |_| ControlFlow::Continue(()));
    assert!(matches!(outcome, Err(Failure::Target(error)) if error.is_out_of_space()));
    target.set_full(false);
    transfer(&source, &target, |_, _, _| false).unwrap();
    assert_eq!(pairs(target.snapshot().as_ref()), pairs(source.snapshot().as_ref()));
}

#[test]
fn a_move_ends_when_a_later_one_has_taken_over() {
    let (source, target) = (filled(), MemoryEngine::new());
    let mut is_taken = false;
    let outcome = transfer(&source, &target, |_, space, _| {
        if space == Space::Records && !is_taken {
            is_taken = true;
            drop(Incoming::begin(&target, "the source").unwrap());
        }
        false
    });
    assert!(matches!(outcome, Err(Failure::Target(diwan_kv::Error::Conflict(_)))));
}

#[test]
fn a_source_that_is_written_to_meanwhile_is_refused_at_the_end() {
    let (source, target) = (Arc::new(MemoryEngine::new()), MemoryEngine::new());
    let store = Store::open(source.clone()).unwrap();
    let things = store.collection_or_create(&Namespace::new("test", "things").unwrap()).unwrap();
    let insert = |number: i32| {
        let document = doc! { "_id": number, "text": "x".repeat(10_000) };
        things.insert(&[document.as_doc()], true, WriteOptions::default()).unwrap();
    };
    (0..2_000).for_each(insert);
    let (from, to) = (Place::Directory("source".into()), Place::Directory("target".into()));
    let fill = |target| super::fill(&from, source.as_ref(), &to, target, &AtomicBool::new(false));
    let is_done = AtomicBool::new(false);
    let refused = thread::scope(|scope| {
        let (begun, has_begun) = std::sync::mpsc::channel();
        let (insert, is_done) = (&insert, &is_done);
        scope.spawn(move || {
            let numbers = (2_000..).take_while(|_| !is_done.load(Ordering::SeqCst));
            numbers.for_each(|number| {
                insert(number);
                let _ = begun.send(());
            });
        });
        has_begun.recv().unwrap();
        let outcome = fill(&target);
        is_done.store(true, Ordering::SeqCst);
        outcome
    });
    let error = refused.unwrap_err();
    assert!(error.contains("source was written to while it was copied"), "{error}");
    assert!(Incoming::begin(&target, "").unwrap().unwrap().is_resumed, "the mark stays");
    let fresh = MemoryEngine::new();
    fill(&fresh).unwrap();
    assert_eq!(pairs(fresh.snapshot().as_ref()), pairs(source.snapshot().as_ref()));
    store.close().unwrap();
}

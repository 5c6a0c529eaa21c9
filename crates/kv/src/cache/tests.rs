//! The cache compared with the engine alone: as a map, beside writers, and at its limits.

use super::*;
use crate::contract_tests::{Dice, behaves_like_a_map, contract};
use crate::{ContractEngine, Direction, MemoryEngine};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const RECORDS: Space = Space::Records;

/// An engine with pages of a few pairs, so that few writes lead to all states of pages.
fn small(budget: u64) -> CachedEngine<MemoryEngine> {
    CachedEngine::with_pages_of(MemoryEngine::new(), budget, 64)
}

/// Adds a thread that warms the cache without pauses.
fn warmed(engine: CachedEngine<MemoryEngine>) -> CachedEngine<MemoryEngine> {
    let mut warming = Warming::new(&engine.inner, &engine.pages);
    let inner = Arc::downgrade(&engine.inner);
    let tick = move || {
        warming.warm_slice(&*inner.upgrade()?);
        Some(Duration::ZERO)
    };
    *engine.warmer.lock() = Some(Ticker::start("warm", Duration::ZERO, tick).unwrap());
    engine
}

fn put(engine: &dyn Engine, key: &str, value: &str) {
    let mut batch = Batch::new();
    batch.put(RECORDS, key, value);
    engine.commit(batch).unwrap();
}

fn number(n: u32) -> String {
    format!("{n:05}")
}

fn texts(pairs: Vec<(Bytes, Bytes)>) -> Vec<(String, String)> {
    let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    pairs.into_iter().map(|(key, value)| (text(key), text(value))).collect()
}

/// All pairs of a visit.
fn all(snapshot: &dyn Snapshot) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut show = |key: &[u8], value: &[u8]| {
        found.push((key.into(), value.into()));
        ControlFlow::Continue(())
    };
    snapshot.visit(RECORDS, KeyRange::all(), &mut show).unwrap();
    texts(found)
}

#[test]
fn keeps_the_contract() {
    contract(&small(1 << 20));
}

#[test]
fn behaves_like_the_engine_alone() {
    // Budgets for all pages, for some, for none.
    for (seed, budget) in [(1, 1 << 20), (2, 1 << 20), (3, 4096), (4, 1024), (5, 0)] {
        for page_bytes in [64, 512] {
            let cached = CachedEngine::with_pages_of(MemoryEngine::new(), budget, page_bytes);
            behaves_like_a_map(Box::new(ContractEngine::new(cached)), |same| same, seed, 6000);
            let warm = warmed(CachedEngine::with_pages_of(MemoryEngine::new(), budget, page_bytes));
            behaves_like_a_map(Box::new(warm), |same| same, seed, 3000);
        }
    }
}

#[test]
fn warming_reads_recent_writes_in() {
    let engine = CachedEngine::with_pages_of(crate::FaultEngine::new(MemoryEngine::new()), 1 << 20, 64);
    let pairs: Vec<_> = (0..2000).map(number).collect();
    for key in &pairs {
        put(&engine, key, "value");
    }
    let entries = pairs.iter().map(|key| (key.as_bytes(), &b"entry"[..]));
    engine.ingest(Space::Indexes, Box::new(entries)).unwrap();
    let mut warming = Warming::new(&engine.inner, &engine.pages);
    let mut slices = 1;
    while warming.warm_slice(&engine.inner) {
        slices += 1;
    }
    assert!(slices > 4, "{slices}");
    let snapshot = engine.snapshot();
    engine.inner.fail(crate::Fault::Read, 1);
    assert_eq!(all(&*snapshot).len(), 2000);
    assert_eq!(snapshot.scan(Space::Indexes, KeyRange::all(), Direction::Reverse).flatten().count(), 2000);
    assert!(!warming.warm_slice(&engine.inner), "nothing was written since");
    assert!(engine.inner.get(RECORDS, b"00050").is_err(), "the engine would have failed");
}

#[test]
fn a_pair_too_large_for_a_page_does_not_end_warming() {
    let engine = small(1 << 20);
    let mut warming = Warming::new(&engine.inner, &engine.pages);
    for part in [0..300, 300..400] {
        // Both rounds write the first key, so that the second warming passes all gaps of the first.
        for n in std::iter::once(0).chain(part.clone()) {
            put(&engine, &number(n), &"x".repeat(if n % 30 == 0 { 500 } else { 5 }));
        }
        while warming.warm_slice(&engine.inner) {}
        let last = number(part.end - 1);
        let gap = engine.pages.gap_from(RECORDS, &last.as_bytes().into());
        assert_eq!(gap.map(|(from, _)| from), Some([last.as_bytes(), &[0]].concat().into()));
    }
}

#[test]
fn warming_fills_only_free_room() {
    let engine = small(4096);
    for n in 0..1000 {
        put(&engine, &number(n), "0123456789");
    }
    let hot = |engine: &CachedEngine<_>| {
        let range = KeyRange::new(Bound::Included(number(990).into_bytes().into()), Bound::Unbounded);
        engine.snapshot().visit(RECORDS, range, &mut |_, _| ControlFlow::Continue(())).unwrap();
    };
    hot(&engine);
    let before = engine.pages.gap_from(RECORDS, &number(990).into_bytes().into());
    let mut warming = Warming::new(&engine.inner, &engine.pages);
    while warming.warm_slice(&engine.inner) {}
    assert!((3000..=4096).contains(&engine.pages.bytes()), "{}", engine.pages.bytes());
    assert_eq!(before, None);
    assert_eq!(engine.pages.gap_from(RECORDS, &number(990).into_bytes().into()), None, "earlier pages stay");
}

#[test]
fn a_second_scan_does_not_enter_the_engine() {
    let fault = crate::FaultEngine::new(MemoryEngine::new());
    let engine = CachedEngine::with_pages_of(fault, 1 << 20, 64);
    for n in 0..100 {
        put(&engine, &number(n), "value");
    }
    let first = all(&*engine.snapshot());
    assert_eq!(first.len(), 100);
    engine.inner.fail(crate::Fault::Read, 1);
    assert_eq!(all(&*engine.snapshot()), first);
    let snapshot = engine.snapshot();
    for direction in [Direction::Forward, Direction::Reverse] {
        assert_eq!(snapshot.scan(RECORDS, KeyRange::all(), direction).flatten().count(), 100);
    }
    assert_eq!(engine.get(RECORDS, b"00050").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(engine.get(RECORDS, b"00050x").unwrap(), None);
    assert!(engine.inner.get(RECORDS, b"00050").is_err(), "the engine would have failed");
}

#[test]
fn some_short_reads_insert_pages() {
    type Read = fn(&dyn Snapshot, u32);
    let reads: [Read; 4] = [
        |snapshot, n| {
            let found = snapshot.get(RECORDS, number(n).as_bytes()).unwrap();
            assert_eq!(found.as_deref(), Some(&b"value"[..]));
        },
        |snapshot, n| {
            let range = KeyRange::half_open(number(n).into_bytes(), number(n + 3).into_bytes());
            let found: Vec<_> = snapshot.scan(RECORDS, range, Direction::Forward).collect();
            assert_eq!(found.len() as u32, 3.min(300 - n));
        },
        |snapshot, n| {
            let range = KeyRange::new(Bound::Included(number(n).into_bytes().into()), Bound::Unbounded);
            let first = snapshot.scan(RECORDS, range, Direction::Forward).next().unwrap().unwrap();
            assert_eq!(*first.0, *number(n).as_bytes());
        },
        |snapshot, n| {
            let range = KeyRange::new(Bound::Unbounded, Bound::Included(number(n).into_bytes().into()));
            let last = snapshot.scan(RECORDS, range, Direction::Reverse).next().unwrap().unwrap();
            assert_eq!(*last.0, *number(n).as_bytes());
        },
    ];
    for (kind, read) in reads.into_iter().enumerate() {
        let engine = CachedEngine::with_pages_of(crate::FaultEngine::new(MemoryEngine::new()), 1 << 20, 1024);
        for n in 0..300 {
            put(&engine, &number(n), "value");
        }
        let mut dice = Dice(kind as u64);
        for _ in 0..30_000 {
            read(&*engine.snapshot(), dice.below(300) as u32);
        }
        let snapshot = engine.snapshot();
        // None of these reads enters the engine.
        engine.inner.fail(crate::Fault::Read, 1);
        for n in 0..20 {
            read(&*snapshot, n * 15);
        }
        assert_eq!(all(&*engine.snapshot()).len(), 300, "kind {kind}");
    }
}

#[test]
fn alternating_reads_insert_pages_at_the_same_rate() {
    let engine = small(1 << 20);
    let chosen: Vec<bool> = (0..1600).map(|_| engine.pages.missed().is_some()).collect();
    for kind in 0..2 {
        let share = chosen.iter().skip(kind).step_by(2).filter(|chosen| **chosen).count();
        assert!((40..=60).contains(&share), "{share} of 800");
    }
}

#[test]
fn a_failure_while_reading_on_for_a_page_does_not_fail_the_read() {
    let engine = CachedEngine::with_pages_of(crate::FaultEngine::new(MemoryEngine::new()), 1 << 20, 1024);
    for n in 0..100 {
        put(&engine, &number(n), "value");
    }
    for n in 0..100 {
        // The first read is the caller's. A second read, if there is one, is for a page.
        engine.inner.fail(crate::Fault::Read, 2);
        let found = engine.snapshot().get(RECORDS, number(n).as_bytes()).unwrap();
        assert_eq!(found.as_deref(), Some(&b"value"[..]));
    }
    assert_eq!(engine.pages.bytes(), 0);
}

#[test]
fn spaces_share_one_budget() {
    let engine = small(4096);
    for n in 0..300 {
        let mut batch = Batch::new();
        batch.put(RECORDS, number(n), "record");
        batch.put(Space::Indexes, number(n), "entry");
        engine.commit(batch).unwrap();
    }
    for _ in 0..3 {
        for (space, value) in [(RECORDS, &b"record"[..]), (Space::Indexes, b"entry")] {
            let pairs = engine.snapshot().scan(space, KeyRange::all(), Direction::Forward);
            assert_eq!(pairs.filter(|pair| *pair.as_ref().unwrap().1 == *value).count(), 300);
        }
        assert!(engine.pages.bytes() <= 4096);
    }
    engine.delete_range(Space::Indexes, KeyRange::all()).unwrap();
    assert_eq!(engine.snapshot().scan(Space::Indexes, KeyRange::all(), Direction::Forward).count(), 0);
    assert_eq!(engine.snapshot().scan(RECORDS, KeyRange::all(), Direction::Forward).count(), 300);
}

#[test]
fn an_old_snapshot_does_not_change() {
    let engine = small(1 << 20);
    for n in 0..50 {
        put(&engine, &number(n), "old");
    }
    let before = engine.snapshot();
    let old = all(&*before);
    for n in 0..50 {
        put(&engine, &number(n), "new");
    }
    put(&engine, &number(99), "new");
    let new = all(&*engine.snapshot());
    assert!(new.len() == 51 && new.iter().all(|(_, value)| value == "new"));
    assert_eq!(all(&*before), old);
    engine.delete_range(RECORDS, KeyRange::half_open(*b"00010", *b"00020")).unwrap();
    assert_eq!(all(&*engine.snapshot()).len(), 41);
    assert_eq!(all(&*before), old);
}

#[test]
fn large_values_are_left_out_of_pages() {
    let engine = small(1 << 20);
    for n in 0..30 {
        put(&engine, &number(n), &"x".repeat(if n % 7 == 0 { 500 } else { 5 }));
    }
    let first = all(&*engine.snapshot());
    assert_eq!(first.len(), 30);
    assert_eq!(all(&*engine.snapshot()), first);
    assert!(engine.pages.bytes() > 0);
}

#[test]
fn scans_larger_than_the_budget_stay_within_it_and_keep_its_pages() {
    let engine = small(4096);
    for n in 0..1000 {
        put(&engine, &number(n), "0123456789");
    }
    for _ in 0..5 {
        assert_eq!(all(&*engine.snapshot()).len(), 1000);
        assert!((3000..=4096).contains(&engine.pages.bytes()), "{}", engine.pages.bytes());
    }
    assert_eq!(engine.stats().cache_capacity, 4096);
}

/// Each commit moves an amount from one key to another, so the sum never changes.
#[test]
fn scans_beside_writers_see_one_state() {
    for page_bytes in [64, 1024] {
        beside_writers(CachedEngine::with_pages_of(MemoryEngine::new(), 1 << 20, page_bytes));
        beside_writers(warmed(CachedEngine::with_pages_of(MemoryEngine::new(), 1 << 20, page_bytes)));
    }
}

fn beside_writers(engine: CachedEngine<MemoryEngine>) {
    const KEYS: u32 = 400;
    for n in 0..KEYS {
        put(&engine, &number(n), "100");
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (engine, stop) = (&engine, &stop);
            scope.spawn(move || {
                let mut dice = Dice(writer);
                while !stop.load(Ordering::Relaxed) {
                    let keys = [dice.below(KEYS.into()), dice.below(KEYS.into())].map(|n| number(n as u32));
                    if keys[0] == keys[1] {
                        continue;
                    }
                    let values =
                        keys.each_ref().map(|key| engine.get(RECORDS, key.as_bytes()).unwrap().unwrap());
                    let amounts = values
                        .each_ref()
                        .map(|value| -> i64 { std::str::from_utf8(value).unwrap().parse().unwrap() });
                    let mut batch = Batch::new();
                    for ((key, value), sum) in keys.iter().zip(values).zip([amounts[0] - 1, amounts[1] + 1]) {
                        batch.require_equal(RECORDS, key.as_str(), value);
                        batch.put(RECORDS, key.as_str(), sum.to_string());
                    }
                    match engine.commit(batch) {
                        Ok(_) | Err(crate::Error::Conflict(_)) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        let _guard = StopAtEnd(&stop);
        for round in 0..300 {
            let snapshot = engine.snapshot();
            let sum = |pairs: Vec<(String, String)>| -> i64 {
                assert_eq!(pairs.len(), KEYS as usize);
                pairs.iter().map(|(_, value)| value.parse::<i64>().unwrap()).sum()
            };
            assert_eq!(sum(all(&*snapshot)), 100 * i64::from(KEYS), "round {round}");
            let scanned: Vec<_> =
                snapshot.scan(RECORDS, KeyRange::all(), Direction::Reverse).flatten().collect();
            assert_eq!(sum(texts(scanned)), 100 * i64::from(KEYS), "round {round}");
            let got = (0..KEYS).map(|n| (number(n), snapshot.get(RECORDS, number(n).as_bytes()).unwrap()));
            let got: Vec<_> = got.map(|(key, value)| (key.into(), value.unwrap())).collect();
            assert_eq!(sum(texts(got)), 100 * i64::from(KEYS), "round {round}");
            let runs = (0..KEYS).step_by(4).flat_map(|n| {
                let range = KeyRange::half_open(number(n).into_bytes(), number(n + 4).into_bytes());
                let direction = if n % 8 == 0 { Direction::Forward } else { Direction::Reverse };
                snapshot.scan(RECORDS, range, direction).flatten()
            });
            assert_eq!(sum(texts(runs.collect())), 100 * i64::from(KEYS), "round {round}");
        }
    });
}

/// Stops the writers, also when an assertion fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

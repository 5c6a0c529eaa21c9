//! The contract, run against every engine.

use crate::*;
use std::ops::Bound;

fn conditions_hold_or_nothing_happens(engine: &dyn Engine) {
    let mut first = Batch::new();
    first.require_absent(Space::Meta, *b"k");
    first.put(Space::Meta, *b"k", *b"1");
    engine.commit(first.clone()).unwrap();
    first.put(Space::Records, *b"other", *b"x");
    assert!(matches!(engine.commit(first), Err(Error::Conflict(0))));
    assert_eq!(engine.get(Space::Records, b"other").unwrap(), None);
    let mut second = Batch::new();
    second.require_equal(Space::Meta, *b"k", *b"1");
    second.require_equal(Space::Meta, *b"k", *b"2");
    second.delete(Space::Meta, *b"k");
    assert!(matches!(engine.commit(second), Err(Error::Conflict(1))));
    let mut third = Batch::new();
    third.require_equal(Space::Meta, *b"k", *b"1");
    third.delete(Space::Meta, *b"k");
    engine.commit(third).unwrap();
    assert_eq!(engine.get(Space::Meta, b"k").unwrap(), None);
}

fn keys_have_a_length(engine: &dyn Engine) {
    for len in [0, MAX_KEY_LEN + 1] {
        let mut batch = Batch::new();
        batch.put(Space::Meta, vec![7; len], *b"");
        assert!(matches!(engine.commit(batch), Err(Error::KeyLength(l)) if l == len));
    }
    let mut batch = Batch::new();
    batch.put(Space::Meta, vec![7; MAX_KEY_LEN], *b"long");
    engine.commit(batch).unwrap();
    assert_eq!(engine.get(Space::Meta, &vec![7; MAX_KEY_LEN]).unwrap().as_deref(), Some(&b"long"[..]));
    assert_eq!(engine.get(Space::Meta, &vec![7; MAX_KEY_LEN + 1]).unwrap(), None);
    assert_eq!(engine.get(Space::Meta, b"").unwrap(), None);
}

fn ranges_and_splits(engine: &dyn Engine) {
    let key = |n: u32| n.to_be_bytes();
    for n in 0..3000 {
        let mut batch = Batch::new();
        batch.put(Space::Log, key(n), *b"v");
        engine.commit(batch).unwrap();
    }
    let snapshot = engine.snapshot();
    let range = KeyRange::new(Bound::Excluded(key(10).into()), Bound::Included(key(2990).into()));
    let keys = |direction| -> Vec<u32> {
        let scan = snapshot.scan(Space::Log, range.clone(), direction);
        scan.map(|pair| u32::from_be_bytes((*pair.unwrap().0).try_into().unwrap())).collect()
    };
    assert!(keys(Direction::Forward).into_iter().eq(11..=2990));
    assert!(keys(Direction::Reverse).into_iter().eq((11..=2990).rev()));
    let parts = snapshot.split(Space::Log, range.clone(), 4).unwrap();
    let counts: Vec<usize> =
        parts.iter().map(|p| snapshot.scan(Space::Log, p.clone(), Direction::Forward).count()).collect();
    assert_eq!(counts.len(), 4);
    assert_eq!(counts.iter().sum::<usize>(), 2980);
    assert!(counts.iter().all(|c| (700..800).contains(c)), "{counts:?}");
    assert_eq!(snapshot.scan(Space::Log, KeyRange::half_open(*b"b", *b"a"), Direction::Reverse).count(), 0);

    assert_eq!(engine.delete_range(Space::Log, KeyRange::half_open(key(100), key(2900))).unwrap(), 2800);
    assert_eq!(engine.snapshot().scan(Space::Log, KeyRange::all(), Direction::Forward).count(), 200);
    assert_eq!(snapshot.scan(Space::Log, KeyRange::all(), Direction::Forward).count(), 3000);
    let mut seen = 0;
    snapshot
        .visit_all(&mut |space, _, _| {
            seen += usize::from(space == Space::Log);
            if seen < 50 { std::ops::ControlFlow::Continue(()) } else { std::ops::ControlFlow::Break(()) }
        })
        .unwrap();
    assert_eq!(seen, 50);
}

fn contract(engine: &dyn Engine) {
    conditions_hold_or_nothing_happens(engine);
    keys_have_a_length(engine);
    ranges_and_splits(engine);
}

#[test]
fn memory_engine_keeps_the_contract() {
    contract(&MemoryEngine::new());
}

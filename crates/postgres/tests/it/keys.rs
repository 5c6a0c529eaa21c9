//! Long keys and long values.

use crate::support::{Schema, noise, put};
use diwan_kv::contract_tests::Dice;
use diwan_kv::{Batch, Bytes, Direction, Engine, KeyRange, MAX_KEY_LEN, Result, Space};
use diwan_postgres::Options;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Keys around the lengths at which they are stored in another way, many of which share their first bytes.
fn keys() -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    for fill in [0, 7, 0xff] {
        for len in [1, 1999, 2000, 2001, 2002, 2699, 8000, MAX_KEY_LEN] {
            keys.push(vec![fill; len]);
        }
        for tail in 0..120u32 {
            keys.push([&vec![fill; 2000][..], &tail.to_be_bytes()].concat());
            keys.push([&vec![fill; 1999][..], &tail.to_be_bytes()].concat());
        }
        for tail in [&[0][..], &[0, 0], &[1], &[0xff], &[0xff, 0xff]] {
            keys.push([&vec![fill; 2000][..], tail].concat());
            keys.push([&vec![fill; 3000][..], tail].concat());
        }
    }
    keys.sort();
    keys.dedup();
    keys
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn long_keys_are_in_order() {
    let schema = Schema::new();
    let engine = schema.open(&Options::default());
    let keys = keys();
    let mut dice = Dice(1);
    let mut model = BTreeMap::new();
    for round in 0..6 {
        let mut batch = Batch::new();
        for key in &keys {
            match dice.below(6) {
                0 | 1 => {
                    batch.put(Space::Indexes, key.clone(), [round]);
                    model.insert(key.clone(), round);
                }
                2 => {
                    batch.delete(Space::Indexes, key.clone());
                    model.remove(key);
                }
                _ => {}
            }
        }
        engine.commit(batch).unwrap();
        let view = engine.snapshot();
        let asked: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let found = view.get_many(Space::Indexes, &asked).unwrap();
        assert!(keys.iter().zip(&found).all(|(key, value)| model.get(key) == value.as_ref().map(|v| &v[0])));
        let bound = |dice: &mut Dice| {
            let key = Bytes::from(keys[dice.below(keys.len() as u64) as usize].as_slice());
            match dice.below(5) {
                0 => Bound::Unbounded,
                1 | 2 => Bound::Included(key),
                _ => Bound::Excluded(key),
            }
        };
        for _ in 0..40 {
            let range = KeyRange::new(bound(&mut dice), bound(&mut dice));
            let mut expected: Vec<_> = model
                .iter()
                .filter(|(key, _)| range.contains(key))
                .map(|(key, value)| (key.as_slice(), *value))
                .collect();
            for direction in [Direction::Forward, Direction::Reverse] {
                let pairs: Vec<_> =
                    view.scan(Space::Indexes, range.clone(), direction).collect::<Result<_>>().unwrap();
                let found = pairs.iter().map(|(key, value)| (&**key, value[0]));
                assert!(found.eq(expected.iter().copied()), "{direction:?}");
                expected.reverse();
            }
        }
    }
    let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (key.as_slice(), &key[..])).collect();
    engine.ingest(Space::Indexes, Box::new(pairs.iter().copied())).unwrap();
    let all = engine.snapshot().scan(Space::Indexes, KeyRange::all(), Direction::Forward);
    let all: Vec<_> = all.collect::<Result<_>>().unwrap();
    assert!(all.iter().map(|(key, value)| (&**key, &**value)).eq(pairs.iter().copied()));
    assert_eq!(engine.delete_range(Space::Indexes, KeyRange::all()).unwrap(), keys.len() as u64);
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn values_may_be_long() {
    let schema = Schema::new();
    let engine = schema.open(&Options::default());
    let values: Vec<Vec<u8>> =
        vec![noise(16 << 20, 1), vec![7; 16 << 20], noise(20_000_000, 2), noise(100, 3), vec![]];
    for (n, value) in values.iter().enumerate() {
        put(&engine, Space::Attachments, &[n as u8], value).unwrap();
    }
    let mut batch = Batch::new();
    for (n, value) in values.iter().enumerate() {
        batch.require_equal(Space::Attachments, [n as u8], value.clone());
        batch.put(Space::Records, [n as u8], value.clone());
    }
    engine.commit(batch).unwrap();
    let keys: Vec<[u8; 1]> = (0..values.len()).map(|n| [n as u8]).collect();
    let asked: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let view = engine.snapshot();
    for space in [Space::Attachments, Space::Records] {
        let found = view.get_many(space, &asked).unwrap();
        assert!(found.iter().zip(&values).all(|(found, value)| found.as_deref() == Some(value)));
        for direction in [Direction::Forward, Direction::Reverse] {
            let mut pairs: Vec<_> =
                view.scan(space, KeyRange::all(), direction).collect::<Result<_>>().unwrap();
            if direction == Direction::Reverse {
                pairs.reverse();
            }
            assert!(pairs.iter().map(|(_, value)| &**value).eq(values.iter().map(Vec::as_slice)));
        }
    }
    // One batch larger than what a group or a statement takes.
    let mut batch = Batch::new();
    for n in 0..8u8 {
        batch.put(Space::Log, [n], noise(6 << 20, n.into()));
    }
    engine.commit(batch).unwrap();
    assert_eq!(engine.get(Space::Log, &[5]).unwrap().as_deref(), Some(&noise(6 << 20, 5)[..]));
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn many_pairs_are_ingested_at_once() {
    let schema = Schema::new();
    let engine = schema.open(&Options::default());
    let key = |n: u32| [b"key".as_slice(), &n.to_be_bytes()].concat();
    for n in 0..100 {
        put(&engine, Space::Records, &key(n * 50), b"before").unwrap();
    }
    let pairs: Vec<(Vec<u8>, Vec<u8>)> =
        (0..60_000).filter(|n| n % 3 != 1).map(|n| (key(n), noise(40, n.into()))).collect();
    let view = engine.snapshot();
    engine.ingest(Space::Records, Box::new(pairs.iter().map(|(key, value)| (&**key, &**value)))).unwrap();
    assert_eq!(view.scan(Space::Records, KeyRange::all(), Direction::Forward).count(), 100);
    let view = engine.snapshot();
    let known = pairs.iter().map(|(key, value)| (key.clone(), value.clone()));
    let kept = (0..100).map(|n| n * 50).filter(|n| n % 3 == 1).map(|n| (key(n), b"before".to_vec()));
    let model: BTreeMap<_, _> = known.chain(kept).collect();
    let mut found = 0;
    let mut expected = model.iter();
    view.visit(Space::Records, KeyRange::all(), &mut |key, value| {
        let (known, of) = expected.next().unwrap();
        assert!(key == &known[..] && value == &of[..]);
        found += 1;
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(found, model.len());
    put(&engine, Space::Records, &key(0), b"after").unwrap();
    let too_long = vec![9; MAX_KEY_LEN + 1];
    let more = (0..60_000u32).map(|n| (key(n), noise(40, 0))).collect::<Vec<_>>();
    let bad = more.iter().map(|(key, value)| (&**key, &**value)).chain([(&too_long[..], &b""[..])]);
    assert!(engine.ingest(Space::Records, Box::new(bad)).is_err());
    assert_eq!(engine.get(Space::Records, &key(1)).unwrap(), None);
    assert_eq!(engine.delete_range(Space::Records, KeyRange::all()).unwrap(), model.len() as u64);
}

//! The contract as tests, which each engine runs, also those of other crates: a module without `cfg(test)`, so that the
//! program and the tests share one build of this crate.
//!
//! A broken contract panics.

use crate::*;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Reproducible random numbers (SplitMix64).
#[derive(Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn bytes(&mut self, longest: u64) -> Vec<u8> {
        let len = 1 + self.below(longest);
        (0..len).map(|_| [0, 1, 0x7f, 0xfe, 0xff][self.below(5) as usize]).collect()
    }
}

type Model = [BTreeMap<Vec<u8>, Vec<u8>>; Space::ALL.len()];

fn model_range<'a>(model: &'a BTreeMap<Vec<u8>, Vec<u8>>, range: &KeyRange) -> Vec<(&'a [u8], &'a [u8])> {
    model.iter().filter(|(k, _)| range.contains(k)).map(|(k, v)| (&**k, &**v)).collect()
}

fn compare(view: &dyn Snapshot, model: &Model, dice: &mut Dice) {
    let space = Space::ALL[dice.below(5) as usize];
    let map = &model[space.index()];
    let key = dice.bytes(5);
    assert_eq!(view.get(space, &key).unwrap().as_deref(), map.get(&key).map(|v| &**v));
    let bound = |dice: &mut Dice| match dice.below(3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(Bytes::from(dice.bytes(3))),
        _ => Bound::Excluded(Bytes::from(dice.bytes(3))),
    };
    let range = KeyRange::new(bound(dice), bound(dice));
    let mut expected = model_range(map, &range);
    let mut visited = Vec::new();
    view.visit(space, range.clone(), &mut |k, v| {
        visited.push((k.to_vec(), v.to_vec()));
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    assert!(visited.iter().map(|(k, v)| (&**k, &**v)).eq(expected.iter().copied()), "visit {range:?}");
    for direction in [Direction::Forward, Direction::Reverse] {
        let found: Vec<_> = view.scan(space, range.clone(), direction).collect::<Result<_>>().unwrap();
        assert!(
            found.iter().map(|(k, v)| (&**k, &**v)).eq(expected.iter().copied()),
            "{direction:?} {range:?}"
        );
        expected.reverse();
    }
}

/// Random operations against a plain map. `reopen` may replace the engine.
pub fn behaves_like_a_map(
    mut engine: Box<dyn Engine>,
    mut reopen: impl FnMut(Box<dyn Engine>) -> Box<dyn Engine>,
    seed: u64,
    steps: u64,
) {
    let mut dice = Dice(seed);
    let mut model = Model::default();
    let mut views: Vec<(Box<dyn Snapshot>, Model)> = Vec::new();
    for _ in 0..steps {
        match dice.below(100) {
            0..66 => {
                let mut batch = Batch::new();
                let mut after = model.clone();
                let mut written = std::collections::BTreeSet::new();
                for _ in 0..=dice.below(6) {
                    let (space, key) = (Space::ALL[dice.below(5) as usize], dice.bytes(5));
                    if !written.insert((space, key.clone())) {
                        continue;
                    }
                    if dice.below(3) > 0 {
                        let value = dice.bytes(40);
                        batch.put(space, key.clone(), value.clone());
                        after[space.index()].insert(key, value);
                    } else {
                        batch.delete(space, key.clone());
                        after[space.index()].remove(&key);
                    }
                }
                let mut failing = None;
                for i in 0..dice.below(3) as usize {
                    let (space, key) = (Space::ALL[dice.below(5) as usize], dice.bytes(2));
                    let found = model[space.index()].get(&key);
                    let holds = match dice.below(3) {
                        0 => {
                            batch.require_absent(space, key);
                            found.is_none()
                        }
                        1 => {
                            batch.require_equal(space, key, *b"never");
                            false
                        }
                        _ => {
                            let value = found.cloned();
                            match value {
                                Some(value) => batch.require_equal(space, key, value),
                                None => batch.require_absent(space, key),
                            }
                            true
                        }
                    };
                    failing = failing.or((!holds).then_some(i));
                }
                match (engine.commit(batch), failing) {
                    (Ok(_), None) => model = after,
                    (Err(Error::Conflict(i)), Some(expected)) if i == expected => {}
                    (outcome, expected) => panic!("{outcome:?} where {expected:?} was expected"),
                }
            }
            66..70 => {
                let space = Space::ALL[dice.below(5) as usize];
                let pairs: BTreeMap<_, _> =
                    (0..dice.below(20)).map(|_| (dice.bytes(5), dice.bytes(40))).collect();
                engine.ingest(space, Box::new(pairs.iter().map(|(k, v)| (&**k, &**v)))).unwrap();
                model[space.index()].extend(pairs);
            }
            70..90 => {
                compare(&*engine.snapshot(), &model, &mut dice);
                if let Some((view, model)) = views.last() {
                    compare(&**view, model, &mut dice);
                }
            }
            90..94 => views.push((engine.snapshot(), model.clone())),
            94..96 if !views.is_empty() => {
                let i = dice.below(views.len() as u64) as usize;
                views.swap_remove(i);
            }
            96 => {
                let (space, prefix) = (Space::ALL[dice.below(5) as usize], dice.bytes(2));
                let range = KeyRange::prefix(&prefix);
                let there = model_range(&model[space.index()], &range).len() as u64;
                assert_eq!(engine.delete_range(space, range.clone()).unwrap(), there);
                model[space.index()].retain(|k, _| !range.contains(k));
            }
            97 => engine.settle().unwrap(),
            98 if dice.below(4) == 0 => {
                views.clear();
                engine = reopen(engine);
            }
            _ => {
                let last = engine.commit(Batch::new()).unwrap();
                engine.wait_durable(last).unwrap();
                assert!(engine.durable() >= last);
            }
        }
    }
    for (view, model) in &views {
        for _ in 0..20 {
            compare(&**view, model, &mut dice);
        }
    }
}

fn a_failed_condition_leaves_everything_unchanged(engine: &dyn Engine) {
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

fn put(engine: &dyn Engine, key: &[u8], value: &[u8]) {
    let mut batch = Batch::new();
    batch.put(Space::Indexes, key, value);
    engine.commit(batch).unwrap();
}

pub(crate) fn ingest(engine: &dyn Engine, pairs: &[(&[u8], &[u8])]) -> Result<()> {
    engine.ingest(Space::Indexes, Box::new(pairs.iter().copied()))
}

fn ingested_pairs_stand_between_earlier_and_later_commits(engine: &dyn Engine) {
    put(engine, b"b", b"before");
    put(engine, b"x", b"before");
    let view = engine.snapshot();
    ingest(engine, &[(b"a", b"ingested"), (b"b", b"ingested"), (b"c", b"ingested")]).unwrap();
    put(engine, b"c", b"after");
    ingest(engine, &[]).unwrap();
    let shown = |view: &dyn Snapshot| {
        let pairs = view.scan(Space::Indexes, KeyRange::all(), Direction::Forward);
        let pair = |(key, value): (Bytes, Bytes)| (key[0] as char, value[0] as char);
        pairs.map(|found| pair(found.unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(shown(&*view), [('b', 'b'), ('x', 'b')]);
    assert_eq!(shown(&*engine.snapshot()), [('a', 'i'), ('b', 'i'), ('c', 'a'), ('x', 'b')]);
    assert_eq!(engine.get(Space::Indexes, b"b").unwrap().as_deref(), Some(&b"ingested"[..]));
    let long = vec![7; MAX_KEY_LEN + 1];
    assert!(matches!(ingest(engine, &[(b"d", b""), (&long, b"")]), Err(Error::KeyLength(_))));
    assert_eq!(engine.delete_range(Space::Indexes, KeyRange::all()).unwrap(), 4);
    assert_eq!(view.scan(Space::Indexes, KeyRange::all(), Direction::Forward).count(), 2);
}

/// What one caller may rely on.
pub fn contract(engine: &dyn Engine) {
    a_failed_condition_leaves_everything_unchanged(engine);
    keys_have_a_length(engine);
    ingested_pairs_stand_between_earlier_and_later_commits(engine);
    ranges_and_splits(engine);
}

fn conditional(engine: &dyn Engine, fill: impl FnOnce(&mut Batch)) -> bool {
    let mut batch = Batch::new();
    fill(&mut batch);
    match engine.commit(batch) {
        Ok(_) => true,
        Err(Error::Conflict(_)) => false,
        Err(error) => panic!("{error}"),
    }
}

fn require(batch: &mut Batch, space: Space, key: &[u8], value: Option<Bytes>) {
    match value {
        None => batch.require_absent(space, key),
        Some(value) => batch.require_equal(space, key, value),
    }
}

/// A thread that increments a number under the condition that nobody else did.
fn increment(engine: &dyn Engine, times: u32) {
    for _ in 0..times {
        let attempt = || {
            let old = engine.get(Space::Meta, b"n").unwrap();
            let number = old.as_deref().map_or(0, |old| u32::from_le_bytes(old.try_into().unwrap()));
            conditional(engine, |batch| {
                require(batch, Space::Meta, b"n", old);
                batch.put(Space::Meta, *b"n", (number + 1).to_le_bytes());
            })
        };
        while !attempt() {}
    }
}

fn conditions_on_one_key_exclude_each_other(engine: &dyn Engine) {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| increment(engine, 300));
        }
    });
    assert_eq!(engine.get(Space::Meta, b"n").unwrap().as_deref(), Some(&1200u32.to_le_bytes()[..]));
}

/// Two threads each put a key on condition that the other key is absent: exactly one must succeed.
fn conditions_on_each_others_keys_exclude_each_other(engine: &dyn Engine) {
    const ROUNDS: u32 = 5000;
    let key = |round: u32, side: u8| [&round.to_be_bytes()[..], &[side]].concat();
    let barrier = std::sync::Barrier::new(2);
    let take = |side: u8| {
        let round = |round| {
            barrier.wait();
            conditional(engine, |batch| {
                batch.require_absent(Space::Log, key(round, 1 - side));
                batch.put(Space::Log, key(round, side), *b"taken");
            })
        };
        (0..ROUNDS).map(round).collect::<Vec<_>>()
    };
    let won: Vec<_> = std::thread::scope(|scope| {
        let other = scope.spawn(|| take(1));
        take(0).into_iter().zip(other.join().unwrap()).collect()
    });
    let wrong = won.iter().filter(|(a, b)| a == b).count();
    assert_eq!(wrong, 0, "rounds of {ROUNDS} in which both won or neither");
}

/// One thread changes a version and empties a note, without conditions or by ingestion; others write the version that they
/// have read into the note, on condition that it has not changed. So the note is empty or names the present version.
fn conditions_hold_against_every_write(engine: &dyn Engine) {
    /// There are more rounds if the other threads have not begun by then.
    const VERSIONS: u32 = 2500;
    const VERSION: &[u8] = b"w version";
    const NOTE: &[u8] = b"w note";
    let ended = std::sync::atomic::AtomicBool::new(false);
    let noted = std::sync::atomic::AtomicU64::new(0);
    let running = || !ended.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while running() {
                    let Some(version) = engine.get(Space::Meta, VERSION).unwrap() else { continue };
                    let won = conditional(engine, |batch| {
                        batch.require_equal(Space::Meta, VERSION, version.clone());
                        batch.put(Space::Meta, NOTE, version);
                    });
                    noted.fetch_add(u64::from(won), std::sync::atomic::Ordering::Relaxed);
                }
            });
        }
        let mut wrong = 0;
        for version in 1u32.. {
            if version > VERSIONS && noted.load(std::sync::atomic::Ordering::Relaxed) > 0 {
                break;
            }
            let bytes = version.to_be_bytes();
            if version % 500 == 0 {
                let pairs: [(&[u8], &[u8]); 2] = [(NOTE, b""), (VERSION, &bytes)];
                engine.ingest(Space::Meta, Box::new(pairs.into_iter())).unwrap();
            } else {
                conditional(engine, |batch| {
                    batch.put(Space::Meta, NOTE, *b"");
                    batch.put(Space::Meta, VERSION, bytes);
                });
            }
            // A thread that has read the previous version gets time to write its note too late.
            if version % 8 == 0 {
                std::thread::yield_now();
            }
            let note = engine.get(Space::Meta, NOTE).unwrap().unwrap_or_default();
            wrong += u32::from(!note.is_empty() && *note != bytes);
        }
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(wrong, 0, "notes that name a version that was no longer present");
    });
}

/// What callers beside each other may rely on.
pub fn contract_beside_others(engine: &dyn Engine) {
    conditions_on_one_key_exclude_each_other(engine);
    conditions_on_each_others_keys_exclude_each_other(engine);
    conditions_hold_against_every_write(engine);
}

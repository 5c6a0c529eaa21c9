//! Several engines over one store, in one process and in others.

use crate::support::{Schema, increment, noise, number, put};
use diwan_kv::{
    Batch, Bytes, CachedEngine, Changes, Commits, ContractEngine, Direction, Engine, Error, KeyRange, Peers,
    Result, Space, evaluate,
};
use diwan_postgres::{Options, PostgresEngine};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Tells the test below that it is another process.
const CHILD: &str = "DIWAN_TEST_POSTGRES_CHILD";

pub fn peers(engine: &dyn Engine) -> &dyn Peers {
    engine.peers().unwrap()
}

/// Evaluates a write in a turn, again after each refusal. Returns how often it was refused.
fn evaluated(engine: &dyn Engine, mut write: impl FnMut() -> Batch) -> u32 {
    let mut refused = 0;
    let is_stale = |error: &Error| matches!(error, Error::Stale);
    let attempt = || {
        let _turn = peers(engine).turns().enter();
        engine.commit(write()).inspect_err(|error| refused += u32::from(is_stale(error)))
    };
    evaluate(peers(engine), Commits::One, is_stale, attempt).unwrap();
    refused
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn conditions_hold_among_engines() {
    let schema = Schema::new();
    let engines: Vec<_> = (0..3).map(|_| schema.open(&Options::default())).collect();
    std::thread::scope(|scope| {
        for engine in &engines {
            for _ in 0..3 {
                scope.spawn(|| (0..60).for_each(|_| increment(engine, b"n").unwrap()));
            }
        }
    });
    for engine in &engines {
        assert_eq!(number(engine.get(Space::Meta, b"n").unwrap().as_ref()), 540);
    }
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn a_turn_is_refused_after_another_engine_has_written() {
    let schema = Schema::new();
    let (one, other) = (schema.open(&Options::default()), schema.open(&Options::default()));
    let told: Arc<Mutex<Vec<Changes>>> = Arc::default();
    let tell = told.clone();
    peers(&one).observe(Box::new(move |changes| {
        tell.lock().push(changes.clone());
        Ok(())
    }));
    put(&one, Space::Meta, b"own", b"").unwrap();
    let turn = peers(&one).turns().enter();
    put(&other, Space::Meta, b"foreign", b"").unwrap();
    assert!(matches!(put(&one, Space::Meta, b"late", b""), Err(Error::Stale)));
    // What is evaluated in the same generation is refused at once.
    assert!(matches!(put(&one, Space::Meta, b"late", b""), Err(Error::Stale)));
    peers(&one).catch_up().unwrap();
    assert!(told.lock().is_empty(), "the observer is told while no turn is taken");
    drop(turn);
    peers(&one).catch_up().unwrap();
    // What was refused is told as well: it may have to be read anew.
    let of = |key: &[u8]| Changes::Keys { keys: vec![(Space::Meta, Bytes::from(key))], notes: Vec::new() };
    assert_eq!(*told.lock(), [of(b"late"), of(b"foreign")]);
    assert_eq!(
        evaluated(&one, || {
            let mut batch = Batch::new();
            batch.put(Space::Meta, *b"late", *b"");
            batch
        }),
        0
    );
    assert_eq!(other.get(Space::Meta, b"late").unwrap().as_deref(), Some(&b""[..]));
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn what_a_turn_reads_stands_until_its_commit() {
    let schema = Schema::new();
    let engines: Vec<_> = (0..3).map(|_| schema.open(&Options::default())).collect();
    let refused = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for engine in &engines {
            // Threads of one process exclude each other by a lock, as the layers above do.
            let own = Arc::new(Mutex::new(()));
            for _ in 0..2 {
                let (own, refused) = (own.clone(), &refused);
                scope.spawn(move || {
                    for _ in 0..100 {
                        let _own = own.lock();
                        let count = evaluated(engine, || {
                            let old = number(engine.get(Space::Meta, b"n").unwrap().as_ref());
                            let mut batch = Batch::new();
                            batch.put(Space::Meta, *b"n", (old + 1).to_le_bytes());
                            batch
                        });
                        refused.fetch_add(count.into(), Ordering::Relaxed);
                    }
                });
            }
        }
    });
    assert_eq!(number(engines[0].get(Space::Meta, b"n").unwrap().as_ref()), 600);
    println!("{} of 600 writes were evaluated again", refused.into_inner());
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn caches_show_what_other_engines_have_written() {
    let schema = Schema::new();
    let open = || ContractEngine::new(CachedEngine::new(schema.open(&Options::default()), 4 << 20));
    let engines: Vec<_> = (0..3).map(|_| open()).collect();
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut random = 1u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for round in 0..400u32 {
        let engine = &engines[next(3) as usize];
        if round % 97 == 50 {
            let pairs: Vec<_> = (0..30u8).map(|n| (vec![n, 0xFF], noise(60_000, n.into()))).collect();
            let sorted = pairs.iter().map(|(key, value)| (key.as_slice(), value.as_slice()));
            engine.ingest(Space::Records, Box::new(sorted)).unwrap();
            model.extend(pairs);
        } else {
            let mut batch = Batch::new();
            for key in (0..8).map(|_| vec![next(40) as u8]).collect::<std::collections::BTreeSet<_>>() {
                let value = next(4).checked_sub(1).map(|_| round.to_be_bytes().to_vec());
                match value {
                    Some(value) => {
                        batch.put(Space::Records, key.as_slice(), value.as_slice());
                        model.insert(key, value);
                    }
                    None => {
                        batch.delete(Space::Records, key.as_slice());
                        model.remove(&key);
                    }
                }
            }
            engine.commit(batch).unwrap();
        }
        let reader = &engines[next(3) as usize];
        let pairs = reader.snapshot().scan(Space::Records, KeyRange::all(), Direction::Forward);
        let found: Vec<_> = pairs.collect::<Result<_>>().unwrap();
        let expected = model.iter().map(|(key, value)| (Bytes::from(&**key), Bytes::from(&**value)));
        assert!(found.into_iter().eq(expected), "round {round}");
        peers(reader).catch_up().unwrap();
        for key in 0..40u8 {
            let found = reader.get(Space::Records, &[key]).unwrap();
            assert_eq!(found.as_deref(), model.get(&vec![key]).map(Vec::as_slice), "round {round}");
        }
    }
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn reads_of_single_keys_fill_the_cache() {
    let schema = Schema::new();
    let engine = CachedEngine::new(schema.open(&Options::default()), 16 << 20);
    let key = |n: u32| (n % 50).to_be_bytes();
    (0..50).for_each(|n| put(&engine, Space::Records, &key(n), b"old").unwrap());
    let read_all = |value: &[u8]| {
        for n in 0..100 {
            assert_eq!(engine.get(Space::Records, &key(n)).unwrap().as_deref(), Some(value));
        }
    };
    // A connection that is idle reads on.
    drop(engine.snapshot());
    assert_eq!(engine.stats().cache_bytes, 0);
    read_all(b"old");
    assert!(engine.stats().cache_bytes > 0);
    (0..50).for_each(|n| put(&engine, Space::Records, &key(n), b"new").unwrap());
    read_all(b"new");
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn an_engine_that_missed_the_journal_takes_everything_as_changed() {
    let schema = Schema::new();
    let one = CachedEngine::new(schema.open(&Options::default()), 4 << 20);
    let other = schema.open(&Options::default());
    put(&other, Space::Records, b"k", b"old").unwrap();
    let scan = || {
        one.snapshot().scan(Space::Records, KeyRange::all(), Direction::Forward).next().unwrap().unwrap().1
    };
    assert_eq!((&*scan(), &*scan()), (&b"old"[..], &b"old"[..]));
    schema.sql(
        "LOCK TABLE {s}.journal; UPDATE {s}.journal SET number = number + 5, before = 1, stamp = 7 \
                WHERE number = (SELECT max(number) FROM {s}.journal); \
                DELETE FROM {s}.journal WHERE stamp <> 7; \
                UPDATE {s}.records SET value = (SELECT value FROM {s}.records LIMIT 1)",
    );
    put(&other, Space::Records, b"k", b"new").unwrap();
    assert_eq!(&*scan(), b"new");
    put(&one, Space::Records, b"l", b"own").unwrap();
    assert_eq!(other.get(Space::Records, b"l").unwrap().as_deref(), Some(&b"own"[..]));
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn one_engine_leads_and_another_takes_over() {
    let schema = Schema::new();
    let (one, other) = (schema.open(&Options::default()), schema.open(&Options::default()));
    let wait_for = |engine: &PostgresEngine| {
        let began = Instant::now();
        while !peers(engine).leads() {
            assert!(began.elapsed() < Duration::from_secs(20), "no engine leads");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let began = Instant::now();
    while !peers(&one).leads() && !peers(&other).leads() && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(1200));
    assert!(peers(&one).leads() != peers(&other).leads());
    let (first, second) = if peers(&one).leads() { (one, other) } else { (other, one) };
    let own = peers(&first).own();
    assert!(!peers(&second).is_gone(own).unwrap());
    assert_ne!(own, peers(&second).own());
    first.close().unwrap();
    drop(first);
    wait_for(&second);
    // It has ended just now, so it is not given up yet.
    assert!(!peers(&second).is_gone(own).unwrap());
}

/// Another process that commits numbers and prints each when it has been acknowledged.
pub fn child(schema: &Schema) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["peers::the_other_process", "--exact", "--ignored", "--nocapture"])
        .env(CHILD, schema.uri())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    (child, lines)
}

pub fn next(lines: &mut BufReader<ChildStdout>) -> Option<String> {
    let mut line = String::new();
    (lines.read_line(&mut line).unwrap() > 0).then(|| line.trim().to_owned())
}

fn committed(line: &str) -> Option<u32> {
    line.strip_prefix("committed ")?.parse().ok()
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn the_other_process() {
    let Ok(uri) = std::env::var(CHILD) else { return };
    let engine = PostgresEngine::open(&uri, &Options::default()).unwrap();
    println!("opened");
    for n in 0u32.. {
        put(&engine, Space::Log, &n.to_be_bytes(), b"").unwrap();
        println!("committed {n}");
    }
}

/// Reads until the other process has committed a number.
pub fn wait_until(lines: &mut BufReader<ChildStdout>, least: u32) -> u32 {
    loop {
        let line = next(lines).expect("the other process goes on");
        if let Some(number) = committed(&line).filter(|number| *number >= least) {
            return number;
        }
    }
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn a_killed_process_loses_nothing_and_stops_nobody() {
    let schema = Schema::new();
    let engine = schema.open(&Options::default());
    for _ in 0..4 {
        let (mut child, mut lines) = child(&schema);
        let mut last = wait_until(&mut lines, 100);
        child.kill().unwrap();
        child.wait().unwrap();
        while let Some(line) = next(&mut lines) {
            last = committed(&line).unwrap_or(last);
        }
        let began = Instant::now();
        put(&engine, Space::Meta, b"k", b"v").unwrap();
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        for n in 0..=last {
            assert!(engine.get(Space::Log, &n.to_be_bytes()).unwrap().is_some(), "{n}");
        }
    }
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn a_stopped_process_delays_others_and_goes_on() {
    let schema = Schema::new();
    let engine = schema.open(&Options::default());
    let (mut child, mut lines) = child(&schema);
    wait_until(&mut lines, 50);
    let pid = Pid::from_child(&child);
    for _ in 0..5 {
        kill_process(pid, Signal::STOP).unwrap();
        let began = Instant::now();
        put(&engine, Space::Meta, b"k", b"v").unwrap();
        // The server ends the session of a process that is silent in a transaction.
        assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
        kill_process(pid, Signal::CONT).unwrap();
        let last = wait_until(&mut lines, 0);
        wait_until(&mut lines, last + 20);
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

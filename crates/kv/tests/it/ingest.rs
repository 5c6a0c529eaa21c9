//! Tests of ingestion on disk: beside commits, and interrupted by a kill.

use diwan_kv::{Batch, Direction, Engine, FjallEngine, KeyRange, Options, Space};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Tests run one at a time: a process that is being started inherits the locks of all directories that are open then.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open(path: &Path) -> FjallEngine {
    FjallEngine::open(path, &Options { settle_in_background: false, ..Options::default() }).unwrap()
}

/// How many keys each round ingests, including those of the previous round.
const SHARED: u32 = 300;

fn shared(n: u32) -> Vec<u8> {
    [&b"shared"[..], &n.to_be_bytes()].concat()
}

/// A commit, an ingestion over all shared keys, and a commit over one of them.
fn round(engine: &dyn Engine, round: u32, mut done: impl FnMut(&str)) {
    let value = round.to_be_bytes();
    let mut batch = Batch::new();
    batch.put(Space::Records, value, value);
    batch.put(Space::Indexes, [&b"own"[..], &value].concat(), value);
    batch.put(Space::Indexes, shared(1), *b"shadowed");
    engine.commit(batch).unwrap();
    done("committed");
    let keys: Vec<Vec<u8>> = (0..SHARED).map(shared).collect();
    engine
        .ingest(Space::Indexes, Box::new(keys.iter().map(|key| (key.as_slice(), value.as_slice()))))
        .unwrap();
    done("ingested");
    let mut batch = Batch::new();
    batch.delete(Space::Indexes, shared(0));
    batch.put(Space::Log, value, value);
    engine.commit(batch).unwrap();
    done("deleted");
}

/// Checks that no write of the rounds is present in part; returns how far each kind of write got.
fn examine(engine: &dyn Engine) -> (u32, u32, u32) {
    let view = engine.snapshot();
    let last = |space, prefix: &[u8]| {
        let mut scan = view.scan(space, KeyRange::prefix(prefix), Direction::Reverse);
        scan.next().map_or(0, |pair| u32::from_be_bytes(pair.unwrap().1[..].try_into().unwrap()))
    };
    let committed = last(Space::Records, b"");
    assert_eq!(committed, last(Space::Indexes, b"own"), "a commit is present in part");
    let deleted = last(Space::Log, b"");
    let get = |n| view.get(Space::Indexes, &shared(n)).unwrap();
    let ingested = get(2).map_or(0, |value| u32::from_be_bytes(value[..].try_into().unwrap()));
    for n in 3..SHARED {
        let expected = (ingested > 0).then_some(ingested.to_be_bytes());
        assert_eq!(
            get(n).as_deref(),
            expected.as_ref().map(|value| &value[..]),
            "an ingestion is present in part"
        );
    }
    let shadowed = get(1);
    match committed > ingested {
        true => assert_eq!(shadowed.as_deref(), Some(&b"shadowed"[..])),
        false => assert_eq!(shadowed, get(2)),
    }
    assert_eq!(
        get(0).is_none(),
        deleted == ingested,
        "a deleted pair is back, or an ingested one is missing"
    );
    (committed, ingested, deleted)
}

#[test]
fn ingested_pairs_survive_closing_and_settling() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    for n in 1..=6 {
        let engine = open(dir.path());
        assert_eq!(examine(&engine), (n - 1, n - 1, n - 1));
        if n % 3 == 1 {
            engine.settle().unwrap();
        }
        round(&engine, n, |_| ());
        assert_eq!(examine(&engine), (n, n, n));
    }
}

#[test]
fn commits_beside_ingestions_are_neither_lost_nor_reordered() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let engine = diwan_kv::open(dir.path(), &Options::default()).unwrap();
    let stop = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2u8)
            .map(|writer| {
                let (engine, stop) = (&engine, &stop);
                scope.spawn(move || {
                    let mut n = 0u32;
                    while !stop.load(Ordering::Relaxed) {
                        n += 1;
                        let mut batch = Batch::new();
                        for space in [Space::Records, Space::Indexes] {
                            batch.put(space, [b"w", &[writer][..]].concat(), n.to_be_bytes());
                        }
                        engine.commit(batch).unwrap();
                        let view = engine.snapshot();
                        let read = |space| view.get(space, &[b'w', writer]).unwrap();
                        assert_eq!(read(Space::Records).as_deref(), Some(&n.to_be_bytes()[..]));
                        assert_eq!(read(Space::Indexes), read(Space::Records));
                    }
                    n
                })
            })
            .collect();
        (1..=30).for_each(|n| round(&*engine, n, |_| ()));
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
    });
    let check = |engine: &dyn Engine| {
        for (writer, n) in written.iter().enumerate() {
            for space in [Space::Records, Space::Indexes] {
                let found = engine.get(space, &[b'w', writer as u8]).unwrap();
                assert_eq!(found.as_deref(), Some(&n.to_be_bytes()[..]));
            }
        }
        let keys = engine.snapshot().scan(Space::Indexes, KeyRange::prefix(b"shared"), Direction::Forward);
        assert_eq!(keys.count(), SHARED as usize - 1);
    };
    check(&*engine);
    drop(engine);
    check(&open(dir.path()));
}

const VICTIM: &str = "DIWAN_KV_VICTIM";

/// Does nothing unless it is the process that [`a_kill_at_any_moment_loses_nothing`] kills.
#[test]
fn victim() {
    let Some(directory) = std::env::var_os(VICTIM) else { return };
    let engine = FjallEngine::open(&directory, &Options::default()).unwrap();
    let begun = examine(&engine).0;
    for n in begun + 1.. {
        round(&engine, n, |what| writeln!(std::io::stderr(), "{what} {n}").unwrap());
    }
}

#[test]
fn a_kill_at_any_moment_loses_nothing() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = [0u32; 3];
    for turn in 0..20 {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "ingest::victim"])
            .env(VICTIM, dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        // The kill comes at different moments of different rounds.
        let until = turn * 7 % 23;
        let pause = Duration::from_micros(turn * 613 % 5_000);
        for (at, line) in lines.enumerate() {
            let line = line.unwrap();
            let (what, n) = line.split_once(' ').unwrap();
            let kind = ["committed", "ingested", "deleted"].iter().position(|kind| *kind == what);
            acknowledged[kind.unwrap_or_else(|| panic!("{line}"))] = n.parse().unwrap();
            if at as u64 == until {
                std::thread::sleep(pause);
                process.kill().unwrap();
            }
        }
        process.wait().unwrap();
        let (committed, ingested, deleted) = examine(&open(dir.path()));
        for (found, acknowledged) in [committed, ingested, deleted].into_iter().zip(acknowledged) {
            assert!(found >= acknowledged, "{found} of {acknowledged}");
        }
        // At most one write was applied and not acknowledged.
        assert!(committed <= acknowledged[0] + 1 && ingested <= committed && deleted <= ingested);
    }
}

//! Snapshots: what they show, and how many there may be.

use crate::support::{Schema, put};
use diwan_kv::{Direction, Engine, Error, KeyRange, Space};
use diwan_postgres::Options;
use std::io::ErrorKind;
use std::sync::Barrier;
use std::time::{Duration, Instant};

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn a_hundred_snapshots_share_the_connections() {
    let schema = Schema::alone();
    let engine = schema.open(&Options::default());
    put(&engine, Space::Records, b"n", &0u64.to_le_bytes()).unwrap();
    put(&engine, Space::Indexes, b"n", &0u64.to_le_bytes()).unwrap();
    let barrier = Barrier::new(101);
    std::thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                barrier.wait();
                for _ in 0..3 {
                    let view = engine.snapshot();
                    let record = view.get(Space::Records, b"n").unwrap();
                    std::thread::sleep(Duration::from_millis(20));
                    let entry = view.scan(Space::Indexes, KeyRange::all(), Direction::Forward).next();
                    assert_eq!(record, entry.map(|pair| pair.unwrap().1));
                }
            });
        }
        barrier.wait();
        for n in 1..100u64 {
            let mut batch = diwan_kv::Batch::new();
            batch.put(Space::Records, *b"n", n.to_le_bytes());
            batch.put(Space::Indexes, *b"n", n.to_le_bytes());
            engine.commit(batch).unwrap();
        }
    });
    let sessions = "SELECT count(*)::text FROM pg_stat_activity WHERE application_name = 'diwan'";
    assert!(schema.admin.text(sessions).parse::<u32>().unwrap() <= 32 + 4 + 2);
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn a_snapshot_too_many_waits_and_then_says_why_there_is_none() {
    let schema = Schema::new();
    let options = Options { connections: 3, patience: Duration::from_millis(400), ..Options::default() };
    let engine = schema.open(&options);
    put(&engine, Space::Meta, b"k", b"v").unwrap();
    let hold = || std::thread::scope(|scope| scope.spawn(|| engine.snapshot()).join().unwrap());
    let held: Vec<_> = (0..3).map(|_| hold()).collect();
    let began = Instant::now();
    let error = engine.snapshot().get(Space::Meta, b"k").unwrap_err();
    assert!(began.elapsed() >= Duration::from_millis(400));
    assert!(matches!(&error, Error::Io { source, .. } if source.kind() == ErrorKind::TimedOut), "{error}");
    assert!(error.to_string().contains("all 3 connections"), "{error}");
    // Single reads and commits do not wait for them.
    put(&engine, Space::Meta, b"k", b"w").unwrap();
    assert_eq!(engine.get(Space::Meta, b"k").unwrap().as_deref(), Some(&b"w"[..]));
    assert!(held.iter().all(|view| view.get(Space::Meta, b"k").unwrap().as_deref() == Some(b"v")));
    drop(held);
    // A thread that holds one may take another, so that threads do not wait for each other.
    let barrier = Barrier::new(3);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let outer = engine.snapshot();
                barrier.wait();
                let inner = engine.snapshot();
                for view in [outer, inner] {
                    assert!(view.get(Space::Meta, b"k").unwrap().is_some());
                }
            });
        }
    });
    assert_eq!(engine.snapshot().get(Space::Meta, b"k").unwrap().as_deref(), Some(&b"w"[..]));
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn a_scan_outlives_its_snapshot_and_may_be_left() {
    let schema = Schema::new();
    let options = Options { connections: 1, patience: Duration::from_secs(2), ..Options::default() };
    let engine = schema.open(&options);
    let pairs: Vec<_> = (0..10_000u32).map(|n| (n.to_be_bytes(), [n as u8; 30])).collect();
    engine.ingest(Space::Log, Box::new(pairs.iter().map(|(key, value)| (&key[..], &value[..])))).unwrap();
    let mut scan = engine.snapshot().scan(Space::Log, KeyRange::all(), Direction::Forward);
    for pair in &pairs[..5000] {
        assert_eq!(*scan.next().unwrap().unwrap().0, pair.0);
    }
    // The connection comes back although a run is on its way.
    drop(scan);
    for _ in 0..20 {
        assert!(
            engine
                .snapshot()
                .scan(Space::Log, KeyRange::all(), Direction::Reverse)
                .take(3)
                .all(|pair| pair.is_ok())
        );
    }
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn sizes_are_told_without_waiting() {
    let schema = Schema::new();
    let engine = schema.open(&Options::default());
    put(&engine, Space::Records, b"k", &[7; 100_000]).unwrap();
    let began = Instant::now();
    while engine.stats().disk_bytes == 0 {
        assert!(began.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(20));
    }
    let began = Instant::now();
    let stats = engine.stats();
    assert!(began.elapsed() < Duration::from_millis(50));
    assert!(stats.spaces[Space::Records.index()].disk_bytes > 0);
}

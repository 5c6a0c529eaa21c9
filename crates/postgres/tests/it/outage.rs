//! Connections that break and a server that crashes: acknowledged batches stay, and each batch is there as a whole or not at all.

use crate::support::{Schema, increment, number, put};
use diwan_kv::{Batch, Direction, Engine, Error, KeyRange, Result, Space};
use diwan_postgres::{Options, PostgresEngine};
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const THREADS: u64 = 8;
const COUNTER: &[u8] = b"counter";

/// Each thread commits pairs in two spaces, and counts.
fn write_beside(engine: &PostgresEngine, disturb: impl FnOnce(&dyn Fn() -> u64)) {
    let ended = AtomicBool::new(false);
    let counted = AtomicU64::new(0);
    let written: Vec<u64> = std::thread::scope(|scope| {
        let write = |thread: u64| {
            for n in 0u64.. {
                if ended.load(Ordering::Relaxed) {
                    return n;
                }
                let mut batch = Batch::new();
                let key = [thread.to_be_bytes(), n.to_be_bytes()].concat();
                batch.put(Space::Records, key.clone(), n.to_le_bytes());
                batch.put(Space::Indexes, key.clone(), thread.to_le_bytes());
                batch.require_absent(Space::Records, key);
                engine.commit(batch).unwrap();
                increment(engine, COUNTER).unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
            }
            unreachable!("the numbers do not end")
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || write(thread))).collect();
        disturb(&|| counted.load(Ordering::Relaxed));
        ended.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(number(engine.get(Space::Meta, COUNTER).unwrap().as_ref()), counted.load(Ordering::Relaxed));
    let expected: Vec<Vec<u8>> = written
        .iter()
        .zip(0u64..)
        .flat_map(|(written, thread)| {
            (0..*written).map(move |n| [thread.to_be_bytes(), n.to_be_bytes()].concat())
        })
        .collect();
    let view = engine.snapshot();
    for space in [Space::Records, Space::Indexes] {
        let pairs = view.scan(space, KeyRange::all(), Direction::Forward);
        let keys: Vec<_> = pairs.map(|pair| pair.map(|(key, _)| key)).collect::<Result<_>>().unwrap();
        assert!(keys.iter().map(|key| &**key).eq(expected.iter().map(Vec::as_slice)), "{space}");
    }
    println!("{} commits", 2 * expected.len());
}

/// Waits until more has been counted.
fn wait_for(counted: &dyn Fn() -> u64, more: u64) {
    let goal = counted() + more;
    let began = Instant::now();
    while counted() < goal {
        assert!(began.elapsed() < Duration::from_secs(30), "commits go on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn a_crash_of_the_server_loses_nothing() {
    let mut schema = Schema::alone();
    let engine = schema.open(&Options::default());
    write_beside(&engine, |counted| {
        for _ in 0..4 {
            wait_for(counted, 100);
            schema.admin.crash();
        }
        wait_for(counted, 100);
    });
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn broken_connections_lose_nothing() {
    let schema = Schema::alone();
    let engine = schema.open(&Options::default());
    write_beside(&engine, |counted| {
        for round in 0..150 {
            wait_for(counted, 1);
            std::thread::sleep(Duration::from_micros(371 * (round % 20)));
            schema.admin.terminate();
        }
        wait_for(counted, 100);
    });
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn a_broken_connection_ends_only_its_snapshot() {
    let schema = Schema::alone();
    let engine = schema.open(&Options::default());
    put(&engine, Space::Meta, b"k", b"v").unwrap();
    let broken = engine.snapshot();
    assert!(broken.get(Space::Meta, b"k").unwrap().is_some());
    schema.admin.terminate();
    let error = broken.get(Space::Meta, b"k").unwrap_err();
    assert!(matches!(&error, Error::Io { .. }), "{error}");
    assert!(broken.scan(Space::Meta, KeyRange::all(), Direction::Forward).any(|pair| pair.is_err()));
    assert!(engine.get(Space::Meta, b"k").unwrap().is_some());
    assert!(engine.snapshot().get(Space::Meta, b"k").unwrap().is_some());
    put(&engine, Space::Meta, b"k", b"w").unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn a_full_disk_refuses_a_write_and_a_later_one_succeeds() {
    let schema = Schema::new();
    let engine = schema.open(&Options::default());
    let table = format!("{}.{}", schema.name, Space::Records.name());
    schema.sql(&format!(
        "CREATE FUNCTION {{s}}.full() RETURNS trigger LANGUAGE plpgsql AS \
         $$BEGIN RAISE EXCEPTION 'no space left on device' USING ERRCODE = '53100'; END$$; \
         CREATE TRIGGER full_disk BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION {{s}}.full()"
    ));
    let error = put(&engine, Space::Records, b"k", b"v").unwrap_err();
    assert!(error.is_out_of_space(), "{error}");
    put(&engine, Space::Meta, b"k", b"v").unwrap();
    schema.sql(&format!("DROP TRIGGER full_disk ON {table}"));
    assert_eq!(engine.get(Space::Records, b"k").unwrap(), None);
    put(&engine, Space::Records, b"k", b"v").unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn a_read_only_server_refuses_writes_until_it_accepts_them() {
    let schema = Schema::alone();
    let role = format!("{}_turns", schema.name);
    schema.admin.run(&format!("CREATE ROLE {role} LOGIN SUPERUSER"));
    let engine = PostgresEngine::open(&schema.uri_of(&role), &Options::default()).unwrap();
    put(&engine, Space::Meta, b"k", b"v").unwrap();
    schema.admin.run(&format!("ALTER ROLE {role} SET default_transaction_read_only = on"));
    schema.admin.terminate();
    let error = put(&engine, Space::Meta, b"k", b"w").unwrap_err();
    assert!(
        matches!(&error, Error::Io { source, .. } if source.kind() == ErrorKind::ReadOnlyFilesystem),
        "{error}"
    );
    assert_eq!(engine.get(Space::Meta, b"k").unwrap().as_deref(), Some(&b"v"[..]));
    schema.admin.run(&format!("ALTER ROLE {role} RESET default_transaction_read_only"));
    put(&engine, Space::Meta, b"k", b"w").unwrap();
    drop(engine);
    schema.admin.run(&format!("REASSIGN OWNED BY {role} TO CURRENT_USER; DROP ROLE {role}"));
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn ingestion_and_deletion_survive_a_crash() {
    let mut schema = Schema::alone();
    let engine = schema.open(&Options::default());
    let pairs: Vec<([u8; 4], [u8; 64])> = (0..40_000u32).map(|n| (n.to_be_bytes(), [n as u8; 64])).collect();
    for round in 0..3 {
        let ingest =
            || engine.ingest(Space::Log, Box::new(pairs.iter().map(|(key, value)| (&key[..], &value[..]))));
        let outcome = std::thread::scope(|scope| {
            let ingesting = scope.spawn(ingest);
            std::thread::sleep(Duration::from_millis(60 * round));
            schema.admin.crash();
            ingesting.join().unwrap()
        });
        let there = engine.snapshot().scan(Space::Log, KeyRange::all(), Direction::Forward).count();
        assert_eq!(there, if outcome.is_ok() { pairs.len() } else { 0 }, "{outcome:?}");
        assert_eq!(engine.delete_range(Space::Log, KeyRange::all()).unwrap(), there as u64);
        println!("{outcome:?}");
    }
}

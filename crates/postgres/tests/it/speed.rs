//! Figures: what the operations take, printed. Nothing is asserted about them.

use crate::support::Schema;
use diwan_kv::{Batch, Engine, KeyRange, Space};
use diwan_postgres::Options;
use std::time::{Duration, Instant};

fn three(n: u64) -> Batch {
    let mut batch = Batch::new();
    for space in [Space::Records, Space::Indexes, Space::Log] {
        batch.put(space, n.to_be_bytes(), vec![7; 100]);
    }
    batch
}

fn write(engine: &dyn Engine, batch: Batch) {
    engine.commit(batch).unwrap();
}

fn each(what: &str, count: u64, took: Duration) {
    println!("{what}: {:.1} µs", took.as_secs_f64() * 1e6 / count as f64);
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn figures() {
    let schema = Schema::alone();
    let engine = schema.open(&Options::default());
    let timed = |run: &mut dyn FnMut()| {
        let began = Instant::now();
        run();
        began.elapsed()
    };
    engine.commit(three(u64::MAX)).unwrap();
    let took = timed(&mut || (0..500).for_each(|n| write(&engine, three(n))));
    each("commit of 3 keys, 1 thread", 500, took);
    let conditional = |n: u64| {
        let mut batch = three(n);
        batch.require_absent(Space::Meta, n.to_be_bytes());
        engine.commit(batch).unwrap();
    };
    each(
        "commit of 3 keys with a condition, 1 thread",
        500,
        timed(&mut || (500..1000).for_each(conditional)),
    );
    let took = timed(&mut || {
        std::thread::scope(|scope| {
            for thread in 1..17u64 {
                let engine = &engine;
                scope.spawn(move || (0..500).for_each(|n| write(engine, three(thread << 32 | n))));
            }
        });
    });
    each("commit of 3 keys, 16 threads, each", 8000, took);
    let key = |n: u64| (n * 7919 % 1000).to_be_bytes();
    let took =
        timed(&mut || (0..3000).for_each(|n| drop(engine.get(Space::Records, &key(n)).unwrap().unwrap())));
    each("get", 3000, took);
    let took = timed(&mut || {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..1000).for_each(|n| drop(engine.get(Space::Records, &key(n)).unwrap())));
            }
        });
    });
    each("get, 8 threads, each", 8000, took);
    let snapshot = engine.snapshot();
    let took =
        timed(&mut || (0..3000).for_each(|n| drop(snapshot.get(Space::Records, &key(n)).unwrap().unwrap())));
    each("get in a snapshot", 3000, took);
    let keys: Vec<[u8; 8]> = (0..100).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let took = timed(&mut || (0..100).for_each(|_| drop(snapshot.get_many(Space::Records, &keys).unwrap())));
    each("key of a get_many of 100", 10_000, took);
    drop(snapshot);
    each("snapshot", 2000, timed(&mut || (0..2000).for_each(|_| drop(engine.snapshot()))));
    let pairs: Vec<([u8; 8], [u8; 200])> =
        (0..300_000u64).map(|n| (n.to_be_bytes(), [n as u8; 200])).collect();
    let took = timed(&mut || {
        engine.ingest(Space::Revisions, Box::new(pairs.iter().map(|(k, v)| (&k[..], &v[..])))).unwrap();
    });
    each("ingested pair", 300_000, took);
    let snapshot = engine.snapshot();
    for round in ["first", "again"] {
        let mut seen = 0;
        let took = timed(&mut || {
            snapshot
                .visit(Space::Revisions, KeyRange::all(), &mut |_, _| {
                    seen += 1;
                    std::ops::ControlFlow::Continue(())
                })
                .unwrap();
        });
        each(&format!("scanned pair of 200 bytes, {round}"), seen, took);
    }
    let took = timed(&mut || {
        let found = snapshot.scan(Space::Revisions, KeyRange::all(), diwan_kv::Direction::Reverse);
        assert_eq!(found.count(), 300_000);
    });
    each("the same in reverse, as owned pairs", 300_000, took);
    drop(snapshot);
    let took = timed(&mut || {
        drop(engine.delete_range(Space::Revisions, KeyRange::half_open(*b"\0", 50_000u64.to_be_bytes())))
    });
    each("deleted key of a range", 50_000, took);
    by_hand(&schema);
}

/// The same work as plain SQL, on one connection of the client's.
fn by_hand(schema: &Schema) {
    schema.sql(
        "CREATE TABLE {s}.plain (k bytea PRIMARY KEY, v bytea NOT NULL); \
         INSERT INTO {s}.plain SELECT int8send(n), decode(repeat('07', 100), 'hex') FROM generate_series(0, 299999) n; \
         ANALYZE {s}.plain; CHECKPOINT",
    );
    let table = format!("{}.plain", schema.name);
    let key = |n: i64| (n * 7919 % 1000).to_be_bytes();
    schema.admin.block_on(async |client| {
        let get = client.prepare(&format!("SELECT v FROM {table} WHERE k = $1")).await.unwrap();
        let began = Instant::now();
        for n in 0..3000 {
            client.query_one(&get, &[&&key(n)[..]]).await.unwrap();
        }
        each("by hand: get", 3000, began.elapsed());
        let put = format!("INSERT INTO {table} VALUES ($1, $2), ($3, $2), ($4, $2)");
        let put = client.prepare(&put).await.unwrap();
        let began = Instant::now();
        for n in 0..500i64 {
            let keys = [1i64, 2, 3].map(|part| ((n * 3 + part) << 32).to_be_bytes());
            let value = &[7u8; 100][..];
            client.execute(&put, &[&&keys[0][..], &value, &&keys[1][..], &&keys[2][..]]).await.unwrap();
        }
        each("by hand: one INSERT of 3 rows", 500, began.elapsed());
        let scan = format!("SELECT k, v FROM {table} WHERE k >= $1 ORDER BY k LIMIT 4000");
        let scan = client.prepare(&scan).await.unwrap();
        let (began, mut from, mut seen) = (Instant::now(), vec![0; 8], 0);
        while seen < 300_000 {
            let rows = client.query(&scan, &[&from]).await.unwrap();
            seen += rows.len() as u64;
            from = [rows[rows.len() - 1].get::<_, &[u8]>(0), &[0]].concat();
        }
        each("by hand: scanned row of 100 bytes", seen, began.elapsed());
    });
}

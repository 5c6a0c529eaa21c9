//! Measures the cost of a change row, for ids in the order of insertion and for random ids; the cost of a write with
//! subscribers; and the throughput of attachments.
//!
//! `cargo bench -p diwan-store --bench feed [-- NUMBER_OF_DOCUMENTS]`

use diwan_kv::{Direction, FjallEngine, Options};
use diwan_store::blob::{BlobForm, BlobSource};
use diwan_store::{Collection, Edit, Namespace, Store, WriteOptions, id_key};
use diwan_value::{Doc, DocBuf, Value, doc};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

fn main() {
    let count: u64 = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(500_000);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let engine = FjallEngine::open(dir.path(), &Options::default()).expect("the directory opens");
    let store = Store::open(Arc::new(engine)).expect("the store opens");
    let rising = |n: u64| format!("{n:016x}");
    let random = |n: u64| format!("{:016x}", scrambled(n));
    for (name, id) in [("rising", &rising as &dyn Fn(u64) -> String), ("random", &random)] {
        let things = create(&store, name);
        let begun = Instant::now();
        load(&things, count, id);
        report(&format!("insert, {name} ids"), begun, count);
        store.engine().settle().expect("settling succeeds");
        for direction in [Direction::Forward, Direction::Forward, Direction::Reverse] {
            let begun = Instant::now();
            let rows = follow(&things, direction);
            assert_eq!(rows, count);
            report(&format!("changes, {name} ids, {direction:?}"), begun, rows);
        }
        let updates = count / 10;
        let begun = Instant::now();
        for n in 0..updates {
            update(&things, &id(scrambled(n) % count));
        }
        report(&format!("update, {name} ids"), begun, updates);
        let begun = Instant::now();
        let rows = follow(&things, Direction::Forward);
        report(&format!("changes after a tenth was updated, {name} ids"), begun, rows);
    }
    let things = create(&store, "rising");
    for waiting in [0, 1, 1000] {
        let told = Arc::new(AtomicU64::new(0));
        let watch = || {
            let told = told.clone();
            things.on_change(Box::new(move || {
                told.fetch_add(1, Ordering::Relaxed);
            }))
        };
        let subscriptions: Vec<_> = (0..waiting).map(|_| watch()).collect();
        let begun = Instant::now();
        for n in 0..10_000 {
            update(&things, &rising(n % count));
        }
        report(&format!("update with {waiting} subscribers"), begun, 10_000);
        assert_eq!(told.load(Ordering::Relaxed), 10_000 * subscriptions.len() as u64);
    }
    attachments(&store);
    store.close().expect("closing succeeds");
}

fn create(store: &Arc<Store>, name: &str) -> Arc<Collection> {
    let name = Namespace::new("bench", name).expect("the name is good");
    store.collection_or_create(&name).expect("the collection exists")
}

fn load(things: &Collection, count: u64, id: &dyn Fn(u64) -> String) {
    for from in (0..count).step_by(1000) {
        let docs: Vec<DocBuf> = (from..(from + 1000).min(count)).map(|n| person(&id(n), n)).collect();
        let docs: Vec<Doc<'_>> = docs.iter().map(DocBuf::as_doc).collect();
        let report = things.insert(&docs, true, WriteOptions::default()).expect("an insert succeeds");
        assert!(report.errors.is_empty());
    }
}

fn update(things: &Collection, id: &str) {
    let key = id_key(Value::String(id)).expect("the id is good");
    let put = |n: u64| Ok(Edit::Put(person(id, n)));
    let options = WriteOptions::default();
    let written = things
        .edit(&[key], options, |_, record| put(record.map_or(0, |record| record.sequence)))
        .expect("an update succeeds");
    assert_eq!(written.replaced, 1);
}

fn follow(things: &Arc<Collection>, direction: Direction) -> u64 {
    const BATCH: usize = 2048;
    let mut at = match direction {
        Direction::Forward => 0,
        Direction::Reverse => u64::MAX,
    };
    let mut count = 0;
    loop {
        let rows = things.changes(at, BATCH, direction).expect("the changes are read");
        count += rows.len() as u64;
        match rows.last() {
            Some(row) if rows.len() == BATCH => at = row.sequence,
            _ => return count,
        }
    }
}

fn attachments(store: &Arc<Store>) {
    const BYTES: u64 = 64 << 20;
    let files = create(store, "files");
    for source in [BlobSource::Plain, BlobSource::ToPack { level: 8 }] {
        let mut writer = files.blob_writer(source).expect("an upload begins");
        let begun = Instant::now();
        for n in 0..BYTES / 65_536 {
            let part: Vec<u8> =
                (0..65_536 / 8).flat_map(|m| (scrambled(n << 20 | m) >> 20).to_be_bytes()).collect();
            writer.write_all(&part).expect("a write succeeds");
        }
        let staged = writer.finish().expect("the upload ends");
        report(&format!("upload, {source:?}, a KiB"), begun, BYTES >> 10);
        let attachment = staged.attachment("a", "x/y", 1);
        let begun = Instant::now();
        let mut reader = files
            .read_blob(&attachment, BlobForm::Identity, None)
            .expect("the blob is read")
            .expect("the blob exists");
        let mut buffer = vec![0; 65_536];
        while reader.left() > 0 {
            assert!(reader.read(&mut buffer).expect("the blob is read") > 0);
        }
        report(&format!("download, {source:?}, a KiB"), begun, BYTES >> 10);
    }
    const SMALL: u64 = 5000;
    let begun = Instant::now();
    for n in 0..SMALL {
        let mut writer = files.blob_writer(BlobSource::Plain).expect("an upload begins");
        writer.write_all(&scrambled(n).to_be_bytes()).expect("a write succeeds");
        writer.finish().expect("the upload ends");
    }
    report("upload of 8 bytes", begun, SMALL);
}

fn person(id: &str, n: u64) -> DocBuf {
    let random = scrambled(n);
    doc! {
        "_id": id,
        "name": format!("{:x}", random >> 20).as_str(),
        "age": (random % 90) as i32,
        "city": format!("city {}", random % 1000).as_str(),
        "mail": format!("{:x}@example.org", random >> 8).as_str()
    }
}

fn scrambled(n: u64) -> u64 {
    let z = n.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (z ^ (z >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb)
}

fn report(what: &str, begun: Instant, operations: u64) {
    let each = begun.elapsed().as_secs_f64() * 1e6 / operations.max(1) as f64;
    println!("{what:<52} {each:>10.3} µs  ×{operations}");
}

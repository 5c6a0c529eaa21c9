//! Measures the cost of document locks: the latency of single inserts, alone and beside inserts of a thousand documents
//! into another collection.
//!
//! `cargo bench -p diwan-store --bench locks [-- NUMBER_OF_INSERTS]`

use diwan_kv::MemoryEngine;
use diwan_store::{Collection, Namespace, Store, WriteOptions};
use diwan_value::{DocBuf, doc};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn main() {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(20_000);
    for inserters in [0, 1, 2] {
        let store = Store::open(Arc::new(MemoryEngine::new())).expect("a store");
        let open = |name| {
            let name = Namespace::new("bench", name).expect("a name");
            store.collection_or_create(&name).expect("a collection")
        };
        let (single, bulk) = (open("single"), open("bulk"));
        let stop = AtomicBool::new(false);
        let times = std::thread::scope(|scope| {
            for inserter in 0..inserters {
                let (bulk, stop) = (&bulk, &stop);
                scope.spawn(move || {
                    let mut next = inserter * 1_000_000_000;
                    while !stop.load(Ordering::Relaxed) {
                        insert(bulk, next..next + 1000);
                        next += 1000;
                    }
                });
            }
            let times: Vec<Duration> = (0..count)
                .map(|number| {
                    let begun = Instant::now();
                    insert(&single, number..number + 1);
                    begun.elapsed()
                })
                .collect();
            stop.store(true, Ordering::Relaxed);
            times
        });
        report(inserters, times);
    }
}

fn insert(collection: &Arc<Collection>, numbers: std::ops::Range<i64>) {
    let docs: Vec<DocBuf> = numbers.map(|number| doc! { "_id": number, "n": number }).collect();
    let docs: Vec<_> = docs.iter().map(DocBuf::as_doc).collect();
    collection.insert(&docs, true, WriteOptions::default()).expect("inserted");
}

fn report(inserters: i64, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    println!(
        "beside {inserters} inserters of batches: p50 {:8.1} us  p90 {:8.1} us  p99 {:8.1} us  p99.9 {:8.1} us",
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.999)
    );
}

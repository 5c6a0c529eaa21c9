//! The gain and the cost of the cache: the engine alone and the engine within the cache, with the same memory, alternating
//! round after round.
//!
//! Three sizes of memory: all records fit, a third of them, a tenth. CPU time is the whole process's, compaction
//! included; "mixed" is so many single writes at random places, each followed by a read, and then a scan.
//!
//! `cargo bench -p diwan-kv --bench cache [-- NUMBER_OF_DOCUMENTS]`

mod support;

use diwan_kv::{Engine, FjallEngine, KeyRange, Options, Space};
use std::ops::ControlFlow;
use std::path::Path;
use support::{Meter, document, key, scrambled};

const ROUNDS: u64 = 5;
const READS: u64 = 100_000;
/// How many writes there are between two scans.
const MIXES: [u64; 3] = [10, 1_000, 20_000];

fn main() {
    let count = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(2_000_000);
    let dirs = [(); 2].map(|()| tempfile::tempdir().expect("a temporary directory"));
    for dir in &dirs {
        let engine = alone(dir.path(), 64 << 20);
        for n in (0..count).step_by(1000) {
            engine.commit(document(n..(n + 1000).min(count))).expect("a commit succeeds");
        }
        engine.settle().expect("settling succeeds");
        engine.close().expect("closing succeeds");
    }
    let records = count * 130;
    for (fits, memory) in
        [("all fit", records * 2), ("a third fits", records / 3), ("a tenth fits", records / 10)]
    {
        println!("{fits}: {:.0} MB of memory", memory as f64 / 1e6);
        let engines = [("alone", alone(dirs[0].path(), memory)), ("cached", cached(dirs[1].path(), memory))];
        for (name, engine) in &engines {
            scan(&**engine, count, &format!("{name}: first scan, a record"));
        }
        for _ in 0..ROUNDS {
            for (name, engine) in &engines {
                scan(&**engine, count, &format!("{name}: scan, a record"));
            }
        }
        for round in 0..ROUNDS {
            for (name, engine) in &engines {
                read(&**engine, count, round, &format!("{name}: get"));
            }
        }
        for writes in MIXES {
            for round in 0..ROUNDS {
                for (name, engine) in &engines {
                    let meter = Meter::start();
                    mix(&**engine, count, round, writes);
                    meter.report(&format!("{name}: {writes} writes and reads, one scan"), 1);
                }
            }
        }
        for (_, engine) in engines {
            engine.close().expect("closing succeeds");
        }
    }
}

fn alone(path: &Path, memory: u64) -> Box<dyn Engine> {
    let options = Options { cache_bytes: memory, ..Options::default() };
    Box::new(FjallEngine::open(path, &options).expect("the directory opens"))
}

fn cached(path: &Path, memory: u64) -> Box<dyn Engine> {
    let options = Options { cache_bytes: memory, ..Options::default() };
    diwan_kv::open(path, &options).expect("the directory opens")
}

fn scan(engine: &dyn Engine, count: u64, what: &str) {
    let meter = Meter::start();
    let mut seen = 0;
    let visit = engine.snapshot().visit(Space::Records, KeyRange::all(), &mut |_, value| {
        seen += u64::from(!value.is_empty());
        ControlFlow::Continue(())
    });
    visit.expect("a visit succeeds");
    assert_eq!(seen, count);
    meter.report(what, count);
}

fn read(engine: &dyn Engine, count: u64, round: u64, what: &str) {
    let meter = Meter::start();
    for n in 0..READS {
        let found = engine.get(Space::Records, &key(scrambled(round * READS + n) % count));
        assert!(found.expect("a read succeeds").is_some());
    }
    meter.report(what, READS);
}

fn mix(engine: &dyn Engine, count: u64, round: u64, writes: u64) {
    for n in 0..writes {
        let at = scrambled(round * writes + n) % count;
        engine.commit(document(at..at + 1)).expect("a commit succeeds");
        let found = engine.get(Space::Records, &key(at)).expect("a read succeeds");
        assert!(found.is_some());
    }
    let mut seen = 0;
    let visit = engine.snapshot().visit(Space::Records, KeyRange::all(), &mut |_, _| {
        seen += 1;
        ControlFlow::Continue(())
    });
    visit.expect("a visit succeeds");
    assert_eq!(seen, count);
}

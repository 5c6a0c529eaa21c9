//! The cost of the engine's operations, in wall time and in CPU time of the whole process: commits of three small keys, as
//! for an insert of a document, bulk commits, durable commits, point reads, scans.
//!
//! The last part measures opening after a process that loaded documents was killed.
//!
//! `cargo bench -p diwan-kv [-- NUMBER_OF_DOCUMENTS]`

mod support;

use diwan_kv::{Direction, Engine, FjallEngine, KeyRange, Options, Space};
use std::ops::ControlFlow;
use std::time::Duration;
use support::{Meter, document, key, scrambled};

fn main() {
    let count = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(500_000);
    if let Some(path) = std::env::var_os(LOAD_INTO) {
        load_until_killed(path.as_ref(), count);
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = Options::default();
    let opened = Meter::start();
    let engine = FjallEngine::open(dir.path(), &options).expect("the directory opens");
    opened.report("open an empty directory", 1);

    let single = Meter::start();
    for n in 0..count / 2 {
        engine.commit(document(n..n + 1)).expect("a commit succeeds");
    }
    single.report("commit of 1 document, 3 keys", count / 2);
    let bulk = Meter::start();
    for n in (count / 2..count).step_by(1000) {
        engine.commit(document(n..(n + 1000).min(count))).expect("a commit succeeds");
    }
    bulk.report("commit of 1,000 documents, a document", count - count / 2);
    memory("after loading");
    let settle = Meter::start();
    engine.settle().expect("settling succeeds");
    settle.report("settle", 1);
    std::thread::sleep(Duration::from_secs(2));
    sizes(&engine);

    for round in ["cold", "warm"] {
        let mut state = 1;
        let get = Meter::start();
        for _ in 0..200_000 {
            state = scrambled(state);
            let found = engine.get(Space::Records, &key(state % count)).expect("a read succeeds");
            assert!(found.is_some());
        }
        get.report(&format!("get, {round}"), 200_000);
    }
    let view = engine.snapshot();
    let scan = Meter::start();
    let scanned = view.scan(Space::Records, KeyRange::all(), Direction::Forward).flatten().count();
    scan.report("scan, a record", scanned as u64);
    let scan = Meter::start();
    let scanned = view.scan(Space::Records, KeyRange::all(), Direction::Reverse).flatten().count();
    scan.report("reverse scan, a record", scanned as u64);
    for _ in 0..3 {
        let visit = Meter::start();
        let mut seen = 0;
        view.visit(Space::Records, KeyRange::all(), &mut |_, value| {
            seen += u64::from(!value.is_empty());
            ControlFlow::Continue(())
        })
        .expect("a visit succeeds");
        assert_eq!(seen, count);
        visit.report("visit, a record", count);
    }
    drop(view);
    memory("after scanning");

    let snapshots = Meter::start();
    for _ in 0..100_000 {
        std::hint::black_box(engine.snapshot());
    }
    snapshots.report("snapshot", 100_000);
    for writers in [1, 16] {
        let each = 200;
        let durable = Meter::start();
        std::thread::scope(|scope| {
            for writer in 0..writers {
                let engine = &engine;
                scope.spawn(move || {
                    for n in 0..each {
                        let at = count + writer * each + n;
                        let id = engine.commit(document(at..at + 1)).expect("a commit succeeds");
                        engine.wait_durable(id).expect("a sync succeeds");
                    }
                });
            }
        });
        durable.report(&format!("durable commit, {writers} writers"), writers * each);
    }
    let deletion = Meter::start();
    let deleted = engine.delete_range(Space::Records, KeyRange::prefix(b"coll"));
    deletion.report("delete_range, a record", deleted.expect("deleting succeeds"));
    engine.settle().expect("settling succeeds");
    sizes(&engine);
    engine.close().expect("closing succeeds");
    drop(engine);
    let reopened = Meter::start();
    drop(FjallEngine::open(dir.path(), &options).expect("the directory opens"));
    reopened.report("open and close again", 1);
    after_kill(count);
}

/// The environment variable that names the directory into which a child process of this bench loads documents.
const LOAD_INTO: &str = "DIWAN_BENCH_LOAD_INTO";

fn load_until_killed(path: &std::path::Path, count: u64) -> ! {
    let engine = FjallEngine::open(path, &Options::default()).expect("the directory opens");
    for n in 0..count {
        engine.commit(document(n..n + 1)).expect("a commit succeeds");
    }
    println!("loaded");
    loop {
        std::thread::park();
    }
}

fn after_kill(count: u64) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let program = std::env::current_exe().expect("the path of this program");
    let mut child = std::process::Command::new(program)
        .args(std::env::args().skip(1))
        .env(LOAD_INTO, dir.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("a child process starts");
    let mut said = String::new();
    let output = child.stdout.take().expect("the output is piped");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut said).expect("the child speaks");
    child.kill().and_then(|()| child.wait()).expect("the child dies");
    let opened = Meter::start();
    let engine = FjallEngine::open(dir.path(), &Options::default()).expect("the directory opens");
    opened.report("open after a kill", 1);
    memory("after opening");
    let view = engine.snapshot();
    assert_eq!(
        view.scan(Space::Records, KeyRange::all(), Direction::Forward).flatten().count() as u64,
        count
    );
}

fn sizes(engine: &FjallEngine) {
    let stats = engine.stats();
    let mb = |bytes: u64| bytes as f64 / 1e6;
    print!(
        "  disk {:.1} MB, {} journals of {:.1} MB;",
        mb(stats.disk_bytes),
        stats.journals,
        mb(stats.journal_bytes)
    );
    for (space, size) in Space::ALL.iter().zip(stats.spaces) {
        print!(" {space} {:.1}", mb(size.disk_bytes));
    }
    println!("; cache {:.1} MB", mb(stats.cache_bytes));
}

fn memory(when: &str) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = |name| status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    println!("  {when}: {} {}", line("VmRSS"), line("VmHWM"));
}

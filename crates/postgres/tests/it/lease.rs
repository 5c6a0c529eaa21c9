//! One process at a time writes.

use crate::support::{Schema, noise, put};
use diwan_kv::{Engine, Error, Space};
use diwan_postgres::{OpenError, Options, PostgresEngine};
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Tells the test below that it is the other process.
const CHILD: &str = "DIWAN_TEST_POSTGRES_CHILD";

fn short() -> Options {
    Options { lease: Duration::from_secs(2), ..Options::default() }
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn a_second_engine_is_refused_until_the_first_is_closed() {
    let schema = Schema::new();
    let first = schema.open(&short());
    put(&first, Space::Meta, b"k", b"first").unwrap();
    for _ in 0..2 {
        match PostgresEngine::open(&schema.uri(), &short()) {
            Err(OpenError::InUse { pid, host, since, schema: named }) => {
                assert_eq!((pid, named), (std::process::id().into(), schema.name.clone()));
                assert!(!host.is_empty() && since.starts_with("20"), "{host} {since}");
            }
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("two engines at a time"),
        }
    }
    put(&first, Space::Meta, b"k", b"second").unwrap();
    first.close().unwrap();
    first.close().unwrap();
    assert!(matches!(put(&first, Space::Meta, b"k", b"third"), Err(Error::Closed)));
    let began = Instant::now();
    let second = schema.open(&Options::default());
    assert!(began.elapsed() < Duration::from_secs(2));
    assert_eq!(second.get(Space::Meta, b"k").unwrap().as_deref(), Some(&b"second"[..]));
}

/// An engine that gives no signs of life for an hour, and one that takes the store over.
fn two(schema: &Schema) -> (PostgresEngine, PostgresEngine) {
    let first = schema.open(&Options { lease: Duration::from_secs(3600), ..Options::default() });
    put(&first, Space::Meta, b"first", b"").unwrap();
    let second = schema.open(&Options { lease: Duration::from_millis(1), ..Options::default() });
    (first, second)
}

fn is_fenced(outcome: diwan_kv::Result<()>) -> bool {
    matches!(outcome, Err(Error::Poisoned(text)) if text.contains("taken the store over"))
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn a_former_holder_cannot_write() {
    let schema = Schema::new();
    let (first, second) = two(&schema);
    assert!(is_fenced(put(&first, Space::Meta, b"k", b"late")));
    assert!(is_fenced(first.writable()));
    assert_eq!(second.get(Space::Meta, b"k").unwrap(), None);
    put(&second, Space::Meta, b"k", b"v").unwrap();
    // It still reads, and closing it leaves the other's lease alone.
    assert_eq!(first.get(Space::Meta, b"k").unwrap().as_deref(), Some(&b"v"[..]));
    first.close().unwrap();
    put(&second, Space::Meta, b"k", b"w").unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn a_former_holder_cannot_ingest_or_delete() {
    for deletes in [false, true] {
        let schema = Schema::new();
        let (first, second) = two(&schema);
        if deletes {
            assert!(is_fenced(first.delete_range(Space::Meta, diwan_kv::KeyRange::all()).map(drop)));
        } else {
            let values: Vec<_> = (0..40u8).map(|n| ([n], noise(100_000, n.into()))).collect();
            let pairs = values.iter().map(|(key, value)| (&key[..], &value[..]));
            assert!(is_fenced(first.ingest(Space::Records, Box::new(pairs))));
        }
        assert_eq!(second.get(Space::Records, &[0]).unwrap(), None);
        assert!(second.get(Space::Meta, b"first").unwrap().is_some());
        put(&second, Space::Meta, b"k", b"w").unwrap();
    }
}

/// Another process that commits numbers and prints each when it has been acknowledged.
fn child(schema: &Schema) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["lease::the_other_process", "--exact", "--ignored", "--nocapture"])
        .env(CHILD, schema.uri())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    (child, lines)
}

fn next(lines: &mut BufReader<ChildStdout>) -> Option<String> {
    let mut line = String::new();
    (lines.read_line(&mut line).unwrap() > 0).then(|| line.trim().to_owned())
}

fn number(line: &str) -> Option<u32> {
    line.strip_prefix("committed ")?.parse().ok()
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn the_other_process() {
    let Ok(uri) = std::env::var(CHILD) else { return };
    let engine = PostgresEngine::open(&uri, &short()).unwrap();
    println!("opened");
    for n in 0u32.. {
        match put(&engine, Space::Log, &n.to_be_bytes(), b"") {
            Ok(()) => println!("committed {n}"),
            Err(error) => {
                println!("refused {error}");
                return;
            }
        }
    }
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn the_store_of_a_killed_process_opens_after_its_lease() {
    let schema = Schema::new();
    let (mut child, mut lines) = child(&schema);
    let mut last = None;
    while last < Some(200) {
        last = last.max(next(&mut lines).and_then(|line| number(&line)));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    while let Some(line) = next(&mut lines) {
        last = last.max(number(&line));
    }
    let began = Instant::now();
    let engine = schema.open(&short());
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    for n in 0..=last.unwrap() {
        assert!(engine.get(Space::Log, &n.to_be_bytes()).unwrap().is_some(), "{n}");
    }
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn a_process_that_wakes_up_after_its_lease_is_refused() {
    use rustix::process::{Pid, Signal, kill_process};
    let schema = Schema::new();
    let (mut child, mut lines) = child(&schema);
    let mut last = 0;
    while last < 50 {
        last = next(&mut lines).and_then(|line| number(&line)).unwrap_or(last);
    }
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::STOP).unwrap();
    let engine = schema.open(&short());
    put(&engine, Space::Meta, b"k", b"v").unwrap();
    kill_process(pid, Signal::CONT).unwrap();
    loop {
        let line = next(&mut lines).expect("the process tells why it ended");
        match number(&line) {
            Some(number) => last = number,
            None if line.starts_with("refused") => {
                assert!(line.contains("taken the store over"), "{line}");
                break;
            }
            None => {}
        }
    }
    child.wait().unwrap();
    assert!(engine.get(Space::Log, &last.to_be_bytes()).unwrap().is_some());
    // At most the commit that was under way when it was stopped has come after its last word.
    assert_eq!(engine.get(Space::Log, &(last + 2).to_be_bytes()).unwrap(), None);
    put(&engine, Space::Meta, b"k", b"w").unwrap();
}

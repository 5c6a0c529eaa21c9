//! The lease of a process that is alone.

use crate::peers::{child, peers, wait_until};
use crate::support::{Schema, put};
use diwan_kv::{Engine, Space};
use diwan_postgres::{Options, PostgresEngine};
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

/// For how long a process relies on its lease without a confirmation.
const VALID: Duration = Duration::from_secs(2);

fn wait_for_lease(engine: &PostgresEngine) {
    wait(|| peers(engine).is_caught_up());
}

fn wait(until: impl Fn() -> bool) {
    let began = Instant::now();
    while !until() {
        assert!(began.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A child that has the lease; the number of its process is 1.
fn holder(schema: &Schema) -> (std::process::Child, std::io::BufReader<std::process::ChildStdout>) {
    let (child, mut lines) = child(schema);
    let last = wait_until(&mut lines, 10);
    wait(|| schema.number("SELECT lease FROM {s}.processes") == 1);
    wait_until(&mut lines, last + 10);
    (child, lines)
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn an_engine_that_is_alone_has_the_lease_until_another_commits() {
    let schema = Schema::new();
    let one = schema.open(&Options::default());
    for round in 0..2u8 {
        wait_for_lease(&one);
        put(&one, Space::Meta, b"one", &[round]).unwrap();
        let other = schema.open(&Options::default());
        put(&other, Space::Meta, b"other", &[round]).unwrap();
        assert!(!peers(&one).is_caught_up(), "it may not rely on the lease any more");
        assert_eq!(one.snapshot().get(Space::Meta, b"other").unwrap().as_deref(), Some(&[round][..]));
        put(&one, Space::Meta, b"one", &[round]).unwrap();
    }
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn commits_wait_until_the_lease_of_another_process_is_not_valid_any_more() {
    let schema = Schema::new();
    let engine = schema.open(&Options::default());
    wait_for_lease(&engine);
    schema.sql("UPDATE {s}.processes SET lease = 1000");
    let began = Instant::now();
    put(&engine, Space::Meta, b"k", b"v").unwrap();
    assert!(began.elapsed() >= VALID);
    let holder = schema.number("SELECT lease FROM {s}.processes");
    assert!(holder == 0 || holder == 1, "{holder}");
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn the_lease_of_a_killed_process_ends() {
    let schema = Schema::new();
    let (mut child, _lines) = holder(&schema);
    child.kill().unwrap();
    child.wait().unwrap();
    let engine = schema.open(&Options::default());
    put(&engine, Space::Meta, b"k", b"v").unwrap();
    wait_for_lease(&engine);
    assert_eq!(schema.number("SELECT lease FROM {s}.processes"), 2);
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn a_stopped_holder_goes_on_without_the_lease() {
    let schema = Schema::new();
    let (mut child, mut lines) = holder(&schema);
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::STOP).unwrap();
    let engine = schema.open(&Options::default());
    for n in 0..10u8 {
        put(&engine, Space::Meta, &[n], b"v").unwrap();
    }
    assert_eq!(schema.number("SELECT lease FROM {s}.processes"), 0);
    kill_process(pid, Signal::CONT).unwrap();
    let last = wait_until(&mut lines, 0);
    let last = wait_until(&mut lines, last + 50);
    for n in 0..=last {
        assert!(engine.get(Space::Log, &n.to_be_bytes()).unwrap().is_some(), "{n}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn an_engine_that_is_closed_gives_the_lease_back() {
    let schema = Schema::new();
    let engine = schema.open(&Options::default());
    wait_for_lease(&engine);
    engine.close().unwrap();
    assert_eq!(schema.number("SELECT lease FROM {s}.processes"), 0);
}

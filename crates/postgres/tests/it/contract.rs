//! The contract of `diwan-kv`, and its model of a map.

use crate::support::Schema;
use diwan_kv::contract_tests::{behaves_like_a_map, contract, contract_beside_others};
use diwan_kv::{CachedEngine, ContractEngine, Engine};
use diwan_postgres::Options;

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn the_engine_keeps_the_contract() {
    contract(&Schema::new().open(&Options::default()));
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn conditions_hold_beside_other_commits() {
    contract_beside_others(&Schema::new().open(&Options::default()));
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn the_engine_behaves_like_a_map() {
    let options = Options { connections: 64, ..Options::default() };
    for seed in 0..2 {
        let schema = Schema::new();
        let open = || Box::new(ContractEngine::new(schema.open(&options))) as Box<dyn Engine>;
        let reopen = |old: Box<dyn Engine>| {
            drop(old);
            open()
        };
        behaves_like_a_map(open(), reopen, seed, 2000);
    }
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn the_cached_engine_behaves_like_a_map() {
    let options = Options { connections: 64, ..Options::default() };
    let schema = Schema::new();
    let open = || {
        let engine = CachedEngine::new(schema.open(&options), 1 << 20);
        Box::new(ContractEngine::new(engine)) as Box<dyn Engine>
    };
    let reopen = |old: Box<dyn Engine>| {
        drop(old);
        open()
    };
    behaves_like_a_map(open(), reopen, 7, 2000);
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn a_thread_of_another_runtime_may_call() {
    let schema = Schema::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let engine = schema.open(&Options::default());
        crate::support::put(&engine, diwan_kv::Space::Meta, b"k", b"v").unwrap();
        let view = engine.snapshot();
        assert_eq!(view.get(diwan_kv::Space::Meta, b"k").unwrap().as_deref(), Some(&b"v"[..]));
    });
}

//! The contract, run against every engine of this crate.

use crate::contract_tests::{behaves_like_a_map, contract, contract_beside_others, ingest};
use crate::*;

#[test]
fn memory_engine_keeps_the_contract() {
    contract(&MemoryEngine::new());
}

#[test]
fn memory_engine_behaves_like_a_map() {
    for seed in 0..8 {
        let engine = ContractEngine::new(MemoryEngine::new());
        behaves_like_a_map(Box::new(engine), |same| same, seed, 3000);
    }
}

#[test]
fn overlay_engine_behaves_like_a_map() {
    contract(&OverlayEngine::new(MemoryEngine::new().snapshot().into()));
    for seed in 0..8 {
        // A new engine over the writes of the one before.
        let above = |below: Box<dyn Engine>| -> Box<dyn Engine> {
            Box::new(ContractEngine::new(OverlayEngine::new(below.snapshot().into())))
        };
        behaves_like_a_map(above(Box::new(MemoryEngine::new())), above, seed, 3000);
    }
}

#[test]
fn disk_engine_behaves_like_a_map() {
    for seed in 0..2 {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { settle_in_background: seed == 1, ..Options::default() };
        let open = || {
            let engine = ContractEngine::new(FjallEngine::open(dir.path(), &options).unwrap());
            Box::new(engine) as Box<dyn Engine>
        };
        let reopen = |old: Box<dyn Engine>| {
            drop(old);
            open()
        };
        behaves_like_a_map(open(), reopen, seed, 2000);
    }
}

#[test]
fn conditions_hold_beside_other_commits() {
    contract_beside_others(&MemoryEngine::new());
    contract_beside_others(&FaultEngine::new(MemoryEngine::new()));
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    contract_beside_others(&FjallEngine::open(dirs[0].path(), &Options::default()).unwrap());
    contract_beside_others(&*open(dirs[1].path(), &Options::default()).unwrap());
}

#[test]
#[should_panic(expected = "twice")]
fn the_contract_forbids_writing_a_key_twice() {
    let mut batch = Batch::new();
    batch.put(Space::Meta, *b"k", *b"1");
    batch.delete(Space::Meta, *b"k");
    let _ = ContractEngine::new(MemoryEngine::new()).commit(batch);
}

#[test]
#[should_panic(expected = "is ingested into indexes after")]
fn the_contract_forbids_ingesting_out_of_order() {
    let _ = ingest(&ContractEngine::new(MemoryEngine::new()), &[(b"b", b""), (b"a", b"")]);
}

//! The sorter's order, with and without files.

use super::*;
use crate::memory::MemoryPool;

fn sorted(sorter: ExternalSorter) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut records = sorter.finish().unwrap();
    let mut all = Vec::new();
    while records.advance().unwrap() {
        all.push((records.key().to_vec(), records.payload().to_vec()));
    }
    assert!(!records.advance().unwrap(), "the end stays the end");
    all
}

/// Keys 0..50 in mixed order, each several times, with the arrival number as payload.
fn records(count: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    (0..count)
        .map(|n| {
            let key = n.wrapping_mul(2_654_435_761) % 50;
            (format!("key number {key:02}").into_bytes(), n.to_be_bytes().to_vec())
        })
        .collect()
}

fn budget(limit: usize) -> MemoryBudget {
    MemoryBudget { limit, ..MemoryBudget::in_directory(Some(std::env::temp_dir())) }
}

#[test]
fn sorter_gives_the_same_order_with_any_budget_and_limit() {
    let input = records(3000);
    let mut expected = input.clone();
    expected.sort();
    for memory in [usize::MAX, 64 * 1024, 8 * 1024, 1024] {
        for limit in [None, Some(0), Some(1), Some(7), Some(700), Some(5000)] {
            let mut sorter = ExternalSorter::for_sort(budget(memory), limit);
            for (key, payload) in &input {
                sorter.add(key, payload).unwrap();
            }
            match (memory, limit) {
                (usize::MAX, _) | (_, Some(0 | 1)) => assert!(!sorter.used_disk()),
                (_, None) => assert!(sorter.used_disk()),
                _ => {}
            }
            let wanted = &expected[..limit.unwrap_or(expected.len()).min(expected.len())];
            assert_eq!(sorted(sorter), wanted, "memory {memory}, limit {limit:?}");
        }
    }
}

#[test]
fn sorter_with_a_small_limit_needs_little_memory() {
    let mut sorter =
        ExternalSorter::for_sort(MemoryBudget { limit: 64 * 1024, ..MemoryBudget::default() }, Some(10));
    for (key, payload) in records(100_000) {
        sorter.add(&key, &payload).unwrap();
    }
    assert_eq!(sorted(sorter).len(), 10);
}

#[test]
fn sorter_without_files_fails_beyond_its_budget() {
    let mut sorter = ExternalSorter::for_sort(MemoryBudget { limit: 4096, ..MemoryBudget::default() }, None);
    let error = records(3000).iter().find_map(|(key, payload)| sorter.add(key, payload).err()).unwrap();
    assert_eq!(error.code, 292);
    assert_eq!(
        error.message,
        "Sort exceeded memory limit of 4096 bytes, but did not opt in to external sorting. Aborting operation. \
         Pass allowDiskUse:true to opt in."
    );
}

#[test]
fn sorter_orders_a_key_before_its_extensions() {
    let mut sorter = ExternalSorter::for_sort(budget(usize::MAX), None);
    for key in [&b"a\0\0"[..], b"a", b"", b"a\0", b"abcdefgh0", b"abcdefgh"] {
        sorter.add(key, b"").unwrap();
    }
    let keys: Vec<_> = sorted(sorter).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [&b""[..], b"a", b"a\0", b"a\0\0", b"abcdefgh", b"abcdefgh0"]);
}

/// Sorters that share a small pool: what they hold together stays below it, and the order is the same as with all memory.
#[test]
fn sorters_share_a_pool() {
    let pool = MemoryPool::new(4 << 20);
    let budget = MemoryBudget { pool: pool.clone(), ..budget(usize::MAX) };
    let mut sorters: Vec<ExternalSorter> =
        (0..6).map(|_| ExternalSorter::for_sort(budget.clone(), None)).collect();
    let payload = [7; 1000];
    for n in 0..3000u32 {
        for sorter in &mut sorters {
            sorter.add(&n.wrapping_mul(2_654_435_761).to_be_bytes(), &payload).unwrap();
        }
        assert!(pool.held() <= 4 << 20);
    }
    assert!(sorters.iter().any(ExternalSorter::used_disk));
    let mut keys: Vec<Vec<u8>> =
        (0..3000u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes().to_vec()).collect();
    keys.sort_unstable();
    for sorter in sorters {
        let found: Vec<Vec<u8>> = sorted(sorter).into_iter().map(|(key, _)| key).collect();
        assert!(found == keys);
    }
    assert_eq!(pool.held(), 0);
}

#[test]
fn without_files_a_sort_is_refused_when_the_pool_is_used_up() {
    let pool = MemoryPool::new(4 << 20);
    let mut others = pool.reservation(false);
    assert!(others.cover(4 << 20));
    let budget = MemoryBudget { pool, ..MemoryBudget::default() };
    let fill = |limit: Option<usize>| {
        let mut sorter = ExternalSorter::for_sort(budget.clone(), limit);
        (0..2000u32).try_for_each(|n| sorter.add(&n.to_be_bytes(), &[7; 1000]))
    };
    assert_eq!(fill(None).unwrap_err().code, crate::code::QUERY_EXCEEDED_MEMORY_LIMIT);
    // The first few fit what every operation has.
    fill(Some(10)).unwrap();
}

/// Between two reads records go to a file when memory is scarce, and come back in their order.
#[test]
fn suspended_records_give_scarce_memory_back() {
    let pool = MemoryPool::new(4 << 20);
    for runs in [false, true] {
        let limit = if runs { 100_000 } else { usize::MAX };
        let budget = MemoryBudget { pool: pool.clone(), ..budget(limit) };
        let mut sorter = ExternalSorter::for_sort(budget, None);
        for n in (0..1000u32).rev() {
            sorter.add(&n.to_be_bytes(), &[7; 1000]).unwrap();
        }
        assert_eq!(sorter.used_disk(), runs);
        let mut records = sorter.finish().unwrap();
        let mut others = pool.reservation(false);
        for n in 0..1000u32 {
            if n == 5 {
                assert!(others.cover(pool_left(&pool)));
            }
            assert!(records.advance().unwrap());
            records.suspend();
            assert_eq!(records.key(), n.to_be_bytes());
            assert_eq!(records.payload(), [7; 1000]);
            assert_eq!(records.reservation.allowed() > pool.reservation(true).allowed(), n < 5, "{n}");
        }
        assert!(!records.advance().unwrap());
    }
    assert_eq!(pool.held(), 0);
}

fn pool_left(pool: &MemoryPool) -> usize {
    (4 << 20) - pool.held()
}

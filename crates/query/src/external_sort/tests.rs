//! The order, with and without files.

use super::*;

fn sorted(sorter: ExternalSorter) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut records = sorter.finish().unwrap();
    let mut all = Vec::new();
    while records.advance().unwrap() {
        all.push((records.key().to_vec(), records.payload().to_vec()));
    }
    assert!(!records.advance().unwrap(), "the end stays the end");
    all
}

/// Keys 0..50 in an order that mixes them, each several times, with the arrival number as payload.
fn records(count: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    (0..count)
        .map(|n| {
            let key = n.wrapping_mul(2_654_435_761) % 50;
            (format!("key number {key:02}").into_bytes(), n.to_be_bytes().to_vec())
        })
        .collect()
}

fn budget(limit: usize) -> MemoryBudget {
    MemoryBudget { limit, directory: Some(std::env::temp_dir()) }
}

#[test]
fn memory_files_and_limits_give_the_same_order() {
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
fn a_small_limit_needs_little_memory() {
    let mut sorter = ExternalSorter::for_sort(MemoryBudget { limit: 64 * 1024, directory: None }, Some(10));
    for (key, payload) in records(100_000) {
        sorter.add(&key, &payload).unwrap();
    }
    assert_eq!(sorted(sorter).len(), 10);
}

#[test]
fn without_files_too_much_is_refused() {
    let mut sorter = ExternalSorter::for_sort(MemoryBudget { limit: 4096, directory: None }, None);
    let error = records(3000).iter().find_map(|(key, payload)| sorter.add(key, payload).err()).unwrap();
    assert_eq!(error.code, 292);
    assert_eq!(
        error.message,
        "Sort exceeded memory limit of 4096 bytes, but did not opt in to external sorting. Aborting operation. \
         Pass allowDiskUse:true to opt in."
    );
}

#[test]
fn short_keys_order_before_their_extensions() {
    let mut sorter = ExternalSorter::for_sort(budget(usize::MAX), None);
    for key in [&b"a\0\0"[..], b"a", b"", b"a\0", b"abcdefgh0", b"abcdefgh"] {
        sorter.add(key, b"").unwrap();
    }
    let keys: Vec<_> = sorted(sorter).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [&b""[..], b"a", b"a\0", b"a\0\0", b"abcdefgh", b"abcdefgh0"]);
}

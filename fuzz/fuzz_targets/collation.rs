//! View keys: every JSON text has a key whose length can be read back, two keys have the same order when they are
//! nested, and damaged bytes never give a length beyond their end.

#![no_main]

use diwan_script::collate::{self, HIGHEST, LOWEST, Order};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for order in [Order::Unicode, Order::Raw] {
        // The input as a key from a damaged index.
        assert!(collate::key_length(data, order).is_none_or(|length| length <= data.len()));
        for level in [0, 1, 2, usize::MAX] {
            assert!(collate::group_prefix(data, level, order).len() <= data.len());
        }
        let Ok(text) = std::str::from_utf8(data) else { continue };
        let (one, other) = text.split_once('\u{1}').unwrap_or((text, "null"));
        let (Some(a), Some(b)) = (collate::key(one, order), collate::key(other, order)) else { continue };
        for key in [&a, &b] {
            assert!(key.as_slice() > LOWEST && key.as_slice() < HIGHEST);
            let followed = [key.as_slice(), data].concat();
            assert_eq!(collate::key_length(&followed, order), Some(key.len()));
        }
        assert!(a == b || !a.starts_with(&b) && !b.starts_with(&a));
        // Inside arrays and objects the order is the same as for the plain values.
        for (front, back) in [("[", "]"), ("[0,", ",1]"), ("{\"a\":", "}"), ("[[", "],null]")] {
            let within = |text: &str| collate::key(&format!("{front}{text}{back}"), order);
            if let (Some(within_a), Some(within_b)) = (within(one), within(other)) {
                assert_eq!(within_a.cmp(&within_b), a.cmp(&b));
            }
        }
        // The first element is a group.
        if let (Some(short), Some(long)) =
            (collate::key(&format!("[{one}]"), order), collate::key(&format!("[{one},{other}]"), order))
        {
            assert_eq!(collate::group_prefix(&short, 1, order), collate::group_prefix(&long, 1, order));
        }
    }
});

//! Messages from outside: reading one never panics, and what is read lies within its bytes.
//!
//! The input is a message without its length, which is put right, so that the fuzzer gets past the header.

#![no_main]

use diwan_mongo::wire;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut bytes = ((data.len() + 4) as i32).to_le_bytes().to_vec();
    bytes.extend_from_slice(data);
    let mut scratch = Vec::new();
    if let Ok(incoming) = wire::read(&bytes, &mut scratch) {
        // Formatting walks every document that was read.
        assert!(!format!("{incoming:?}").is_empty());
    }
    // And with the length as the client gave it.
    let _ = wire::read(data, &mut scratch);
});

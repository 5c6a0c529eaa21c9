//! Messages from clients: reading one never panics, and all its parts lie within its bytes.
//!
//! The input is a message. Its length field is corrected, so that the fuzzer gets past the header.

#![no_main]

use diwan_mongo::wire;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut bytes = ((data.len() + 4) as i32).to_le_bytes().to_vec();
    bytes.extend_from_slice(data);
    let mut scratch = Vec::new();
    if let Ok(incoming) = wire::read(&bytes, &mut scratch) {
        // Formatting reads every document of the message.
        assert!(!format!("{incoming:?}").is_empty());
    }
    // The same input with its original length.
    let _ = wire::read(data, &mut scratch);
});

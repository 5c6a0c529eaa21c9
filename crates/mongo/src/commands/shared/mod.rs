//! Code that several commands share.

pub(crate) mod cursor_reply;
pub(crate) mod describe;
pub(crate) mod names;
pub(crate) mod write;

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

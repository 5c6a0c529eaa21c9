//! Bookmarks: the position after a page of results, as opaque text that clients send back.

use crate::error::{Error, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use diwan_store::ops::Position;
use serde_json::{Value, json};

/// The bookmark that means "from the start".
pub(super) const NONE: &str = "nil";

/// The largest accepted bookmark; index keys are shorter.
const MAX_TEXT: usize = 256 * 1024;

/// Encodes a position.
pub(super) fn write(position: &Position) -> String {
    let value = match position {
        Position::Scan { index, key } => json!({ "i": index, "k": URL_SAFE_NO_PAD.encode(key) }),
        Position::Sorted(key) => json!({ "s": URL_SAFE_NO_PAD.encode(key) }),
        Position::Count(count) => json!({ "n": count }),
    };
    URL_SAFE_NO_PAD.encode(value.to_string())
}

/// Decodes a position encoded by [`write()`].
pub(super) fn read(text: &str) -> Result<Position> {
    let refuse = || {
        let shown: String = text.chars().take(100).collect();
        Error::new(400, "invalid_bookmark", format!("Invalid bookmark value: {}", Value::String(shown)))
    };
    if text.len() > MAX_TEXT {
        return Err(refuse());
    }
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| refuse())?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|_| refuse())?;
    let key = |name: &str| URL_SAFE_NO_PAD.decode(value.get(name)?.as_str()?).ok();
    if let Some(key) = key("k") {
        let index = value.get("i").and_then(Value::as_str).map(str::to_owned);
        return Ok(Position::Scan { index, key });
    }
    if let Some(key) = key("s") {
        return Ok(Position::Sorted(key));
    }
    value.get("n").and_then(Value::as_u64).map(Position::Count).ok_or_else(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bookmark_read_and_write_are_inverse() {
        for position in [
            Position::Scan { index: None, key: vec![1, 2, 255] },
            Position::Scan { index: Some("a_1".to_owned()), key: Vec::new() },
            Position::Sorted(vec![0; 9]),
            Position::Count(25),
        ] {
            assert_eq!(read(&write(&position)).unwrap(), position);
        }
        for bad in ["x", "", "!", "e30", "bm90IGpzb24"] {
            assert_eq!(read(bad).unwrap_err().error, "invalid_bookmark", "{bad}");
        }
    }
}

//! Converts the second part of a revision's text to 16 bytes and back.
//!
//! Servers generate hashes: 32 hexadecimal digits for 16 bytes. CouchDB accepts any other text too, and people and
//! tests write short ones: `1-a`. A text of up to ten bytes is stored inside the 16 bytes, after a marker and padded
//! with zeros, which preserves the order of such texts. A random hash looks like such a text with a probability below
//! 2^-48. `parse_hash` rejects digits that do, so no two texts have the same bytes.

/// The prefix of a short text.
const MARKER: [u8; 6] = [0x6b, 0xd1, 0x77, 0x2e, 0x9a, 0x54];
/// The longest short text.
const LONGEST: usize = 16 - MARKER.len();

/// Parses 32 hexadecimal digits, or one to ten other printable ASCII characters that need no escape in JSON.
pub fn parse_hash(text: &str) -> Option<[u8; 16]> {
    let text = text.as_bytes();
    let mut hash = [0; 16];
    if text.len() == 32 {
        for (byte, pair) in hash.iter_mut().zip(text.chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16);
            *byte = (digit(0)? << 4 | digit(1)?) as u8;
        }
        return short_text(&hash).is_none().then_some(hash);
    }
    if text.is_empty() || text.len() > LONGEST || !text.iter().all(|&byte| is_plain(byte)) {
        return None;
    }
    let (marker, rest) = hash.split_at_mut(MARKER.len());
    marker.copy_from_slice(&MARKER);
    rest[..text.len()].copy_from_slice(text);
    Some(hash)
}

/// Appends the text for `hash`: the short text that it holds, or 32 digits. The inverse of [`parse_hash`].
#[inline]
pub fn push_hash(out: &mut Vec<u8>, hash: &[u8; 16]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    if let Some(text) = short_text(hash) {
        return out.extend_from_slice(text);
    }
    let mut text = [0; 32];
    for (pair, byte) in text.chunks_exact_mut(2).zip(hash) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    out.extend_from_slice(&text);
}

/// The short text in the bytes, if they hold one.
#[inline]
fn short_text(hash: &[u8; 16]) -> Option<&[u8]> {
    let rest = hash.strip_prefix(&MARKER)?;
    let length = rest.iter().position(|&byte| byte == 0).unwrap_or(LONGEST);
    let (text, zeros) = rest.split_at(length);
    let fits = length > 0 && text.iter().all(|&byte| is_plain(byte)) && zeros.iter().all(|&byte| byte == 0);
    fits.then_some(text)
}

/// Whether a short text may contain the byte: JSON and headers write it without an escape.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && byte != b'"' && byte != b'\\'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(hash: &[u8; 16]) -> String {
        let mut out = Vec::new();
        push_hash(&mut out, hash);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn push_hash_inverts_parse_hash() {
        let digits = "0123456789abcdef0123456789abcdef";
        for given in [digits, "a", "x", "foo", "a-b", "~1.2:{}", "abcdefghij", "00", "z"] {
            assert_eq!(text(&parse_hash(given).unwrap()), given);
        }
        assert_eq!(parse_hash(&digits.to_uppercase()), parse_hash(digits));
    }

    #[test]
    fn parse_hash_rejects_other_texts() {
        let long = "x".repeat(32);
        for bad in ["", "abcdefghijk", "a b", "a\"", "a\\", "é", "\u{7f}", "a\0", &long, &"0".repeat(31)] {
            assert_eq!(parse_hash(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn short_texts_keep_their_order_and_never_equal_a_hash() {
        let texts = ["0", "1", "a", "a-b", "aa", "ab", "b", "bbbbbbbbbb", "~"];
        assert!(texts.is_sorted_by_key(|text| parse_hash(text).unwrap()));
        let spelt: String = parse_hash("a").unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(parse_hash(&spelt), None);
        // The marker with other bytes after it is a hash.
        for rest in ["00000000000000000000", "61006100000000000000", "22000000000000000000"] {
            let digits = format!("{}{rest}", &spelt[..12]);
            assert_eq!(text(&parse_hash(&digits).unwrap()), digits);
        }
    }
}

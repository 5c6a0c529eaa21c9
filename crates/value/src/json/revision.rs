//! The second half of a revision's text, and the 16 bytes that stand for it.
//!
//! What servers make is a hash: 32 hexadecimal digits for 16 bytes. CouchDB takes any other text too, and what people
//! and tests write by hand is short: `1-a`. Texts of up to ten bytes therefore lie inside the 16, behind a marker and
//! before zeros, which keeps their order among themselves. No hash reads as such a text but by a chance below one in
//! 2^48; digits that spell one are refused, so that no two texts are the same bytes.

/// What a short text stands behind.
const MARKER: [u8; 6] = [0x6b, 0xd1, 0x77, 0x2e, 0x9a, 0x54];
/// The longest of the short texts.
const LONGEST: usize = 16 - MARKER.len();

/// Reads 32 hexadecimal digits, or one to ten other printable characters of ASCII that JSON writes as they are.
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

/// Appends what [`parse_hash`] reads: the short text that the bytes hold, or 32 digits.
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

/// The short text that the bytes hold.
#[inline]
fn short_text(hash: &[u8; 16]) -> Option<&[u8]> {
    let rest = hash.strip_prefix(&MARKER)?;
    let length = rest.iter().position(|&byte| byte == 0).unwrap_or(LONGEST);
    let (text, zeros) = rest.split_at(length);
    let fits = length > 0 && text.iter().all(|&byte| is_plain(byte)) && zeros.iter().all(|&byte| byte == 0);
    fits.then_some(text)
}

/// Whether a short text may hold the byte: it is written into JSON and headers as it is.
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
    fn hashes_and_short_texts_read_as_they_are_written() {
        let digits = "0123456789abcdef0123456789abcdef";
        for given in [digits, "a", "x", "foo", "a-b", "~1.2:{}", "abcdefghij", "00", "z"] {
            assert_eq!(text(&parse_hash(given).unwrap()), given);
        }
        assert_eq!(parse_hash(&digits.to_uppercase()), parse_hash(digits));
    }

    #[test]
    fn what_is_neither_is_refused() {
        let long = "x".repeat(32);
        for bad in ["", "abcdefghijk", "a b", "a\"", "a\\", "é", "\u{7f}", "a\0", &long, &"0".repeat(31)] {
            assert_eq!(parse_hash(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn short_texts_keep_their_order_and_no_digits_spell_one() {
        let texts = ["0", "1", "a", "a-b", "aa", "ab", "b", "bbbbbbbbbb", "~"];
        assert!(texts.is_sorted_by_key(|text| parse_hash(text).unwrap()));
        let spelt: String = parse_hash("a").unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(parse_hash(&spelt), None);
        // The marker alone, or before anything else, is a hash.
        for rest in ["00000000000000000000", "61006100000000000000", "22000000000000000000"] {
            let digits = format!("{}{rest}", &spelt[..12]);
            assert_eq!(text(&parse_hash(&digits).unwrap()), digits);
        }
    }
}

//! Scans text eight bytes at a time.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = ONES << 7;

/// How many bytes at the front of `bytes` need no escape in a JSON string: all before the first quote, backslash or
/// control character.
#[inline]
pub(super) fn plain_length(bytes: &[u8]) -> usize {
    let mut at = 0;
    let mut rest = bytes;
    while let Some((chunk, after)) = rest.split_first_chunk() {
        let word = u64::from_le_bytes(*chunk);
        // In each of the three words, the lowest set bit is correct; higher bits may be wrong.
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let special = (control | equal(word, b'"') | equal(word, b'\\')) & HIGH;
        if special != 0 {
            return at + (special.trailing_zeros() / 8) as usize;
        }
        at += 8;
        rest = after;
    }
    at + rest.iter().position(|&byte| !is_plain(byte)).unwrap_or(rest.len())
}

/// Sets the high bit of each byte of `word` that equals `byte`.
#[inline]
fn equal(word: u64, byte: u8) -> u64 {
    let difference = word ^ (ONES * u64::from(byte));
    difference.wrapping_sub(ONES) & !difference
}

/// Whether a byte needs no escape in a JSON string.
#[inline]
fn is_plain(byte: u8) -> bool {
    byte >= 0x20 && byte != b'"' && byte != b'\\'
}

/// A fingerprint of a name: equal names have equal ones, and most different names have different ones.
#[inline]
pub(super) fn fingerprint(name: &[u8]) -> u64 {
    let (first, last) = if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
    } else if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        (u64::from(u32::from_le_bytes(*first)), u64::from(u32::from_le_bytes(*last)))
    } else {
        let byte = |at: usize| u64::from(name.get(at).copied().unwrap_or(0));
        (byte(0) | byte(1) << 8 | byte(2) << 16, 0)
    };
    first.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29) ^ last ^ ((name.len() as u64) << 56)
}

#[cfg(test)]
mod tests {
    use super::{fingerprint, is_plain, plain_length};
    use fastrand::Rng;

    #[test]
    fn plain_length_stops_at_the_first_special_byte() {
        let mut rng = Rng::with_seed(1);
        for _ in 0..20_000 {
            let choice = [b'a', 0xC3, 0xFF, 0x80, b'!', b'#', b' ', b'"', b'\\', 0x1F, 0, 0x7F];
            let bytes: Vec<u8> = (0..rng.usize(..40))
                .map(|_| if rng.u8(..12) == 0 { choice[rng.usize(..12)] } else { choice[rng.usize(..7)] })
                .collect();
            let expected = bytes.iter().position(|&byte| !is_plain(byte)).unwrap_or(bytes.len());
            assert_eq!(plain_length(&bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn fingerprints_of_common_names_differ() {
        let names =
            ["", "a", "b", "ab", "ba", "name", "fame", "salary", "first_name", "last_name", "jedi power"];
        for (index, name) in names.iter().enumerate() {
            for other in &names[..index] {
                assert_ne!(fingerprint(name.as_bytes()), fingerprint(other.as_bytes()), "{name} {other}");
            }
        }
    }
}

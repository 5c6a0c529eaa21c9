//! A checksum over pairs: it tells whether two engines have the same ones.

use xxhash_rust::xxh3::Xxh3;

/// The checksum, the number and the bytes of pairs in their order.
///
/// The checksum is the XXH3-128 of all pairs, each as the length of the key (u32, little-endian), the length of the
/// value (the same), the key and the value. It detects accidents; whoever wants to can make other pairs with the same one.
#[derive(Clone, Default)]
pub struct Checksum {
    pairs: u64,
    bytes: u64,
    hash: Xxh3,
}

impl Checksum {
    /// The checksum of no pairs.
    pub fn new() -> Checksum {
        Checksum::default()
    }

    /// Adds the next pair.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        let mut lengths = [0; 8];
        lengths[..4].copy_from_slice(&(key.len() as u32).to_le_bytes());
        lengths[4..].copy_from_slice(&(value.len() as u32).to_le_bytes());
        self.hash.update(&lengths);
        self.hash.update(key);
        self.hash.update(value);
        self.pairs += 1;
        self.bytes += (key.len() + value.len()) as u64;
    }

    /// How many pairs have been added.
    pub fn pairs(&self) -> u64 {
        self.pairs
    }

    /// How many bytes their keys and values have.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The checksum.
    pub fn digest(&self) -> u128 {
        self.hash.digest128()
    }
}

impl PartialEq for Checksum {
    fn eq(&self, other: &Checksum) -> bool {
        (self.pairs, self.bytes, self.digest()) == (other.pairs, other.bytes, other.digest())
    }
}

impl std::fmt::Debug for Checksum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} pairs, {} bytes, {:032x}", self.pairs, self.bytes, self.digest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Checksum {
        let mut checksum = Checksum::new();
        pairs.iter().for_each(|(key, value)| checksum.add(key.as_bytes(), value.as_bytes()));
        checksum
    }

    #[test]
    fn checksum_differs_with_each_part_and_the_order_of_pairs() {
        let sums = [
            of(&[]),
            of(&[("a", "")]),
            of(&[("", "a")]),
            of(&[("ab", "c")]),
            of(&[("a", "bc")]),
            of(&[("a", "b"), ("c", "d")]),
            of(&[("c", "d"), ("a", "b")]),
        ];
        for (at, one) in sums.iter().enumerate() {
            for other in &sums[at + 1..] {
                assert!(one.digest() != other.digest() && one != other, "{one:?}, {other:?}");
            }
        }
    }

    #[test]
    fn checksum_is_the_documented_hash() {
        let bytes = b"\x01\0\0\0\x02\0\0\0abc";
        assert_eq!(of(&[("a", "bc")]).digest(), xxhash_rust::xxh3::xxh3_128(bytes));
        assert_eq!(format!("{:?}", of(&[("a", "bc")])).split(", ").next(), Some("1 pairs"));
    }
}

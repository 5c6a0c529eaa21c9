//! The fixed-size BSON types that have no equivalent in Rust.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A 12-byte identifier: 4 bytes of seconds, 5 random bytes for the process, 3 bytes of a counter, all big-endian.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub [u8; 12]);

impl ObjectId {
    /// A new identifier, unique to this process and increasing within a second.
    pub fn generate() -> ObjectId {
        static PROCESS: OnceLock<([u8; 5], AtomicU32)> = OnceLock::new();
        let (process, counter) = PROCESS.get_or_init(|| {
            let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::process::id());
            let bytes = seed.to_be_bytes();
            let start = u32::from_be_bytes([0, bytes[5], bytes[6], bytes[7]]);
            ([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4]], AtomicU32::new(start))
        });
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as u32);
        let count = counter.fetch_add(1, Ordering::Relaxed);
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&seconds.to_be_bytes());
        bytes[4..9].copy_from_slice(process);
        bytes[9..].copy_from_slice(&count.to_be_bytes()[1..]);
        ObjectId(bytes)
    }

    /// Parses 24 hexadecimal digits of either case.
    pub fn parse_hex(hex: &str) -> Option<ObjectId> {
        let hex = hex.as_bytes();
        if hex.len() != 24 {
            return None;
        }
        let mut bytes = [0; 12];
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            let high = (pair[0] as char).to_digit(16)?;
            let low = (pair[1] as char).to_digit(16)?;
            *byte = (high * 16 + low) as u8;
        }
        Some(ObjectId(bytes))
    }

    /// The time at which the identifier was made, in seconds since the Unix epoch.
    pub fn seconds(&self) -> u32 {
        u32::from_be_bytes([self.0[0], self.0[1], self.0[2], self.0[3]])
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectId({self})")
    }
}

/// MongoDB's internal timestamp: seconds, and a counter within the second. Ordered by seconds first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since the Unix epoch.
    pub seconds: u32,
    /// The number of the operation within that second.
    pub increment: u32,
}

impl Timestamp {
    /// The 64-bit form in the wire protocol: seconds in the high half.
    pub fn to_bits(self) -> u64 {
        u64::from(self.seconds) << 32 | u64::from(self.increment)
    }

    /// The inverse of [`Timestamp::to_bits`].
    pub fn from_bits(bits: u64) -> Timestamp {
        Timestamp { seconds: (bits >> 32) as u32, increment: bits as u32 }
    }
}

/// An IEEE 754-2008 decimal128 in its binary-integer-decimal encoding, 16 little-endian bytes as in BSON. Equality
/// compares the bits; [`crate::compare()`] compares the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decimal128(pub [u8; 16]);

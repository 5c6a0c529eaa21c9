//! Hash functions by name: hashes, HMACs, PBKDF2, and comparison in constant time.

use digest_of::{hash_with, hmac_with};
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};
use subtle::ConstantTimeEq;

/// A hash function under the name that CouchDB's configuration and documents give it. It is the pseudo-random function
/// of PBKDF2, and makes the HMACs of cookies and of proxies' tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Prf {
    /// SHA-1, named `sha`.
    Sha,
    /// SHA-224.
    Sha224,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Prf {
    /// All of them.
    pub const ALL: [Prf; 5] = [Prf::Sha, Prf::Sha224, Prf::Sha256, Prf::Sha384, Prf::Sha512];

    /// CouchDB's name.
    pub fn name(self) -> &'static str {
        match self {
            Prf::Sha => "sha",
            Prf::Sha224 => "sha224",
            Prf::Sha256 => "sha256",
            Prf::Sha384 => "sha384",
            Prf::Sha512 => "sha512",
        }
    }

    /// The function with CouchDB's name `name`.
    pub fn from_name(name: &str) -> Option<Prf> {
        Prf::ALL.into_iter().find(|prf| prf.name() == name)
    }

    /// Reads CouchDB's setting `hash_algorithms`: names separated by commas, the first of which makes new cookies. Unknown
    /// names are left out, as CouchDB does; if none is left, the answer is SHA-256.
    pub fn parse_list(text: &str) -> Vec<Prf> {
        let mut list: Vec<Prf> = text.split(',').filter_map(|name| Prf::from_name(name.trim())).collect();
        if list.is_empty() {
            list.push(Prf::Sha256);
        }
        list
    }

    /// The length of the hash, in bytes.
    pub fn output_len(self) -> usize {
        match self {
            Prf::Sha => 20,
            Prf::Sha224 => 28,
            Prf::Sha256 => 32,
            Prf::Sha384 => 48,
            Prf::Sha512 => 64,
        }
    }

    /// The hash of the parts, one after the other.
    pub(crate) fn hash(self, parts: &[&[u8]]) -> Vec<u8> {
        match self {
            Prf::Sha => hash_with::<Sha1>(parts),
            Prf::Sha224 => hash_with::<Sha224>(parts),
            Prf::Sha256 => hash_with::<Sha256>(parts),
            Prf::Sha384 => hash_with::<Sha384>(parts),
            Prf::Sha512 => hash_with::<Sha512>(parts),
        }
    }

    /// The HMAC of the parts, one after the other.
    pub(crate) fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        match self {
            Prf::Sha => hmac_with::<hmac::Hmac<Sha1>>(key, parts),
            Prf::Sha224 => hmac_with::<hmac::Hmac<Sha224>>(key, parts),
            Prf::Sha256 => hmac_with::<hmac::Hmac<Sha256>>(key, parts),
            Prf::Sha384 => hmac_with::<hmac::Hmac<Sha384>>(key, parts),
            Prf::Sha512 => hmac_with::<hmac::Hmac<Sha512>>(key, parts),
        }
    }

    /// PBKDF2 with this function. The key is as long as its hash. `iterations` is at least 1.
    pub(crate) fn pbkdf2(self, password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
        let mut key = vec![0; self.output_len()];
        match self {
            Prf::Sha => pbkdf2::pbkdf2_hmac::<Sha1>(password, salt, iterations, &mut key),
            Prf::Sha224 => pbkdf2::pbkdf2_hmac::<Sha224>(password, salt, iterations, &mut key),
            Prf::Sha256 => pbkdf2::pbkdf2_hmac::<Sha256>(password, salt, iterations, &mut key),
            Prf::Sha384 => pbkdf2::pbkdf2_hmac::<Sha384>(password, salt, iterations, &mut key),
            Prf::Sha512 => pbkdf2::pbkdf2_hmac::<Sha512>(password, salt, iterations, &mut key),
        }
        key
    }
}

/// The functions above for one type of hash.
mod digest_of {
    use hmac::Mac;
    use hmac::digest::{Digest, KeyInit};

    pub(super) fn hash_with<D: Digest>(parts: &[&[u8]]) -> Vec<u8> {
        let mut hash = D::new();
        for part in parts {
            hash.update(part);
        }
        hash.finalize().to_vec()
    }

    pub(super) fn hmac_with<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        let mut mac = <M as Mac>::new_from_slice(key).expect("HMAC takes a key of any length");
        for part in parts {
            mac.update(part);
        }
        mac.finalize().into_bytes().to_vec()
    }
}

/// Whether two byte strings are equal. The time depends on their lengths only.
pub(crate) fn equal(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).into()
}

/// Lower-case hexadecimal text.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)] as char);
        text.push(DIGITS[usize::from(byte & 15)] as char);
    }
    text
}

/// Random bytes of the operating system, or `None` if it has none.
pub(crate) fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prf_names_are_couchdbs() {
        for prf in Prf::ALL {
            assert_eq!(Prf::from_name(prf.name()), Some(prf));
            assert_eq!(prf.hash(&[b""]).len(), prf.output_len());
        }
        assert_eq!(Prf::from_name("sha1"), None);
        assert_eq!(Prf::from_name("SHA256"), None);
    }

    #[test]
    fn prf_list_leaves_out_unknown_names() {
        assert_eq!(Prf::parse_list("sha256, sha"), [Prf::Sha256, Prf::Sha]);
        assert_eq!(Prf::parse_list("md5,sha512"), [Prf::Sha512]);
        assert_eq!(Prf::parse_list(""), [Prf::Sha256]);
    }

    #[test]
    fn hmac_matches_rfc_4231() {
        let mac = Prf::Sha256.hmac(b"Jefe", &[b"what do ya want ", b"for nothing?"]);
        assert_eq!(hex(&mac), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }

    #[test]
    fn pbkdf2_matches_rfc_6070() {
        let key = Prf::Sha.pbkdf2(b"password", b"salt", 4096);
        assert_eq!(hex(&key), "4b007901b765489abead49d926f721d065a429c1");
    }

    #[test]
    fn equal_compares_bytes_and_lengths() {
        assert!(equal(b"abc", b"abc"));
        assert!(!equal(b"abc", b"abd"));
        assert!(!equal(b"abc", b"ab"));
    }
}

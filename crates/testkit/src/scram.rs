//! The client's side of SCRAM, for tests of sign-ins.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, Mac};
use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::Sha256;

/// A sign-in of one user with one mechanism.
pub struct ScramClient {
    is_sha_1: bool,
    user: String,
    password: String,
    nonce: String,
}

impl ScramClient {
    /// A sign-in with `SCRAM-SHA-1` or `SCRAM-SHA-256`.
    pub fn new(mechanism: &str, user: &str, password: &str) -> ScramClient {
        ScramClient {
            is_sha_1: mechanism == "SCRAM-SHA-1",
            user: user.replace('=', "=3D").replace(',', "=2C"),
            password: match mechanism {
                "SCRAM-SHA-1" => digest(user, password),
                _ => password.to_owned(),
            },
            nonce: "a nonce for tests is no secret".replace(' ', "-"),
        }
    }

    fn first_bare(&self) -> String {
        format!("n={},r={}", self.user, self.nonce)
    }

    /// The first message.
    pub fn first(&self) -> Vec<u8> {
        format!("n,,{}", self.first_bare()).into_bytes()
    }

    /// The last message, after the server's first one.
    ///
    /// # Panics
    ///
    /// If the server's message does not follow the grammar.
    pub fn last(&self, challenge: &[u8]) -> Vec<u8> {
        let challenge = std::str::from_utf8(challenge).expect("text");
        let part = |prefix: &str| {
            let part = challenge.split(',').find_map(|part| part.strip_prefix(prefix));
            part.expect("a part of the challenge")
        };
        let salt = BASE64.decode(part("s=")).expect("a salt in Base64");
        let iterations = part("i=").parse().expect("a number of iterations");
        let without_proof = format!("c=biws,r={}", part("r="));
        let covered = format!("{},{challenge},{without_proof}", self.first_bare());
        let client_key = self.hmac(&self.salted(&salt, iterations), b"Client Key");
        let signature = self.hmac(&self.hash(&client_key), covered.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(signature).map(|(a, b)| a ^ b).collect();
        format!("{without_proof},p={}", BASE64.encode(proof)).into_bytes()
    }

    fn salted(&self, salt: &[u8], iterations: u32) -> Vec<u8> {
        let password = self.password.as_bytes();
        match self.is_sha_1 {
            true => pbkdf2::pbkdf2_hmac_array::<Sha1, 20>(password, salt, iterations).to_vec(),
            false => pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password, salt, iterations).to_vec(),
        }
    }

    fn hmac(&self, key: &[u8], text: &[u8]) -> Vec<u8> {
        match self.is_sha_1 {
            true => {
                let mac = Hmac::<Sha1>::new_from_slice(key).expect("a key of any length");
                mac.chain_update(text).finalize().into_bytes().to_vec()
            }
            false => {
                let mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
                mac.chain_update(text).finalize().into_bytes().to_vec()
            }
        }
    }

    fn hash(&self, text: &[u8]) -> Vec<u8> {
        match self.is_sha_1 {
            true => Sha1::digest(text).to_vec(),
            false => Sha256::digest(text).to_vec(),
        }
    }
}

/// MongoDB's digest of a password, which clients may send instead of it (`digestPassword: false`).
pub fn digest(user: &str, password: &str) -> String {
    let digest = Md5::digest(format!("{user}:mongo:{password}"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

//! The keys of CouchDB's section `jwt_keys`.

use super::rules::JwtAlgorithm;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jsonwebtoken::DecodingKey;
use std::collections::HashMap;
use std::fmt;

/// The name of the key for tokens that name none.
pub const DEFAULT_KID: &str = "_default";

/// A setting of `jwt_auth` or `jwt_keys` that cannot be used. The text never holds a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JwtConfigError {
    /// The entry's name is not `hmac:…`, `rsa:…` or `ec:…`.
    #[error("jwt_keys: the name {0:?} is not hmac:, rsa: or ec: followed by the key's name")]
    KeyName(String),
    /// The entry's value is no key of its kind.
    #[error("jwt_keys: {name} is not {expected}")]
    Key {
        /// The entry's name.
        name: String,
        /// What it should be.
        expected: &'static str,
    },
    /// `required_claims` cannot be read.
    #[error("jwt_auth: required_claims is set to an invalid value")]
    RequiredClaims,
    /// An algorithm is unknown, or there is none.
    #[error("jwt_auth: {0:?} is not a list of the known algorithms")]
    Algorithms(String),
}

/// What a key is for. It stands before the key's name in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum KeyKind {
    Hmac,
    Rsa,
    Ec,
}

/// The keys that check tokens.
#[derive(Clone, Default)]
pub struct JwtKeys {
    keys: HashMap<(KeyKind, String), DecodingKey>,
}

impl JwtKeys {
    /// No keys.
    pub fn new() -> JwtKeys {
        JwtKeys::default()
    }

    /// Reads all entries of the section.
    pub fn read<'a>(
        entries: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<JwtKeys, JwtConfigError> {
        let mut keys = JwtKeys::new();
        for (name, value) in entries {
            keys.add(name, value)?;
        }
        Ok(keys)
    }

    /// Adds an entry. `name` is `hmac:kid`, `rsa:kid` or `ec:kid`. `value` is the secret in Base64, or a public key in PEM
    /// with line breaks or with `\n` in their place.
    pub fn add(&mut self, name: &str, value: &str) -> Result<(), JwtConfigError> {
        let bad_name = || JwtConfigError::KeyName(name.to_owned());
        let bad_key = |expected| JwtConfigError::Key { name: name.to_owned(), expected };
        let (kind, kid) = name.split_once(':').filter(|(_, kid)| !kid.is_empty()).ok_or_else(bad_name)?;
        let (kind, key) = match kind {
            "hmac" => (KeyKind::Hmac, secret(value).ok_or_else(|| bad_key("a secret in Base64"))?),
            "rsa" => (
                KeyKind::Rsa,
                public_key(value, DecodingKey::from_rsa_pem).ok_or_else(|| bad_key("an RSA public key"))?,
            ),
            "ec" => (
                KeyKind::Ec,
                public_key(value, DecodingKey::from_ec_pem).ok_or_else(|| bad_key("an EC public key"))?,
            ),
            _ => return Err(bad_name()),
        };
        self.keys.insert((kind, kid.to_owned()), key);
        Ok(())
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(super) fn find(&self, algorithm: JwtAlgorithm, kid: &str) -> Option<&DecodingKey> {
        self.keys.get(&(algorithm.kind(), kid.to_owned()))
    }
}

fn secret(value: &str) -> Option<DecodingKey> {
    let secret = BASE64.decode(value.trim()).ok()?;
    (!secret.is_empty()).then(|| DecodingKey::from_secret(&secret))
}

fn public_key(
    value: &str,
    read: fn(&[u8]) -> jsonwebtoken::errors::Result<DecodingKey>,
) -> Option<DecodingKey> {
    let pem = value.replace("\\n", "\n");
    // The reader would take private keys and certificates too.
    let begin = pem.trim_start();
    let is_public = ["-----BEGIN PUBLIC KEY-----", "-----BEGIN RSA PUBLIC KEY-----"]
        .into_iter()
        .any(|label| begin.starts_with(label));
    if is_public { read(pem.as_bytes()).ok() } else { None }
}

impl fmt::Debug for JwtKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.keys.keys()).finish()
    }
}

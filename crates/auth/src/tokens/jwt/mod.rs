//! JSON Web Tokens, by the rules of CouchDB's sections `jwt_auth` and `jwt_keys`.
//!
//! `jsonwebtoken` checks the signatures. The key is found by the kind of the token's algorithm together with `kid`, so a
//! key never serves an algorithm of another kind. The signature is checked before any claim.

mod keys;
mod rules;
#[cfg(test)]
mod tests;

pub use keys::{DEFAULT_KID, JwtConfigError, JwtKeys};
pub use rules::{JwtAlgorithm, JwtRules, RequiredClaim, RolesClaim};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::{Map, Value};

/// The longest token, in bytes.
pub const MAX_TOKEN_LEN: usize = 16 * 1024;

/// Why a token is refused. The texts are CouchDB's where it has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JwtError {
    /// The token is too long, or cannot be read.
    #[error("Malformed token")]
    Malformed,
    /// The header names no algorithm.
    #[error("Missing {0} header parameter")]
    MissingHeader(&'static str),
    /// The header has a value that is unknown or not allowed.
    #[error("Invalid {0} header parameter")]
    InvalidHeader(&'static str),
    /// There is no key for the algorithm's kind with this name.
    #[error("Unknown kid")]
    UnknownKid,
    /// The signature is wrong.
    #[error("Bad signature")]
    BadSignature,
    /// The HMAC is wrong.
    #[error("Bad HMAC")]
    BadHmac,
    /// A claim is required and missing.
    #[error("Missing {0} claim")]
    MissingClaim(String),
    /// A claim has a wrong type, or not the required value.
    #[error("Invalid {0} claim")]
    InvalidClaim(String),
    /// The token has expired.
    #[error("exp not in future")]
    Expired,
    /// The token is not valid yet.
    #[error("nbf not in past")]
    NotYetValid,
    /// The token names no user.
    #[error("Token missing sub claim.")]
    MissingSub,
}

impl JwtError {
    /// Whether CouchDB answers 401. It answers 400 to the others.
    pub fn is_unauthorized(&self) -> bool {
        matches!(self, JwtError::Expired | JwtError::NotYetValid | JwtError::MissingSub)
    }
}

/// Whom a token names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtIdentity {
    /// The user's name.
    pub name: String,
    /// CouchDB's names of his roles.
    pub roles: Vec<String>,
    /// When the token ends, in seconds since 1970.
    pub expires: Option<u64>,
}

/// Checks a token. `now_seconds` is the time since 1970.
pub fn verify(
    token: &str,
    keys: &JwtKeys,
    rules: &JwtRules,
    now_seconds: u64,
) -> Result<JwtIdentity, JwtError> {
    if token.len() > MAX_TOKEN_LEN {
        return Err(JwtError::Malformed);
    }
    let (message, signature) = token.rsplit_once('.').ok_or(JwtError::Malformed)?;
    let (header, claims) = message.split_once('.').ok_or(JwtError::Malformed)?;
    let header = decode_object(header)?;
    let algorithm = check_header(&header, rules)?;
    let kid = match header.get("kid") {
        None => DEFAULT_KID,
        Some(kid) => kid.as_str().ok_or(JwtError::InvalidHeader("kid"))?,
    };
    let key = keys.find(algorithm, kid).ok_or(JwtError::UnknownKid)?;
    let fits = jsonwebtoken::crypto::verify(signature, message.as_bytes(), key, algorithm.inner());
    if !fits.is_ok_and(|fits| fits) {
        return Err(if algorithm.is_hmac() { JwtError::BadHmac } else { JwtError::BadSignature });
    }
    let claims = decode_object(claims)?;
    let expires = check_times(&claims, rules.skew_seconds, now_seconds)?;
    for required in &rules.required_claims {
        required.check(&header, &claims)?;
    }
    let name = match claims.get("sub") {
        None => return Err(JwtError::MissingSub),
        Some(Value::String(name)) if !name.is_empty() => name.clone(),
        Some(_) => return Err(JwtError::InvalidClaim("sub".to_owned())),
    };
    Ok(JwtIdentity { name, roles: rules.roles.read(&claims)?, expires })
}

fn decode_object(part: &str) -> Result<Map<String, Value>, JwtError> {
    let json = BASE64.decode(part).map_err(|_| JwtError::Malformed)?;
    serde_json::from_slice(&json).map_err(|_| JwtError::Malformed)
}

fn check_header(header: &Map<String, Value>, rules: &JwtRules) -> Result<JwtAlgorithm, JwtError> {
    let algorithm = header.get("alg").ok_or(JwtError::MissingHeader("alg"))?;
    let algorithm = algorithm
        .as_str()
        .and_then(JwtAlgorithm::from_name)
        .filter(|algorithm| rules.algorithms.contains(algorithm))
        .ok_or(JwtError::InvalidHeader("alg"))?;
    // RFC 7515: who does not know the extensions that `crit` lists refuses the token. None is known here.
    if header.contains_key("crit") { Err(JwtError::InvalidHeader("crit")) } else { Ok(algorithm) }
}

/// Checks `exp` and `nbf`, which hold wherever they are given. Returns when the token ends.
fn check_times(claims: &Map<String, Value>, skew: u64, now: u64) -> Result<Option<u64>, JwtError> {
    let time = |name: &str| match claims.get(name) {
        None => Ok(None),
        Some(time) => time.as_f64().map(Some).ok_or_else(|| JwtError::InvalidClaim(name.to_owned())),
    };
    let (now, skew) = (now as f64, skew as f64);
    let expires = time("exp")?.map(|exp| exp + skew);
    if expires.is_some_and(|expires| expires <= now) {
        return Err(JwtError::Expired);
    }
    if time("nbf")?.is_some_and(|nbf| nbf - skew > now) {
        return Err(JwtError::NotYetValid);
    }
    // A conversion of a number that is too large gives the largest one.
    Ok(expires.map(|expires| expires as u64))
}

//! Tokens that are signed here, and what is wrong with them.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::json;

const NOW: u64 = 1_700_000_000;
const SECRET: &[u8] = b"a secret of thirty-two characters";

fn keys() -> JwtKeys {
    let mut keys = JwtKeys::new();
    keys.add("hmac:_default", &STANDARD.encode(SECRET)).unwrap();
    keys.add("hmac:other", &STANDARD.encode(b"another secret, which is long too")).unwrap();
    keys
}

fn signed(algorithm: Algorithm, kid: Option<&str>, claims: &Value) -> String {
    let header = Header { kid: kid.map(str::to_owned), ..Header::new(algorithm) };
    encode(&header, claims, &EncodingKey::from_secret(SECRET)).unwrap()
}

fn check(token: &str) -> Result<JwtIdentity, JwtError> {
    verify(token, &keys(), &JwtRules::default(), NOW)
}

#[test]
fn signed_token_names_its_user_and_roles() {
    let claims = json!({ "sub": "ada", "exp": NOW + 60, "_couchdb.roles": ["editor", "_admin"] });
    let identity = check(&signed(Algorithm::HS256, None, &claims)).unwrap();
    assert_eq!(
        (identity.name.as_str(), identity.roles),
        ("ada", vec!["editor".to_owned(), "_admin".to_owned()])
    );
}

#[test]
fn tokens_that_are_expired_early_or_incomplete_are_refused() {
    let of = |claims: Value| check(&signed(Algorithm::HS256, None, &claims)).unwrap_err();
    assert_eq!(of(json!({ "sub": "ada", "exp": NOW })), JwtError::Expired);
    assert_eq!(of(json!({ "sub": "ada", "exp": NOW + 60, "nbf": NOW + 30 })), JwtError::NotYetValid);
    assert_eq!(of(json!({ "exp": NOW + 60 })), JwtError::MissingSub);
    assert_eq!(of(json!({ "sub": "ada" })), JwtError::MissingClaim("exp".to_owned()));
    assert_eq!(of(json!({ "sub": 1, "exp": NOW + 60 })), JwtError::InvalidClaim("sub".to_owned()));
}

#[test]
fn other_keys_and_algorithms_are_refused() {
    let claims = json!({ "sub": "ada", "exp": NOW + 60 });
    assert_eq!(check(&signed(Algorithm::HS256, Some("other"), &claims)), Err(JwtError::BadHmac));
    assert_eq!(check(&signed(Algorithm::HS256, Some("none"), &claims)), Err(JwtError::UnknownKid));
    assert_eq!(
        check(&signed(Algorithm::HS512, None, &claims)),
        Err(JwtError::InvalidHeader("alg")),
        "the algorithm is not allowed"
    );
    let encoded = |value: &Value| BASE64.encode(value.to_string());
    let unsigned = format!("{}.{}.", encoded(&json!({ "alg": "none" })), encoded(&claims));
    assert_eq!(check(&unsigned), Err(JwtError::InvalidHeader("alg")));
    // A key for one kind of algorithm never serves another one.
    let confused = format!("{}.{}.AAAA", encoded(&json!({ "alg": "RS256" })), encoded(&claims));
    assert_eq!(check(&confused), Err(JwtError::UnknownKid));
}

#[test]
fn changed_or_truncated_tokens_are_refused() {
    let token = signed(Algorithm::HS256, None, &json!({ "sub": "ada", "exp": NOW + 60 }));
    for end in 0..token.len() {
        assert!(check(&token[..end]).is_err(), "{end}");
    }
    let (head, signature) = token.rsplit_once('.').unwrap();
    let (header, _) = head.split_once('.').unwrap();
    let claims = BASE64.encode(json!({ "sub": "bob", "exp": NOW + 60 }).to_string());
    assert_eq!(check(&format!("{header}.{claims}.{signature}")), Err(JwtError::BadHmac));
    assert_eq!(check(&"x".repeat(MAX_TOKEN_LEN + 1)), Err(JwtError::Malformed));
}

//! What a client sends before it has signed in: SCRAM messages, cookies, tokens, certificates' names. None panics, and
//! none that the server did not make is accepted.

#![no_main]

use diwan_auth::{AdminHash, Cookie, Mechanism, Prf, ScramConversation, ScramVerifier, jwt, proxy};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

/// A verifier of each mechanism that no proof fits.
static DECOYS: LazyLock<[(Mechanism, ScramVerifier); 2]> = LazyLock::new(|| {
    [Mechanism::ScramSha1, Mechanism::ScramSha256]
        .map(|mechanism| (mechanism, ScramVerifier::decoy(mechanism, "ada", b"a secret of the server")))
});

fuzz_target!(|data: &[u8]| {
    // The first message and the last one, at the first line break.
    let end = data.iter().position(|&byte| byte == b'\n').unwrap_or(data.len());
    let (first, last) = (&data[..end], data.get(end + 1..).unwrap_or_default());
    for (mechanism, decoy) in DECOYS.iter() {
        if let Ok(mut conversation) = ScramConversation::start(*mechanism, first) {
            assert!(!conversation.challenge(decoy.clone()).is_empty());
            assert!(conversation.finish(last).is_err());
            assert!(conversation.finish(last).is_err(), "a failed conversation is over");
        }
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(cookie) = Cookie::parse(text) {
        assert!(cookie.verify(b"secret", b"salt", &[Prf::Sha256, Prf::Sha], 1_700_000_000, 600).is_err());
    }
    let mut keys = jwt::JwtKeys::new();
    keys.add("hmac:_default", "c2VjcmV0IG9mIHRoZSBzZXJ2ZXI=").unwrap();
    assert!(jwt::verify(text, &keys, &jwt::JwtRules::default(), 1_700_000_000).is_err());
    assert!(!proxy::check("ada", text, b"secret", &[Prf::Sha256, Prf::Sha]));
    let _ = AdminHash::parse(text);
    let _ = jwt::RequiredClaim::parse_list(text);
});

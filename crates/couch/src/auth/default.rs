//! The handler of passwords that come with every request (`Authorization: Basic`).

use super::{Attempt, FoundCaller, Head};
use crate::error::{Error, Result};
use crate::server::Couch;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use diwan_access::Caller;
use std::sync::Arc;

/// Finds the caller by his name and password. `has_jwt` says that another handler reads tokens from the same header.
pub(super) async fn find(couch: &Arc<Couch>, head: &Head<'_>, has_jwt: bool) -> Result<FoundCaller> {
    let Some(header) = head.header("authorization") else { return Ok(None) };
    let Some((name, password)) = parse(header, has_jwt)? else { return Ok(None) };
    let attempt = Attempt::begin(couch, name, password, head.peer, head.local)?;
    if let Some(principal) = attempt.known(couch)? {
        return Ok(Some((Caller::User(principal), None)));
    }
    tokio::time::sleep_until(attempt.ready.into()).await;
    let checked = couch.clone();
    let principal = couch.workers.run_sign_in(move || attempt.check(&checked)).await??;
    Ok(Some((Caller::User(principal), None)))
}

/// Reads the header. `None` if it holds no password.
fn parse(header: &str, has_jwt: bool) -> Result<Option<(String, String)>> {
    let (scheme, value) = header.split_once(' ').unwrap_or((header, ""));
    if !scheme.eq_ignore_ascii_case("basic") {
        return match has_jwt {
            true => Ok(None),
            false => Err(Error::bad_request("Authorization header is invalid")),
        };
    }
    let invalid = || Error::bad_request("Authorization header has invalid base64 value");
    let decoded = STANDARD.decode(value.trim()).map_err(|_| invalid())?;
    let decoded = String::from_utf8(decoded).map_err(|_| invalid())?;
    Ok(match decoded.split_once(':') {
        // Browsers cannot forget a password, but they replace it by this one.
        Some(("_", "_")) | None => None,
        Some((name, password)) => Some((name.to_owned(), password.to_owned())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_reads_basic_credentials_alone() {
        let basic = |text: &str| format!("bAsIc {}", STANDARD.encode(text));
        let ada = Some(("ada".to_owned(), "se:cret".to_owned()));
        assert_eq!(parse(&basic("ada:se:cret"), false).unwrap(), ada);
        assert_eq!(parse(&basic("_:_"), false).unwrap(), None);
        assert_eq!(parse(&basic("ada"), false).unwrap(), None);
        assert_eq!(parse("Bearer x", true).unwrap(), None);
        for bad in ["Bearer x", "Basic %", "Basic /w=="] {
            assert_eq!(parse(bad, false).unwrap_err().status, 400, "{bad}");
        }
    }
}

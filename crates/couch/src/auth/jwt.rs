//! The handler of JSON Web Tokens (`Authorization: Bearer`).

use super::{FoundCaller, Head, now_seconds};
use crate::error::{Error, Result};
use crate::server::Couch;
use diwan_access::{Caller, Sections};
use diwan_auth::jwt::{self, JwtAlgorithm, JwtConfigError, JwtKeys, JwtRules, RequiredClaim, RolesClaim};
use serde_json::json;
use std::collections::BTreeMap;

/// Finds the caller whom a token names.
pub(super) fn find(couch: &Couch, head: &Head<'_>) -> Result<FoundCaller> {
    let Some(token) = head.header("authorization").and_then(|header| header.strip_prefix("Bearer ")) else {
        return Ok(None);
    };
    let settings = couch.all_settings();
    let (keys, rules) = read(&settings).map_err(|error| {
        tracing::error!(%error, "JWT is not configured correctly");
        Error::new(500, "misconfigured_server", "JWT is not configured correctly")
    })?;
    let found = jwt::verify(token.trim(), &keys, &rules, now_seconds()).map_err(|error| {
        let details = json!({ "interface": "http", "mechanism": "jwt", "reason": error.to_string() });
        couch.access.audit.record("signInFailed", &Caller::Anonymous, Some(head.peer), details);
        match error.is_unauthorized() {
            true => Error::unauthorized(error.to_string()),
            false => Error::bad_request(error.to_string()),
        }
    })?;
    Ok(Some((Caller::User(couch.access.external(&found.name, &found.roles, found.expires)?), None)))
}

/// Reads the keys and the rules. A key that cannot be read is left out: tokens of the others stay valid.
fn read(settings: &Sections) -> std::result::Result<(JwtKeys, JwtRules), JwtConfigError> {
    let empty = BTreeMap::new();
    let mut keys = JwtKeys::new();
    for (name, value) in settings.get("jwt_keys").unwrap_or(&empty) {
        if let Err(error) = keys.add(name, value) {
            tracing::warn!(%error, "a key for tokens is left out");
        }
    }
    let section = settings.get("jwt_auth").unwrap_or(&empty);
    let get = |key: &str| section.get(key).map(String::as_str).filter(|value| !value.is_empty());
    let mut rules = JwtRules::default();
    if let Some(algorithms) = get("algorithms").or_else(|| get("allowed_algorithms")) {
        rules.algorithms = JwtAlgorithm::parse_list(algorithms)?;
    }
    if let Some(claims) = section.get("required_claims") {
        rules.required_claims = RequiredClaim::parse_list(claims)?;
    }
    if let Some(path) = get("roles_claim_path") {
        rules.roles = RolesClaim::Path(path.to_owned());
    } else if let Some(name) = get("roles_claim_name") {
        rules.roles = RolesClaim::Name(name.to_owned());
    }
    Ok((keys, rules))
}

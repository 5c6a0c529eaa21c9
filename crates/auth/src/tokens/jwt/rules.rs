//! The settings of CouchDB's section `jwt_auth`.

use super::JwtError;
use super::keys::{JwtConfigError, KeyKind};
use jsonwebtoken::Algorithm;
use serde_json::{Map, Value};

/// An algorithm that signs tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum JwtAlgorithm {
    Hs256,
    Hs384,
    Hs512,
    Rs256,
    Rs384,
    Rs512,
    Es256,
    Es384,
}

impl JwtAlgorithm {
    /// All of them.
    pub const ALL: [JwtAlgorithm; 8] = [
        JwtAlgorithm::Hs256,
        JwtAlgorithm::Hs384,
        JwtAlgorithm::Hs512,
        JwtAlgorithm::Rs256,
        JwtAlgorithm::Rs384,
        JwtAlgorithm::Rs512,
        JwtAlgorithm::Es256,
        JwtAlgorithm::Es384,
    ];

    /// The name in a token's header.
    pub fn name(self) -> &'static str {
        match self {
            JwtAlgorithm::Hs256 => "HS256",
            JwtAlgorithm::Hs384 => "HS384",
            JwtAlgorithm::Hs512 => "HS512",
            JwtAlgorithm::Rs256 => "RS256",
            JwtAlgorithm::Rs384 => "RS384",
            JwtAlgorithm::Rs512 => "RS512",
            JwtAlgorithm::Es256 => "ES256",
            JwtAlgorithm::Es384 => "ES384",
        }
    }

    /// The algorithm with this name in a token's header.
    pub fn from_name(name: &str) -> Option<JwtAlgorithm> {
        JwtAlgorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Reads names separated by commas.
    pub fn parse_list(text: &str) -> Result<Vec<JwtAlgorithm>, JwtConfigError> {
        let names = text.split(',').map(|name| JwtAlgorithm::from_name(name.trim()));
        names.collect::<Option<_>>().ok_or_else(|| JwtConfigError::Algorithms(text.to_owned()))
    }

    pub(super) fn is_hmac(self) -> bool {
        self.kind() == KeyKind::Hmac
    }

    pub(super) fn kind(self) -> KeyKind {
        match self {
            JwtAlgorithm::Hs256 | JwtAlgorithm::Hs384 | JwtAlgorithm::Hs512 => KeyKind::Hmac,
            JwtAlgorithm::Rs256 | JwtAlgorithm::Rs384 | JwtAlgorithm::Rs512 => KeyKind::Rsa,
            JwtAlgorithm::Es256 | JwtAlgorithm::Es384 => KeyKind::Ec,
        }
    }

    pub(super) fn inner(self) -> Algorithm {
        match self {
            JwtAlgorithm::Hs256 => Algorithm::HS256,
            JwtAlgorithm::Hs384 => Algorithm::HS384,
            JwtAlgorithm::Hs512 => Algorithm::HS512,
            JwtAlgorithm::Rs256 => Algorithm::RS256,
            JwtAlgorithm::Rs384 => Algorithm::RS384,
            JwtAlgorithm::Rs512 => Algorithm::RS512,
            JwtAlgorithm::Es256 => Algorithm::ES256,
            JwtAlgorithm::Es384 => Algorithm::ES384,
        }
    }
}

/// What a token must fulfil.
#[derive(Clone, Debug)]
pub struct JwtRules {
    /// The algorithms that are allowed (`algorithms`).
    pub algorithms: Vec<JwtAlgorithm>,
    /// The claims that every token has (`required_claims`).
    pub required_claims: Vec<RequiredClaim>,
    /// Where the roles are.
    pub roles: RolesClaim,
    /// How far the clocks may differ, in seconds.
    pub skew_seconds: u64,
}

impl Default for JwtRules {
    fn default() -> JwtRules {
        JwtRules {
            algorithms: vec![JwtAlgorithm::Hs256, JwtAlgorithm::Rs256, JwtAlgorithm::Es256],
            required_claims: vec![RequiredClaim { name: "exp".to_owned(), value: None }],
            roles: RolesClaim::Name("_couchdb.roles".to_owned()),
            skew_seconds: 0,
        }
    }
}

/// A claim that every token has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredClaim {
    /// The claim's name. `alg`, `kid` and `typ` are those of the header.
    pub name: String,
    /// The text that the claim is, or, for a claim that is a list such as `aud`, has.
    pub value: Option<String>,
}

impl RequiredClaim {
    /// Reads CouchDB's form: `exp, {iss, "https://issuer"}`. An empty text requires nothing.
    pub fn parse_list(text: &str) -> Result<Vec<RequiredClaim>, JwtConfigError> {
        let mut claims = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (claim, after) = RequiredClaim::parse_next(rest).ok_or(JwtConfigError::RequiredClaims)?;
            claims.push(claim);
            rest = match after.trim_start() {
                "" => "",
                after => {
                    let after = after.strip_prefix(',').map(str::trim_start);
                    after.filter(|after| !after.is_empty()).ok_or(JwtConfigError::RequiredClaims)?
                }
            };
        }
        Ok(claims)
    }

    /// Reads one claim and returns what follows it.
    fn parse_next(text: &str) -> Option<(RequiredClaim, &str)> {
        let Some(text) = text.strip_prefix('{') else {
            let (name, rest) = take_name(text)?;
            return Some((RequiredClaim { name: name.to_owned(), value: None }, rest));
        };
        let (name, rest) = take_name(text.trim_start())?;
        let rest = rest.trim_start().strip_prefix(',')?.trim_start().strip_prefix('"')?;
        let (value, rest) = rest.split_once('"').filter(|(value, _)| !value.is_empty())?;
        let rest = rest.trim_start().strip_prefix('}')?;
        Some((RequiredClaim { name: name.to_owned(), value: Some(value.to_owned()) }, rest))
    }

    pub(super) fn check(
        &self,
        header: &Map<String, Value>,
        claims: &Map<String, Value>,
    ) -> Result<(), JwtError> {
        let name = self.name.as_str();
        let found = match name {
            "alg" | "kid" | "typ" => header.get(name),
            _ => claims.get(name),
        };
        let found = found.ok_or_else(|| JwtError::MissingClaim(self.name.clone()))?;
        let fits = match (&self.value, found) {
            (Some(value), Value::Array(list)) => list.iter().any(|found| found.as_str() == Some(value)),
            (Some(value), found) => found.as_str() == Some(value),
            (None, Value::Number(_)) => true,
            (None, found) => !matches!(name, "exp" | "nbf" | "iat") && (name != "typ" || found == "JWT"),
        };
        if fits { Ok(()) } else { Err(JwtError::InvalidClaim(self.name.clone())) }
    }
}

/// Splits a claim's name off.
fn take_name(text: &str) -> Option<(&str, &str)> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || "_-.:/".contains(character);
    let end = text.find(|character| !is_part(character)).unwrap_or(text.len());
    if end == 0 { None } else { Some(text.split_at(end)) }
}

/// Where a token holds the roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolesClaim {
    /// In the claim with this name, `roles_claim_name`.
    Name(String),
    /// In the claim at the end of this path, `roles_claim_path`: names separated by dots, with `\.` for a dot in a name.
    Path(String),
}

impl RolesClaim {
    /// The roles: a list of texts, or one text with commas between them. A token without the claim has none.
    pub(super) fn read(&self, claims: &Map<String, Value>) -> Result<Vec<String>, JwtError> {
        let found = match self {
            RolesClaim::Name(name) => claims.get(name),
            RolesClaim::Path(path) => {
                let mut names = path_names(path).into_iter();
                let first = names.next().and_then(|name| claims.get(&name));
                names.fold(first, |found, name| found?.get(&name))
            }
        };
        let roles = match found {
            None => Some(Vec::new()),
            Some(Value::Array(list)) => list.iter().map(|role| role.as_str().map(str::to_owned)).collect(),
            Some(Value::String(text)) => {
                let roles = text.split(',').map(str::trim).filter(|role| !role.is_empty());
                Some(roles.map(str::to_owned).collect())
            }
            Some(_) => None,
        };
        roles.ok_or(JwtError::Malformed)
    }
}

fn path_names(path: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut characters = path.chars().peekable();
    while let Some(character) = characters.next() {
        let character = match character {
            '.' => {
                names.push(String::new());
                continue;
            }
            '\\' if characters.next_if_eq(&'.').is_some() => '.',
            character => character,
        };
        if let Some(last) = names.last_mut() {
            last.push(character);
        }
    }
    names
}

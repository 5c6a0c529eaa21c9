//! The password in a user's document: it is hashed on its way in and never stored.

use crate::error::{Error, Result};
use crate::http::blocking;
use crate::server::Couch;
use diwan_access::{ADMIN, User, UserName};
use diwan_value::{Doc, DocBuf, DocBuilder, Value};
use fancy_regex::RegexBuilder;

/// The fields that a new password replaces.
const REPLACED: [&str; 8] = [
    "credentials",
    "derived_key",
    "iterations",
    "password",
    "password_scheme",
    "password_sha",
    "pbkdf2_prf",
    "salt",
];

/// How many steps an expression may take.
const STEPS: usize = 100_000;

const TOO_WEAK: &str = "Password does not conform to requirements.";

/// Returns the user's fields with verifiers in place of `password`; `None` if there is no such field.
pub(crate) fn hash_password(couch: &Couch, name: &str, body: Doc<'_>) -> Result<Option<DocBuf>> {
    let password = match body.get("password") {
        None => return Ok(None),
        Some(Value::Null) => return Ok(Some(without(body, &["password"]).finish())),
        Some(Value::String(password)) => password,
        Some(_) => return Err(Error::bad_request("Password must be a string.")),
    };
    check_strength(couch, password)?;
    let mongo_name = UserName::new(body.get_str("user").unwrap_or(name), body.get_str("db").unwrap_or(ADMIN));
    let credentials = blocking(|| couch.access.http_credentials(&mongo_name.user, password))?;
    let user = User {
        http_name: name.to_owned(),
        name: mongo_name,
        id: None,
        roles: Vec::new(),
        free_roles: Vec::new(),
        credentials,
        custom_data: None,
        restrictions: Vec::new(),
    };
    let made = user.write(None);
    let mut out = without(body, &REPLACED);
    for element in made.as_doc().iter().filter(|element| REPLACED.contains(&element.key_str())) {
        out.append_element(element);
    }
    Ok(Some(out.finish()))
}

fn without(body: Doc<'_>, names: &[&str]) -> DocBuilder {
    let mut out = DocBuilder::new();
    for element in body.iter().filter(|element| !names.contains(&element.key_str())) {
        out.append_element(element);
    }
    out
}

/// Compares a password with the setting `password_regexp`, a list of expressions or of pairs with a reason:
/// `[{"[a-z]+", "It needs a letter."}, "\\d+"]`.
fn check_strength(couch: &Couch, password: &str) -> Result<()> {
    let setting = couch.setting("chttpd_auth", "password_regexp").unwrap_or_default();
    let broken = || {
        tracing::error!("the setting chttpd_auth/password_regexp cannot be read");
        Error::forbidden("Password cannot be checked: the server's password rules cannot be read.")
    };
    for (expression, reason) in rules(&setting).ok_or_else(broken)? {
        let expression =
            RegexBuilder::new(&expression).backtrack_limit(STEPS).build().map_err(|_| broken())?;
        if !expression.is_match(password).map_err(|_| broken())? {
            let text = if reason.is_empty() { TOO_WEAK.to_owned() } else { format!("{TOO_WEAK} {reason}") };
            return Err(Error::bad_request(text));
        }
    }
    Ok(())
}

/// Whether a text can be the setting `password_regexp`.
pub(crate) fn are_password_rules(setting: &str) -> bool {
    let compiles = |(expression, _): &(String, String)| RegexBuilder::new(expression).build().is_ok();
    rules(setting).is_some_and(|rules| rules.iter().all(compiles))
}

/// Reads the setting: each expression with its reason, which may be empty.
fn rules(setting: &str) -> Option<Vec<(String, String)>> {
    let mut rest = setting.trim();
    if rest.is_empty() {
        return Some(Vec::new());
    }
    rest = rest.strip_prefix('[')?.strip_suffix(']')?.trim();
    let mut list = Vec::new();
    while !rest.is_empty() {
        let in_pair = rest.strip_prefix('{').map(str::trim_start);
        let (expression, mut after) = text(in_pair.unwrap_or(rest))?;
        let mut reason = String::new();
        if in_pair.is_some() {
            if let Some(second) = after.strip_prefix(',') {
                (reason, after) = text(second.trim_start())?;
            }
            after = after.strip_prefix('}')?.trim_start();
        }
        list.push((expression, reason));
        rest = match after.strip_prefix(',') {
            Some(more) => more.trim_start(),
            None if after.is_empty() => after,
            None => return None,
        };
    }
    Some(list)
}

/// Reads a quoted text and what follows it.
fn text(from: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let body = from.strip_prefix('"')?;
    let mut chars = body.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((out, body[at + 1..].trim_start())),
            '\\' => out.push(chars.next()?.1),
            c => out.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_reads_expressions_and_reasons() {
        let pair = |one: &str, two: &str| (one.to_owned(), two.to_owned());
        let read = rules(r#"[{"[a-z]+", "It needs a letter."}, "\\d+" , {".{4}"}]"#).unwrap();
        assert_eq!(read, [pair("[a-z]+", "It needs a letter."), pair(r"\d+", ""), pair(".{4}", "")]);
        assert_eq!(rules("[]").unwrap(), []);
        assert_eq!(rules("").unwrap(), []);
        for bad in ["x", "[x]", "[\"a\" \"b\"]", "[{\"a\"]", "[\"a]"] {
            assert!(rules(bad).is_none(), "{bad}");
        }
    }
}

//! The rules for a single document of `_users`: CouchDB's, with its reasons, and those for the fields that only this
//! server has.

use super::{Edited, may_edit_all, may_grant};
use crate::edit::Author;
use crate::error::{Error, Result};
use crate::server::Couch;
use diwan_access::{ID_PREFIX, User};
use diwan_store::{Collection, RevisedDocument, id_key};
use diwan_value::json::{Mode, write_value};
use diwan_value::{Doc, DocBuilder, Value};
use std::sync::Arc;

/// Fields that change what a user may do, or who he is for MongoDB's clients. CouchDB does not have them.
const PRIVILEGED: [&str; 7] =
    ["authenticationRestrictions", "credentials", "customData", "db", "grants", "user", "userId"];

/// The most iterations of a verifier in a document that an ordinary user writes, unless a setting says otherwise.
const MAX_ITERATIONS: u64 = 1_000_000;

/// The only role with an underscore that users may have.
const METRICS: &str = "_metrics";

/// Checks an edit by the winning revision before it.
pub(super) fn check(
    couch: &Couch,
    collection: &Arc<Collection>,
    author: &Author,
    edited: &Edited<'_>,
) -> Result<()> {
    let key = id_key(Value::String(edited.id))?;
    let before = collection.view().document(&key)?.filter(|found| !found.deleted);
    let is_admin = may_edit_all(couch, &author.caller);
    if !is_admin {
        check_person(author, edited, before.as_ref())?;
    } else if !may_grant(couch, &author.caller) {
        check_powerless(couch, author, edited, before.as_ref().map(|found| found.doc.as_doc()))?;
    }
    if edited.deleted {
        return Ok(());
    }
    let old = before.as_ref().map(|found| found.doc.as_doc());
    check_fields(edited, old)?;
    if !is_admin {
        check_roles(edited.body, old)?;
    }
    if !may_grant(couch, &author.caller) {
        check_privileged(edited.body, old, author.has_new_password)?;
        check_iterations(couch, edited.body)?;
    }
    Ok(())
}

/// Checks that somebody who administers `_users` alone leaves users with privileges as they are: with their passwords he
/// would have their rights.
fn check_powerless(couch: &Couch, author: &Author, edited: &Edited<'_>, old: Option<Doc<'_>>) -> Result<()> {
    let mut whole = DocBuilder::new();
    whole.append("_id", edited.id);
    for element in edited.body.iter().filter(|element| element.key != b"_id") {
        whole.append_element(element);
    }
    let (new, roles) = (whole.finish(), couch.access.roles()?);
    let is_own = author.caller.http_name() == edited.id.strip_prefix(ID_PREFIX);
    let before = old.and_then(User::read).map(|user| user.roles).unwrap_or_default();
    let after = User::read(new.as_doc()).map(|user| user.roles).unwrap_or_default();
    let gains = after.iter().any(|role| !before.contains(role) && roles.exists(role));
    if gains || (!is_own && !roles.privileges(&before).is_empty()) {
        return Err(Error::forbidden("Only administrators of users may edit users with privileges"));
    }
    Ok(())
}

/// Checks that a verifier costs the server no more than the settings allow. Whoever knows the name can make the server
/// compute it.
fn check_iterations(couch: &Couch, doc: Doc<'_>) -> Result<()> {
    let most = couch.setting_number("chttpd_auth", "max_iterations", MAX_ITERATIONS);
    let least = couch.setting_number("chttpd_auth", "min_iterations", 1);
    let given = doc.get("iterations").and_then(Value::as_i64_exact);
    match given.map(|given| u64::try_from(given).unwrap_or(0)) {
        Some(given) if given < least || given > most => {
            Err(Error::forbidden(format!("iterations must be between {least} and {most}.")))
        }
        _ => Ok(()),
    }
}

/// Checks that somebody who is no administrator edits his own document, or makes a new one for himself.
fn check_person(author: &Author, edited: &Edited<'_>, before: Option<&RevisedDocument>) -> Result<()> {
    let own = edited.id.strip_prefix(ID_PREFIX);
    match author.caller.http_name() {
        Some(name) if own == Some(name) => {}
        Some(_) => return Err(Error::missing()),
        // A visitor may register, where the server lets visitors in at all.
        None if before.is_some() => return Err(Error::conflict()),
        None if edited.deleted => {
            return Err(Error::forbidden("Only admins may delete other user docs."));
        }
        None => {}
    }
    if edited.deleted && before.is_some_and(|found| found.has_branches) {
        // Another revision would win, with the roles that it has.
        return Err(Error::forbidden("Only admins may delete a user doc that has conflicts."));
    }
    Ok(())
}

/// The rules that hold for everybody.
fn check_fields(edited: &Edited<'_>, old: Option<Doc<'_>>) -> Result<()> {
    let refuse = |reason: &'static str| Err(Error::forbidden(reason));
    let doc = edited.body;
    if doc.get_str("type") != Some("user") {
        return refuse("doc.type must be user");
    }
    let name = match doc.get("name") {
        Some(Value::String(name)) if !name.is_empty() => name,
        _ => return refuse("doc.name is required"),
    };
    let roles = match doc.get("roles") {
        None | Some(Value::Null) => return refuse("doc.roles must exist"),
        Some(Value::Array(roles)) => roles,
        Some(_) => return refuse("doc.roles must be an array"),
    };
    if roles.iter().any(|role| role.as_str().is_none()) {
        return refuse("doc.roles can only contain strings");
    }
    if edited.id.strip_prefix(ID_PREFIX) != Some(name) {
        return refuse("Doc ID must be of the form org.couchdb.user:name");
    }
    if old.is_some_and(|old| old.get_str("name") != Some(name)) {
        return refuse("Usernames can not be changed.");
    }
    if doc.contains_key("password_sha") && !doc.contains_key("salt") {
        return refuse("Users with password_sha must have a salt.");
    }
    match doc.get("password_scheme") {
        None | Some(Value::Null) => {}
        Some(Value::String("simple")) => {}
        Some(Value::String("pbkdf2")) => {
            if doc.get("iterations").and_then(Value::as_i64_exact).is_none() {
                return refuse("iterations must be a number.");
            }
            if doc.get_str("derived_key").is_none() {
                return refuse("derived_key must be a string.");
            }
        }
        Some(other) => {
            let scheme = other.as_str().unwrap_or("?");
            return Err(Error::forbidden(format!("Password scheme `{scheme}` not supported.")));
        }
    }
    if roles.iter().filter_map(Value::as_str).any(|role| role.starts_with('_') && role != METRICS) {
        return refuse("No system roles (starting with underscore) in users db.");
    }
    if name.starts_with('_') {
        return refuse("Username may not start with underscore.");
    }
    if name.contains(':') {
        return refuse("Character `:` is not allowed in usernames.");
    }
    Ok(())
}

/// Checks that the roles stay as they are.
fn check_roles(new: Doc<'_>, old: Option<Doc<'_>>) -> Result<()> {
    let roles = |doc: Doc<'_>| {
        let list = doc.get_array("roles").into_iter().flat_map(|list| list.iter());
        let mut names: Vec<String> = list.filter_map(Value::as_str).map(str::to_owned).collect();
        names.sort_unstable();
        names
    };
    match old {
        None if !roles(new).is_empty() => Err(Error::forbidden("Only _admin may set roles")),
        Some(old) if roles(old) != roles(new) => Err(Error::forbidden("Only _admin may edit roles")),
        _ => Ok(()),
    }
}

/// Checks that the privileged fields stay as they are. The server itself writes `credentials` with a new password.
fn check_privileged(new: Doc<'_>, old: Option<Doc<'_>>, has_new_password: bool) -> Result<()> {
    // On their way through a client, members may change their order, and numbers their types.
    let read = |doc: Option<Doc<'_>>, name: &str| {
        doc.and_then(|doc| doc.get(name)).map(|value| {
            let mut text = Vec::new();
            write_value(&mut text, value, Mode::Exchange);
            serde_json::from_slice::<serde_json::Value>(&text).ok()
        })
    };
    for name in PRIVILEGED {
        if name == "credentials" && has_new_password {
            continue;
        }
        if read(Some(new), name) != read(old, name) {
            return Err(Error::forbidden(format!("Only administrators of users may edit `{name}`")));
        }
    }
    Ok(())
}

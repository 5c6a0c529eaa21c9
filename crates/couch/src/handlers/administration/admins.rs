//! The section `admins` of the settings: the users with the role `root`, each with the hash of his password.

use crate::error::{Error, Result};
use crate::server::Couch;
use diwan_access::{ADMIN, Credentials, HttpNames, RoleName, User, UserName};
use diwan_auth::AdminHash;
use diwan_kv::CommitId;
use std::collections::BTreeMap;

/// Stands for the password of an administrator whom a MongoDB client made: there is no hash in CouchDB's form.
const SCRAM_ONLY: &str = "-scram";

fn root() -> RoleName {
    RoleName::new("root", ADMIN)
}

/// The administrators with their hashes.
pub(super) fn list(couch: &Couch) -> Result<BTreeMap<String, String>> {
    let mut list = BTreeMap::new();
    for user in couch.access.all_users()? {
        if user.roles.contains(&root()) {
            list.insert(user.http_name.clone(), hash(&user.credentials));
        }
    }
    Ok(list)
}

fn hash(credentials: &Credentials) -> String {
    match (&credentials.pbkdf2, &credentials.simple) {
        (Some(verifier), _) => AdminHash::Pbkdf2(verifier.clone()).to_config(),
        (None, Some(verifier)) => AdminHash::Simple(verifier.clone()).to_config(),
        (None, None) => SCRAM_ONLY.to_owned(),
    }
}

/// Makes a user an administrator, with this password or hash. Returns the hash before.
pub(super) fn put(couch: &Couch, name: &str, value: &str) -> Result<(String, Option<CommitId>)> {
    if name.is_empty() || name.starts_with('_') || name.contains(':') {
        return Err(Error::bad_request(
            "The name of an administrator has no colon and begins without an underscore",
        ));
    }
    if value.is_empty() || value.starts_with(SCRAM_ONLY) {
        return Err(Error::bad_request("The password of an administrator must not be empty"));
    }
    let access = &couch.access;
    let found = access.http_user(name)?;
    let mongo_name = found.as_ref().map_or(name, |user| &user.name.user);
    let parsed = AdminHash::parse(value).map_err(|error| Error::bad_request(error.to_string()))?;
    let credentials = match parsed {
        None => access.http_credentials(mongo_name, value)?,
        Some(AdminHash::Pbkdf2(verifier)) => Credentials { pbkdf2: Some(verifier), ..Credentials::default() },
        Some(AdminHash::Simple(verifier)) => Credentials { simple: Some(verifier), ..Credentials::default() },
    };
    let Some(user) = found else {
        let user = User {
            http_name: name.to_owned(),
            name: UserName::new(name, ADMIN),
            id: None,
            roles: vec![root()],
            free_roles: Vec::new(),
            credentials,
            custom_data: None,
            restrictions: Vec::new(),
        };
        return Ok((String::new(), access.create_user(user, HttpNames::Any)?));
    };
    let old = if user.roles.contains(&root()) { hash(&user.credentials) } else { String::new() };
    let commit = access.update_user(&user.name, |user| {
        user.credentials = credentials;
        if !user.roles.contains(&root()) {
            user.roles.push(root());
        }
        Ok(())
    })?;
    Ok((old, commit))
}

/// Takes the role from an administrator. A user for whom nothing else is left is removed.
pub(super) fn delete(couch: &Couch, name: &str) -> Result<Option<CommitId>> {
    let access = &couch.access;
    let user = access.http_user(name)?.ok_or_else(|| Error::not_found("unknown_config_value"))?;
    let is_nothing_else = user.roles.iter().all(|role| *role == root())
        && user.free_roles.is_empty()
        && user.custom_data.is_none();
    Ok(match is_nothing_else {
        true => access.drop_user(&user.name)?,
        false => access.update_user(&user.name, |user| {
            user.roles.retain(|role| *role != root());
            Ok(())
        })?,
    })
}

/// Makes the administrator that a setup step names.
pub(super) fn set_up(couch: &Couch, name: &str, password: &str) -> Result<()> {
    let (_, commit) = put(couch, name, password)?;
    if let Some(commit) = commit {
        couch.store.engine().wait_durable(commit)?;
    }
    Ok(())
}

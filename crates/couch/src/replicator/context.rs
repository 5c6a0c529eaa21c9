//! The member `user_ctx` of a replication: the name and the roles with which it works on databases of this server.
//!
//! Whoever administers the server gives a replication any name and roles. All others may only give less than what they
//! have: their own name and some of their roles. The rights are compared again whenever they are used, so that a
//! replication loses what its owner loses.

use crate::error::{Error, Result};
use diwan_access::{Access, Caller};
use serde_json::{Map, Value};

/// The member.
pub(super) const USER_CTX: &str = "user_ctx";

/// A name and roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserContext {
    name: Option<String>,
    roles: Vec<String>,
}

impl UserContext {
    /// Reads the member of a replication; `None` if it has none.
    pub(super) fn parse(object: &Map<String, Value>) -> std::result::Result<Option<UserContext>, String> {
        let context = match object.get(USER_CTX) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Object(context)) => context,
            Some(_) => return Err("The `user_ctx' property must be a non-null object.".to_owned()),
        };
        let name = match context.get("name") {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) if !name.is_empty() => Some(name.clone()),
            Some(_) => {
                return Err("The `user_ctx.name' property must be a non-empty string or null.".to_owned());
            }
        };
        let roles = match context.get("roles") {
            None | Some(Value::Null) => Some(Vec::new()),
            Some(Value::Array(roles)) => roles.iter().map(|role| role.as_str().map(str::to_owned)).collect(),
            Some(_) => None,
        };
        let roles = roles.ok_or("The `user_ctx.roles' property must be an array of strings.")?;
        Ok(Some(UserContext { name, roles }))
    }

    /// The name.
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Refuses what this caller may not give to a replication.
    pub(super) fn check(&self, caller: &Caller) -> Result<()> {
        if caller.is_server_admin() {
            return Ok(());
        }
        if self.name.is_some() && self.name.as_deref() != caller.http_name() {
            return Err(Error::forbidden("The given `user_ctx.name' is not valid"));
        }
        let own = caller.http_roles();
        match self.roles.iter().find(|role| !own.contains(role)) {
            Some(role) => Err(Error::forbidden(format!("Invalid role (`{role}') in the `user_ctx'"))),
            None => Ok(()),
        }
    }

    /// Who the replication of this owner is now.
    pub(crate) fn apply(&self, access: &Access, owner: Caller) -> Result<Caller> {
        let Caller::User(user) = &owner else { return Ok(owner) };
        // Without a name, functions of design documents see the owner's.
        let name = self.name.as_deref().unwrap_or(&user.http_name);
        if user.is_server_admin() {
            return Ok(Caller::User(access.external(name, &self.roles, None)?));
        }
        if name != user.http_name {
            return Ok(Caller::Anonymous);
        }
        let kept: Vec<String> =
            self.roles.iter().filter(|role| user.http_roles.contains(role)).cloned().collect();
        Ok(Caller::User(access.external(name, &kept, None)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parse_reads_names_and_roles() {
        let parse = |value: Value| UserContext::parse(json!({ "user_ctx": value }).as_object().unwrap());
        let full = parse(json!({ "name": "ada", "roles": ["staff"] })).unwrap().unwrap();
        assert_eq!((full.name(), full.roles.as_slice()), (Some("ada"), &["staff".to_owned()][..]));
        let empty = UserContext { name: None, roles: Vec::new() };
        assert_eq!(parse(json!({ "name": null })).unwrap(), Some(empty));
        assert_eq!(parse(json!(null)).unwrap(), None);
        for bad in [json!("ada"), json!([]), json!({ "name": "" }), json!({ "name": 1 })] {
            assert!(parse(bad.clone()).is_err(), "{bad}");
        }
        for bad in [json!("staff"), json!([1]), json!({})] {
            assert!(parse(json!({ "name": "ada", "roles": bad.clone() })).is_err(), "{bad}");
        }
    }
}

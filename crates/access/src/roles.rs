//! Roles that users define, in `admin.system.roles`, and the rights that follow from a list of roles.

use crate::builtin;
use crate::error::{Error, Result, codes};
use crate::privilege::{Privilege, merge};
use crate::restriction::Restriction;
use crate::user::{MAX_NAME_BYTES, RoleName};
use diwan_value::{Array, ArrayBuilder, Doc, DocBuf, DocBuilder, Value};
use std::collections::{BTreeMap, BTreeSet};

/// A role that a user has defined.
#[derive(Clone, Debug)]
pub struct Role {
    /// Its name.
    pub name: RoleName,
    /// The roles whose rights it has, too.
    pub roles: Vec<RoleName>,
    /// Its own rights.
    pub privileges: Vec<Privilege>,
    /// Addresses from which users with this role may sign in.
    pub restrictions: Vec<Restriction>,
}

impl Role {
    /// The `_id` of the role's document: `database.role`.
    pub fn document_id(name: &RoleName) -> String {
        format!("{}.{}", name.database, name.role)
    }

    /// Reads the document of a role.
    pub(crate) fn read(doc: Doc<'_>) -> Option<Role> {
        let name = RoleName::new(doc.get_str("role")?, doc.get_str("db")?);
        let list = |key| doc.get_array(key).into_iter().flat_map(Array::iter).filter_map(Value::as_doc);
        let roles = list("roles")
            .filter_map(|role| Some(RoleName::new(role.get_str("role")?, role.get_str("db")?)))
            .collect();
        Some(Role {
            name,
            roles,
            privileges: list("privileges").filter_map(|doc| Privilege::parse(doc).ok()).collect(),
            restrictions: Restriction::read_all(doc.get_array("authenticationRestrictions")),
        })
    }

    /// The role's document.
    pub(crate) fn write(&self) -> DocBuf {
        let mut doc = DocBuilder::new();
        doc.append("_id", Role::document_id(&self.name));
        doc.append("role", self.name.role.as_str()).append("db", self.name.database.as_str());
        let mut privileges = ArrayBuilder::new();
        for privilege in &self.privileges {
            privileges.push(privilege.to_doc());
        }
        let mut roles = ArrayBuilder::new();
        for role in &self.roles {
            roles.push(role.to_doc());
        }
        for (key, list) in [("privileges", privileges), ("roles", roles)] {
            let bytes = list.finish();
            doc.append(key, Value::Array(Array::trusted(&bytes)));
        }
        if !self.restrictions.is_empty() {
            let bytes = Restriction::to_array(&self.restrictions).finish();
            doc.append("authenticationRestrictions", Value::Array(Array::trusted(&bytes)));
        }
        doc.finish()
    }
}

/// Checks the name of a new role.
pub fn check_name(name: &RoleName) -> Result<()> {
    if name.role.is_empty() {
        return Err(Error::bad_value("Role name must be non-empty"));
    }
    if name.role.contains('\0') || name.role.len() > MAX_NAME_BYTES {
        let text = format!("a role's name has at most {MAX_NAME_BYTES} bytes and no NUL");
        return Err(Error::bad_value(text));
    }
    if builtin::is_builtin(name) {
        let text = format!("Cannot create roles with the same name as a built-in role: {name}");
        return Err(Error::bad_value(text));
    }
    Ok(())
}

/// All roles that users have defined, as of one version of the register.
#[derive(Default)]
pub struct Roles {
    pub(crate) defined: BTreeMap<RoleName, Role>,
}

impl Roles {
    /// The role that a user has defined.
    pub fn get(&self, name: &RoleName) -> Option<&Role> {
        self.defined.get(name)
    }

    /// The roles that users have defined in a database, sorted by name.
    pub fn of_database<'a>(&'a self, database: &'a str) -> impl Iterator<Item = &'a Role> {
        self.defined.values().filter(move |role| role.name.database == database)
    }

    /// All roles that users have defined.
    pub fn iter(&self) -> impl Iterator<Item = &Role> {
        self.defined.values()
    }

    /// Whether there is a role of this name, built in or defined.
    pub fn exists(&self, name: &RoleName) -> bool {
        builtin::is_builtin(name) || self.defined.contains_key(name)
    }

    /// The error for a role that does not exist.
    pub fn check(&self, name: &RoleName) -> Result<()> {
        if self.exists(name) {
            return Ok(());
        }
        Err(Error::refused(codes::ROLE_NOT_FOUND, format!("Could not find role: {name}")))
    }

    /// All roles that follow from these: the roles themselves and those they inherit, each once, in the order in which
    /// they are found.
    pub fn closure(&self, roles: &[RoleName]) -> Vec<RoleName> {
        let mut seen = BTreeSet::new();
        let mut all: Vec<RoleName> = Vec::new();
        let mut next: Vec<RoleName> = roles.iter().rev().cloned().collect();
        while let Some(role) = next.pop() {
            if !seen.insert(role.clone()) {
                continue;
            }
            if let Some(defined) = self.defined.get(&role) {
                next.extend(defined.roles.iter().rev().cloned());
            }
            all.push(role);
        }
        all
    }

    /// The rights of these roles and of those they inherit.
    pub fn privileges(&self, roles: &[RoleName]) -> Vec<Privilege> {
        let mut list = Vec::new();
        for role in self.closure(roles) {
            match builtin::privileges(&role) {
                Some(privileges) => merge(&mut list, privileges),
                None => {
                    if let Some(role) = self.defined.get(&role) {
                        merge(&mut list, role.privileges.iter().cloned());
                    }
                }
            }
        }
        list
    }

    /// The restrictions of these roles and of those they inherit.
    pub fn restrictions(&self, roles: &[RoleName]) -> Vec<Vec<Restriction>> {
        let defined = self.closure(roles).into_iter().filter_map(|role| self.defined.get(&role));
        defined.map(|role| role.restrictions.clone()).filter(|list| !list.is_empty()).collect()
    }

    /// Refuses roles that would inherit themselves.
    pub(crate) fn check_cycles(&self, name: &RoleName, inherited: &[RoleName]) -> Result<()> {
        match inherited.iter().find(|role| self.closure(std::slice::from_ref(role)).contains(name)) {
            None => Ok(()),
            Some(role) if role == name => Err(Error::refused(
                codes::INVALID_ROLE_MODIFICATION,
                format!("Cannot grant role {name} to itself."),
            )),
            Some(role) => Err(Error::refused(
                codes::INVALID_ROLE_MODIFICATION,
                format!("Granting {role} to {name} would introduce a cycle in the role graph."),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Action;
    use crate::resource::{Pattern, Resource};

    fn role(name: &str, inherits: &[RoleName], action: Action) -> Role {
        Role {
            name: RoleName::new(name, "admin"),
            roles: inherits.to_vec(),
            privileges: vec![Privilege::new(Pattern::database("shop"), action.into())],
            restrictions: Vec::new(),
        }
    }

    #[test]
    fn rights_are_inherited_and_cycles_are_refused() {
        let [a, b] = ["a", "b"].map(|name| RoleName::new(name, "admin"));
        let mut roles = Roles::default();
        roles.defined.insert(a.clone(), role("a", &[], Action::Find));
        roles.defined.insert(b.clone(), role("b", std::slice::from_ref(&a), Action::Insert));
        let shop = Resource::Collection("shop", "orders");
        let list = roles.privileges(std::slice::from_ref(&b));
        assert!(
            [Action::Find, Action::Insert]
                .iter()
                .all(|action| list.iter().any(|privilege| privilege.allows(*action, shop)))
        );
        assert!(roles.check_cycles(&a, std::slice::from_ref(&b)).is_err());
        assert!(roles.check_cycles(&a, std::slice::from_ref(&a)).is_err());
        assert!(roles.check_cycles(&b, &[a]).is_ok());
    }

    #[test]
    fn role_is_read_as_it_is_written() {
        let mut written = role("a", &[RoleName::new("read", "shop")], Action::Find);
        let stored = diwan_value::doc! { "list": [{ "clientSource": ["10.0.0.0/8"] }] };
        written.restrictions = Restriction::read_all(stored.as_doc().get_array("list"));
        let read = Role::read(written.write().as_doc()).unwrap();
        assert_eq!(
            (read.name, read.roles, read.privileges),
            (written.name, written.roles, written.privileges)
        );
        assert_eq!(read.restrictions, written.restrictions);
    }
}

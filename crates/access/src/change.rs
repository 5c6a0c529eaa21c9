//! Changes of users and roles.
//!
//! Two rules hold for all of them together: where there is a user, there is one who may administer users; and a role
//! never inherits itself.

use crate::access::Access;
use crate::action::Action;
use crate::error::{Error, Result, codes};
use crate::privilege::Privilege;
use crate::resource::{Pattern, Resource};
use crate::roles::{self, Role, Roles};
use crate::state;
use crate::user::{ADMIN, Credentials, RoleName, User, UserName, check_name};
use diwan_auth::{MAX_ITERATIONS, MIN_SCRAM_ITERATIONS, Mechanism, Pbkdf2Verifier, Prf, ScramVerifier};
use diwan_kv::CommitId;
use diwan_store::{Edit, WriteOptions, id_key};
use diwan_value::{Doc, Value};
use std::ops::ControlFlow;

/// A password as a command brings it.
pub enum Password<'a> {
    /// The password itself.
    Plain(&'a str),
    /// MongoDB's digest of name and password, enough for SCRAM-SHA-1 (`digestPassword: false`).
    Digest(&'a str),
}

/// The text that says how to go on where the last administrator would be lost.
const WAY_OUT: &str = "give another user the role root or userAdminAnyDatabase first";

/// Which names over HTTP new users may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpNames {
    /// Any: whoever makes the user may make users of all databases.
    Any,
    /// `name@database` only. The `_security` of every database grants rights to names, so an administrator of one
    /// database's users must not choose a name that another database knows.
    Qualified,
}

impl Access {
    /// Makes the SCRAM verifiers of a password. It waits for its turn to hash.
    pub fn scram_credentials(
        &self,
        user: &str,
        password: &Password<'_>,
        mechanisms: &[Mechanism],
    ) -> Result<Credentials> {
        let make = || {
            let mut credentials = Credentials::default();
            for mechanism in mechanisms {
                let made = match (password, mechanism) {
                    (Password::Plain(password), mechanism) => {
                        ScramVerifier::make(*mechanism, user, password, self.scram_iterations(*mechanism))
                    }
                    (Password::Digest(digest), Mechanism::ScramSha1) => {
                        ScramVerifier::make_from_digest(digest, self.scram_iterations(*mechanism))
                    }
                    (Password::Digest(_), Mechanism::ScramSha256) => {
                        return Err(Error::bad_value("Use of SCRAM-SHA-256 requires undigested passwords"));
                    }
                };
                let made = made.map_err(|error| Error::bad_value(error.to_string()))?;
                match mechanism {
                    Mechanism::ScramSha1 => credentials.scram_sha_1 = Some(made),
                    Mechanism::ScramSha256 => credentials.scram_sha_256 = Some(made),
                }
            }
            Ok(credentials)
        };
        self.hashing.run(make).map_err(|busy| Error::refused(codes::BUSY, busy.to_string()))?
    }

    /// The iterations of the SCRAM verifiers that are made from now on.
    pub fn scram_iterations(&self, mechanism: Mechanism) -> u32 {
        let default = u64::from(mechanism.default_iterations());
        let count = self.settings.number(MONGODB, iterations_key(mechanism), default);
        count.clamp(MIN_SCRAM_ITERATIONS.into(), MAX_ITERATIONS.into()) as u32
    }

    /// Sets the iterations of the SCRAM verifiers that are made from now on.
    pub fn set_scram_iterations(&self, mechanism: Mechanism, count: i64) -> Result<()> {
        let allowed = i64::from(MIN_SCRAM_ITERATIONS)..=i64::from(MAX_ITERATIONS);
        if !allowed.contains(&count) {
            return Err(Error::bad_value(format!(
                "{} must be between {MIN_SCRAM_ITERATIONS} and {MAX_ITERATIONS}",
                iterations_key(mechanism)
            )));
        }
        self.settings.set(MONGODB, iterations_key(mechanism), Some(&count.to_string()))?;
        Ok(())
    }

    /// Makes all verifiers of a password that comes over HTTP: CouchDB's, so that the document works on a CouchDB, and
    /// those of SCRAM.
    pub fn http_credentials(&self, user: &str, password: &str) -> Result<Credentials> {
        let both = [Mechanism::ScramSha1, Mechanism::ScramSha256];
        let mut credentials = self.scram_credentials(user, &Password::Plain(password), &both)?;
        let prf = self.settings.get("chttpd_auth", "pbkdf2_prf").and_then(|name| Prf::from_name(&name));
        let iterations = self.settings.number("chttpd_auth", "iterations", HTTP_ITERATIONS);
        let iterations = iterations.clamp(1, 10_000_000) as u32;
        let make = || Pbkdf2Verifier::make(password, prf.unwrap_or(Prf::Sha256), iterations);
        let made = self.hashing.run(make).map_err(|busy| Error::refused(codes::BUSY, busy.to_string()))?;
        credentials.pbkdf2 = Some(made.map_err(|error| Error::bad_value(error.to_string()))?);
        Ok(credentials)
    }

    /// Gives a user SCRAM verifiers who has shown his password over HTTP and has none. Does nothing if the document has
    /// changed since it was read.
    pub fn upgrade_credentials(&self, user: &User, password: &str) -> Result<()> {
        let both = [Mechanism::ScramSha1, Mechanism::ScramSha256];
        let made = self.scram_credentials(&user.name.user, &Password::Plain(password), &both)?;
        let _turn = self.begin_change();
        let fingerprint = user.credentials.fingerprint();
        self.edit_user(&user.http_name, |old| {
            Ok(old.filter(|old| old.credentials.fingerprint() == fingerprint).map(|mut old| {
                old.credentials.scram_sha_1 = made.scram_sha_1.clone();
                old.credentials.scram_sha_256 = made.scram_sha_256.clone();
                Change::Put(Box::new(old))
            }))
        })?;
        Ok(())
    }

    /// Adds a user. His HTTP name is his name, or `name@database` if another user has it already or `names` does not allow
    /// the short form.
    pub fn create_user(&self, mut user: User, names: HttpNames) -> Result<Option<CommitId>> {
        check_name(&user.name.user)?;
        let _turn = self.begin_change();
        let exists = || Error::refused(codes::USER_EXISTS, format!("User \"{}\" already exists", user.name));
        if self.user(&user.name)?.is_some() {
            return Err(exists());
        }
        user.http_name = user.name.user.clone();
        let is_free = names == HttpNames::Any && self.http_user(&user.http_name)?.is_none();
        if !is_free {
            user.http_name = user.name.to_string();
            if self.http_user(&user.http_name)?.is_some() {
                return Err(exists());
            }
        }
        self.check_administrators(&user.http_name, Some(&user))?;
        let http_name = user.http_name.clone();
        self.edit_user(&http_name, |_| Ok(Some(Change::Put(Box::new(user.clone())))))
    }

    /// Changes a user.
    pub fn update_user(
        &self,
        name: &UserName,
        change: impl FnOnce(&mut User) -> Result<()>,
    ) -> Result<Option<CommitId>> {
        let _turn = self.begin_change();
        let mut user = self.user(name)?.ok_or_else(|| user_not_found(name))?;
        change(&mut user)?;
        self.check_administrators(&user.http_name, Some(&user))?;
        let http_name = user.http_name.clone();
        self.edit_user(&http_name, |_| Ok(Some(Change::Put(Box::new(user.clone())))))
    }

    /// Removes a user.
    pub fn drop_user(&self, name: &UserName) -> Result<Option<CommitId>> {
        let _turn = self.begin_change();
        let user = self.user(name)?.ok_or_else(|| user_not_found(name))?;
        self.check_administrators(&user.http_name, None)?;
        self.edit_user(&user.http_name, |_| Ok(Some(Change::Delete)))
    }

    /// Removes a user even if nobody remains who may administer users. For `diwan user remove` on a stopped directory.
    pub fn drop_user_anyway(&self, name: &UserName) -> Result<Option<CommitId>> {
        let _turn = self.begin_change();
        let user = self.user(name)?.ok_or_else(|| user_not_found(name))?;
        self.edit_user(&user.http_name, |_| Ok(Some(Change::Delete)))
    }

    /// Removes all users of a database. Returns how many there were.
    pub fn drop_users_of(&self, database: &str) -> Result<(usize, Option<CommitId>)> {
        let _turn = self.begin_change();
        let (gone, left): (Vec<_>, Vec<_>) =
            self.all_users()?.into_iter().partition(|user| user.name.database == database);
        let roles = self.roles()?;
        if gone.iter().any(|user| administers(user, &roles))
            && !left.iter().any(|user| administers(user, &roles))
        {
            return Err(last_administrator());
        }
        let mut commit = None;
        for user in &gone {
            commit = commit.max(self.edit_user(&user.http_name, |_| Ok(Some(Change::Delete)))?);
        }
        Ok((gone.len(), commit))
    }

    /// Reads a user's document under its lock, and replaces or deletes it.
    fn edit_user(
        &self,
        http_name: &str,
        mut change: impl FnMut(Option<User>) -> Result<Option<Change>>,
    ) -> Result<Option<CommitId>> {
        let collection = self.store.collection_or_create(&self.users)?;
        // Followers of `_users` see each change, and replicators its history.
        collection.keep_history()?;
        let id = format!("{}{http_name}", crate::user::ID_PREFIX);
        let mut refused = None;
        let written =
            collection.edit(&[id_key(Value::String(&id))?], WriteOptions::default(), |_, record| {
                let old = record.map(|record| record.doc);
                Ok(match change(old.and_then(User::read)) {
                    Ok(Some(Change::Put(user))) => Edit::Put(user.write(old)),
                    Ok(Some(Change::Delete)) if old.is_some() => Edit::Delete,
                    Ok(_) => Edit::Keep,
                    Err(error) => {
                        refused = Some(error);
                        Edit::Keep
                    }
                })
            })?;
        match refused {
            Some(error) => Err(error),
            None => Ok(written.commit),
        }
    }

    /// Refuses a change after which there would be users but nobody who may administer them. `new` is the user after
    /// the change. The caller holds the guard of [`Access::begin_change`].
    pub fn check_administrators(&self, http_name: &str, new: Option<&User>) -> Result<()> {
        let roles = self.roles()?;
        if new.is_some_and(|user| administers(user, &roles)) {
            return Ok(());
        }
        let (mut others, mut is_administered, mut administered) = (false, false, false);
        self.visit_users(|user| {
            if user.http_name == http_name {
                administered = administers(&user, &roles);
                return ControlFlow::Continue(());
            }
            others = true;
            is_administered |= administers(&user, &roles);
            if is_administered { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        match new {
            _ if is_administered => Ok(()),
            // Without this rule the first user would lock everybody out.
            Some(_) if !others && !administered => Err(Error::refused(
                codes::UNAUTHORIZED,
                "The first user must be able to administer users: make one with the role root in the database admin, \
                 for example with `diwan user add NAME --role root`",
            )),
            _ if administered => Err(last_administrator()),
            // Nobody could administer users before, either: a replication or an older server made them.
            _ => Ok(()),
        }
    }

    /// Adds a role.
    pub fn create_role(&self, role: Role) -> Result<Option<CommitId>> {
        roles::check_name(&role.name)?;
        let _turn = self.begin_change();
        let known = self.roles()?;
        if known.get(&role.name).is_some() {
            let text = format!("Role \"{}\" already exists", role.name);
            return Err(Error::refused(codes::ROLE_EXISTS, text));
        }
        check_role(&known, &role)?;
        self.put_role(&role)
    }

    /// Changes a role.
    pub fn update_role(
        &self,
        name: &RoleName,
        change: impl FnOnce(&mut Role) -> Result<()>,
    ) -> Result<Option<CommitId>> {
        let _turn = self.begin_change();
        let known = self.roles()?;
        let mut role = self.defined_role(&known, name)?;
        change(&mut role)?;
        check_role(&known, &role)?;
        let mut after = Roles { defined: known.defined.clone() };
        after.defined.insert(name.clone(), role.clone());
        self.check_administrators_with(&after)?;
        self.put_role(&role)
    }

    /// Removes a role, from all users and roles that have it, too.
    pub fn drop_role(&self, name: &RoleName) -> Result<Option<CommitId>> {
        let _turn = self.begin_change();
        let known = self.roles()?;
        self.defined_role(&known, name)?;
        self.drop_roles(&known, std::slice::from_ref(name))
    }

    /// Removes all roles of a database. Returns how many there were.
    pub fn drop_roles_of(&self, database: &str) -> Result<(usize, Option<CommitId>)> {
        let _turn = self.begin_change();
        let known = self.roles()?;
        let names: Vec<RoleName> = known.of_database(database).map(|role| role.name.clone()).collect();
        Ok((names.len(), self.drop_roles(&known, &names)?))
    }

    fn defined_role(&self, known: &Roles, name: &RoleName) -> Result<Role> {
        if crate::builtin::is_builtin(name) {
            let text = format!("{name} is a built-in role and cannot be modified.");
            return Err(Error::refused(codes::INVALID_ROLE_MODIFICATION, text));
        }
        let role = known.get(name).cloned();
        role.ok_or_else(|| Error::refused(codes::ROLE_NOT_FOUND, format!("Role {name} not found")))
    }

    fn drop_roles(&self, known: &Roles, names: &[RoleName]) -> Result<Option<CommitId>> {
        let mut after = Roles { defined: known.defined.clone() };
        after.defined.retain(|name, _| !names.contains(name));
        self.check_administrators_with(&after)?;
        let mut commit = None;
        for user in self.all_users()? {
            if user.roles.iter().any(|role| names.contains(role)) {
                let change = |old: Option<User>| {
                    Ok(old.map(|mut user| {
                        user.roles.retain(|role| !names.contains(role));
                        user.free_roles.retain(|role| !names.contains(&RoleName::new(role, ADMIN)));
                        Change::Put(Box::new(user))
                    }))
                };
                commit = commit.max(self.edit_user(&user.http_name, change)?);
            }
        }
        for role in known.iter().filter(|role| !names.contains(&role.name)) {
            if role.roles.iter().any(|inherited| names.contains(inherited)) {
                let mut role = role.clone();
                role.roles.retain(|inherited| !names.contains(inherited));
                commit = commit.max(self.put_role(&role)?);
            }
        }
        let collection = self.store.collection_or_create(&self.roles)?;
        for name in names {
            let id = Role::document_id(name);
            let ids = [id_key(Value::String(&id))?];
            commit =
                commit.max(collection.edit(&ids, WriteOptions::default(), |_, _| Ok(Edit::Delete))?.commit);
        }
        Ok(commit)
    }

    fn put_role(&self, role: &Role) -> Result<Option<CommitId>> {
        let collection = self.store.collection_or_create(&self.roles)?;
        let id = Role::document_id(&role.name);
        let ids = [id_key(Value::String(&id))?];
        let written = collection.edit(&ids, WriteOptions::default(), |_, _| Ok(Edit::Put(role.write())))?;
        Ok(written.commit)
    }

    /// Refuses a change of roles after which nobody may administer users.
    fn check_administrators_with(&self, after: &Roles) -> Result<()> {
        let before = self.roles()?;
        let (mut was, mut is) = (false, false);
        self.visit_users(|user| {
            was |= administers(&user, &before);
            is |= administers(&user, after);
            if is { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if was && !is { Err(last_administrator()) } else { Ok(()) }
    }

    /// Checks an edit of a document in `_users` that comes over HTTP: against the rules over all users. The caller holds
    /// the guard of [`Access::begin_change`]. `new` is `None` for a deletion.
    pub fn check_edit(&self, http_name: &str, new: Option<Doc<'_>>) -> Result<()> {
        let new = new.and_then(User::read);
        if let Some(user) = &new {
            check_name(&user.http_name)?;
            check_name(&user.name.user)?;
            // Another document may hold this name for MongoDB's clients.
            if let Some(other) = self.user(&user.name)?
                && other.http_name != user.http_name
            {
                let text = format!("User \"{}\" already exists", user.name);
                return Err(Error::refused(codes::USER_EXISTS, text));
            }
        }
        self.check_administrators(http_name, new.as_ref())
    }

    /// Whether anybody of the register may administer users.
    pub fn has_administrator(&self) -> Result<bool> {
        let roles = self.roles()?;
        let mut found = false;
        if state::of(&self.store, &self.users).is_some() {
            self.visit_users(|user| {
                found = administers(&user, &roles);
                if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
        Ok(found)
    }
}

/// The change of a user's document.
enum Change {
    Put(Box<User>),
    Delete,
}

/// The section of settings that MongoDB's parameters name.
const MONGODB: &str = "mongodb";

fn iterations_key(mechanism: Mechanism) -> &'static str {
    match mechanism {
        Mechanism::ScramSha1 => "scramIterationCount",
        Mechanism::ScramSha256 => "scramSHA256IterationCount",
    }
}

/// The iterations of CouchDB's verifiers, unless the setting says otherwise.
const HTTP_ITERATIONS: u64 = 600_000;

/// Whether a user may give roles in the database `admin`, and so make administrators.
pub fn administers(user: &User, roles: &Roles) -> bool {
    let can_sign_in = !user.credentials.is_empty() || user.name.database == "$external";
    let on_admin = Resource::Database(ADMIN);
    can_sign_in
        && roles
            .privileges(&user.roles)
            .iter()
            .any(|privilege: &Privilege| privilege.allows(Action::GrantRole, on_admin))
}

fn last_administrator() -> Error {
    Error::refused(
        codes::UNAUTHORIZED,
        format!("This would leave nobody who may administer users: {WAY_OUT}"),
    )
}

/// The error for a user who does not exist.
pub fn user_not_found(name: &UserName) -> Error {
    Error::refused(codes::USER_NOT_FOUND, format!("User '{name}' not found"))
}

/// Checks the parts of a role: it inherits roles that exist, not itself, and a role of a database other than `admin`
/// has rights on that database alone.
fn check_role(known: &Roles, role: &Role) -> Result<()> {
    for inherited in &role.roles {
        known.check(inherited)?;
        if role.name.database != ADMIN && inherited.database != role.name.database {
            let text = format!(
                "Roles on the '{}' database cannot be granted roles from other databases",
                role.name.database
            );
            return Err(Error::refused(codes::INVALID_ROLE_MODIFICATION, text));
        }
    }
    known.check_cycles(&role.name, &role.roles)?;
    if role.name.database == ADMIN {
        return Ok(());
    }
    for privilege in &role.privileges {
        let is_own = matches!(
            &privilege.pattern,
            Pattern::Names { database: Some(database), .. } if *database == role.name.database
        );
        if !is_own {
            let text = format!(
                "Roles on the '{}' database cannot be granted privileges that target other databases or the cluster",
                role.name.database
            );
            return Err(Error::refused(codes::INVALID_ROLE_MODIFICATION, text));
        }
    }
    Ok(())
}

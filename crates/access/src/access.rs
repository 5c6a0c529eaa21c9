//! The register: finding users and roles, and deciding what a caller may do.
//!
//! Nothing is told when a user changes. What is known of a user or of the roles is valid for a state of the collections
//! behind the register; a request with an older state reads again. So a change holds for open connections, whichever
//! server or face made it.

use crate::action::Action;
use crate::audit::Audit;
use crate::error::{Error, Result, codes};
use crate::principal::{Caller, Principal, SERVER_ADMIN, Version, described, is_root};
use crate::resource::{Resource, USERS, is_system};
use crate::roles::{Role, Roles};
use crate::security;
use crate::settings::Settings;
use crate::state::{self, State};
use crate::user::{ADMIN, ID_PREFIX, RoleName, User, UserName};
use diwan_auth::{Attempts, Busy, HashingPool, Verdicts};
use diwan_kv::{Direction, KeyRange};
use diwan_store::{Collection, Namespace, Store, id_key};
use diwan_value::Value;
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::net::IpAddr;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The register of users and roles over a store.
pub struct Access {
    pub(crate) store: Arc<Store>,
    pub(crate) users: Namespace,
    pub(crate) roles: Namespace,
    /// The settings that clients can change.
    pub settings: Settings,
    /// The audit log.
    pub audit: Audit,
    /// Slows sign-ins after failures.
    pub attempts: Attempts,
    /// Limits how many passwords are hashed at once.
    pub hashing: HashingPool,
    verdicts: Verdicts,
    /// The defined roles as of a state of their collection.
    known_roles: RwLock<(State, Arc<Roles>)>,
    /// Whether there are users, as of a state of their collection.
    has_users: RwLock<(State, bool)>,
    /// Held by every change of users and roles, so that rules over all of them hold.
    writing: Mutex<()>,
}

impl Access {
    /// The register in the store.
    pub fn open(store: Arc<Store>, settings: Settings, audit: Audit) -> Result<Arc<Access>> {
        let access = Access {
            users: Namespace::new(ADMIN, USERS)?,
            roles: Namespace::new(ADMIN, "system.roles")?,
            store,
            settings,
            audit,
            attempts: Attempts::new(),
            hashing: HashingPool::new(),
            verdicts: Verdicts::new(),
            known_roles: RwLock::new((State::default(), Arc::new(Roles::default()))),
            has_users: RwLock::new((State::default(), false)),
            writing: Mutex::new(()),
        };
        Ok(Arc::new(access))
    }

    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The collection of the users' documents.
    pub fn users_namespace(&self) -> &Namespace {
        &self.users
    }

    /// Excludes other changes of users and roles while the guard lives.
    pub fn begin_change(&self) -> MutexGuard<'_, ()> {
        self.writing.lock()
    }

    /// Whether there is no user, so that nobody has to sign in.
    pub fn is_open(&self) -> Result<bool> {
        let state = state::of(&self.store, &self.users);
        if state.is_none() {
            return Ok(true);
        }
        {
            let known = self.has_users.read();
            if known.0 == state {
                return Ok(!known.1);
            }
        }
        let mut has_users = false;
        self.visit_users(|_| {
            has_users = true;
            ControlFlow::Break(())
        })?;
        *self.has_users.write() = (state, has_users);
        Ok(!has_users)
    }

    /// Passes all users to `show`, in the order of their HTTP names, until it breaks.
    pub fn visit_users(&self, mut show: impl FnMut(User) -> ControlFlow<()>) -> Result<()> {
        let Some(collection) = state::collection(&self.store, &self.users) else { return Ok(()) };
        let first = id_key(Value::String(ID_PREFIX))?;
        let range = KeyRange::new(Bound::Included(first.into()), Bound::Unbounded);
        collection.view().documents(&range, Direction::Forward, &mut |_, record| {
            if !record.doc.get_str("_id").is_some_and(|id| id.starts_with(ID_PREFIX)) {
                return ControlFlow::Break(());
            }
            User::read(record.doc).map_or(ControlFlow::Continue(()), &mut show)
        })?;
        Ok(())
    }

    /// All users, in the order of their HTTP names.
    pub fn all_users(&self) -> Result<Vec<User>> {
        let mut users = Vec::new();
        self.visit_users(|user| {
            users.push(user);
            ControlFlow::Continue(())
        })?;
        Ok(users)
    }

    /// The user with this name for MongoDB's clients.
    pub fn user(&self, name: &UserName) -> Result<Option<User>> {
        let Some(collection) = state::collection(&self.store, &self.users) else { return Ok(None) };
        for http_name in [name.user.clone(), name.to_string()] {
            let user = read_user(&collection, &http_name)?;
            if let Some(user) = user.filter(|user| user.name == *name) {
                return Ok(Some(user));
            }
        }
        Ok(None)
    }

    /// The user with this name over HTTP.
    pub fn http_user(&self, http_name: &str) -> Result<Option<User>> {
        match state::collection(&self.store, &self.users) {
            Some(collection) => read_user(&collection, http_name),
            None => Ok(None),
        }
    }

    /// The roles that users have defined.
    pub fn roles(&self) -> Result<Arc<Roles>> {
        let state = state::of(&self.store, &self.roles);
        {
            let known = self.known_roles.read();
            if known.0 == state {
                return Ok(known.1.clone());
            }
        }
        let mut roles = Roles::default();
        state::visit(&self.store, &self.roles, |doc| {
            if let Some(role) = Role::read(doc) {
                roles.defined.insert(role.name.clone(), role);
            }
        })?;
        let roles = Arc::new(roles);
        *self.known_roles.write() = (state, roles.clone());
        Ok(roles)
    }

    fn version(&self) -> Version {
        Version { users: state::of(&self.store, &self.users), roles: state::of(&self.store, &self.roles) }
    }

    /// The rights of a user who has signed in, as of now. If the user has changed since he was read, the roles are those
    /// of today.
    pub fn principal(&self, user: &User) -> Result<Arc<Principal>> {
        // The version is taken first: what is read later is never older than it.
        let version = self.version();
        match self.user(&user.name)?.filter(|current| current.id == user.id) {
            Some(current) => self.principal_as_of(&current, Some(version)),
            // The user is gone: no register with users has this version, so the next request is nobody's.
            None => self.principal_as_of(user, Some(Version::default())),
        }
    }

    fn principal_as_of(&self, user: &User, version: Option<Version>) -> Result<Arc<Principal>> {
        let roles = self.roles()?;
        let is_admin = roles.closure(&user.roles).iter().any(is_root);
        Ok(Arc::new(Principal {
            name: user.name.clone(),
            http_name: user.http_name.clone(),
            http_roles: http_roles(&user.free_roles, is_admin),
            described_roles: described(&user.roles),
            roles: user.roles.clone(),
            privileges: roles.privileges(&user.roles),
            id: user.id,
            fingerprint: user.credentials.fingerprint(),
            version,
            expires: None,
        }))
    }

    /// The rights of somebody whom a token or a proxy names, with CouchDB's role names. `_admin` is one of them if he is
    /// an administrator of the server. `expires` is when the token ends, in seconds since 1970.
    pub fn external(
        &self,
        http_name: &str,
        role_names: &[String],
        expires: Option<u64>,
    ) -> Result<Arc<Principal>> {
        let is_admin = role_names.iter().any(|role| role == SERVER_ADMIN);
        let mut roles: Vec<RoleName> = role_names
            .iter()
            .filter(|role| !role.starts_with('_'))
            .map(|role| RoleName::new(role, ADMIN))
            .filter(RoleName::is_free)
            .collect();
        if is_admin {
            roles.push(RoleName::new("root", ADMIN));
        }
        Ok(Arc::new(Principal {
            name: UserName::new(http_name, ADMIN),
            http_name: http_name.to_owned(),
            http_roles: role_names.to_vec(),
            privileges: self.roles()?.privileges(&roles),
            described_roles: described(&roles),
            roles,
            id: None,
            fingerprint: Vec::new(),
            version: None,
            expires,
        }))
    }

    /// The caller as of now: with the rights of today, anonymous if the user is gone, everybody if there is no user.
    pub fn renew(&self, caller: &Caller) -> Result<Caller> {
        if self.is_open()? {
            return Ok(Caller::Everybody);
        }
        let Caller::User(principal) = caller else { return Ok(Caller::Anonymous) };
        let version = self.version();
        match principal.version {
            None if principal.expires.is_some_and(|end| end <= seconds_since_1970()) => {
                return Ok(Caller::Anonymous);
            }
            None => {
                let Principal { http_name, http_roles, expires, .. } = &**principal;
                return Ok(Caller::User(self.external(http_name, http_roles, *expires)?));
            }
            Some(known) if known == version => return Ok(caller.clone()),
            Some(_) => {}
        }
        let user = self.user(&principal.name)?.filter(|user| user.id == principal.id);
        match user {
            Some(user) => Ok(Caller::User(self.principal_as_of(&user, Some(version))?)),
            None => Ok(Caller::Anonymous),
        }
    }

    /// Whether a caller may do this: by a privilege of his roles, or by the `_security` of the collection.
    pub fn allows(&self, caller: &Caller, action: Action, resource: Resource<'_>) -> bool {
        match caller {
            Caller::Everybody => true,
            Caller::Anonymous => {
                !self.needs_valid_user() && self.security_allows(None, &[], action, resource)
            }
            Caller::User(user) => {
                user.has_privilege(action, resource)
                    || self.security_allows(Some(&user.http_name), &user.http_roles, action, resource)
            }
        }
    }

    /// Whether a caller may do anything at all with this, so that listings of his own show it.
    pub fn allows_something(&self, caller: &Caller, resource: Resource<'_>) -> bool {
        let has_privilege = match caller {
            Caller::Everybody => true,
            Caller::Anonymous => false,
            Caller::User(user) => user
                .privileges
                .iter()
                .any(|privilege| !privilege.actions.is_empty() && privilege.pattern.covers(resource)),
        };
        // Whoever has a standing by `_security` may read.
        has_privilege || self.allows(caller, Action::Find, resource)
    }

    /// Whether `_security` allows an action on a collection to a user with this HTTP name and these role names.
    fn security_allows(
        &self,
        name: Option<&str>,
        roles: &[String],
        action: Action,
        resource: Resource<'_>,
    ) -> bool {
        let Resource::Collection(database, collection) = resource else { return false };
        // Documents of replications hold passwords. The HTTP face alone shows each user his own.
        if is_system(database, collection) || !security::ADMIN.has(action) {
            return false;
        }
        let Ok(namespace) = Namespace::new(database, collection) else { return false };
        state::collection(&self.store, &namespace)
            .is_some_and(|collection| security::allows(&collection, name, roles, action))
    }

    /// Whether `_security` alone gives the caller a standing in some collection of a database, so that listings show it.
    pub fn standing(&self, caller: &Caller, collection: &Collection) -> security::Standing {
        security::standing(collection, caller.http_name(), &caller.http_roles())
    }

    /// Whether every request must come from a user who has signed in. False opens databases whose `_security` names no
    /// members to everybody, as CouchDB's default does.
    pub fn needs_valid_user(&self) -> bool {
        self.settings.flag("chttpd", "require_valid_user", true)
    }

    /// Checks a plain password. The hash is computed at most once in ten minutes for each user and password; otherwise
    /// it waits for its turn.
    pub fn check_password(&self, user: &User, password: &str) -> std::result::Result<bool, Busy> {
        let fingerprint = user.credentials.fingerprint();
        let id = user.document_id();
        if self.verdicts.knows(&id, &fingerprint, password) {
            return Ok(true);
        }
        let fits = self.hashing.run(|| user.credentials.check(&user.name.user, password))?;
        if fits {
            self.verdicts.remember(&id, &fingerprint, password);
        }
        Ok(fits)
    }

    /// Whether this password was found right a short while ago, so that [`Access::check_password`] takes no time.
    pub fn knows_password(&self, user: &User, password: &str) -> bool {
        self.verdicts.knows(&user.document_id(), &user.credentials.fingerprint(), password)
    }

    /// Remembers that a password was right for a user whose verifiers have changed since.
    pub fn remember_password(&self, user: &User, password: &str) {
        self.verdicts.remember(&user.document_id(), &user.credentials.fingerprint(), password);
    }

    /// Whether a user may sign in from this address over a connection to `server`.
    pub fn may_sign_in_from(&self, user: &User, client: IpAddr, server: IpAddr) -> Result<bool> {
        let allowed = |list: &[crate::restriction::Restriction]| {
            list.is_empty() || list.iter().any(|restriction| restriction.allows(client, server))
        };
        let by_roles = self.roles()?.restrictions(&user.roles);
        Ok(allowed(&user.restrictions) && by_roles.iter().all(|list| allowed(list)))
    }

    /// The error for a failed sign-in. It does not tell which part was wrong.
    pub fn sign_in_failed() -> Error {
        Error::refused(codes::AUTHENTICATION_FAILED, "Authentication failed.")
    }
}

fn read_user(collection: &Arc<Collection>, http_name: &str) -> Result<Option<User>> {
    let id = format!("{ID_PREFIX}{http_name}");
    let stored = collection.view().get(&id_key(Value::String(&id))?)?;
    Ok(stored.and_then(|stored| User::read(stored.doc())))
}

/// CouchDB's role names of a user. Of those with an underscore, a document may give the one for statistics alone.
fn http_roles(free: &[String], is_admin: bool) -> Vec<String> {
    let is_shown = |role: &&String| !role.starts_with('_') || *role == "_metrics";
    let mut roles: Vec<String> = free.iter().filter(is_shown).cloned().collect();
    if is_admin {
        roles.insert(0, SERVER_ADMIN.to_owned());
    }
    roles
}

impl Access {
    /// The register with default settings and without an audit log.
    pub fn with_defaults(store: Arc<Store>) -> Result<Arc<Access>> {
        let settings = Settings::open(store.clone(), Default::default(), Default::default())?;
        Access::open(store, settings, Audit::default())
    }
}

fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

//! Who makes a request, and what he may do.

use crate::action::Action;
use crate::privilege::Privilege;
use crate::resource::Resource;
use crate::user::{ADMIN, RoleName, UserName};
use diwan_value::{Array, ArrayBuilder, Value, ValueBuf, doc};
use std::sync::Arc;

/// CouchDB's role of a server administrator.
pub const SERVER_ADMIN: &str = "_admin";

/// A user who has signed in, with the rights as of one version of the register.
pub struct Principal {
    /// The name for MongoDB's clients.
    pub name: UserName,
    /// The name over HTTP.
    pub http_name: String,
    /// CouchDB's role names, with `_admin` for an administrator of the server.
    pub http_roles: Vec<String>,
    /// The roles that the user has directly.
    pub roles: Vec<RoleName>,
    /// The roles as `{_id: …, role: …, db: …}`, the value of `$$USER_ROLES`.
    pub described_roles: Arc<ValueBuf>,
    /// The rights of all roles, each pattern of resources once.
    pub privileges: Vec<Privilege>,
    /// The UUID of the user, who may have been dropped and created again meanwhile.
    pub(crate) id: Option<[u8; 16]>,
    /// The fingerprint of the password: a session ends when the password changes.
    pub fingerprint: Vec<u8>,
    /// The version of the register. `None` for a user whom a token or a proxy names: the register does not know him.
    pub(crate) version: Option<Version>,
    /// When a token ends that names the user, in seconds since 1970.
    pub(crate) expires: Option<u64>,
}

/// The states of the collections behind the register: their UUIDs and last sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) users: Option<([u8; 16], u64)>,
    pub(crate) roles: Option<([u8; 16], u64)>,
}

impl Principal {
    /// Whether a privilege of the user's roles allows the action on the resource. `_security` may allow it beside that:
    /// see [`crate::Access::allows`].
    pub fn has_privilege(&self, action: Action, resource: Resource<'_>) -> bool {
        self.privileges.iter().any(|privilege| privilege.allows(action, resource))
    }

    /// Whether the user is an administrator of the server, like one of CouchDB's: the role `root` of `admin`.
    pub fn is_server_admin(&self) -> bool {
        self.http_roles.iter().any(|role| role == SERVER_ADMIN)
    }
}

/// The value of `$$USER_ROLES`.
pub(crate) fn described(roles: &[RoleName]) -> Arc<ValueBuf> {
    let mut list = ArrayBuilder::new();
    for role in roles {
        let id = format!("{}.{}", role.database, role.role);
        list.push(doc! { "_id": id, "role": role.role.as_str(), "db": role.database.as_str() });
    }
    let bytes = list.finish();
    Arc::new(ValueBuf::new(Value::Array(Array::trusted(&bytes))))
}

/// Whether a role makes its owner an administrator of the server.
pub(crate) fn is_root(role: &RoleName) -> bool {
    role.database == ADMIN && role.role == "root"
}

/// Whose something is; `None` if it was made by somebody who had not signed in, on a server without users.
pub type Owner = Option<UserName>;

/// Who makes a request.
#[derive(Clone)]
pub enum Caller {
    /// Anybody, on a server without users: everything is allowed.
    Everybody,
    /// Somebody who has not signed in, on a server with users.
    Anonymous,
    /// A user who has signed in.
    User(Arc<Principal>),
}

impl Caller {
    /// The user, if the caller has signed in.
    pub fn principal(&self) -> Option<&Arc<Principal>> {
        match self {
            Caller::User(principal) => Some(principal),
            Caller::Everybody | Caller::Anonymous => None,
        }
    }

    /// The name over HTTP, if the caller has signed in.
    pub fn http_name(&self) -> Option<&str> {
        self.principal().map(|principal| principal.http_name.as_str())
    }

    /// CouchDB's role names: `_admin` for everybody on a server without users.
    pub fn http_roles(&self) -> Vec<String> {
        match self {
            Caller::Everybody => vec![SERVER_ADMIN.to_owned()],
            Caller::Anonymous => Vec::new(),
            Caller::User(principal) => principal.http_roles.clone(),
        }
    }

    /// Whether the caller is an administrator of the server.
    pub fn is_server_admin(&self) -> bool {
        match self {
            Caller::Everybody => true,
            Caller::Anonymous => false,
            Caller::User(principal) => principal.is_server_admin(),
        }
    }

    /// The owner of what the caller makes: cursors, sessions and operations belong to their user.
    pub fn owner(&self) -> Owner {
        self.principal().map(|principal| principal.name.clone())
    }

    /// Whether something with this owner is the caller's.
    pub fn owns(&self, owner: &Owner) -> bool {
        self.principal().map(|principal| &principal.name) == owner.as_ref()
    }
}

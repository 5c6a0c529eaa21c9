//! The register of users and roles, below both faces: who a user is, what checks his password, and what he may do.
//!
//! Users are documents of `admin._users`, which is CouchDB's database `_users`; roles are documents of
//! `admin.system.roles`. A user made by either face signs in through both. Rights come from two sources that are one:
//! the privileges of a user's roles, as in MongoDB, and the `_security` of a collection, as in CouchDB.
//! [`Access::allows`] asks both, and is the only place that decides.
//!
//! Reading order: [`Action`] and [`Resource`]; [`Privilege`]; the built-in roles ([`builtin`]) and those that users
//! define ([`Roles`]); [`User`]; [`Principal`] and [`Caller`], which requests carry; [`Access`], which finds and decides,
//! and its changes (`change`). [`Settings`] and [`Audit`] stand beside them.

mod access;
mod action;
mod audit;
pub mod builtin;
mod change;
mod error;
mod principal;
mod privilege;
mod resource;
mod restriction;
mod roles;
pub mod security;
mod settings;
mod state;
#[cfg(test)]
mod tests;
mod user;

pub use access::Access;
pub use action::{Action, ActionSet};
pub use audit::Audit;
pub use change::{HttpNames, Password, administers, user_not_found};
pub use error::{Error, Result, codes};
pub use principal::{Caller, Owner, Principal, SERVER_ADMIN};
pub use privilege::{Privilege, includes, merge};
pub use resource::{Pattern, REPLICATIONS, Resource, USERS, is_register, is_system};
pub use restriction::Restriction;
pub use roles::{Role, Roles};
pub use settings::{Fixed, Sections, Settings};
pub use user::{ADMIN, Credentials, ID_PREFIX, RoleName, User, UserName, check_name, scram_doc};

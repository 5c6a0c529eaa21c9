//! Role management commands.

pub(crate) mod create_role;
pub(crate) mod drop_all_roles_from_database;
pub(crate) mod drop_role;
pub(crate) mod grant_privileges_to_role;
pub(crate) mod grant_roles_to_role;
pub(crate) mod revoke_privileges_from_role;
pub(crate) mod revoke_roles_from_role;
pub(crate) mod roles_info;
pub(crate) mod update_role;

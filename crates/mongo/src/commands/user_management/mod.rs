//! User management commands.

pub(crate) mod create_user;
pub(crate) mod drop_all_users_from_database;
pub(crate) mod drop_user;
pub(crate) mod grant_roles_to_user;
pub(crate) mod invalidate_user_cache;
pub(crate) mod password;
pub(crate) mod revoke_roles_from_user;
pub(crate) mod update_user;
pub(crate) mod users_info;

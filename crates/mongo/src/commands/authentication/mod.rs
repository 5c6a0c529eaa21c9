//! Authentication, users and roles. There are no users, so logins fail, and only the built-in roles exist.

pub(crate) mod roles_info;
pub(crate) mod sasl_start;
pub(crate) mod users_info;

//! Authentication commands.

pub(crate) mod authenticate;
pub(crate) mod logout;
pub(crate) mod sasl_continue;
pub(crate) mod sasl_start;

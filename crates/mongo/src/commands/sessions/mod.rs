//! Session and transaction commands.

pub(crate) mod end_sessions;
pub(crate) mod end_transaction;
pub(crate) mod kill_all_sessions;
pub(crate) mod kill_sessions;
pub(crate) mod refresh_sessions;
pub(crate) mod start_session;

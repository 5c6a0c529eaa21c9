//! The commands: one table, one row a name, one file a command.
//!
//! A row of [`missing`] is a command of MongoDB that this server knows and does not have: it answers
//! `NotImplemented`. A name without a row answers `CommandNotFound`.

mod aggregate;
mod build_info;
mod bulk_write;
mod coll_mod;
mod coll_stats;
mod compact;
mod connection_status;
mod convert_to_capped;
mod count;
mod create;
mod create_indexes;
mod current_op;
mod cursor_reply;
mod data_size;
mod db_hash;
mod db_stats;
mod delete;
mod distinct;
mod drop;
mod drop_database;
mod drop_indexes;
mod end_sessions;
mod end_transaction;
mod explain;
mod file_md5;
mod find;
mod find_and_modify;
mod fsync;
mod get_cmd_line_opts;
mod get_default_rw_concern;
mod get_log;
mod get_more;
mod get_parameter;
mod hello;
mod host_info;
mod insert;
mod kill_all_sessions;
mod kill_cursors;
mod kill_op;
mod kill_sessions;
mod list_collections;
mod list_commands;
mod list_databases;
mod list_indexes;
mod ping;
mod profile;
mod refresh_sessions;
mod rename_collection;
mod repl_set_get_config;
mod repl_set_get_status;
mod roles_info;
mod sasl_start;
mod server_status;
mod set_default_rw_concern;
mod set_parameter;
mod start_session;
mod top;
mod update;
mod users_info;
mod validate;
mod whatsmyuri;
mod write;

use crate::dispatch::{self, Context};
use crate::error::{CommandError, Result};
use crate::metrics::{Class, Kind};
use crate::request::Request;
use diwan_value::{Doc, DocBuilder};

/// What runs a command: it appends the fields of its reply. The dispatcher adds `ok` and what all replies have.
type Handler = fn(&mut Context<'_>, &mut DocBuilder) -> Result<()>;

/// Only on the database `admin`.
const ADMIN: u16 = 1;
/// May take long: is listed by `currentOp`.
const LONG: u16 = 1 << 1;
/// Changes data.
const WRITE: u16 = 1 << 2;
/// Reads documents.
const READ: u16 = 1 << 3;
/// Part of the stable API, version 1.
const API: u16 = 1 << 4;
/// May carry a transaction number outside of a transaction.
const RETRY: u16 = 1 << 5;
/// Never compressed, in either direction.
const PLAIN: u16 = 1 << 6;
/// Commits or aborts a transaction.
const END: u16 = 1 << 7;
/// Looks documents up: takes long unless it names them by `_id`.
const LOOKUP: u16 = 1 << 9;
/// Takes long if it is long.
const BULK: u16 = 1 << 10;
/// Known, and answered with `NotImplemented`.
const MISSING: u16 = 1 << 8;

/// A row of the table.
pub(crate) struct Command {
    /// The name, as MongoDB spells it.
    pub name: &'static str,
    pub run: Handler,
    /// What `opcounters` counts it as.
    pub kind: Kind,
    flags: u16,
}

impl Command {
    pub(crate) fn is_admin_only(&self) -> bool {
        self.flags & ADMIN != 0
    }

    pub(crate) fn is_long(&self) -> bool {
        self.flags & LONG != 0
    }

    /// Whether it depends on the request how long the command takes.
    pub(crate) fn looks_up(&self) -> bool {
        self.flags & LOOKUP != 0
    }

    /// Whether the command takes long if its message is long.
    pub(crate) fn is_bulk(&self) -> bool {
        self.flags & BULK != 0
    }

    pub(crate) fn is_in_api(&self) -> bool {
        self.flags & API != 0
    }

    pub(crate) fn is_retryable(&self) -> bool {
        self.flags & RETRY != 0
    }

    pub(crate) fn ends_transactions(&self) -> bool {
        self.flags & END != 0
    }

    /// Whether the command changes data.
    pub(crate) fn writes(&self) -> bool {
        self.flags & WRITE != 0
    }

    /// Whether the command's own argument is the collection that it works on.
    pub(crate) fn names_collection(&self) -> bool {
        self.flags & (READ | WRITE) != 0 && self.flags & ADMIN == 0
    }

    /// Whether the profiler follows the command although its own argument is no collection.
    pub(crate) fn is_profiled_by_database(&self) -> bool {
        matches!(self.name, "aggregate" | "getMore" | "listCollections")
    }

    pub(crate) fn class(&self) -> Class {
        dispatch::class(self.flags & WRITE != 0, self.flags & READ != 0)
    }
}

const fn row(name: &'static str, run: Handler, flags: u16) -> Command {
    Command { name, run, kind: Kind::Command, flags }
}

const fn counted(name: &'static str, run: Handler, kind: Kind, flags: u16) -> Command {
    Command { name, run, kind, flags }
}

const fn missing(name: &'static str) -> Command {
    row(name, not_implemented, MISSING)
}

/// Every name that is answered, in the order of its bytes.
const TABLE: &[Command] = &[
    row("abortTransaction", end_transaction::run, ADMIN | API | END),
    counted("aggregate", aggregate::run, Kind::Command, LONG | READ | API),
    missing("analyze"),
    missing("analyzeShardKey"),
    missing("appendOplogNote"),
    missing("applyOps"),
    row("authenticate", sasl_start::run, PLAIN),
    missing("autoCompact"),
    row("buildInfo", build_info::run, 0),
    row("buildinfo", build_info::run, 0),
    row("bulkWrite", bulk_write::run, ADMIN | LONG | WRITE | API | RETRY),
    row("cloneCollectionAsCapped", convert_to_capped::run, LONG | WRITE),
    row("collMod", coll_mod::run, LONG | WRITE | API),
    row("collStats", coll_stats::run, 0),
    row("commitTransaction", end_transaction::run, ADMIN | API | END),
    row("compact", compact::run, LONG),
    missing("configureFailPoint"),
    row("connectionStatus", connection_status::run, 0),
    row("convertToCapped", convert_to_capped::run, LONG | WRITE),
    row("count", count::run, LOOKUP | READ | API),
    row("create", create::run, WRITE | API),
    row("createIndexes", create_indexes::run, LONG | WRITE | API),
    missing("createRole"),
    missing("createSearchIndexes"),
    missing("createUser"),
    row("currentOp", current_op::run, ADMIN | LONG),
    row("dataSize", data_size::run, 0),
    missing("dbCheck"),
    row("dbHash", db_hash::run, LONG),
    row("dbStats", db_stats::run, 0),
    row("dbstats", db_stats::run, 0),
    counted("delete", delete::run, Kind::Delete, LOOKUP | WRITE | API | RETRY),
    row("deleteIndexes", drop_indexes::run, WRITE),
    row("distinct", distinct::run, LOOKUP | READ),
    row("drop", drop::run, WRITE | API),
    missing("dropAllRolesFromDatabase"),
    missing("dropAllUsersFromDatabase"),
    missing("dropConnections"),
    row("dropDatabase", drop_database::run, LONG | WRITE | API),
    row("dropIndexes", drop_indexes::run, WRITE | API),
    missing("dropRole"),
    missing("dropSearchIndex"),
    missing("dropUser"),
    row("endSessions", end_sessions::run, API),
    row("explain", explain::run, LONG | API),
    row("filemd5", file_md5::run, LONG | READ),
    counted("find", find::run, Kind::Query, LOOKUP | READ | API),
    row("findAndModify", find_and_modify::run, LOOKUP | WRITE | API | RETRY),
    row("findandmodify", find_and_modify::run, LOOKUP | WRITE | RETRY),
    row("fsync", fsync::run, ADMIN | LONG),
    missing("fsyncUnlock"),
    row("getCmdLineOpts", get_cmd_line_opts::run, ADMIN),
    row("getDefaultRWConcern", get_default_rw_concern::run, ADMIN),
    row("getLog", get_log::run, ADMIN),
    counted("getMore", get_more::run, Kind::GetMore, LONG | READ | API),
    row("getParameter", get_parameter::run, ADMIN),
    missing("grantPrivilegesToRole"),
    missing("grantRolesToRole"),
    missing("grantRolesToUser"),
    row("hello", hello::run, API | PLAIN),
    row("hostInfo", host_info::run, 0),
    counted("insert", insert::run, Kind::Insert, BULK | WRITE | API | RETRY),
    missing("invalidateUserCache"),
    row("isMaster", hello::run, PLAIN),
    row("ismaster", hello::run, PLAIN),
    row("killAllSessions", kill_all_sessions::run, 0),
    row("killAllSessionsByPattern", kill_all_sessions::run, 0),
    row("killCursors", kill_cursors::run, API),
    row("killOp", kill_op::run, ADMIN),
    row("killSessions", kill_sessions::run, 0),
    row("listCollections", list_collections::run, API),
    row("listCommands", list_commands::run, 0),
    row("listDatabases", list_databases::run, ADMIN | API),
    row("listIndexes", list_indexes::run, API),
    missing("lockInfo"),
    missing("logRotate"),
    missing("mapReduce"),
    row("ping", ping::run, API),
    missing("planCacheClear"),
    missing("planCacheClearFilters"),
    missing("planCacheListFilters"),
    missing("planCacheSetFilter"),
    row("profile", profile::run, 0),
    missing("reIndex"),
    row("refreshSessions", refresh_sessions::run, API),
    row("renameCollection", rename_collection::run, ADMIN | LONG | WRITE),
    missing("replSetAbortPrimaryCatchUp"),
    missing("replSetFreeze"),
    row("replSetGetConfig", repl_set_get_config::run, ADMIN),
    row("replSetGetStatus", repl_set_get_status::run, ADMIN),
    missing("replSetInitiate"),
    missing("replSetMaintenance"),
    missing("replSetReconfig"),
    missing("replSetStepDown"),
    missing("replSetSyncFrom"),
    missing("revokePrivilegesFromRole"),
    missing("revokeRolesFromRole"),
    missing("revokeRolesFromUser"),
    row("rolesInfo", roles_info::run, 0),
    row("saslContinue", sasl_start::run, API | PLAIN),
    row("saslStart", sasl_start::run, API | PLAIN),
    row("serverStatus", server_status::run, 0),
    row("setDefaultRWConcern", set_default_rw_concern::run, ADMIN | WRITE),
    missing("setFeatureCompatibilityVersion"),
    row("setParameter", set_parameter::run, ADMIN),
    missing("setProfilingFilterGlobally"),
    missing("setQuerySettings"),
    missing("setUserWriteBlockMode"),
    missing("shutdown"),
    row("startSession", start_session::run, 0),
    row("top", top::run, ADMIN),
    counted("update", update::run, Kind::Update, LOOKUP | WRITE | API | RETRY),
    missing("updateRole"),
    missing("updateSearchIndex"),
    missing("updateUser"),
    row("usersInfo", users_info::run, 0),
    row("validate", validate::run, LONG),
    missing("validateDBMetadata"),
    row("whatsmyuri", whatsmyuri::run, 0),
];

/// The row of a command's name.
pub(crate) fn find(name: &str) -> Option<&'static Command> {
    TABLE.binary_search_by_key(&name, |command| command.name).ok().map(|at| &TABLE[at])
}

/// Whether a command, and so its reply, may travel compressed.
pub(crate) fn may_be_compressed(body: Doc<'_>) -> bool {
    name(body).and_then(find).is_none_or(|command| command.flags & PLAIN == 0)
}

/// Whether what a command does is of use to nobody but the client that waits for its reply.
pub(crate) fn ends_with_client(command: &Command, request: &Request<'_>) -> bool {
    let writes = command.writes() || (command.name == "aggregate" && aggregate::request_writes(request));
    !writes
}

/// Whether a command is a driver's first word, for which an old opcode will do.
pub(crate) fn is_hello(body: Doc<'_>) -> bool {
    name(body).is_some_and(|name| matches!(name, "hello" | "isMaster" | "ismaster"))
}

fn name(body: Doc<'_>) -> Option<&str> {
    body.iter().next().map(|element| element.key_str())
}

fn not_implemented(context: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    Err(CommandError::not_implemented(format_args!("command {}", context.request.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_names_are_unique() {
        assert!(TABLE.is_sorted_by(|a, b| a.name < b.name));
        assert!(find("ping").is_some());
        assert!(find("Ping").is_none());
    }
}

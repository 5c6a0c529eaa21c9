//! The commands: one table with a row for each name, and a file for each command.
//!
//! The folders are the groups of commands in MongoDB's manual. A command's file has the command's name, and its entry
//! point is the function `run`. A row made by [`missing`] is a command of MongoDB that this server does not have: it
//! answers `NotImplemented`. A name without a row answers `CommandNotFound`.

mod administration;
mod aggregation;
mod authentication;
mod diagnostic;
mod query_and_write;
mod replication;
mod sessions;
mod shared;

use administration::{
    coll_mod, compact, convert_to_capped, create, create_indexes, current_op, drop, drop_database,
    drop_indexes, file_md5, fsync, get_default_rw_concern, get_parameter, kill_cursors, kill_op,
    list_collections, list_databases, list_indexes, rename_collection, set_default_rw_concern, set_parameter,
};
use aggregation::{aggregate, count, distinct};
use authentication::{roles_info, sasl_start, users_info};
use diagnostic::{
    build_info, coll_stats, connection_status, data_size, db_hash, db_stats, explain, get_cmd_line_opts,
    get_log, host_info, list_commands, ping, profile, server_status, top, validate, whatsmyuri,
};
use query_and_write::{bulk_write, delete, find, find_and_modify, get_more, insert, update};
use replication::{hello, repl_set_get_config, repl_set_get_status};
use sessions::{
    end_sessions, end_transaction, kill_all_sessions, kill_sessions, refresh_sessions, start_session,
};

use crate::dispatch::Context;
use crate::error::{CommandError, Result};
use crate::monitoring::metrics::{LatencyClass, OperationKind};
use crate::request::Request;
use diwan_value::{Doc, DocBuilder};

/// The entry point of a command. It appends the fields of its reply; the dispatcher adds `ok` and the other fields that
/// all replies have.
type Handler = fn(&mut Context<'_>, &mut DocBuilder) -> Result<()>;

/// Runs against the database `admin` only.
const ADMIN: u16 = 1;
/// May take long, so it is registered for `currentOp`.
const LONG: u16 = 1 << 1;
/// Changes data.
const WRITE: u16 = 1 << 2;
/// Reads documents.
const READ: u16 = 1 << 3;
/// Part of the stable API, version 1.
const API: u16 = 1 << 4;
/// A retryable write: may carry a transaction number outside of a transaction.
const RETRY: u16 = 1 << 5;
/// Neither the command nor its reply is ever compressed.
const PLAIN: u16 = 1 << 6;
/// Commits or aborts a transaction.
const END: u16 = 1 << 7;
/// Finds documents by a filter: may take long unless the filter names an `_id`.
const LOOKUP: u16 = 1 << 9;
/// May take long if its message is long.
const BULK: u16 = 1 << 10;
/// Answers `NotImplemented`.
const MISSING: u16 = 1 << 8;

/// A row of the table.
pub(crate) struct Command {
    /// The name, as MongoDB spells it.
    pub name: &'static str,
    pub run: Handler,
    /// The counter of `opcounters` that counts the command.
    pub kind: OperationKind,
    flags: u16,
}

impl Command {
    pub(crate) fn is_admin_only(&self) -> bool {
        self.flags & ADMIN != 0
    }

    pub(crate) fn is_long(&self) -> bool {
        self.flags & LONG != 0
    }

    /// Whether the command finds documents by a filter, so that the request decides how long it takes.
    pub(crate) fn looks_up(&self) -> bool {
        self.flags & LOOKUP != 0
    }

    /// Whether the command may take long if its message is long.
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

    /// Whether the value of the command's first field is the name of a collection.
    pub(crate) fn names_collection(&self) -> bool {
        self.flags & (READ | WRITE) != 0 && self.flags & ADMIN == 0
    }

    /// Whether the command is profiled even if the value of its first field is not a collection's name.
    pub(crate) fn is_profiled_by_database(&self) -> bool {
        matches!(self.name, "aggregate" | "getMore" | "listCollections")
    }

    pub(crate) fn class(&self) -> LatencyClass {
        LatencyClass::of(self.flags & WRITE != 0, self.flags & READ != 0)
    }
}

const fn row(name: &'static str, run: Handler, flags: u16) -> Command {
    Command { name, run, kind: OperationKind::Command, flags }
}

const fn counted(name: &'static str, run: Handler, kind: OperationKind, flags: u16) -> Command {
    Command { name, run, kind, flags }
}

const fn missing(name: &'static str) -> Command {
    row(name, not_implemented, MISSING)
}

/// All commands, sorted by name for the binary search.
const TABLE: &[Command] = &[
    row("abortTransaction", end_transaction::run, ADMIN | API | END),
    counted("aggregate", aggregate::run, OperationKind::Command, LONG | READ | API),
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
    counted("delete", delete::run, OperationKind::Delete, LOOKUP | WRITE | API | RETRY),
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
    counted("find", find::run, OperationKind::Query, LOOKUP | READ | API),
    row("findAndModify", find_and_modify::run, LOOKUP | WRITE | API | RETRY),
    row("findandmodify", find_and_modify::run, LOOKUP | WRITE | RETRY),
    row("fsync", fsync::run, ADMIN | LONG),
    missing("fsyncUnlock"),
    row("getCmdLineOpts", get_cmd_line_opts::run, ADMIN),
    row("getDefaultRWConcern", get_default_rw_concern::run, ADMIN),
    row("getLog", get_log::run, ADMIN),
    counted("getMore", get_more::run, OperationKind::GetMore, LONG | READ | API),
    row("getParameter", get_parameter::run, ADMIN),
    missing("grantPrivilegesToRole"),
    missing("grantRolesToRole"),
    missing("grantRolesToUser"),
    row("hello", hello::run, API | PLAIN),
    row("hostInfo", host_info::run, 0),
    counted("insert", insert::run, OperationKind::Insert, BULK | WRITE | API | RETRY),
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
    counted("update", update::run, OperationKind::Update, LOOKUP | WRITE | API | RETRY),
    missing("updateRole"),
    missing("updateSearchIndex"),
    missing("updateUser"),
    row("usersInfo", users_info::run, 0),
    row("validate", validate::run, LONG),
    missing("validateDBMetadata"),
    row("whatsmyuri", whatsmyuri::run, 0),
];

/// The command of that name.
pub(crate) fn by_name(name: &str) -> Option<&'static Command> {
    TABLE.binary_search_by_key(&name, |command| command.name).ok().map(|at| &TABLE[at])
}

/// Whether the command and its reply may be compressed.
pub(crate) fn may_be_compressed(body: Doc<'_>) -> bool {
    name(body).and_then(by_name).is_none_or(|command| command.flags & PLAIN == 0)
}

/// Whether a command may be stopped when its client disconnects. A command that writes may not.
pub(crate) fn ends_with_client(command: &Command, request: &Request<'_>) -> bool {
    let writes = command.writes() || (command.name == "aggregate" && aggregate::request_writes(request));
    !writes
}

/// Whether a command is the handshake of a driver, which may come as an `OP_QUERY`.
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
    fn table_is_sorted_and_names_are_unique() {
        assert!(TABLE.is_sorted_by(|a, b| a.name < b.name));
        assert!(by_name("ping").is_some());
        assert!(by_name("Ping").is_none());
    }
}

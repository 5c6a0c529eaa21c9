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
mod role_management;
mod sessions;
mod shared;
mod user_management;

use administration::{
    coll_mod, compact, configure_fail_point, convert_to_capped, create, create_indexes, current_op, drop,
    drop_database, drop_indexes, file_md5, fsync, get_default_rw_concern, get_parameter, kill_cursors,
    kill_op, list_collections, list_databases, list_indexes, rename_collection, set_default_rw_concern,
    set_parameter,
};
use aggregation::{aggregate, count, distinct};
use authentication::{authenticate, logout, sasl_continue, sasl_start};
use diagnostic::{
    build_info, coll_stats, connection_status, data_size, db_hash, db_stats, explain, get_cmd_line_opts,
    get_log, host_info, list_commands, ping, profile, server_status, top, validate, whatsmyuri,
};
use query_and_write::{bulk_write, delete, find, find_and_modify, get_more, insert, update};
use replication::{hello, repl_set_get_config, repl_set_get_status};
use role_management::{
    create_role, drop_all_roles_from_database, drop_role, grant_privileges_to_role, grant_roles_to_role,
    revoke_privileges_from_role, revoke_roles_from_role, roles_info, update_role,
};
use sessions::{
    end_sessions, end_transaction, kill_all_sessions, kill_sessions, refresh_sessions, start_session,
};

use user_management::{
    create_user, drop_all_users_from_database, drop_user, grant_roles_to_user, invalidate_user_cache,
    revoke_roles_from_user, update_user, users_info,
};

use crate::dispatch::Context;
use crate::error::{CommandError, Result};
use crate::monitoring::metrics::{LatencyClass, OperationKind};
use crate::request::Request;
use crate::rights::{Needs, requests};
use diwan_access::Action::*;
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
/// Runs in transactions.
const INSIDE: u16 = 1 << 11;
/// Changes users or roles.
const REGISTER: u16 = 1 << 12;

/// A row of the table.
pub(crate) struct Command {
    /// The name, as MongoDB spells it.
    pub name: &'static str,
    pub run: Handler,
    /// The counter of `opcounters` that counts the command.
    pub kind: OperationKind,
    flags: u16,
    /// What a caller must be allowed to do.
    pub needs: Needs,
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

    /// Whether the command runs in transactions.
    pub(crate) fn is_in_transactions(&self) -> bool {
        self.flags & INSIDE != 0
    }

    /// Whether the answer depends on what is stored. A driver that watches the server asks the others often.
    pub(crate) fn depends_on_documents(&self) -> bool {
        !matches!(
            self.name,
            "hello" | "isMaster" | "ismaster" | "ping" | "buildInfo" | "buildinfo" | "whatsmyuri"
        )
    }

    /// Whether the command changes data.
    pub(crate) fn writes(&self) -> bool {
        self.flags & WRITE != 0
    }

    /// Whether the command changes anything that followers copy.
    pub(crate) fn changes(&self) -> bool {
        self.flags & (WRITE | REGISTER) != 0
    }

    /// Whether the command reads documents.
    pub(crate) fn reads(&self) -> bool {
        self.flags & READ != 0
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

const fn row(name: &'static str, run: Handler, flags: u16, needs: Needs) -> Command {
    Command { name, run, kind: OperationKind::Command, flags, needs }
}

const fn counted(name: &'static str, run: Handler, kind: OperationKind, flags: u16, needs: Needs) -> Command {
    Command { name, run, kind, flags, needs }
}

/// Whoever has signed in learns that the command is missing.
const fn missing(name: &'static str) -> Command {
    row(name, not_implemented, MISSING, Needs::SignIn)
}

/// All commands, sorted by name for the binary search.
const TABLE: &[Command] = &[
    row("abortTransaction", end_transaction::run, ADMIN | API | END, Needs::SignIn),
    counted(
        "aggregate",
        aggregate::run,
        OperationKind::Command,
        LONG | READ | API | INSIDE,
        Needs::Arguments(requests::aggregate),
    ),
    missing("analyze"),
    missing("analyzeShardKey"),
    missing("appendOplogNote"),
    missing("applyOps"),
    row("authenticate", authenticate::run, PLAIN, Needs::Nothing),
    missing("autoCompact"),
    row("buildInfo", build_info::run, 0, Needs::Nothing),
    row("buildinfo", build_info::run, 0, Needs::Nothing),
    row(
        "bulkWrite",
        bulk_write::run,
        ADMIN | LONG | WRITE | API | RETRY | INSIDE,
        Needs::Arguments(requests::bulk_write),
    ),
    row(
        "cloneCollectionAsCapped",
        convert_to_capped::run,
        LONG | WRITE,
        Needs::Arguments(requests::clone_as_capped),
    ),
    row("collMod", coll_mod::run, LONG | WRITE | API, Needs::Arguments(requests::coll_mod)),
    row("collStats", coll_stats::run, 0, Needs::Collection(&[CollStats])),
    row("commitTransaction", end_transaction::run, ADMIN | API | END, Needs::SignIn),
    row("compact", compact::run, LONG, Needs::Collection(&[Compact])),
    row("configureFailPoint", configure_fail_point::run, ADMIN, Needs::Cluster(SetParameter)),
    row("connectionStatus", connection_status::run, 0, Needs::Nothing),
    row("convertToCapped", convert_to_capped::run, LONG | WRITE, Needs::Collection(&[ConvertToCapped])),
    row("count", count::run, LOOKUP | READ | API, Needs::Collection(&[Find])),
    row("create", create::run, WRITE | API | INSIDE, Needs::Arguments(requests::create)),
    row("createIndexes", create_indexes::run, LONG | WRITE | API | INSIDE, Needs::Collection(&[CreateIndex])),
    row("createRole", create_role::run, REGISTER, Needs::SignIn),
    missing("createSearchIndexes"),
    row("createUser", create_user::run, REGISTER, Needs::SignIn),
    row("currentOp", current_op::run, ADMIN | LONG, Needs::Arguments(requests::current_op)),
    row("dataSize", data_size::run, 0, Needs::Arguments(requests::data_size)),
    missing("dbCheck"),
    row("dbHash", db_hash::run, LONG, Needs::Database(DbHash)),
    row("dbStats", db_stats::run, 0, Needs::Database(DbStats)),
    row("dbstats", db_stats::run, 0, Needs::Database(DbStats)),
    counted(
        "delete",
        delete::run,
        OperationKind::Delete,
        LOOKUP | WRITE | API | RETRY | INSIDE,
        Needs::Collection(&[Remove]),
    ),
    row("deleteIndexes", drop_indexes::run, WRITE, Needs::Collection(&[DropIndex])),
    row("distinct", distinct::run, LOOKUP | READ | INSIDE, Needs::Collection(&[Find])),
    row("drop", drop::run, WRITE | API, Needs::Collection(&[DropCollection])),
    row("dropAllRolesFromDatabase", drop_all_roles_from_database::run, REGISTER, Needs::Database(DropRole)),
    row("dropAllUsersFromDatabase", drop_all_users_from_database::run, REGISTER, Needs::Database(DropUser)),
    missing("dropConnections"),
    row("dropDatabase", drop_database::run, LONG | WRITE | API, Needs::Database(DropDatabase)),
    row("dropIndexes", drop_indexes::run, WRITE | API, Needs::Collection(&[DropIndex])),
    row("dropRole", drop_role::run, REGISTER, Needs::Database(DropRole)),
    missing("dropSearchIndex"),
    row("dropUser", drop_user::run, REGISTER, Needs::Database(DropUser)),
    row("endSessions", end_sessions::run, API, Needs::Nothing),
    row("explain", explain::run, LONG | API, Needs::Arguments(requests::explain)),
    row("filemd5", file_md5::run, LONG | READ, Needs::Arguments(requests::file_md5)),
    counted(
        "find",
        find::run,
        OperationKind::Query,
        LOOKUP | READ | API | INSIDE,
        Needs::Collection(&[Find]),
    ),
    row(
        "findAndModify",
        find_and_modify::run,
        LOOKUP | WRITE | API | RETRY | INSIDE,
        Needs::Arguments(requests::find_and_modify),
    ),
    row(
        "findandmodify",
        find_and_modify::run,
        LOOKUP | WRITE | RETRY | INSIDE,
        Needs::Arguments(requests::find_and_modify),
    ),
    row("fsync", fsync::run, ADMIN | LONG, Needs::Cluster(Fsync)),
    missing("fsyncUnlock"),
    row("getCmdLineOpts", get_cmd_line_opts::run, ADMIN, Needs::Cluster(GetCmdLineOpts)),
    row("getDefaultRWConcern", get_default_rw_concern::run, ADMIN, Needs::Cluster(GetDefaultRwConcern)),
    row("getLog", get_log::run, ADMIN, Needs::Cluster(GetLog)),
    counted("getMore", get_more::run, OperationKind::GetMore, LONG | READ | API | INSIDE, Needs::SignIn),
    row("getParameter", get_parameter::run, ADMIN, Needs::Cluster(GetParameter)),
    row("grantPrivilegesToRole", grant_privileges_to_role::run, REGISTER, Needs::SignIn),
    row("grantRolesToRole", grant_roles_to_role::run, REGISTER, Needs::SignIn),
    row("grantRolesToUser", grant_roles_to_user::run, REGISTER, Needs::SignIn),
    row("hello", hello::run, API | PLAIN, Needs::Nothing),
    row("hostInfo", host_info::run, 0, Needs::Cluster(HostInfo)),
    counted(
        "insert",
        insert::run,
        OperationKind::Insert,
        BULK | WRITE | API | RETRY | INSIDE,
        Needs::Arguments(requests::insert),
    ),
    row("invalidateUserCache", invalidate_user_cache::run, 0, Needs::Cluster(InvalidateUserCache)),
    row("isMaster", hello::run, PLAIN, Needs::Nothing),
    row("ismaster", hello::run, PLAIN, Needs::Nothing),
    row("killAllSessions", kill_all_sessions::run, 0, Needs::Cluster(KillAnySession)),
    row("killAllSessionsByPattern", kill_all_sessions::run, 0, Needs::Cluster(KillAnySession)),
    row("killCursors", kill_cursors::run, API | INSIDE, Needs::SignIn),
    row("killOp", kill_op::run, ADMIN, Needs::SignIn),
    row("killSessions", kill_sessions::run, 0, Needs::SignIn),
    row("listCollections", list_collections::run, API, Needs::Arguments(requests::list_collections)),
    row("listCommands", list_commands::run, 0, Needs::SignIn),
    row("listDatabases", list_databases::run, ADMIN | API, Needs::SignIn),
    row("listIndexes", list_indexes::run, API, Needs::Collection(&[ListIndexes])),
    missing("lockInfo"),
    missing("logRotate"),
    row("logout", logout::run, 0, Needs::Nothing),
    missing("mapReduce"),
    row("ping", ping::run, API, Needs::Nothing),
    missing("planCacheClear"),
    missing("planCacheClearFilters"),
    missing("planCacheListFilters"),
    missing("planCacheSetFilter"),
    row("profile", profile::run, 0, Needs::Arguments(requests::profile)),
    missing("reIndex"),
    row("refreshSessions", refresh_sessions::run, API, Needs::SignIn),
    row(
        "renameCollection",
        rename_collection::run,
        ADMIN | LONG | WRITE,
        Needs::Arguments(requests::rename_collection),
    ),
    missing("replSetAbortPrimaryCatchUp"),
    missing("replSetFreeze"),
    row("replSetGetConfig", repl_set_get_config::run, ADMIN, Needs::Cluster(ReplSetGetConfig)),
    row("replSetGetStatus", repl_set_get_status::run, ADMIN, Needs::Cluster(ReplSetGetStatus)),
    missing("replSetInitiate"),
    missing("replSetMaintenance"),
    missing("replSetReconfig"),
    missing("replSetStepDown"),
    missing("replSetSyncFrom"),
    row("revokePrivilegesFromRole", revoke_privileges_from_role::run, REGISTER, Needs::SignIn),
    row("revokeRolesFromRole", revoke_roles_from_role::run, REGISTER, Needs::SignIn),
    row("revokeRolesFromUser", revoke_roles_from_user::run, REGISTER, Needs::SignIn),
    row("rolesInfo", roles_info::run, 0, Needs::SignIn),
    row("saslContinue", sasl_continue::run, API | PLAIN, Needs::Nothing),
    row("saslStart", sasl_start::run, API | PLAIN, Needs::Nothing),
    row("serverStatus", server_status::run, 0, Needs::Cluster(ServerStatus)),
    row(
        "setDefaultRWConcern",
        set_default_rw_concern::run,
        ADMIN | WRITE,
        Needs::Cluster(SetDefaultRwConcern),
    ),
    missing("setFeatureCompatibilityVersion"),
    row("setParameter", set_parameter::run, ADMIN, Needs::Cluster(SetParameter)),
    missing("setProfilingFilterGlobally"),
    missing("setQuerySettings"),
    missing("setUserWriteBlockMode"),
    missing("shutdown"),
    row("startSession", start_session::run, 0, Needs::SignIn),
    row("top", top::run, ADMIN, Needs::Cluster(Top)),
    counted(
        "update",
        update::run,
        OperationKind::Update,
        LOOKUP | WRITE | API | RETRY | INSIDE,
        Needs::Arguments(requests::update),
    ),
    row("updateRole", update_role::run, REGISTER, Needs::SignIn),
    missing("updateSearchIndex"),
    row("updateUser", update_user::run, REGISTER, Needs::SignIn),
    row("usersInfo", users_info::run, 0, Needs::SignIn),
    row("validate", validate::run, LONG, Needs::Collection(&[Validate])),
    missing("validateDBMetadata"),
    row("whatsmyuri", whatsmyuri::run, 0, Needs::Nothing),
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

    #[test]
    fn only_greetings_need_no_sign_in() {
        let open: Vec<&str> = TABLE
            .iter()
            .filter(|command| matches!(command.needs, Needs::Nothing))
            .map(|command| command.name)
            .collect();
        let greetings = [
            "authenticate",
            "buildInfo",
            "buildinfo",
            "connectionStatus",
            "endSessions",
            "hello",
            "isMaster",
            "ismaster",
            "logout",
            "ping",
            "saslContinue",
            "saslStart",
            "whatsmyuri",
        ];
        assert_eq!(open, greetings);
    }

    #[test]
    fn commands_without_a_right_decide_themselves() {
        // These check rights in their own code, or act on what belongs to the caller.
        const DECIDE: &str = "abortTransaction commitTransaction createRole createUser getMore grantPrivilegesToRole \
             grantRolesToRole grantRolesToUser killCursors killOp killSessions listCommands listDatabases \
             refreshSessions revokePrivilegesFromRole revokeRolesFromRole revokeRolesFromUser rolesInfo startSession \
             updateRole updateUser usersInfo";
        let own = TABLE.iter().filter(|command| matches!(command.needs, Needs::SignIn));
        let own = own.filter(|command| command.flags & MISSING == 0).map(|command| command.name);
        assert_eq!(own.collect::<Vec<_>>(), DECIDE.split_whitespace().collect::<Vec<_>>());
    }
}

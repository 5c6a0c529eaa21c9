//! The built-in roles, with the actions that MongoDB's manual lists for them.

use crate::action::Action::{self, *};
use crate::action::ActionSet;
use crate::privilege::{Privilege, merge};
use crate::resource::{Pattern, USERS};
use crate::user::RoleName;

const READ: &[Action] =
    &[ChangeStream, CollStats, DbHash, DbStats, Find, KillCursors, ListCollections, ListIndexes];
const READ_WRITE: &[Action] = &[
    ConvertToCapped,
    CreateCollection,
    CreateIndex,
    DropCollection,
    DropIndex,
    Insert,
    Remove,
    RenameCollectionSameDb,
    Update,
];
const DB_ADMIN: &[Action] = &[
    BypassDocumentValidation,
    CollMod,
    CollStats,
    Compact,
    ConvertToCapped,
    CreateCollection,
    CreateIndex,
    DbStats,
    DropCollection,
    DropDatabase,
    DropIndex,
    EnableProfiler,
    IndexStats,
    ListCollections,
    ListIndexes,
    PlanCacheIndexFilter,
    PlanCacheRead,
    PlanCacheWrite,
    ReIndex,
    RenameCollectionSameDb,
    StorageDetails,
    Validate,
];
/// What a database's administrator may do with the profiler's collection.
const PROFILE: &[Action] = &[
    ChangeStream,
    CollStats,
    ConvertToCapped,
    CreateCollection,
    DbHash,
    DbStats,
    DropCollection,
    Find,
    KillCursors,
    ListCollections,
    ListIndexes,
    PlanCacheRead,
];
const USER_ADMIN: &[Action] = &[
    ChangeCustomData,
    ChangePassword,
    CreateRole,
    CreateUser,
    DropRole,
    DropUser,
    GrantRole,
    RevokeRole,
    SetAuthenticationRestriction,
    ViewRole,
    ViewUser,
];
const MONITOR: &[Action] = &[
    ConnPoolStats,
    GetCmdLineOpts,
    GetDefaultRwConcern,
    GetLog,
    GetParameter,
    GetShardMap,
    HostInfo,
    Inprog,
    ListDatabases,
    ListSessions,
    ListShards,
    Netstat,
    OperationMetrics,
    QueryStatsRead,
    QueryStatsReadTransformed,
    ReplSetGetConfig,
    ReplSetGetStatus,
    ServerStatus,
    Top,
];
const MANAGER: &[Action] = &[
    AppendOplogNote,
    ApplicationMessage,
    CleanupOrphaned,
    FlushRouterConfig,
    GetDefaultRwConcern,
    ListSessions,
    ListShards,
    QuerySettings,
    ReplSetConfigure,
    ReplSetGetConfig,
    ReplSetGetStatus,
    ReplSetStateChange,
    Resync,
    SetDefaultRwConcern,
    SetFeatureCompatibilityVersion,
    SetUserWriteBlockMode,
];
const HOST: &[Action] = &[
    ApplicationMessage,
    ConnPoolSync,
    CpuProfiler,
    DropConnections,
    FlushRouterConfig,
    Fsync,
    InvalidateUserCache,
    KillAnyCursor,
    KillAnySession,
    KillOp,
    LogRotate,
    Resync,
    RotateCertificates,
    SetParameter,
    Shutdown,
    Touch,
    Unlock,
];
/// The collections that hold users and roles. Only administrators of users and backups may read them.
const REGISTERS: [&str; 3] = ["system.users", "system.roles", USERS];

/// The roles that every database has.
const IN_EVERY_DATABASE: [&str; 5] = ["dbAdmin", "dbOwner", "read", "readWrite", "userAdmin"];
/// The roles that only the database `admin` has.
const IN_ADMIN: [&str; 11] = [
    "backup",
    "clusterAdmin",
    "clusterManager",
    "clusterMonitor",
    "dbAdminAnyDatabase",
    "hostManager",
    "readAnyDatabase",
    "readWriteAnyDatabase",
    "restore",
    "root",
    "userAdminAnyDatabase",
];

/// Whether this is the name of a built-in role.
pub fn is_builtin(role: &RoleName) -> bool {
    IN_EVERY_DATABASE.contains(&role.role.as_str())
        || (role.database == "admin" && IN_ADMIN.contains(&role.role.as_str()))
}

/// The names of a database's built-in roles, sorted.
pub fn names(database: &str) -> Vec<&'static str> {
    let mut names = IN_EVERY_DATABASE.to_vec();
    if database == "admin" {
        names.extend(IN_ADMIN);
    }
    names.sort_unstable();
    names
}

/// The privileges of a built-in role; `None` if there is no such role.
pub fn privileges(role: &RoleName) -> Option<Vec<Privilege>> {
    let database = role.database.as_str();
    let here = Pattern::database(database);
    let mut list = Vec::new();
    let mut add = |pattern: Pattern, actions: ActionSet| merge(&mut list, [Privilege::new(pattern, actions)]);
    let read = ActionSet::of(READ);
    let read_write = read.with(ActionSet::of(READ_WRITE));
    let (db_admin, user_admin) = (ActionSet::of(DB_ADMIN), ActionSet::of(USER_ADMIN));
    let on_script = |add: &mut dyn FnMut(Pattern, ActionSet), database: Option<&str>, actions| {
        let database = database.map(str::to_owned);
        add(Pattern::Names { database, collection: Some("system.js".to_owned()) }, actions);
    };
    let on_profile = |add: &mut dyn FnMut(Pattern, ActionSet), database: Option<&str>| {
        let database = database.map(str::to_owned);
        let pattern = Pattern::Names { database, collection: Some("system.profile".to_owned()) };
        add(pattern, ActionSet::of(PROFILE));
    };
    let on_registers = |add: &mut dyn FnMut(Pattern, ActionSet), actions: &[Action]| {
        for register in REGISTERS {
            add(Pattern::collection("admin", register), ActionSet::of(actions));
        }
    };
    match role.role.as_str() {
        "read" => {
            add(here, read);
            on_script(&mut add, Some(database), read);
        }
        "readWrite" => {
            add(here, read_write);
            on_script(&mut add, Some(database), read_write);
        }
        "dbAdmin" => {
            add(here, db_admin);
            on_profile(&mut add, Some(database));
        }
        "userAdmin" => {
            add(here, user_admin);
            if database == "admin" {
                on_registers(&mut add, READ);
            }
        }
        "dbOwner" => {
            add(here, read_write.with(db_admin).with(user_admin));
            on_script(&mut add, Some(database), read_write);
            on_profile(&mut add, Some(database));
        }
        _ if database != "admin" => return None,
        "readAnyDatabase" => {
            add(Pattern::NORMAL, read);
            on_script(&mut add, None, read);
            add(Pattern::Cluster, ListDatabases.into());
        }
        "readWriteAnyDatabase" => {
            add(Pattern::NORMAL, read_write);
            on_script(&mut add, None, read_write);
            add(Pattern::Cluster, ListDatabases.into());
        }
        "dbAdminAnyDatabase" => {
            add(Pattern::NORMAL, db_admin);
            on_profile(&mut add, None);
            add(Pattern::Cluster, ListDatabases.into());
        }
        "userAdminAnyDatabase" => {
            add(Pattern::NORMAL, user_admin);
            add(Pattern::Cluster, ActionSet::of(&[InvalidateUserCache, ListDatabases]));
            on_registers(&mut add, READ);
        }
        "clusterMonitor" => monitor(&mut add),
        "clusterManager" => add(Pattern::Cluster, ActionSet::of(MANAGER)),
        "hostManager" => {
            add(Pattern::Cluster, ActionSet::of(HOST));
            add(Pattern::NORMAL, KillCursors.into());
        }
        "clusterAdmin" => {
            monitor(&mut add);
            let cluster = ActionSet::of(MANAGER).with(ActionSet::of(HOST)).with(ListDatabases.into());
            add(Pattern::Cluster, cluster);
            add(Pattern::NORMAL, ActionSet::of(&[DropDatabase, KillCursors]));
        }
        "backup" => {
            let cluster = [AppendOplogNote, GetParameter, ListDatabases, ServerStatus];
            add(Pattern::Cluster, ActionSet::of(&cluster));
            let listed = [CollStats, Find, ListCollections, ListIndexes];
            add(Pattern::NORMAL, ActionSet::of(&listed));
            on_registers(&mut add, READ);
            add(Pattern::everywhere("system.profile"), Find.into());
            on_script(&mut add, None, Find.into());
        }
        "restore" => {
            add(Pattern::Cluster, ActionSet::of(&[GetParameter, ListDatabases]));
            let normal = [
                BypassDocumentValidation,
                CollMod,
                ConvertToCapped,
                CreateCollection,
                CreateIndex,
                DropCollection,
                Insert,
                ListCollections,
            ];
            add(Pattern::NORMAL, ActionSet::of(&normal).with(user_admin));
            on_script(&mut add, None, ActionSet::of(&normal));
            on_registers(&mut add, READ);
        }
        "root" => {
            let internal = ActionSet::of(&[AnyAction, Internal, Impersonate]);
            add(Pattern::Any, ActionSet::ALL.without(internal));
        }
        _ => return None,
    }
    Some(list)
}

fn monitor(add: &mut dyn FnMut(Pattern, ActionSet)) {
    add(Pattern::Cluster, ActionSet::of(MONITOR));
    add(Pattern::NORMAL, ActionSet::of(&[CollStats, DbStats, GetShardVersion, IndexStats, UseUuid]));
    add(Pattern::everywhere("system.profile"), Find.into());
    for database in ["config", "local"] {
        let stats = [CollStats, DbHash, DbStats, Find, IndexStats, KillCursors, ListCollections, ListIndexes];
        add(Pattern::database(database), ActionSet::of(&stats));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::Resource;

    fn allows(role: &str, database: &str, action: Action, resource: Resource<'_>) -> bool {
        let privileges = privileges(&RoleName::new(role, database)).unwrap();
        privileges.iter().any(|privilege| privilege.allows(action, resource))
    }

    #[test]
    fn every_listed_role_has_privileges() {
        for name in names("admin") {
            assert!(privileges(&RoleName::new(name, "admin")).is_some_and(|list| !list.is_empty()), "{name}");
        }
        assert!(privileges(&RoleName::new("root", "shop")).is_none());
        assert!(privileges(&RoleName::new("editor", "admin")).is_none());
    }

    #[test]
    fn nobody_but_administrators_of_users_reads_the_registers() {
        for register in REGISTERS {
            let register = Resource::Collection("admin", register);
            for role in ["read", "readWrite", "readAnyDatabase", "readWriteAnyDatabase", "dbAdminAnyDatabase"]
            {
                assert!(!allows(role, "admin", Find, register), "{role}");
            }
            for role in ["userAdmin", "userAdminAnyDatabase", "backup", "restore", "root"] {
                assert!(allows(role, "admin", Find, register), "{role}");
            }
        }
    }

    #[test]
    fn roles_of_a_database_end_at_its_border() {
        for role in IN_EVERY_DATABASE {
            assert!(!allows(role, "shop", Find, Resource::Collection("stock", "orders")), "{role}");
            assert!(!allows(role, "shop", ServerStatus, Resource::Cluster), "{role}");
        }
        assert!(allows("dbOwner", "shop", CreateUser, Resource::Database("shop")));
        assert!(!allows("dbAdmin", "shop", Find, Resource::Collection("shop", "orders")));
    }
}

//! The actions that a right allows, under the names of MongoDB's privilege actions.

use std::fmt;
use std::ops::BitOr;

macro_rules! actions {
    ($($variant:ident $name:literal,)*) => {
        /// One action.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum Action { $($variant,)* }

        /// All actions, in the order of their names.
        const ALL: &[(Action, &str)] = &[$((Action::$variant, $name),)*];
    };
}

actions! {
    AnyAction "anyAction",
    AppendOplogNote "appendOplogNote",
    ApplicationMessage "applicationMessage",
    BypassDocumentValidation "bypassDocumentValidation",
    BypassWriteBlockingMode "bypassWriteBlockingMode",
    ChangeCustomData "changeCustomData",
    ChangeOwnCustomData "changeOwnCustomData",
    ChangeOwnPassword "changeOwnPassword",
    ChangePassword "changePassword",
    ChangeStream "changeStream",
    CleanupOrphaned "cleanupOrphaned",
    CollMod "collMod",
    CollStats "collStats",
    Compact "compact",
    ConnPoolStats "connPoolStats",
    ConnPoolSync "connPoolSync",
    ConvertToCapped "convertToCapped",
    CpuProfiler "cpuProfiler",
    CreateCollection "createCollection",
    CreateIndex "createIndex",
    CreateRole "createRole",
    CreateSearchIndexes "createSearchIndexes",
    CreateUser "createUser",
    DbHash "dbHash",
    DbStats "dbStats",
    DropCollection "dropCollection",
    DropConnections "dropConnections",
    DropDatabase "dropDatabase",
    DropIndex "dropIndex",
    DropRole "dropRole",
    DropSearchIndex "dropSearchIndex",
    DropUser "dropUser",
    EnableProfiler "enableProfiler",
    Find "find",
    FlushRouterConfig "flushRouterConfig",
    ForceUuid "forceUUID",
    Fsync "fsync",
    GetCmdLineOpts "getCmdLineOpts",
    GetDefaultRwConcern "getDefaultRWConcern",
    GetLog "getLog",
    GetParameter "getParameter",
    GetShardMap "getShardMap",
    GetShardVersion "getShardVersion",
    GrantRole "grantRole",
    HostInfo "hostInfo",
    Impersonate "impersonate",
    IndexStats "indexStats",
    Inprog "inprog",
    Insert "insert",
    Internal "internal",
    InvalidateUserCache "invalidateUserCache",
    KillAnyCursor "killAnyCursor",
    KillAnySession "killAnySession",
    KillCursors "killCursors",
    KillOp "killop",
    ListClusterCatalog "listClusterCatalog",
    ListCollections "listCollections",
    ListCursors "listCursors",
    ListDatabases "listDatabases",
    ListIndexes "listIndexes",
    ListSearchIndexes "listSearchIndexes",
    ListSessions "listSessions",
    ListShards "listShards",
    LogRotate "logRotate",
    Netstat "netstat",
    OperationMetrics "operationMetrics",
    PlanCacheIndexFilter "planCacheIndexFilter",
    PlanCacheRead "planCacheRead",
    PlanCacheWrite "planCacheWrite",
    QuerySettings "querySettings",
    QueryStatsRead "queryStatsRead",
    QueryStatsReadTransformed "queryStatsReadTransformed",
    ReIndex "reIndex",
    Remove "remove",
    RenameCollection "renameCollection",
    RenameCollectionSameDb "renameCollectionSameDB",
    ReplSetConfigure "replSetConfigure",
    ReplSetGetConfig "replSetGetConfig",
    ReplSetGetStatus "replSetGetStatus",
    ReplSetHeartbeat "replSetHeartbeat",
    ReplSetStateChange "replSetStateChange",
    Resync "resync",
    RevokeRole "revokeRole",
    RotateCertificates "rotateCertificates",
    ServerStatus "serverStatus",
    SetAuthenticationRestriction "setAuthenticationRestriction",
    SetDefaultRwConcern "setDefaultRWConcern",
    SetFeatureCompatibilityVersion "setFeatureCompatibilityVersion",
    SetParameter "setParameter",
    SetUserWriteBlockMode "setUserWriteBlockMode",
    Shutdown "shutdown",
    StorageDetails "storageDetails",
    Top "top",
    Touch "touch",
    Trafficrecord "trafficRecord",
    Unlock "unlock",
    Update "update",
    UpdateSearchIndex "updateSearchIndex",
    UseUuid "useUUID",
    Validate "validate",
    ViewRole "viewRole",
    ViewUser "viewUser",
}

impl Action {
    /// The action's name.
    pub fn name(self) -> &'static str {
        ALL[self as usize].1
    }

    /// The action of that name.
    pub fn from_name(name: &str) -> Option<Action> {
        ALL.iter().find(|(_, known)| *known == name).map(|(action, _)| *action)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of actions.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct ActionSet(u128);

const _: () = assert!(ALL.len() <= 128);

impl ActionSet {
    /// No action.
    pub const EMPTY: ActionSet = ActionSet(0);
    /// Every action.
    pub const ALL: ActionSet = ActionSet(u128::MAX >> (128 - ALL.len()));

    /// These actions.
    pub const fn of(actions: &[Action]) -> ActionSet {
        let (mut bits, mut at) = (0, 0);
        while at < actions.len() {
            bits |= 1 << actions[at] as u32;
            at += 1;
        }
        ActionSet(bits)
    }

    /// The union of both sets.
    pub const fn with(self, other: ActionSet) -> ActionSet {
        ActionSet(self.0 | other.0)
    }

    /// Whether the set has the action.
    pub const fn has(self, action: Action) -> bool {
        self.0 & (1 << action as u32) != 0
    }

    /// Whether the set has all actions of the other one.
    pub const fn covers(self, other: ActionSet) -> bool {
        other.0 & !self.0 == 0
    }

    /// Whether the set has no action.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Without these actions.
    pub const fn without(self, other: ActionSet) -> ActionSet {
        ActionSet(self.0 & !other.0)
    }

    /// The actions in the order of their names.
    pub fn iter(self) -> impl Iterator<Item = Action> {
        ALL.iter().map(|(action, _)| *action).filter(move |action| self.has(*action))
    }
}

impl BitOr for ActionSet {
    type Output = ActionSet;

    fn bitor(self, other: ActionSet) -> ActionSet {
        self.with(other)
    }
}

impl From<Action> for ActionSet {
    fn from(action: Action) -> ActionSet {
        ActionSet::of(&[action])
    }
}

impl FromIterator<Action> for ActionSet {
    fn from_iter<I: IntoIterator<Item = Action>>(actions: I) -> ActionSet {
        actions.into_iter().fold(ActionSet::EMPTY, |set, action| set | action.into())
    }
}

impl fmt::Debug for ActionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_is_found_by_its_name() {
        for (at, (action, name)) in ALL.iter().enumerate() {
            assert_eq!(*action as usize, at);
            assert_eq!(Action::from_name(name), Some(*action));
            assert!(ActionSet::ALL.has(*action) && !ActionSet::EMPTY.has(*action));
        }
        assert_eq!(Action::from_name("Find"), None);
        assert_eq!(ActionSet::ALL.iter().count(), ALL.len());
    }
}

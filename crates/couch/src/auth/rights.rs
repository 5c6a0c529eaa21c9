//! What a request needs: the column `needs` of the route table, and the comparison with the caller's rights.
//!
//! Rights on a database are rights on its collection: those of the caller's roles, and those that its `_security` gives
//! him. `diwan_access` knows both. Statuses and reasons are CouchDB's.

use crate::error::{Error, Result};
use crate::names;
use crate::server::Couch;
use crate::users;
use diwan_access::{Action, ActionSet, Caller, REPLICATIONS, Resource};
use diwan_store::{Entry, Namespace};

/// What a row of the route table needs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Needs {
    /// Nothing. It is reachable without a sign-in.
    Nothing,
    /// A user who has signed in.
    SignIn,
    /// An administrator of the server.
    ServerAdmin,
    /// The right to see the server's statistics.
    Metrics,
    /// The right to list all databases. The setting `admin_only_all_dbs` gives it to all users.
    ListDatabases,
    /// These actions on the database. Those are for administrators of the server.
    DatabaseItself(&'static [Action]),
    /// These actions on the database; the answer shows none of its documents.
    Database(&'static [Action]),
    /// These actions on the database, through documents that the request names. In `_users` and `_replicator` the
    /// documents decide.
    Documents(&'static [Action]),
    /// These actions on the database, through any of its documents. `_users` and `_replicator` show them to
    /// administrators alone.
    AllDocuments(&'static [Action]),
    /// The same, where a setting can open the public parts of the documents of `_users`.
    PublicDocuments(&'static [Action]),
    /// These actions on the database. Those are for its administrators.
    DatabaseAdmin(&'static [Action]),
    /// The same, with the words that CouchDB has for compaction.
    Maintenance(&'static [Action]),
}

/// Which of CouchDB's reasons a refusal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The caller is no member of the database.
    Member,
    /// The caller is no administrator of the database.
    DatabaseAdmin,
    /// The same, for compaction.
    Maintenance,
    /// The caller is no administrator of the server.
    ServerAdmin,
    /// The caller may not see statistics.
    Metrics,
}

/// CouchDB's role of users who may see statistics.
const METRICS: &str = "_metrics";

/// The error for a caller who lacks a right. In CouchDB some refusals are 401 for users, too.
pub(crate) fn refusal(caller: &Caller, refusal: Refusal) -> Error {
    let is_user = caller.principal().is_some();
    match refusal {
        Refusal::Member if is_user => Error::forbidden("You are not allowed to access this db."),
        Refusal::Member => Error::unauthorized("You are not authorized to access this db."),
        Refusal::DatabaseAdmin if is_user => Error::forbidden("You are not a db or server admin."),
        Refusal::DatabaseAdmin => Error::unauthorized("You are not a db or server admin."),
        Refusal::Maintenance => Error::unauthorized("You are not a server or db admin."),
        Refusal::ServerAdmin => Error::unauthorized("You are not a server admin."),
        Refusal::Metrics => Error::unauthorized("You are not a server admin or read-only metrics user"),
    }
}

/// The error for somebody who has not signed in.
pub(crate) fn sign_in_first() -> Error {
    Error::unauthorized("Authentication required.")
}

/// Refuses a caller who lacks what a row needs. `database` is the value of the placeholder `{db}`.
pub(crate) fn check(couch: &Couch, caller: &Caller, needs: Needs, database: &str) -> Result<()> {
    if matches!(needs, Needs::Nothing) || matches!(caller, Caller::Everybody) {
        return Ok(());
    }
    if matches!(caller, Caller::Anonymous) && couch.access.needs_valid_user() {
        return Err(sign_in_first());
    }
    let access = &couch.access;
    let allowed_if = |allowed: bool, reason| if allowed { Ok(()) } else { Err(refusal(caller, reason)) };
    let on_cluster = |action| access.allows(caller, action, Resource::Cluster);
    match needs {
        Needs::SignIn if matches!(caller, Caller::Anonymous) => Err(sign_in_first()),
        Needs::Nothing | Needs::SignIn => Ok(()),
        Needs::ServerAdmin => allowed_if(caller.is_server_admin(), Refusal::ServerAdmin),
        Needs::Metrics => allowed_if(may_see_metrics(couch, caller), Refusal::Metrics),
        Needs::ListDatabases => {
            let is_open = !couch.setting_flag("chttpd", "admin_only_all_dbs");
            allowed_if(is_open || on_cluster(Action::ListDatabases), Refusal::ServerAdmin)
        }
        Needs::DatabaseItself(actions) => {
            let allowed = match names::namespace(database) {
                Some(namespace) => allows(couch, caller, actions, &namespace),
                // A name that no database can have: the handler says so.
                None => caller.is_server_admin(),
            };
            allowed_if(allowed, Refusal::ServerAdmin)
        }
        Needs::Database(actions) => {
            on_database(couch, caller, database, actions, Guarded::Open, Refusal::Member)
        }
        Needs::Documents(actions) => {
            on_database(couch, caller, database, actions, Guarded::Open, Refusal::Member)
        }
        Needs::AllDocuments(actions) => {
            on_database(couch, caller, database, actions, Guarded::Closed, Refusal::Member)
        }
        Needs::PublicDocuments(actions) => {
            on_database(couch, caller, database, actions, Guarded::Public, Refusal::Member)
        }
        Needs::DatabaseAdmin(actions) => {
            on_database(couch, caller, database, actions, Guarded::Server, Refusal::DatabaseAdmin)
        }
        Needs::Maintenance(actions) => {
            on_database(couch, caller, database, actions, Guarded::Server, Refusal::Maintenance)
        }
    }
}

/// What a row allows in `_users` and `_replicator` to callers who do not administer the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Guarded {
    /// The documents decide, or the answer shows none.
    Open,
    /// Nothing, except that whoever administers users sees their documents.
    Closed,
    /// The same, and public parts if a setting allows it.
    Public,
    /// Nothing.
    Server,
}

fn on_database(
    couch: &Couch,
    caller: &Caller,
    database: &str,
    actions: &[Action],
    guarded: Guarded,
    reason: Refusal,
) -> Result<()> {
    let Some(namespace) = names::namespace(database) else { return Err(Error::no_database()) };
    if users::is_users(&namespace) {
        let allowed = match guarded {
            Guarded::Open => true,
            Guarded::Closed => users::may_see_all(couch, caller),
            Guarded::Public => users::may_see_all(couch, caller) || users::are_public(couch),
            Guarded::Server => caller.is_server_admin(),
        };
        return if allowed { Ok(()) } else { Err(refusal(caller, Refusal::ServerAdmin)) };
    }
    if allows(couch, caller, actions, &namespace) {
        let is_closed = guarded != Guarded::Open && crate::replicator::is_replicator(database);
        return match is_closed && !caller.is_server_admin() {
            true => Err(refusal(caller, Refusal::ServerAdmin)),
            false => Ok(()),
        };
    }
    // As in CouchDB, a user learns that a database does not exist.
    let is_missing = couch.store.entry(&namespace).is_none() && !names::SYSTEM.contains(&database);
    match caller.principal().is_some() && is_missing {
        true => Err(Error::no_database()),
        false => {
            // Whoever may not even read is no member; that is what CouchDB looks at first.
            let reads = allows(couch, caller, &[Action::Find], &namespace);
            Err(refusal(caller, if reads { reason } else { Refusal::Member }))
        }
    }
}

/// Whether the caller may see the server's statistics.
pub(crate) fn may_see_metrics(couch: &Couch, caller: &Caller) -> bool {
    couch.access.allows(caller, Action::ServerStatus, Resource::Cluster)
        || caller.http_roles().iter().any(|role| role == METRICS)
}

/// Whether the caller may do all of this with a collection. For replications `_security` counts here alone: other ways
/// to their documents would show the passwords of others.
pub(crate) fn allows(couch: &Couch, caller: &Caller, actions: &[Action], namespace: &Namespace) -> bool {
    let resource = Resource::collection(namespace);
    let by_security = match couch.store.entry(namespace) {
        Some(Entry::Collection(collection))
            if namespace.collection == REPLICATIONS && !matches!(caller, Caller::Everybody) =>
        {
            couch.access.standing(caller, &collection).actions()
        }
        _ => ActionSet::EMPTY,
    };
    actions.iter().all(|action| by_security.has(*action) || couch.access.allows(caller, *action, resource))
}

//! What commands need: the check before a command runs.
//!
//! The table of commands says for each command what it needs ([`Needs`]). A command whose needs depend on its arguments
//! has a function in `requests`; pipelines are in `pipeline`. Whether the caller has the right is decided by
//! [`Access::allows`](diwan_access::Access::allows) alone.

pub(crate) mod own;
mod pipeline;
pub(crate) mod requests;

use crate::dispatch::abbreviated_command;
use crate::error::{CommandError, Result, code};
use crate::request::Request;
use crate::server::Server;
use diwan_access::{ADMIN, Access, Action, Caller, REPLICATIONS, Resource, USERS};
use diwan_query::display::ShownDoc;
use diwan_store::Namespace;
use serde_json::json;
use std::cell::RefCell;
use std::net::IpAddr;

/// What a command needs.
pub(crate) enum Needs {
    /// Nothing: it is answered before a client has signed in.
    Nothing,
    /// That the client has signed in. The command itself decides what it shows to whom.
    SignIn,
    /// The action on the server.
    Cluster(Action),
    /// The action on the database of the request.
    Database(Action),
    /// The actions on the collection that the command names.
    Collection(&'static [Action]),
    /// What this function checks.
    Arguments(fn(&Check<'_>) -> Result<()>),
}

/// One check: the caller and the request.
pub(crate) struct Check<'a> {
    pub server: &'a Server,
    pub caller: &'a Caller,
    pub request: &'a Request<'a>,
    pub address: IpAddr,
    /// Collects the rights that the command needs.
    pub needed: Option<&'a RefCell<Vec<Right>>>,
}

/// A right that a command needs. A cursor keeps those of its command: each of its batches needs them, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Right {
    action: Action,
    database: Option<String>,
    collection: Option<String>,
}

impl Right {
    fn new(action: Action, resource: Resource<'_>) -> Right {
        let (database, collection) = match resource {
            Resource::Cluster => (None, None),
            Resource::Database(database) => (Some(database), None),
            Resource::Collection(database, collection) => (Some(database), Some(collection)),
        };
        Right { action, database: database.map(str::to_owned), collection: collection.map(str::to_owned) }
    }

    /// Whether the caller has it.
    pub(crate) fn is_held_by(&self, caller: &Caller, access: &Access) -> bool {
        let resource = match (&self.database, &self.collection) {
            (Some(database), Some(collection)) => Resource::Collection(database, collection),
            (Some(database), None) => Resource::Database(database),
            (None, _) => Resource::Cluster,
        };
        access.allows(caller, self.action, resource)
    }
}

impl Check<'_> {
    /// Refuses the request if its command needs a right that the caller does not have.
    pub(crate) fn run(&self, needs: &Needs) -> Result<()> {
        if matches!(needs, Needs::Nothing) {
            return Ok(());
        }
        if matches!(self.caller, Caller::Anonymous) {
            let text = format!("Command {} requires authentication", self.request.name);
            return Err(self.refuse(text));
        }
        // The server's own collections are protected even where there are no users.
        match needs {
            Needs::Nothing | Needs::SignIn => Ok(()),
            Needs::Cluster(action) => self.require(*action, Resource::Cluster),
            Needs::Database(action) => {
                self.require(*action, Resource::Database(self.request.arguments.database))
            }
            // Where there are no users, only what is protected is to be found.
            Needs::Collection(_)
                if matches!(self.caller, Caller::Everybody) && self.request.arguments.database != ADMIN =>
            {
                Ok(())
            }
            Needs::Collection(actions) => self.require_all(actions, &self.request.namespace()?),
            Needs::Arguments(check) => check(self),
        }
    }

    /// Whether the caller has the right.
    pub(crate) fn has(&self, action: Action, resource: Resource<'_>) -> bool {
        self.server.access.allows(self.caller, action, resource)
    }

    /// Refuses the request if the caller does not have the right.
    pub(crate) fn require(&self, action: Action, resource: Resource<'_>) -> Result<()> {
        if let Resource::Collection(database, collection) = resource
            && changes(action)
        {
            check_unprotected(database, collection)?;
            // A replication runs with the rights of the user whom its document names.
            if collection == REPLICATIONS && !self.caller.is_server_admin() {
                return Err(self.not_authorized());
            }
        }
        if !self.has(action, resource) {
            return Err(self.not_authorized());
        }
        if let Some(needed) = self.needed {
            needed.borrow_mut().push(Right::new(action, resource));
        }
        Ok(())
    }

    /// Refuses the request if the caller does not have all these rights on the collection.
    pub(crate) fn require_all(&self, actions: &[Action], namespace: &Namespace) -> Result<()> {
        actions.iter().try_for_each(|action| self.require(*action, Resource::collection(namespace)))
    }

    /// The error for a right that is missing.
    pub(crate) fn not_authorized(&self) -> CommandError {
        let database = self.request.arguments.database;
        let command = abbreviated_command(self.request.body);
        let shown = ShownDoc(command.as_doc());
        self.refuse(format!("not authorized on {database} to execute command {shown}"))
    }

    fn refuse(&self, text: String) -> CommandError {
        let access = &self.server.access;
        let database = self.request.arguments.database;
        let details = json!({ "interface": "mongodb", "command": self.request.name, "database": database });
        access.audit.record("refused", self.caller, Some(self.address), details);
        CommandError::new(code::UNAUTHORIZED, text)
    }
}

/// Whether the action changes a collection or its documents.
fn changes(action: Action) -> bool {
    use Action::*;
    matches!(
        action,
        CollMod
            | Compact
            | ConvertToCapped
            | CreateCollection
            | CreateIndex
            | DropCollection
            | DropIndex
            | Insert
            | Remove
            | RenameCollectionSameDb
            | Update
    )
}

/// Refuses changes of the collections that hold users, roles and settings. Their own commands change them.
pub(crate) fn check_unprotected(database: &str, collection: &str) -> Result<()> {
    // What the profiler and scripts keep belongs to the database like any other one's.
    let is_register =
        collection.starts_with("system.") && !matches!(collection, "system.js" | "system.profile");
    if database != ADMIN || !(collection == USERS || is_register) {
        return Ok(());
    }
    let text = format!(
        "not authorized to change {database}.{collection} directly: users, roles and settings are changed by their \
         own commands, such as createUser, or over HTTP"
    );
    Err(CommandError::new(code::UNAUTHORIZED, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_protected_from_direct_changes() {
        assert!(check_unprotected("admin", "_users").is_err());
        assert!(check_unprotected("admin", "system.roles").is_err());
        assert!(check_unprotected("test", "_users").is_ok() && check_unprotected("admin", "orders").is_ok());
    }
}

//! The context of a command's function: the server, the client, the request, and the results beside the reply.

use super::abbreviate::abbreviated_statement;
use super::transaction::Source;
use super::wait::Wait;
use crate::commands;
use crate::connection::client::Client;
use crate::connection::exhaust::Replies;
use crate::connection::room::is_long;
use crate::error::{CommandError, Result, code};
use crate::monitoring::profiler::{ProfiledStatement, Trace};
use crate::request::Request;
use crate::rights::{Check, Right};
use crate::server::Server;
use diwan_access::{Action, Caller, Resource};
use diwan_kv::{Batch, CommitId};
use diwan_query::{Examined, Interrupt};
use diwan_store::ops::Scope;
use diwan_store::{DesignGuard, Namespace, Store};
use diwan_value::{MAX_DOCUMENT_BYTES, Value, doc};
use serde_json::json;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

/// The surroundings of one run of a command.
pub(crate) struct Context<'a> {
    pub server: &'a Arc<Server>,
    pub client: &'a Arc<Client>,
    pub request: &'a Request<'a>,
    /// What the command runs on.
    pub source: &'a Source<'a>,
    /// Its store.
    pub store: &'a Arc<Store>,
    /// Whether a write of the command has failed. In a transaction, this aborts it.
    pub has_write_errors: bool,
    /// Who runs the command, with the rights as of its start.
    pub caller: &'a Caller,
    /// Checked by long loops, so that `killOp` and time limits take effect. It also tallies what they read.
    pub interrupt: Interrupt,
    /// The tally at the start of the command: the batches of a cursor share one tally.
    pub read_before: Examined,
    /// The last commit that the command made. The acknowledgement may have to wait for it.
    pub commit: Option<CommitId>,
    /// The command's number in `currentOp`, if it is registered there.
    pub operation: Option<i32>,
    /// When a command that has already waited stops waiting.
    pub deadline: Option<Instant>,
    /// The profiler's record of the command, if its database is profiled.
    pub trace: Option<Trace>,
    /// How many documents the command returned.
    pub returned: u64,
    /// Set by a command that has no answer yet. The dispatcher runs it again, from the start, after the wait.
    pub wait: Option<Wait>,
    /// The earlier replies to the same message, and whether another one follows.
    pub replies: &'a mut Replies,
}

impl Context<'_> {
    /// The scope for operations of the store, without temporary files and collation.
    pub(crate) fn scope(&self) -> Scope<'static> {
        Scope {
            interrupt: self.interrupt.clone(),
            user_roles: self.caller.principal().map(|user| user.described_roles.clone()),
            designs: self.design_guard(),
            cluster_time: self.server.keeps_cluster_time().then(|| self.server.store.clock().now()),
            ..Scope::default()
        }
    }

    /// Decides whether the caller may change the design documents of a collection: whoever may change the collection
    /// itself.
    pub(crate) fn design_guard(&self) -> Option<DesignGuard> {
        self.caller.principal()?;
        let (access, caller) = (self.server.access.clone(), self.caller.clone());
        Some(Arc::new(move |namespace| {
            access.allows(&caller, Action::CollMod, Resource::collection(namespace))
        }))
    }

    /// The scope for operations of the store that may use temporary files.
    pub(crate) fn scope_with_disk(&self) -> Scope<'static> {
        Scope { temporary: self.server.options.temporary.clone(), ..self.scope() }
    }

    /// Makes the acknowledgement wait for every commit so far. For commands whose operations do not return their own
    /// commit.
    pub(crate) fn fence(&mut self) -> Result<()> {
        if self.source.transaction().is_some() {
            return Ok(());
        }
        // An empty batch writes nothing, and its commit number is that of the last commit.
        let last = self.server.engine.commit(Batch::new())?;
        self.committed(last);
        Ok(())
    }

    /// Whether the write concern is `w: 0`. The reply then has no counts and no write errors.
    pub(crate) fn is_unacknowledged(&self) -> bool {
        self.server.concerns.of(self.request.arguments.write_concern.as_ref()).is_unacknowledged()
    }

    /// Replaces the command's interrupt with that of the cursor it reads.
    pub(crate) fn adopt_interrupt(&mut self, interrupt: &Interrupt) {
        self.interrupt = interrupt.clone();
        self.read_before = interrupt.tally().examined();
        if let Some(operation) = self.operation {
            self.server.operations.replace_interrupt(operation, interrupt);
        }
    }

    /// How many keys and documents the command has examined so far.
    pub(crate) fn examined(&self) -> Examined {
        self.interrupt.tally().examined().since(self.read_before)
    }

    /// Gives the profiler a document count under the name of the entry's field, such as `nreturned`.
    pub(crate) fn count(&mut self, name: &'static str, count: u64) {
        if name == "nreturned" {
            self.returned = count;
        }
        if let Some(trace) = &mut self.trace {
            trace.count(name, count);
        }
    }

    /// Reserves memory for a reply of so many bytes with a batch. A long reply waits for its permit. False if memory is
    /// scarce: the batch should end then.
    pub(crate) fn grow_batch(&mut self, bytes: usize, interrupt: &Interrupt) -> Result<bool> {
        if !is_long(bytes) {
            return Ok(self.replies.reserve_batch(&self.server.room, bytes));
        }
        if !self.replies.have_permit() {
            let permit = self.server.room.reply(bytes.max(MAX_DOCUMENT_BYTES), interrupt)?;
            self.replies.set_permit(permit);
        }
        Ok(true)
    }

    /// The check of the caller's rights.
    fn check(&self) -> Check<'_> {
        let address = self.client.peer.ip();
        Check { server: self.server, caller: self.caller, request: self.request, address, needed: None }
    }

    /// The rights that the command needs, for the later batches of its cursor.
    pub(crate) fn needed_rights(&self) -> Result<Vec<Right>> {
        let needed = RefCell::default();
        if let Some(command) = commands::by_name(self.request.name)
            && self.caller.principal().is_some()
        {
            Check { needed: Some(&needed), ..self.check() }.run(&command.needs)?;
        }
        Ok(needed.into_inner())
    }

    /// Whether the caller has the right.
    pub(crate) fn may(&self, action: Action, resource: Resource<'_>) -> bool {
        self.check().has(action, resource)
    }

    /// Refuses a command whose caller does not have the right.
    pub(crate) fn require(&self, action: Action, resource: Resource<'_>) -> Result<()> {
        self.check().require(action, resource)
    }

    /// The error for a right that is missing.
    pub(crate) fn not_authorized(&self) -> CommandError {
        self.check().not_authorized()
    }

    /// The details of a change of users or roles for the audit log.
    pub(crate) fn change_details(&self, name: &str) -> serde_json::Value {
        json!({ "name": name, "database": self.request.arguments.database, "interface": "mongodb" })
    }

    /// Records a change of users or roles, and makes the acknowledgement wait for it.
    pub(crate) fn changed_register(
        &mut self,
        event: &str,
        details: serde_json::Value,
        commit: Option<CommitId>,
    ) {
        let address = Some(self.client.peer.ip());
        self.server.access.audit.record(event, self.caller, address, details);
        if let Some(commit) = commit {
            self.committed(commit);
        }
    }

    /// Refuses a command whose `collectionUUID` is not the collection's.
    pub(crate) fn expect_uuid(&self, namespace: &Namespace, uuid: [u8; 16]) -> Result<()> {
        let store = self.store;
        if store.entry(namespace).is_some_and(|entry| entry.uuid() == uuid) {
            return Ok(());
        }
        // The error names the collection that has this UUID, so that clients can follow a rename.
        let entries = store.entries_of(&namespace.database);
        let actual =
            entries.into_iter().find(|(_, entry)| entry.uuid() == uuid).map(|(name, _)| name.collection);
        let details = doc! {
            "db": namespace.database.as_str(),
            "collectionUUID": Value::Binary { subtype: 4, bytes: &uuid },
            "expectedCollection": namespace.collection.as_str(),
            "actualCollection": actual,
        };
        let text = "Collection UUID does not match that specified";
        Err(CommandError {
            details: Some(details),
            ..CommandError::new(code::COLLECTION_UUID_MISMATCH, text)
        })
    }

    /// Starts one statement of a command whose statements are profiled separately. `None` if nothing is profiled.
    pub(crate) fn begin_statement(&self) -> Option<(Instant, Examined)> {
        self.trace.as_ref()?;
        self.interrupt.tally().forget_plans();
        Some((Instant::now(), self.examined()))
    }

    /// Ends the statement that `begun` started, and records its kind, collection, fields and document counts.
    pub(crate) fn end_statement(
        &mut self,
        begun: Option<(Instant, Examined)>,
        kind: &'static str,
        namespace: &Namespace,
        fields: &[(&str, Option<Value<'_>>)],
        outcome: std::result::Result<impl AsRef<[(&'static str, u64)]>, &CommandError>,
    ) {
        let Some((began, before)) = begun else { return };
        let statement = ProfiledStatement {
            kind,
            database: namespace.database.clone(),
            collection: namespace.collection.clone(),
            command: abbreviated_statement(fields),
            took: began.elapsed(),
            read: self.examined().since(before),
            plan: self.interrupt.tally().plan_summary(),
            error: outcome.as_ref().err().map(|error| CommandError::clone(error)),
            counts: outcome.map_or_else(|_| Vec::new(), |counts| counts.as_ref().to_vec()),
        };
        if let Some(trace) = &mut self.trace {
            trace.statements.push(statement);
        }
    }

    /// Notes a commit of this command.
    pub(crate) fn committed(&mut self, commit: CommitId) {
        // What a transaction's statement writes is acknowledged by the commit.
        if self.source.transaction().is_some() {
            return;
        }
        self.commit = self.commit.max(Some(commit));
    }
}

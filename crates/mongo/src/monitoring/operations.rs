//! The registry of running commands that may take long, for `currentOp` and `killOp`.

use crate::connection::client::Client;
use crate::request::arguments::SessionId;
use diwan_access::Owner;
use diwan_query::Interrupt;
use diwan_value::{DocBuf, DocBuilder, Value, array, doc};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// One running command.
#[derive(Clone)]
pub(crate) struct Operation {
    pub client: Arc<Client>,
    /// Whose it is.
    pub owner: Owner,
    pub database: String,
    pub command: DocBuf,
    pub session: Option<SessionId>,
    pub started: Instant,
    /// Whether to stop it when its client disconnects. True unless it writes: then only its wait for others ends.
    pub ends_with_client: bool,
    pub interrupt: Interrupt,
}

impl Operation {
    /// The document of `currentOp`.
    pub(crate) fn describe(&self, id: i32) -> DocBuf {
        let command = self.command.as_doc();
        let first = command.iter().next();
        let (name, target) = first.map_or(("", Value::Null), |element| (element.key_str(), element.value()));
        let namespace = match target.as_str() {
            Some(collection) => format!("{}.{collection}", self.database),
            None => format!("{}.$cmd", self.database),
        };
        let running = self.started.elapsed();
        let kind = match name {
            "find" => "query",
            "getMore" => "getmore",
            "insert" | "update" => name,
            "delete" => "remove",
            _ => "command",
        };
        let mut out = DocBuilder::new();
        out.append("type", "op").append("host", self.client.local.to_string());
        out.append("desc", format!("conn{}", self.client.id)).append("connectionId", self.client.id);
        out.append("client", self.client.peer.to_string());
        if let Some(application) = self.client.application() {
            out.append("appName", application);
        }
        if let Some(user) = &self.owner {
            let user = doc! { "user": user.user.as_str(), "db": user.database.as_str() };
            out.append("effectiveUsers", array![user]);
        }
        out.append("active", true).append("opid", id);
        if let Some(session) = &self.session {
            out.append("lsid", doc! { "id": Value::Binary { subtype: 4, bytes: session } });
        }
        out.append("secs_running", running.as_secs() as i64);
        out.append("microsecs_running", running.as_micros() as i64);
        out.append("op", kind).append("ns", namespace).append("command", command);
        if let Some(plan) = self.interrupt.tally().plan_summary() {
            out.append("planSummary", plan);
        }
        out.finish()
    }
}

/// The running commands by number.
#[derive(Default)]
pub(crate) struct Operations {
    last: AtomicI32,
    running: Mutex<BTreeMap<i32, Operation>>,
}

impl Operations {
    /// Registers a command until the returned guard is dropped.
    pub(crate) fn start(&self, operation: Operation) -> OperationGuard<'_> {
        let id = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        self.running.lock().insert(id, operation);
        OperationGuard { operations: self, id }
    }

    /// The running commands, oldest first.
    pub(crate) fn list(&self) -> Vec<(i32, Operation)> {
        self.running.lock().iter().map(|(id, operation)| (*id, operation.clone())).collect()
    }

    /// The documents of `currentOp`, oldest command first.
    pub(crate) fn describe(&self) -> Vec<DocBuf> {
        self.running.lock().iter().map(|(id, operation)| operation.describe(*id)).collect()
    }

    /// Gives command `id` the interrupt of the cursor that it reads. A kill that has already come is passed on.
    pub(crate) fn replace_interrupt(&self, id: i32, interrupt: &Interrupt) {
        if let Some(operation) = self.running.lock().get_mut(&id) {
            if operation.interrupt.is_killed() {
                interrupt.kill();
            }
            operation.interrupt = interrupt.clone();
        }
    }

    /// Stops the commands that have run for at least `patience` and whose clients have disconnected. Those that write
    /// stop only if they wait for others.
    pub(crate) fn stop_abandoned(&self, patience: Duration) {
        // Asking a socket is a system call: it is done without the lock.
        let long: Vec<Operation> = self
            .running
            .lock()
            .values()
            .filter(|operation| operation.started.elapsed() >= patience)
            .cloned()
            .collect();
        for operation in long.iter().filter(|operation| operation.client.is_gone()) {
            tracing::debug!(
                connection = operation.client.id,
                "stopping a command whose client has disconnected"
            );
            if operation.ends_with_client {
                operation.interrupt.kill();
            } else {
                operation.interrupt.abandon();
            }
        }
    }

    /// Whose a running command is.
    pub(crate) fn owner(&self, id: i32) -> Option<Owner> {
        self.running.lock().get(&id).map(|operation| operation.owner.clone())
    }

    /// Interrupts command `id`, if it is running.
    pub(crate) fn kill(&self, id: i32) {
        if let Some(operation) = self.running.lock().get(&id) {
            operation.interrupt.kill();
        }
    }

    /// Interrupts the commands that `filter` selects.
    pub(crate) fn kill_where(&self, filter: impl Fn(&Operation) -> bool) {
        self.running
            .lock()
            .values()
            .filter(|operation| filter(operation))
            .for_each(|operation| operation.interrupt.kill());
    }
}

/// Removes a command from the registry when it is dropped.
pub(crate) struct OperationGuard<'a> {
    operations: &'a Operations,
    /// The command's number.
    pub id: i32,
}

impl Drop for OperationGuard<'_> {
    fn drop(&mut self) {
        self.operations.running.lock().remove(&self.id);
    }
}

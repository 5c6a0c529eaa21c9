//! The commands that are running and may take long: what `currentOp` shows and `killOp` stops.

use crate::arguments::SessionId;
use crate::client::Client;
use diwan_query::Interrupt;
use diwan_value::{DocBuf, DocBuilder, Value, doc};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// One running command.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub client: Arc<Client>,
    pub database: String,
    pub command: DocBuf,
    pub session: Option<SessionId>,
    pub started: Instant,
    /// Whether it is stopped when the client is gone: what it does is of use to nobody else.
    pub ends_with_client: bool,
    pub interrupt: Interrupt,
}

impl Operation {
    /// The command with MongoDB's field names, for `currentOp`.
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

/// The running commands by their number.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    last: AtomicI32,
    running: Mutex<BTreeMap<i32, Operation>>,
}

impl Operations {
    /// Registers a command until the returned guard is dropped.
    pub(crate) fn start(&self, operation: Operation) -> Running<'_> {
        let id = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        self.running.lock().insert(id, operation);
        Running { operations: self, id }
    }

    /// The running commands, oldest first.
    pub(crate) fn list(&self) -> Vec<(i32, Operation)> {
        self.running.lock().iter().map(|(id, operation)| (*id, operation.clone())).collect()
    }

    /// The running commands as `currentOp` shows them.
    pub(crate) fn describe(&self) -> Vec<DocBuf> {
        self.running.lock().iter().map(|(id, operation)| operation.describe(*id)).collect()
    }

    /// Says that command `id` goes on under another interrupt: that of the cursor it reads.
    pub(crate) fn go_on(&self, id: i32, interrupt: &Interrupt) {
        if let Some(operation) = self.running.lock().get_mut(&id) {
            if operation.interrupt.is_killed() {
                interrupt.kill();
            }
            operation.interrupt = interrupt.clone();
        }
    }

    /// Stops the commands that have run for `patience` for clients who are gone.
    pub(crate) fn stop_abandoned(&self, patience: Duration) {
        let long: Vec<Operation> = self
            .running
            .lock()
            .values()
            .filter(|operation| operation.ends_with_client && operation.started.elapsed() >= patience)
            .cloned()
            .collect();
        for operation in long.iter().filter(|operation| operation.client.is_gone()) {
            tracing::debug!(connection = operation.client.id, "stopping a command whose client is gone");
            operation.interrupt.kill();
        }
    }

    /// Asks command `id` to stop.
    pub(crate) fn kill(&self, id: i32) {
        if let Some(operation) = self.running.lock().get(&id) {
            operation.interrupt.kill();
        }
    }

    /// Asks all commands of which `filter` holds to stop.
    pub(crate) fn kill_where(&self, filter: impl Fn(&Operation) -> bool) {
        self.running
            .lock()
            .values()
            .filter(|operation| filter(operation))
            .for_each(|operation| operation.interrupt.kill());
    }
}

/// A registered command.
pub(crate) struct Running<'a> {
    operations: &'a Operations,
    /// The command's number.
    pub id: i32,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.operations.running.lock().remove(&self.id);
    }
}

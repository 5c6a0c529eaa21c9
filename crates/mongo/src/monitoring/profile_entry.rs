//! Writes the entries of `system.profile`.

use crate::commands::Command;
use crate::dispatch::Context;
use crate::error::{self, CommandError, Result};
use crate::monitoring::metrics::OperationKind;
use crate::monitoring::profiler::{ProfiledStatement, Trace, profile_collection};
use crate::request::Request;
use crate::server::Server;
use crate::server::clock::unix_millis;
use diwan_query::Examined;
use diwan_store::WriteOptions;
use diwan_store::replica::Applying;
use diwan_value::{Array, Doc, DocBuf, DocBuilder, Value};
use std::collections::BTreeMap;
use std::time::Duration;

/// Starts the trace of a command that may get an entry.
pub(crate) fn begin_trace(server: &Server, command: &Command, request: &Request<'_>) -> Option<Trace> {
    let profiler = &server.profiler;
    if !profiler.is_active() {
        return None;
    }
    let is_profiled = match request.target() {
        // Its statements name their own databases.
        _ if command.name == "bulkWrite" => true,
        _ if command.is_admin_only() => false,
        Value::String(_) => profiler.level(request.arguments.database) > 0,
        _ => command.is_profiled_by_database() && profiler.level(request.arguments.database) > 0,
    };
    is_profiled.then(Trace::default)
}

/// A command that has ended, for its entries.
pub(crate) struct FinishedCommand<'a> {
    pub context: &'a Context<'a>,
    pub command: &'a Command,
    /// Gives the command's body, abbreviated if it is long.
    pub abbreviated: &'a dyn Fn() -> DocBuf,
    pub took: Duration,
    /// How much the command examined, and by which plan.
    pub read: Examined,
    pub plan: Option<String>,
    pub error: Option<&'a CommandError>,
    /// The length of the reply so far.
    pub reply_bytes: usize,
}

impl FinishedCommand<'_> {
    /// Writes the command's entries. Failures are logged, because the command itself has already ended.
    pub(crate) fn record(self, trace: Trace) {
        if let Err(error) = self.try_record(trace) {
            tracing::warn!(command = self.context.request.name, error = %error.message, "cannot write to system.profile");
        }
    }

    fn try_record(&self, mut trace: Trace) -> Result<()> {
        let server = self.context.server;
        // A command whose statements are not profiled separately has one entry.
        if trace.statements.is_empty() {
            trace.statements.push(ProfiledStatement {
                kind: kind_name(self.command),
                database: self.context.request.arguments.database.to_owned(),
                collection: self.collection_name(),
                command: (self.abbreviated)(),
                took: self.took,
                read: self.read,
                plan: self.plan.clone(),
                counts: std::mem::take(&mut trace.counts),
                error: self.error.cloned(),
            });
        }
        let mut entries: BTreeMap<&str, Vec<DocBuf>> = BTreeMap::new();
        for statement in &trace.statements {
            // The settings are read now because the command may have dropped its database.
            let settings = server.profiler.settings(&statement.database);
            let Some(settings) = settings.filter(|settings| settings.level > 0) else { continue };
            let is_slow = || server.profiler.slow().includes(statement.took);
            let entry = match &settings.filter {
                _ if settings.level >= 2 => Some(self.entry(statement)),
                Some((_, filter)) => {
                    let entry = self.entry(statement);
                    filter.matches(entry.as_doc())?.then_some(entry)
                }
                None => is_slow().then(|| self.entry(statement)),
            };
            entries.entry(&statement.database).or_default().extend(entry);
        }
        for (database, entries) in entries.iter().filter(|(_, entries)| !entries.is_empty()) {
            // The collection was created with the level. It is missing if the database was dropped since.
            if let Some(collection) = server.store.collection(&profile_collection(database)?)? {
                let entries: Vec<Doc<'_>> = entries.iter().map(DocBuf::as_doc).collect();
                // Each member of a replica set has a profile of its own.
                let _applying = Applying::begin();
                collection.insert(&entries, false, WriteOptions::default())?;
            }
        }
        Ok(())
    }

    /// The collection in the entry's `ns`.
    fn collection_name(&self) -> String {
        let Request { name, body, .. } = self.context.request;
        match self.context.request.target() {
            Value::String(collection) => collection.to_owned(),
            Value::Int64(_) if *name == "getMore" => {
                body.get_str("collection").unwrap_or_default().to_owned()
            }
            _ if *name == "aggregate" => "$cmd.aggregate".to_owned(),
            _ => "$cmd".to_owned(),
        }
    }

    /// An entry, with MongoDB's field names.
    fn entry(&self, statement: &ProfiledStatement) -> DocBuf {
        let mut out = DocBuilder::new();
        let ProfiledStatement { database, collection, .. } = statement;
        out.append("op", statement.kind).append("ns", format!("{database}.{collection}"));
        out.append("command", &statement.command);
        out.append("keysExamined", Value::integer(statement.read.keys as i64));
        out.append("docsExamined", Value::integer(statement.read.documents as i64));
        for (name, count) in &statement.counts {
            match *name {
                // MongoDB shows a cursor's number as a long and counts as ints.
                "cursorid" => out.append(name, *count as i64),
                _ => out.append(name, i32::try_from(*count).unwrap_or(i32::MAX)),
            };
        }
        if let Some(error) = &statement.error {
            out.append("ok", 0.0).append("errMsg", error.message.as_str());
            out.append("errName", error::name(error.code)).append("errCode", error.code);
        }
        out.append("responseLength", i32::try_from(self.reply_bytes).unwrap_or(i32::MAX));
        if let Some(plan) = &statement.plan {
            out.append("planSummary", plan.as_str());
        }
        out.append("protocol", "op_msg");
        out.append("millis", i32::try_from(statement.took.as_millis()).unwrap_or(i32::MAX));
        out.append("ts", Value::DateTime(unix_millis()))
            .append("client", self.context.client.peer.ip().to_string());
        if let Some(application) = self.context.client.application() {
            out.append("appName", application);
        }
        out.append("allUsers", Value::Array(Array::EMPTY)).append("user", "");
        out.finish()
    }
}

/// The entry's `op` for a command.
fn kind_name(command: &Command) -> &'static str {
    match command.kind {
        OperationKind::Delete => "remove",
        kind => kind.name(),
    }
}

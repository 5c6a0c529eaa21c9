//! `currentOp`: the commands that are running now.

use crate::dispatch::Context;
use crate::error::Result;
use crate::operations::Operation;
use diwan_value::{ArrayBuilder, DocBuf, DocBuilder, Value, doc};

pub(super) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let mut own = false;
    let mut filter = DocBuilder::new();
    for field in context.request.fields() {
        match field.key {
            "$all" | "truncateOps" => {}
            "$ownOps" => own = field.flag()?,
            key => {
                filter.append(key, field.value());
            }
        }
    }
    filter.finish();
    let mut running = ArrayBuilder::new();
    for (id, operation) in context.server.operations.list() {
        if own && operation.client.id != context.client.id {
            continue;
        }
        let shown = describe(id, &operation);
        running.push(shown);
    }
    reply.append("inprog", running);
    Ok(())
}

/// One running command, with MongoDB's field names.
fn describe(id: i32, operation: &Operation) -> DocBuf {
    let command = operation.command.as_doc();
    let first = command.iter().next();
    let (name, target) = first.map_or(("", Value::Null), |element| (element.key_str(), element.value()));
    let namespace = match target.as_str() {
        Some(collection) => format!("{}.{collection}", operation.database),
        None => format!("{}.$cmd", operation.database),
    };
    let running = operation.started.elapsed();
    let kind = match name {
        "find" => "query",
        "getMore" => "getmore",
        "insert" | "update" => name,
        "delete" => "remove",
        _ => "command",
    };
    let mut out = DocBuilder::new();
    out.append("type", "op").append("host", operation.client.local.to_string());
    out.append("desc", format!("conn{}", operation.client.id)).append("connectionId", operation.client.id);
    out.append("client", operation.client.peer.to_string());
    if let Some(application) = operation.client.application() {
        out.append("appName", application);
    }
    out.append("active", true).append("opid", id);
    if let Some(session) = &operation.session {
        out.append("lsid", doc! { "id": Value::Binary { subtype: 4, bytes: session } });
    }
    out.append("secs_running", running.as_secs() as i64);
    out.append("microsecs_running", running.as_micros() as i64);
    out.append("op", kind).append("ns", namespace).append("command", command);
    out.finish()
}

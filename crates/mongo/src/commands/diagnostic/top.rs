//! `top`: the number of operations on each collection and their total time.

use crate::dispatch::Context;
use crate::error::Result;
use crate::monitoring::metrics::{LatencyClass, OperationKind};
use crate::monitoring::usage::UseCount;
use diwan_value::{DocBuf, DocBuilder, Value, doc};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    reply.begin_document("totals").append("note", "all times in microseconds");
    for (name, used) in context.server.usage.list() {
        reply.begin_document(&name);
        let reads = used.class(LatencyClass::Reads).plus(used.class(LatencyClass::Commands));
        let writes = used.class(LatencyClass::Writes);
        reply.append("total", shown(reads.plus(writes)));
        reply.append("readLock", shown(reads)).append("writeLock", shown(writes));
        let names = [
            (OperationKind::Query, "queries"),
            (OperationKind::GetMore, "getmore"),
            (OperationKind::Insert, "insert"),
            (OperationKind::Update, "update"),
            (OperationKind::Delete, "remove"),
            (OperationKind::Command, "commands"),
        ];
        for (kind, name) in names {
            reply.append(name, shown(used.kinds[kind as usize]));
        }
        reply.end();
    }
    reply.end();
    Ok(())
}

fn shown(used: UseCount) -> DocBuf {
    doc! { "time": Value::integer(used.micros as i64), "count": Value::integer(used.count as i64) }
}

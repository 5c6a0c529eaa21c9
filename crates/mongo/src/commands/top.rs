//! `top`: how often each collection was used, and how long that took.

use crate::dispatch::Context;
use crate::error::Result;
use crate::metrics::Kind;
use crate::usage::Use;
use diwan_value::{DocBuf, DocBuilder, Value, doc};

pub(super) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    reply.begin_document("totals").append("note", "all times in microseconds");
    for (name, used) in context.server.usage.list() {
        reply.begin_document(&name);
        let total = Use {
            count: used.reads.count + used.writes.count,
            micros: used.reads.micros + used.writes.micros,
        };
        reply.append("total", shown(total));
        reply.append("readLock", shown(used.reads)).append("writeLock", shown(used.writes));
        let names = [
            (Kind::Query, "queries"),
            (Kind::GetMore, "getmore"),
            (Kind::Insert, "insert"),
            (Kind::Update, "update"),
            (Kind::Delete, "remove"),
            (Kind::Command, "commands"),
        ];
        for (kind, name) in names {
            reply.append(name, shown(used.kinds[kind as usize]));
        }
        reply.end();
    }
    reply.end();
    Ok(())
}

fn shown(used: Use) -> DocBuf {
    doc! { "time": Value::integer(used.micros as i64), "count": Value::integer(used.count as i64) }
}

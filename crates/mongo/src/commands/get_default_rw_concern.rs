//! `getDefaultRWConcern`: the concerns of commands that state none.

use crate::clock::unix_millis;
use crate::dispatch::Context;
use crate::error::Result;
use diwan_value::{DocBuilder, Value, doc};

pub(super) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    for field in context.request.fields() {
        match field.key {
            "inMemory" => {
                field.flag()?;
            }
            _ => return Err(field.unknown()),
        }
    }
    reply.append("defaultReadConcern", doc! { "level": "local" });
    reply.append("defaultWriteConcern", doc! { "w": "majority", "wtimeout": 0 });
    reply.append("defaultReadConcernSource", "implicit").append("defaultWriteConcernSource", "implicit");
    reply.append("localUpdateWallClockTime", Value::DateTime(unix_millis()));
    Ok(())
}

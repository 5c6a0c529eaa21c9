//! `dataSize`: the size of a collection's documents.

use crate::dispatch::Context;
use crate::error::{CommandError, Result};
use crate::request::fields::Field;
use diwan_store::Namespace;
use diwan_value::{DocBuilder, Value};
use std::time::Instant;

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let request = context.request;
    let name = match request.target() {
        Value::String(name) => name,
        other => return Err(Field::new(request.name, "dataSize", other).wrong("string")),
    };
    request.read(|field| {
        match field.key {
            "estimate" => {
                field.flag()?;
            }
            "keyPattern" | "min" | "max" => {
                return Err(CommandError::not_implemented(format_args!("dataSize.{}", field.key)));
            }
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let started = Instant::now();
    let collection = context.store.collection(&Namespace::parse(name)?)?;
    let (bytes, count) =
        collection.map_or((0, 0), |collection| (collection.data_bytes(), collection.count()));
    reply.append("size", bytes as i64).append("numObjects", count as i64);
    reply.append("millis", started.elapsed().as_millis() as i64).append("estimate", false);
    Ok(())
}

//! `hello`, and `isMaster` for older drivers: what the server is, and what it can.

use crate::clock::unix_millis;
use crate::dispatch::{Context, ELECTION};
use crate::error::{CommandError, Result};
use crate::fields::Field;
use crate::identity::{MAX_WIRE_VERSION, MAX_WRITE_BATCH};
use crate::options::Topology;
use crate::sessions;
use crate::wire::{Compressor, MAX_MESSAGE_BYTES};
use diwan_value::{ArrayBuilder, Doc, DocBuilder, MAX_DOCUMENT_BYTES, Value, array, doc};

/// The most that a driver may tell about itself.
const MAX_METADATA_BYTES: usize = 512;

pub(super) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let old = context.request.name != "hello";
    let mut compressors = ArrayBuilder::new();
    let mut mechanisms = false;
    context.request.read(|field| {
        match field.key {
            "helloOk" if old && field.flag()? => {
                reply.append("helloOk", true);
            }
            "client" => remember_client(context, field.document()?)?,
            "compression" => compressors = agree(field)?,
            "saslSupportedMechs" => mechanisms = true,
            // Everything else asks for what is answered anyway, or for what this server does not have.
            _ => {}
        }
        Ok(())
    })?;
    let options = &context.server.options;
    let primary = if old { "ismaster" } else { "isWritablePrimary" };
    match options.topology {
        Topology::ReplicaSet => {
            let host = options.host(context.client.local);
            reply.append("hosts", array![host.as_str()]).append("setName", options.set_name.as_str());
            reply.append("setVersion", 1).append(primary, true).append("secondary", false);
            reply.append("primary", host.as_str()).append("me", host.as_str());
            reply.append("electionId", ELECTION);
            let now = context.server.clock.now();
            let time = doc! { "ts": now, "t": 1i64 };
            let date = Value::DateTime(i64::from(now.seconds) * 1000);
            reply.append(
                "lastWrite",
                doc! {
                    "opTime": &time, "lastWriteDate": date, "majorityOpTime": &time, "majorityWriteDate": date
                },
            );
        }
        Topology::Mongos => {
            reply.append(primary, true).append("msg", "isdbgrid");
        }
        Topology::Standalone => {
            reply.append(primary, true);
        }
    }
    reply.append("maxBsonObjectSize", MAX_DOCUMENT_BYTES as i32);
    reply.append("maxMessageSizeBytes", MAX_MESSAGE_BYTES as i32);
    reply.append("maxWriteBatchSize", MAX_WRITE_BATCH as i32);
    reply.append("localTime", Value::DateTime(unix_millis()));
    reply.append("logicalSessionTimeoutMinutes", (sessions::TIMEOUT.as_secs() / 60) as i32);
    reply.append("connectionId", context.client.id);
    reply.append("minWireVersion", 0).append("maxWireVersion", MAX_WIRE_VERSION).append("readOnly", false);
    if !compressors.is_empty() {
        reply.append("compression", compressors);
    }
    if mechanisms {
        reply.append("saslSupportedMechs", array![]);
    }
    Ok(())
}

/// The compressors that both sides know, in the client's order.
fn agree(offered: Field<'_>) -> Result<ArrayBuilder> {
    let mut agreed = ArrayBuilder::new();
    for name in offered.array()?.iter().filter_map(Value::as_str) {
        if Compressor::ALL.iter().any(|compressor| compressor.name() == name) {
            agreed.push(name);
        }
    }
    Ok(agreed)
}

/// Keeps what the driver says about itself: once, and within limits.
fn remember_client(context: &Context<'_>, metadata: Doc<'_>) -> Result<()> {
    if metadata.as_bytes().len() > MAX_METADATA_BYTES {
        let text =
            format!("The client metadata document must be less then or equal to {MAX_METADATA_BYTES} bytes");
        return Err(CommandError::new(185, text));
    }
    for part in ["driver", "os"] {
        if metadata.get_doc(part).is_none() {
            let text = format!("Missing required sub-document '{part}' in the client metadata document");
            return Err(CommandError::new(183, text));
        }
    }
    let mut known = context.client.metadata.lock();
    if known.is_some() {
        return Err(CommandError::new(
            186,
            "The client metadata document may only be sent in the first hello",
        ));
    }
    *known = Some(metadata.to_owned());
    Ok(())
}

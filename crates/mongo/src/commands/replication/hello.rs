//! `hello`, and `isMaster` for older drivers: the server's role, its limits and its protocol versions.
//!
//! A driver that sends the topology version it knows gets a reply when the topology changes or its waiting time ends.
//! The topology changes when a follower comes or goes, and when a follower becomes the primary.

use crate::commands::authentication::sasl_start::Arguments;
use crate::dispatch::{Context, Wait};
use crate::error::{CommandError, Result};
use crate::request::fields::{Field, missing};
use crate::server::clock::unix_millis;
use crate::server::identity::{MAX_WIRE_VERSION, MAX_WRITE_BATCH};
use crate::server::options::Topology;
use crate::server::replica_set::{MemberState, ReplicaSet};
use crate::server::sessions;
use crate::sign_in;
use crate::wire::{Compressor, MAX_MESSAGE_BYTES};
use diwan_access::UserName;
use diwan_value::{
    ArrayBuilder, Doc, DocBuf, DocBuilder, MAX_DOCUMENT_BYTES, ObjectId, Timestamp, Value, doc,
};
use std::time::{Duration, Instant};

/// The maximum size of the metadata that a driver sends about itself.
const MAX_METADATA_BYTES: usize = 512;

/// The longest wait of a hello. A driver that asks for more gets its reply after this time.
const MAX_AWAIT: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let old = context.request.name != "hello";
    let mut compressors = ArrayBuilder::new();
    let (mut mechanisms, mut sign_in) = (None, None);
    let (mut known, mut await_millis) = (None, None);
    context.request.read(|field| {
        match field.key {
            "helloOk" if old && field.flag()? => {
                reply.append("helloOk", true);
            }
            // A hello that has waited runs again, with metadata that is already known.
            "client" if context.deadline.is_none() && !context.replies.have_begun() => {
                remember_client(context, field.document()?)?;
            }
            "compression" => compressors = common_compressors(field)?,
            "saslSupportedMechs" => mechanisms = Some(field.string()?),
            "speculativeAuthenticate" => sign_in = Some(field.document()?),
            "topologyVersion" => known = Some(TopologyVersion::parse(field.document()?)?),
            "maxAwaitTimeMS" => await_millis = Some(field.natural()?),
            // The other arguments have no effect on the reply of this server.
            _ => {}
        }
        Ok(())
    })?;
    let set = ReplicaSet::of(context.server, context.client.local);
    if await_change(context, set.version, known, await_millis)? {
        return Ok(());
    }
    context.replies.tell(set.version);
    let current = doc! { "processId": context.server.process, "counter": set.version };
    reply.append("topologyVersion", current);
    let options = &context.server.options;
    let primary = if old { "ismaster" } else { "isWritablePrimary" };
    match options.topology {
        Topology::ReplicaSet => {
            let hosts: Vec<&str> = set.hosts.iter().map(String::as_str).collect();
            reply.append("hosts", hosts).append("setName", &*set.name).append("setVersion", 1);
            reply.append(primary, set.state == MemberState::Primary);
            reply.append("secondary", set.state == MemberState::Secondary);
            if let Some(primary) = &set.primary {
                reply.append("primary", &**primary);
            }
            reply.append("me", &*set.me);
            if set.state == MemberState::Primary {
                reply.append("electionId", set.election());
            }
            let applied = context.server.store.replica().applied().map(Timestamp::from_bits);
            let now = applied.unwrap_or_else(|| context.server.store.clock().now());
            let time = doc! { "ts": now, "t": set.term };
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
    if let Some(user) = mechanisms {
        let (database, user) = user.split_once('.').ok_or_else(|| {
            CommandError::bad_value("UserName must contain a '.' separated database.user pair")
        })?;
        let mechanisms = sign_in::mechanisms_of(context.server, &UserName::new(user, database))?;
        reply.append("saslSupportedMechs", mechanisms);
    }
    if let Some(first) = sign_in
        && let Some(answer) = sign_in_at_once(context, first)
    {
        reply.append("speculativeAuthenticate", answer);
    }
    Ok(())
}

/// Begins the sign-in that a driver sends along with its first hello. `None` if it fails or has to wait: the driver
/// then begins again with a command of its own.
fn sign_in_at_once(context: &mut Context<'_>, first: Doc<'_>) -> Option<DocBuf> {
    if first.get_str("mechanism") == Some("MONGODB-X509") {
        let user = sign_in::by_certificate(context, first.get_str("user"), sign_in::EXTERNAL).ok()?;
        return Some(doc! { "dbname": sign_in::EXTERNAL, "user": user });
    }
    let arguments = Arguments::of_hello(first).ok()?;
    // A hello that has waited did so for another reason: the attempt counts.
    let answer = sign_in::start(context, &arguments.first(first.get_str("db")?), false);
    // The hello itself does not wait.
    context.wait = None;
    answer.ok().flatten()
}

/// The topology version that a driver knows.
struct TopologyVersion {
    process: ObjectId,
    counter: i64,
}

impl TopologyVersion {
    fn parse(version: Doc<'_>) -> Result<TopologyVersion> {
        const NAME: &str = "TopologyVersion";
        let (mut process, mut counter) = (None, None);
        Field::read_document(NAME, version, |field| {
            match (field.key, field.value()) {
                ("processId", Value::ObjectId(id)) => process = Some(id),
                ("processId", _) => return Err(field.wrong("objectId")),
                ("counter", Value::Int64(number)) => counter = Some(number),
                ("counter", _) => return Err(field.wrong("long")),
                _ => return Err(field.unknown()),
            }
            Ok(())
        })?;
        Ok(TopologyVersion {
            process: process.ok_or_else(|| missing(NAME, "processId"))?,
            counter: counter.ok_or_else(|| missing(NAME, "counter"))?,
        })
    }
}

/// Makes the command wait if the driver knows the current topology and allows time for a change. Returns whether it
/// waits. For a driver that accepts several replies, each reply but the last requests the next run.
fn await_change(
    context: &mut Context<'_>,
    current: i64,
    known: Option<TopologyVersion>,
    await_millis: Option<u64>,
) -> Result<bool> {
    let is_mongos = context.server.options.topology == Topology::Mongos;
    // The same errors have other codes on a router.
    let coded = |mongod, mongos| if is_mongos { mongos } else { mongod };
    let (known, millis) = match (known, await_millis) {
        (Some(known), Some(millis)) => (known, millis),
        (None, None) if context.replies.are_allowed() => {
            let text = "An isMaster or hello request with exhaust must specify 'maxAwaitTimeMS'";
            return Err(CommandError::new(coded(51756, 51763), text));
        }
        (None, None) => return Ok(false),
        (Some(_), None) => {
            let text = "A request with a 'topologyVersion' must include 'maxAwaitTimeMS'";
            return Err(CommandError::new(coded(31368, 51760), text));
        }
        (None, Some(_)) => {
            let text = "A request with 'maxAwaitTimeMS' must include a 'topologyVersion'";
            return Err(CommandError::new(coded(31368, 51760), text));
        }
    };
    if known.counter < 0 {
        let text = "topologyVersion must have a non-negative counter";
        return Err(CommandError::new(coded(31372, 51758), text));
    }
    if known.process == context.server.process && known.counter > current {
        let text = format!(
            "Received a topology version with counter: {} which is greater than the server topology version counter: \
             {current}",
            known.counter
        );
        return Err(CommandError::new(coded(31382, 51761), text));
    }
    // A driver that gets a later reply to the same message has read what the one before told.
    let is_current = match context.replies.told().filter(|_| context.replies.have_begun()) {
        Some(told) => told == current,
        None => known.process == context.server.process && known.counter == current,
    };
    let until = match context.deadline {
        Some(until) => until,
        None => Instant::now() + Duration::from_millis(millis).min(MAX_AWAIT),
    };
    if is_current && Instant::now() < until && !context.server.is_draining() {
        context.wait = Some(Wait::for_topology(context.server.store.replica(), current, until));
        return Ok(true);
    }
    context.replies.request_rerun();
    Ok(false)
}

/// The compressors that both sides support, in the client's order.
fn common_compressors(offered: Field<'_>) -> Result<ArrayBuilder> {
    let mut agreed = ArrayBuilder::new();
    for name in offered.array()?.iter().filter_map(Value::as_str) {
        if Compressor::ALL.iter().any(|compressor| compressor.name() == name) {
            agreed.push(name);
        }
    }
    Ok(agreed)
}

/// Stores the driver's metadata. It may be sent once, and has a maximum size.
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

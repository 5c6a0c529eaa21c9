//! `createIndexes`: builds indexes beside other traffic, and the collection if it is not there.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::fields::{int64, missing};
use crate::options::Topology;
use diwan_store::{BuildProgress, IndexSpec};
use diwan_value::{Collation, Doc, DocBuilder, Value};

pub(super) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let request = context.request;
    let namespace = request.namespace()?;
    let mut indexes = None;
    request.read(|field| {
        match field.key {
            "indexes" => indexes = Some(field.documents()?),
            "commitQuorum" => check_commit_quorum(field.value())?,
            "ignoreUnknownIndexOptions" | "v" | "returnOnStart" => {}
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let indexes: Vec<_> = indexes.ok_or_else(|| missing("createIndexes", "indexes"))?.collect();
    if indexes.is_empty() {
        return Err(CommandError::bad_value("Must specify at least one index to create"));
    }
    let (before, after, created) = context.server.store.create_indexes(
        &namespace,
        |collation| parse(&indexes, collation),
        &context.interrupt,
        &BuildProgress::default(),
    )?;
    reply.append("numIndexesBefore", before as i32).append("numIndexesAfter", after as i32);
    reply.append("createdCollectionAutomatically", created);
    if before == after {
        reply.append("note", "all indexes already exist");
    }
    if context.server.options.topology == Topology::ReplicaSet {
        reply.append("commitQuorum", "votingMembers");
    }
    context.fence()
}

/// Reads the specifications for a collection with this collation.
fn parse(
    indexes: &[std::result::Result<Doc<'_>, Value<'_>>],
    collation: Option<&Collation>,
) -> Result<Vec<IndexSpec>> {
    let mut specs = Vec::with_capacity(indexes.len());
    for spec in indexes {
        let spec = spec.map_err(|value| {
            let text = format!(
                "BSON field 'createIndexes.indexes.{}' is the wrong type '{}', expected type 'object'",
                specs.len(),
                value.tag().alias()
            );
            CommandError::new(code::TYPE_MISMATCH, text)
        })?;
        specs.push(IndexSpec::parse(spec, collation)?);
    }
    Ok(specs)
}

/// Refuses a quorum that one member cannot make.
fn check_commit_quorum(quorum: Value<'_>) -> Result<()> {
    let possible = match quorum {
        Value::String(quorum) => matches!(quorum, "majority" | "votingMembers"),
        value => int64(value).is_some_and(|members| (0..=1).contains(&members)),
    };
    if possible {
        return Ok(());
    }
    let text = "Commit quorum cannot be satisfied with the current replica set configuration";
    Err(CommandError::new(code::UNSATISFIABLE_COMMIT_QUORUM, text))
}

//! `createIndexes`: builds indexes beside other traffic, and the collection if it is not there.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::fields::{int64, missing};
use crate::options::Topology;
use diwan_store::{BuildProgress, Collection, Entry, Error, IndexSpec, random_uuid};
use diwan_value::{Collation, Doc, DocBuilder, Value};
use std::fmt::Write;

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
    let store = &context.server.store;
    let specs = |collation: Option<&Collation>| parse(&indexes, collation).map_err(Failed::Specification);
    let outcome = store.create_indexes(&namespace, specs, &context.interrupt, &BuildProgress::default());
    let (before, after, created) = outcome.map_err(|failed| match (failed, store.entry(&namespace)) {
        (Failed::Specification(error), _) => error,
        (Failed::Store(error), Some(Entry::Collection(collection))) => build_error(&collection, error.into()),
        (Failed::Store(error), _) => error.into(),
    })?;
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

/// Why there are no indexes.
enum Failed {
    Specification(CommandError),
    Store(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Store(error)
    }
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
        let parsed = IndexSpec::parse(spec, collation)?;
        // The same one in the collection is no error; in the same command it is.
        if specs.iter().any(|other: &IndexSpec| other.to_doc() == parsed.to_doc()) && !parsed.is_id_index() {
            let text = format!("Identical index already exists: {}", parsed.name);
            return Err(CommandError::new(code::INDEX_ALREADY_EXISTS, text));
        }
        specs.push(parsed);
    }
    Ok(specs)
}

/// The error of indexes that could not be built; what is refused before the build stays as it is.
fn build_error(collection: &Collection, error: CommandError) -> CommandError {
    use diwan_query::code as query;
    let before_the_build = [
        code::NAMESPACE_NOT_FOUND,
        query::CANNOT_CREATE_INDEX,
        query::INDEX_OPTIONS_CONFLICT,
        query::INDEX_KEY_SPECS_CONFLICT,
    ];
    if before_the_build.contains(&error.code) {
        return error;
    }
    let (build, own) = (shown_uuid(random_uuid()), shown_uuid(collection.uuid()));
    let doing = format!("Index build failed: {build}: Collection {} ( {own} )", collection.namespace());
    error.in_context(doing).having_begun()
}

/// A UUID as text: hexadecimal digits in five groups.
fn shown_uuid(uuid: [u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in uuid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
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

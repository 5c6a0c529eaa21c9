//! `createIndexes`: builds indexes while other commands run, and creates the collection if it does not exist.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::request::fields::{int64, missing};
use crate::server::options::Topology;
use diwan_store::{BuildProgress, Collection, Entry, Error, IndexSpec, Namespace, random_uuid};
use diwan_value::{Collation, Doc, DocBuilder, Value};
use std::fmt::Write;

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
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
    let store = context.store;
    let specs = |collation: Option<&Collation>| {
        let specs = parse(&indexes, collation).map_err(IndexFailure::Specification)?;
        // MongoDB drops the specifications of existing indexes from the command before it compares the rest.
        let existing = store.collection(&namespace)?.map(|collection| collection.schema());
        let exists = |spec: &IndexSpec| {
            existing.as_deref().is_some_and(|schema| {
                schema.indexes.iter().any(|index| matches!(spec.compare_with_existing(&index.spec), Ok(true)))
            })
        };
        let fresh: Vec<&IndexSpec> = specs.iter().filter(|spec| !exists(spec)).collect();
        check_among_themselves(&fresh).map_err(IndexFailure::Specification)?;
        Ok(specs)
    };
    check_transaction(context, &namespace, &specs)?;
    let outcome = store.create_indexes(&namespace, specs, &context.interrupt, &BuildProgress::default());
    // Errors of the build name the collection, which may not exist if a specification is refused.
    let (before, after, created) = outcome.map_err(|failed| match (failed, store.entry(&namespace)) {
        (IndexFailure::Specification(error), _) => error,
        (IndexFailure::Store(error), Some(Entry::Collection(collection))) => {
            build_error(&collection, error.into())
        }
        (IndexFailure::Store(error), _) => error.into(),
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

/// Refuses to build an index on a collection that a transaction has not created itself.
fn check_transaction(
    context: &Context<'_>,
    namespace: &Namespace,
    specs: &impl Fn(Option<&Collation>) -> std::result::Result<Vec<IndexSpec>, IndexFailure>,
) -> Result<()> {
    if context.source.transaction().is_none() {
        return Ok(());
    }
    let Some(collection) = context.store.collection(namespace)?.filter(|collection| !collection.is_private())
    else {
        return Ok(());
    };
    let schema = collection.schema();
    let specs = specs(schema.options.collation.as_ref()).map_err(|failed| match failed {
        IndexFailure::Specification(error) => error,
        IndexFailure::Store(error) => error.into(),
    })?;
    let exists = |spec: &IndexSpec| {
        schema.indexes.iter().any(|index| matches!(spec.compare_with_existing(&index.spec), Ok(true)))
    };
    if specs.iter().all(exists) {
        return Ok(());
    }
    let text = format!(
        "Cannot create new indexes on existing collection {namespace} in a multi-document transaction."
    );
    Err(CommandError::new(code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, text))
}

/// Why the command failed: a specification is wrong, or the store refused or failed to build the indexes.
enum IndexFailure {
    Specification(CommandError),
    Store(Error),
}

impl From<Error> for IndexFailure {
    fn from(error: Error) -> IndexFailure {
        IndexFailure::Store(error)
    }
}

/// Parses the specifications for a collection with this default collation.
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

/// Refuses specifications of one command that conflict with each other, or are the same. The same index in the
/// collection is no error, but twice in one command it is.
fn check_among_themselves(specs: &[&IndexSpec]) -> Result<()> {
    for (at, spec) in specs.iter().enumerate().filter(|(_, spec)| !spec.is_id_index()) {
        for other in &specs[..at] {
            if spec.compare_with_existing(other)? {
                let text = format!("Identical index already exists: {}", spec.name);
                return Err(CommandError::new(code::INDEX_ALREADY_EXISTS, text));
            }
        }
    }
    Ok(())
}

/// Adds the context of a failed build to an error. Errors from before the build are returned unchanged.
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
    let (build, own) = (uuid_text(random_uuid()), uuid_text(collection.uuid()));
    let doing = format!("Index build failed: {build}: Collection {} ( {own} )", collection.namespace());
    error.in_context(doing).having_begun()
}

/// The text form of a UUID: hexadecimal digits in five groups.
fn uuid_text(uuid: [u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in uuid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Refuses a commit quorum that a set of one member cannot satisfy.
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

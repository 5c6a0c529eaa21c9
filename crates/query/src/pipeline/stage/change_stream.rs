//! `$changeStream`: the changes of a collection, a database or all databases as they happen. The store runs it.

use crate::error::{Error, Result, code};
use crate::pipeline::{Operation, PipelineEnv, Stage};
use diwan_value::{Doc, DocBuf, Timestamp, Value};

/// The stage's argument.
#[derive(Clone, Debug, Default)]
pub struct ChangeStream {
    /// Whether an update shows the document as it is when the event is read, or as it was after the update.
    pub full_document: FullDocument,
    /// Whether the document before the change is shown.
    pub before_change: BeforeChange,
    /// Where the stream begins.
    pub start: StreamStart,
    /// Whether events of collections and indexes are shown, too.
    pub shows_expanded: bool,
    /// Whether the stream shows all databases (`allChangesForCluster`).
    pub is_of_cluster: bool,
}

/// The option `fullDocument`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FullDocument {
    /// Updates show no document.
    #[default]
    Default,
    /// Updates show the document as it is now.
    UpdateLookup,
    /// Updates show the document after the update if it is kept, else null.
    WhenAvailable,
    /// The same, but a document that is not kept ends the stream.
    Required,
}

/// The option `fullDocumentBeforeChange`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BeforeChange {
    /// It is not shown.
    #[default]
    Off,
    /// It is shown if it is kept, else null.
    WhenAvailable,
    /// A document that is not kept ends the stream.
    Required,
}

/// Where a stream begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StreamStart {
    /// Now.
    #[default]
    Now,
    /// After the event of this token.
    ResumeAfter(DocBuf),
    /// The same, also after an event that ended its stream.
    StartAfter(DocBuf),
    /// With the events of this time.
    AtTime(Timestamp),
}

/// The stages that may follow.
const FOLLOWING: [&str; 9] = [
    "$addFields",
    "$changeStreamSplitLargeEvent",
    "$match",
    "$project",
    "$redact",
    "$replaceRoot",
    "$replaceWith",
    "$set",
    "$unset",
];

impl ChangeStream {
    pub(crate) fn parse(spec: Value<'_>, env: &PipelineEnv) -> Result<ChangeStream> {
        let Some(spec) = spec.as_doc() else {
            let text =
                format!("$changeStream stage expects a document as argument but got {}", spec.tag().alias());
            return Err(Error::new(6188500, text));
        };
        let mut stream = ChangeStream::default();
        let mut starts = 0;
        for option in spec.iter() {
            let (name, value) = (option.key_str(), option.value());
            match name {
                "fullDocument" => stream.full_document = full_document(value)?,
                "fullDocumentBeforeChange" => stream.before_change = before_change(value)?,
                "resumeAfter" | "startAfter" => {
                    let token = value.as_doc().ok_or_else(|| wrong_type(name, value, "object"))?.to_owned();
                    starts += 1;
                    stream.start = match name {
                        "resumeAfter" => StreamStart::ResumeAfter(token),
                        _ => StreamStart::StartAfter(token),
                    };
                }
                "startAtOperationTime" => {
                    let Value::Timestamp(time) = value else {
                        return Err(wrong_type(name, value, "timestamp"));
                    };
                    starts += 1;
                    stream.start = StreamStart::AtTime(time);
                }
                "showExpandedEvents" => stream.shows_expanded = flag(name, value)?,
                "allChangesForCluster" => stream.is_of_cluster = flag(name, value)?,
                // There are no shards, and system collections are never shown.
                "showMigrationEvents" | "showSystemEvents" if !flag(name, value)? => {}
                "showMigrationEvents" | "showSystemEvents" => {
                    return Err(Error::new(
                        code::NOT_IMPLEMENTED,
                        format!("$changeStream.{name} is not implemented"),
                    ));
                }
                _ => {
                    let text = format!("BSON field '$changeStream.{name}' is an unknown field.");
                    return Err(Error::new(40415, text));
                }
            }
        }
        if starts > 1 {
            let text = "Only one type of resume option is allowed, but multiple were found.";
            return Err(Error::new(40674, text));
        }
        check_namespace(&stream, env)?;
        Ok(stream)
    }
}

/// Refuses databases that have no streams, and a stream of all databases elsewhere than on `admin`.
fn check_namespace(stream: &ChangeStream, env: &PipelineEnv) -> Result<()> {
    if stream.is_of_cluster {
        return match env.database == "admin" && env.collection.is_none() {
            true => Ok(()),
            false => Err(Error::new(
                code::INVALID_OPTIONS,
                "A $changeStream with 'allChangesForCluster:true' may only be opened on the 'admin' database, and with \
                 no collection name.",
            )),
        };
    }
    if ["admin", "config", "local"].contains(&env.database.as_str()) {
        let text = format!("$changeStream may not be opened on the internal {} database", env.database);
        return Err(Error::new(code::INVALID_NAMESPACE, text));
    }
    match env.collection.as_deref().filter(|name| name.starts_with("system.")) {
        None => Ok(()),
        Some(collection) => {
            let name = format!("{}.{collection}", env.database);
            let text = format!("$changeStream may not be opened on the internal {name} collection");
            Err(Error::new(code::INVALID_NAMESPACE, text))
        }
    }
}

/// Parses `$changeStreamSplitLargeEvent`, which has no options.
pub(crate) fn parse_split(spec: Value<'_>) -> Result<Operation> {
    match spec.as_doc().is_some_and(Doc::is_empty) {
        true => Ok(Operation::SplitLargeEvent),
        false => {
            let text = "$changeStreamSplitLargeEvent spec should be an empty object";
            Err(Error::new(7182800, text))
        }
    }
}

/// Refuses stages that cannot follow `$changeStream`, and those that can follow nothing else.
pub(crate) fn check_following(stages: &[Stage]) -> Result<()> {
    let Some((Operation::ChangeStream(_), rest)) =
        stages.split_first().map(|(first, rest)| (&first.operation, rest))
    else {
        let is_split = |stage: &Stage| matches!(stage.operation, Operation::SplitLargeEvent);
        return match stages.iter().any(is_split) {
            true => Err(Error::new(
                code::ILLEGAL_OPERATION,
                "$changeStreamSplitLargeEvent can only be used in a $changeStream pipeline",
            )),
            false => Ok(()),
        };
    };
    match rest.iter().find(|stage| !FOLLOWING.contains(&stage.name)) {
        None => Ok(()),
        Some(stage) => {
            let text = format!("{} is not permitted in a $changeStream pipeline", stage.name);
            Err(Error::new(code::ILLEGAL_OPERATION, text))
        }
    }
}

fn full_document(value: Value<'_>) -> Result<FullDocument> {
    Ok(match value.as_str() {
        Some("default") => FullDocument::Default,
        Some("updateLookup") => FullDocument::UpdateLookup,
        Some("whenAvailable") => FullDocument::WhenAvailable,
        Some("required") => FullDocument::Required,
        other => return Err(not_an_option("fullDocument", other, value)),
    })
}

fn before_change(value: Value<'_>) -> Result<BeforeChange> {
    Ok(match value.as_str() {
        Some("off") => BeforeChange::Off,
        Some("whenAvailable") => BeforeChange::WhenAvailable,
        Some("required") => BeforeChange::Required,
        other => return Err(not_an_option("fullDocumentBeforeChange", other, value)),
    })
}

fn not_an_option(name: &str, given: Option<&str>, value: Value<'_>) -> Error {
    match given {
        Some(given) => {
            let text =
                format!("Enumeration value '{given}' for field '$changeStream.{name}' is not a valid value.");
            Error::new(code::BAD_VALUE, text)
        }
        None => wrong_type(name, value, "string"),
    }
}

fn flag(name: &str, value: Value<'_>) -> Result<bool> {
    value.as_bool().ok_or_else(|| wrong_type(name, value, "bool"))
}

fn wrong_type(name: &str, value: Value<'_>, expected: &str) -> Error {
    Error::type_mismatch(format!(
        "BSON field '$changeStream.{name}' is the wrong type '{}', expected type '{expected}'",
        value.tag().alias()
    ))
}

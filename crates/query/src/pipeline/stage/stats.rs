//! `$collStats`, `$indexStats`, `$currentOp`, `$listLocalSessions` and `$listSessions`: stages that describe the
//! server.

use crate::error::{Error, Result, code};
use crate::pipeline::{DocList, DocSource, Execution, PipelineEnv};
use diwan_value::{Doc, DocBuf, Value};

/// One of the stages with its argument.
#[derive(Clone, Debug)]
pub struct Statistics {
    kind: StatisticsKind,
    spec: DocBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatisticsKind {
    Collection,
    Indexes,
    CurrentOperations,
    LocalSessions,
    Sessions,
}

impl Statistics {
    /// Parses the argument of the stage `name`.
    pub(crate) fn parse(name: &str, spec: Value<'_>, env: &PipelineEnv) -> Result<Statistics> {
        let kind = match name {
            "$collStats" => StatisticsKind::Collection,
            "$indexStats" => StatisticsKind::Indexes,
            "$listLocalSessions" => StatisticsKind::LocalSessions,
            "$listSessions" => StatisticsKind::Sessions,
            _ => StatisticsKind::CurrentOperations,
        };
        let doc = spec.as_doc();
        match kind {
            StatisticsKind::Collection => check_collection(doc, spec)?,
            StatisticsKind::Indexes if doc.is_none_or(|doc| !doc.is_empty()) => {
                let text = "The $indexStats stage specification must be an empty object";
                return Err(Error::new(28803, text));
            }
            StatisticsKind::Indexes => {}
            StatisticsKind::CurrentOperations => {
                check_current(doc, spec)?;
                if env.database != "admin" || env.collection.is_some() {
                    let text = "$currentOp must be run against the 'admin' database with {aggregate: 1}";
                    return Err(Error::new(code::INVALID_NAMESPACE, text));
                }
            }
            StatisticsKind::LocalSessions => check_sessions(name, doc, spec)?,
            StatisticsKind::Sessions => {
                check_sessions(name, doc, spec)?;
                if env.database != "config" || env.collection.as_deref() != Some("system.sessions") {
                    let text = "$listSessions may only be run against config.system.sessions";
                    return Err(Error::new(code::INVALID_NAMESPACE, text));
                }
            }
        }
        Ok(Statistics { kind, spec: doc.map_or_else(DocBuf::new, Doc::to_owned) })
    }

    /// Whether the stage describes the server rather than a collection.
    pub(crate) fn is_of_server(&self) -> bool {
        matches!(self.kind, StatisticsKind::CurrentOperations | StatisticsKind::LocalSessions)
    }

    /// Runs the stage.
    pub(crate) fn open(&self, execution: &Execution) -> Result<Box<dyn DocSource>> {
        let collections = &execution.collections;
        let docs = match self.kind {
            StatisticsKind::Collection => {
                collections.collection_stats(&execution.namespace, self.spec.as_doc())?
            }
            StatisticsKind::Indexes => collections.index_stats(&execution.namespace)?,
            StatisticsKind::CurrentOperations => collections.current_operations(self.spec.as_doc())?,
            // On a server with users the face replaces the named users by a filter; without users nobody has sessions.
            StatisticsKind::LocalSessions | StatisticsKind::Sessions
                if self.spec.as_doc().contains_key("users") =>
            {
                Vec::new()
            }
            StatisticsKind::LocalSessions | StatisticsKind::Sessions => collections.sessions()?,
        };
        Ok(Box::new(DocList::new(docs)))
    }
}

fn check_collection(doc: Option<Doc<'_>>, spec: Value<'_>) -> Result<()> {
    let Some(doc) = doc else {
        let text = format!("$collStats must take a nested object but found a {}", spec.tag().alias());
        return Err(Error::new(5447000, text));
    };
    for element in doc.iter() {
        let name = element.key_str();
        if !["latencyStats", "storageStats", "count", "queryExecStats"].contains(&name) {
            let text = format!("BSON field '$collStats.{name}' is an unknown field.");
            return Err(Error::new(40415, text));
        }
        let Some(options) = element.value().as_doc() else {
            let text = format!(
                "BSON field '$collStats.{name}' is the wrong type '{}', expected type 'object'",
                element.raw.tag.alias()
            );
            return Err(Error::type_mismatch(text));
        };
        match name {
            "storageStats" => check_storage(options)?,
            "latencyStats" => check_latency(options)?,
            _ => {}
        }
    }
    Ok(())
}

/// The divisor of sizes in `$collStats`, from the options of its `storageStats`.
pub fn storage_scale(options: Doc<'_>) -> i64 {
    match options.get("scale") {
        Some(Value::Int32(scale)) => scale.into(),
        Some(Value::Int64(scale)) => scale,
        Some(Value::Double(scale)) => scale as i64,
        Some(Value::Decimal128(scale)) => scale.to_f64() as i64,
        _ => 1,
    }
}

/// Checks the options of `$collStats.latencyStats`.
fn check_latency(options: Doc<'_>) -> Result<()> {
    for element in options.iter() {
        let name = element.key_str();
        match (name, element.value()) {
            ("histograms", Value::Boolean(_) | Value::Null | Value::Undefined) => {}
            ("histograms", other) => {
                return Err(Error::type_mismatch(format!(
                    "BSON field '$collStats.latencyStats.{name}' is the wrong type '{}', expected type 'bool'",
                    other.tag().alias()
                )));
            }
            _ => {
                let text = format!("BSON field '$collStats.latencyStats.{name}' is an unknown field.");
                return Err(Error::new(40415, text));
            }
        }
    }
    Ok(())
}

/// Checks the options of `$collStats.storageStats`.
fn check_storage(options: Doc<'_>) -> Result<()> {
    const NUMBER: &str = "types '[long, int, decimal, double]'";
    const FLAG: &str = "types '[bool, long, int, decimal, double]'";
    let scale = storage_scale(options);
    for element in options.iter().filter(|element| !element.value().is_nullish()) {
        let (name, value) = (element.key_str(), element.value());
        let wrong = |expected: &str| {
            let kind = element.raw.tag.alias();
            let path = format!("$collStats.storageStats.{name}");
            Error::type_mismatch(format!(
                "BSON field '{path}' is the wrong type '{kind}', expected {expected}"
            ))
        };
        match name {
            "scale" if !value.is_number() => return Err(wrong(NUMBER)),
            "scale" if scale < 1 => {
                let text = format!("BSON field 'scale' value must be >= 1, actual value '{scale}'");
                return Err(Error::new(51024, text));
            }
            "scale" => {}
            "verbose" | "waitForLock" | "numericOnly" => {
                if value.as_bool().is_none() && !value.is_number() {
                    return Err(wrong(FLAG));
                }
            }
            _ => {
                let text = format!("BSON field '$collStats.storageStats.{name}' is an unknown field.");
                return Err(Error::new(40415, text));
            }
        }
    }
    Ok(())
}

fn check_sessions(name: &str, doc: Option<Doc<'_>>, spec: Value<'_>) -> Result<()> {
    let Some(doc) = doc else {
        let kind = spec.tag().alias();
        let text = format!("{name} options must be specified in an object, but found: {kind}");
        return Err(Error::type_mismatch(text));
    };
    let wrong = |field: &str, kind: &str, expected: &str| {
        let text =
            format!("BSON field '{name}.{field}' is the wrong type '{kind}', expected type '{expected}'");
        Err(Error::type_mismatch(text))
    };
    for element in doc.iter() {
        let (field, kind) = (element.key_str(), element.raw.tag.alias());
        match (field, element.value()) {
            ("allUsers", Value::Boolean(_)) => {}
            ("allUsers", _) => return wrong(field, kind, "bool"),
            ("users", Value::Array(users)) => {
                if let Some(other) = users.iter().find(|user| user.as_doc().is_none()) {
                    return wrong("users.0", other.tag().alias(), "object");
                }
            }
            ("users", _) => return wrong(field, kind, "array"),
            _ => return Err(Error::new(40415, format!("BSON field '{name}.{field}' is an unknown field."))),
        }
    }
    let users = doc.get_array("users").is_some_and(|users| !users.is_empty());
    if users && doc.get("allUsers") == Some(Value::Boolean(true)) {
        let text = format!("{name} may not specify {{allUsers:true}} and {{users:[...]}} at the same time");
        return Err(Error::new(code::UNSUPPORTED_FORMAT, text));
    }
    Ok(())
}

fn check_current(doc: Option<Doc<'_>>, spec: Value<'_>) -> Result<()> {
    let Some(doc) = doc else {
        let text =
            format!("$currentOp options must be specified in an object, but found: {}", spec.tag().alias());
        return Err(Error::failed_to_parse(text));
    };
    const OPTIONS: [&str; 7] = [
        "allUsers",
        "backtrace",
        "idleConnections",
        "idleCursors",
        "idleSessions",
        "localOps",
        "targetAllNodes",
    ];
    for element in doc.iter() {
        let name = element.key_str();
        if !OPTIONS.contains(&name) {
            return Err(Error::failed_to_parse(format!("Unrecognized option '{name}' in $currentOp stage.")));
        }
        if element.value().as_bool().is_none() {
            let text = format!(
                "The '{name}' parameter of the $currentOp stage must be a boolean value, but found: {}",
                element.raw.tag.alias()
            );
            return Err(Error::failed_to_parse(text));
        }
    }
    Ok(())
}

//! Parses replications: the body of `_replicate` or a document of `_replicator`.

use super::context::UserContext;
use super::endpoint::Endpoint;
use super::failure::Failure;
use crate::server::Couch;
use crate::uuids::push_hex;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// A replication.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spec {
    /// The source.
    pub(crate) source: Endpoint,
    /// The target.
    pub(crate) target: Endpoint,
    /// Whether the replication is continuous.
    pub(crate) continuous: bool,
    /// Whether to create the target.
    pub(crate) create_target: bool,
    /// The parameters for creating the target.
    pub(crate) create_target_params: Map<String, Value>,
    /// Which documents to replicate.
    pub(crate) choice: Choice,
    /// The parameters of the filter function.
    pub(crate) query_params: Map<String, Value>,
    /// The start sequence, overriding checkpoints.
    pub(crate) since_seq: Option<Value>,
    /// Replicate only winning revisions, without conflicts.
    pub(crate) winning_revs_only: bool,
    /// Whether to use `_bulk_get`.
    pub(crate) use_bulk_get: bool,
    /// Whether to write checkpoints.
    pub(crate) use_checkpoints: bool,
    /// The interval between checkpoints.
    pub(crate) checkpoint_interval: Duration,
    /// The largest number of workers.
    pub(crate) workers: usize,
    /// How many changes a worker takes at once.
    pub(crate) batch: usize,
    /// The longest silence of a peer.
    pub(crate) silence: Duration,
    /// How often a request is retried.
    pub(crate) retries: u32,
    /// With which name and roles it works on databases of this server.
    pub(crate) user_ctx: Option<UserContext>,
}

/// What a replication is like where its object does not say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defaults {
    http_connections: u64,
    worker_processes: u64,
    worker_batch_size: u64,
    connection_timeout: u64,
    retries_per_request: u64,
    checkpoint_interval: u64,
    use_checkpoints: bool,
    use_bulk_get: bool,
}

impl Default for Defaults {
    fn default() -> Defaults {
        Defaults {
            http_connections: 20,
            worker_processes: 4,
            worker_batch_size: 500,
            connection_timeout: 30_000,
            retries_per_request: 5,
            checkpoint_interval: 5_000,
            use_checkpoints: true,
            use_bulk_get: true,
        }
    }
}

impl Defaults {
    /// Reads the settings of the section `replicator`.
    pub(crate) fn of(couch: &Couch) -> Defaults {
        let built_in = Defaults::default();
        let number = |key, default| couch.setting_number("replicator", key, default);
        Defaults {
            http_connections: number("http_connections", built_in.http_connections),
            worker_processes: number("worker_processes", built_in.worker_processes),
            worker_batch_size: number("worker_batch_size", built_in.worker_batch_size),
            connection_timeout: number("connection_timeout", built_in.connection_timeout),
            retries_per_request: number("retries_per_request", built_in.retries_per_request),
            checkpoint_interval: number("checkpoint_interval", built_in.checkpoint_interval),
            use_checkpoints: couch.setting_flag("replicator", "use_checkpoints"),
            use_bulk_get: couch.setting_flag("replicator", "use_bulk_get"),
        }
    }
}

/// Which documents to replicate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Choice {
    /// All documents.
    All,
    /// The documents with these ids.
    Ids(Vec<String>),
    /// The documents that match a selector.
    Selector(Value),
    /// The documents that a filter function of the source accepts.
    Filter(String),
}

/// A parsed `_replicate` request.
pub(super) enum Wanted {
    /// Start this replication.
    Run(Box<Spec>),
    /// Cancel the replication with this id.
    Cancel(String),
    /// Cancel the equivalent replication.
    CancelSame(Box<Spec>),
}

fn bad(reason: impl Into<String>) -> Failure {
    Failure::new("bad_request", reason)
}

impl Wanted {
    /// Parses the body of `_replicate`.
    pub(super) fn parse(object: &Map<String, Value>, defaults: &Defaults) -> Result<Wanted, Failure> {
        let cancel = flag(object, "cancel", false)?;
        let id = ["_local_id", "replication_id", "id"].iter().find_map(|name| object.get(*name));
        match (cancel, id) {
            (true, Some(Value::String(id))) => Ok(Wanted::Cancel(id.replace(' ', "+"))),
            (true, Some(_)) => Err(bad("The id of a replication must be a string")),
            (true, None) => Ok(Wanted::CancelSame(Box::new(Spec::parse(object, defaults)?))),
            (false, _) => Ok(Wanted::Run(Box::new(Spec::parse(object, defaults)?))),
        }
    }
}

impl Spec {
    /// Parses a replication. Unknown members are ignored.
    pub(crate) fn parse(object: &Map<String, Value>, defaults: &Defaults) -> Result<Spec, Failure> {
        for name in ["proxy", "source_proxy", "target_proxy"] {
            if object.get(name).is_some_and(|value| !value.is_null() && value != "") {
                return Err(bad(format!("`{name}` is not supported: this server connects without a proxy")));
            }
        }
        let source = Endpoint::parse(object.get("source"), "source")?;
        let target = Endpoint::parse(object.get("target"), "target")?;
        let milliseconds = |name, default, least, most| {
            number(object, name, default, least, most).map(Duration::from_millis)
        };
        let connections = number(object, "http_connections", defaults.http_connections, 1, 1000)? as usize;
        // One of the connections is used for the changes feed.
        let most = connections.saturating_sub(1).max(1);
        Ok(Spec {
            source,
            target,
            continuous: flag(object, "continuous", false)?,
            create_target: flag(object, "create_target", false)?,
            create_target_params: member(object, "create_target_params", "a JSON object")?,
            choice: choice(object)?,
            query_params: member(object, "query_params", "an object")?,
            since_seq: object.get("since_seq").filter(|value| !value.is_null()).cloned(),
            winning_revs_only: flag(object, "winning_revs_only", false)?,
            use_bulk_get: flag(object, "use_bulk_get", defaults.use_bulk_get)?,
            use_checkpoints: flag(object, "use_checkpoints", defaults.use_checkpoints)?,
            checkpoint_interval: milliseconds(
                "checkpoint_interval",
                defaults.checkpoint_interval,
                100,
                3_600_000,
            )?,
            workers: (number(object, "worker_processes", defaults.worker_processes, 1, 64)? as usize)
                .min(most),
            batch: number(object, "worker_batch_size", defaults.worker_batch_size, 1, 5_000)? as usize,
            silence: milliseconds("connection_timeout", defaults.connection_timeout, 500, 600_000)?,
            user_ctx: UserContext::parse(object).map_err(bad)?,
            retries: number(object, "retries_per_request", defaults.retries_per_request, 0, 20)? as u32,
        })
    }

    /// Derives the base id, which is the same after a restart of the server.
    pub(crate) fn base_id(&self, server: &str) -> String {
        let mut parts = vec![json!(server), self.source.identity(), self.target.identity()];
        match &self.choice {
            Choice::All => {}
            Choice::Ids(ids) => parts.push(json!(["ids", ids])),
            Choice::Selector(selector) => parts.push(json!(["selector", selector])),
            Choice::Filter(name) => parts.push(json!(["filter", name, self.query_params])),
        }
        if self.winning_revs_only {
            parts.push(json!("winning_revs_only"));
        }
        let hash = blake3::hash(Value::Array(parts).to_string().as_bytes());
        let mut id = String::with_capacity(32);
        push_hex(&mut id, &hash.as_bytes()[..16]);
        id
    }

    /// Derives the checkpoint id for a filter function with this code.
    pub(crate) fn filtered_id(base: &str, code: &str) -> String {
        let mut id = String::with_capacity(32);
        push_hex(&mut id, &blake3::hash(format!("{base} {}", code.trim()).as_bytes()).as_bytes()[..16]);
        id
    }

    /// The suffix that extends the base id to the job's id.
    pub(crate) fn extension(&self) -> String {
        let mut out = String::new();
        for (name, set) in [("+continuous", self.continuous), ("+create_target", self.create_target)] {
            if set {
                out.push_str(name);
            }
        }
        out
    }
}

fn choice(object: &Map<String, Value>) -> Result<Choice, Failure> {
    let given = |name| object.get(name).filter(|value| !value.is_null());
    match (given("doc_ids"), given("selector"), given("filter")) {
        (None, None, None) => Ok(Choice::All),
        (Some(Value::Array(ids)), None, None) => {
            let mut list = Vec::with_capacity(ids.len());
            for id in ids {
                let id = id.as_str().ok_or_else(|| bad("parameter `doc_ids` must be an array of strings"))?;
                list.push(percent_decode_str(id).decode_utf8_lossy().into_owned());
            }
            list.sort_unstable();
            list.dedup();
            Ok(Choice::Ids(list))
        }
        (Some(_), None, None) => Err(bad("parameter `doc_ids` must be an array")),
        (None, Some(selector @ Value::Object(_)), None) => Ok(Choice::Selector(selector.clone())),
        (None, Some(_), None) => Err(bad("parameter `selector` must be a JSON object")),
        (None, None, Some(Value::String(name))) => match name.split_once('/') {
            _ if name == "_view" => Ok(Choice::Filter(name.clone())),
            Some((design, function)) if !design.is_empty() && !function.is_empty() => {
                Ok(Choice::Filter(name.clone()))
            }
            _ => Err(bad("Invalid filter. Must match `ddocname/filtername`.")),
        },
        (None, None, Some(_)) => Err(bad("The `filter` field must be a non-empty string.")),
        _ => Err(bad("`doc_ids`,`filter`,`selector` are mutually exclusive")),
    }
}

fn flag(object: &Map<String, Value>, name: &str, default: bool) -> Result<bool, Failure> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(default),
        Some(Value::Bool(set)) => Ok(*set),
        Some(_) => Err(bad(format!("parameter `{name}` must be a boolean"))),
    }
}

fn member(object: &Map<String, Value>, name: &str, kind: &str) -> Result<Map<String, Value>, Failure> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(object)) => Ok(object.clone()),
        Some(_) => Err(bad(format!("parameter `{name}` must be {kind}"))),
    }
}

/// Parses a number, also as text, and clamps it to the bounds.
fn number(
    object: &Map<String, Value>,
    name: &str,
    default: u64,
    least: u64,
    most: u64,
) -> Result<u64, Failure> {
    let number = match object.get(name) {
        None | Some(Value::Null) => Some(default),
        Some(Value::Number(number)) => number.as_u64(),
        Some(Value::String(text)) => text.parse().ok(),
        Some(_) => None,
    };
    let number = number.ok_or_else(|| bad(format!("parameter `{name}` must be a positive integer")))?;
    Ok(number.clamp(least, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(value: Value) -> Result<Spec, Failure> {
        Spec::parse(value.as_object().unwrap(), &Defaults::default())
    }

    #[test]
    fn base_id_depends_on_endpoints_and_choice_only() {
        let id = |value: Value| parse(value).unwrap().base_id("server");
        let plain = id(json!({ "source": "a", "target": "b" }));
        assert_eq!(plain.len(), 32);
        assert_eq!(
            plain,
            id(json!({ "source": "a", "target": "b", "continuous": true, "worker_processes": "2" }))
        );
        assert_eq!(
            id(json!({ "source": "a", "target": "b", "doc_ids": ["y", "x", "y"] })),
            id(json!({ "source": "a", "target": "b", "doc_ids": ["x", "%79"] }))
        );
        for other in [
            json!({ "source": "b", "target": "a" }),
            json!({ "source": "a", "target": "b", "doc_ids": ["x"] }),
            json!({ "source": "a", "target": "b", "selector": { "x": 1 } }),
            json!({ "source": "a", "target": "b", "filter": "d/f" }),
            json!({ "source": "a", "target": "b", "winning_revs_only": true }),
        ] {
            assert_ne!(plain, id(other));
        }
        let spec = parse(json!({ "source": "a", "target": "b", "continuous": true, "create_target": true }))
            .unwrap();
        assert_eq!(spec.extension(), "+continuous+create_target");
        let filtered = |code| Spec::filtered_id(&plain, code);
        assert_eq!((filtered("f").len(), filtered(" f\n")), (32, filtered("f")));
        assert!(filtered("f") != filtered("g") && filtered("f") != plain);
    }

    #[test]
    fn invalid_options_are_refused() {
        for (extra, reason) in [
            (json!({ "continuous": 1 }), "parameter `continuous` must be a boolean"),
            (json!({ "doc_ids": "x" }), "parameter `doc_ids` must be an array"),
            (json!({ "selector": [] }), "parameter `selector` must be a JSON object"),
            (json!({ "query_params": 1 }), "parameter `query_params` must be an object"),
            (
                json!({ "doc_ids": [], "filter": "a/b" }),
                "`doc_ids`,`filter`,`selector` are mutually exclusive",
            ),
            (json!({ "filter": "ab" }), "Invalid filter. Must match `ddocname/filtername`."),
            (json!({ "worker_processes": -1 }), "parameter `worker_processes` must be a positive integer"),
        ] {
            let mut object = json!({ "source": "a", "target": "b" });
            object.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            let failure = parse(object).unwrap_err();
            assert_eq!((failure.error.as_str(), failure.reason.as_str()), ("bad_request", reason));
        }
        assert_eq!(parse(json!({ "target": "b" })).unwrap_err().reason, "Missing replicator database");
        let body = json!({ "cancel": true, "replication_id": "abc continuous" });
        assert!(
            matches!(Wanted::parse(body.as_object().unwrap(), &Defaults::default()), Ok(Wanted::Cancel(id)) if id == "abc+continuous")
        );
    }
}

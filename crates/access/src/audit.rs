//! The audit log: a line of JSON for each sign-in, refusal, and change of users, roles, security objects and settings.

use crate::principal::Caller;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The audit log, if there is one.
#[derive(Default)]
pub struct Audit {
    file: Option<Mutex<File>>,
}

impl Audit {
    /// Appends to this file. Only its owner may read it if it is created.
    pub fn open(path: &Path) -> io::Result<Audit> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        Ok(Audit { file: Some(Mutex::new(file)) })
    }

    /// Whether events are recorded at all, so that a caller need not describe them.
    pub fn is_on(&self) -> bool {
        self.file.is_some()
    }

    /// Records an event: who made it from where, and its details. Details never hold a password or a verifier.
    pub fn record(&self, event: &str, caller: &Caller, address: Option<IpAddr>, details: Value) {
        let Some(file) = &self.file else { return };
        let mut line = Map::new();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        line.insert("ts".to_owned(), json!(now.as_millis() as u64));
        line.insert("event".to_owned(), json!(event));
        line.insert("address".to_owned(), json!(address.map(|address| address.to_string())));
        let user = caller.principal().map(|user| json!({ "user": user.name.user, "db": user.name.database }));
        line.insert("user".to_owned(), json!(user));
        if let Value::Object(details) = details {
            line.extend(details);
        }
        let mut text = Value::Object(line).to_string();
        text.push('\n');
        if let Err(error) = file.lock().write_all(text.as_bytes()) {
            tracing::error!(%error, "cannot write to the audit log");
        }
    }
}

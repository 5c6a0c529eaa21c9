//! The audit log: a line of JSON for each sign-in, refusal, and change of users, roles, security objects and settings.

use crate::principal::Caller;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// How many entries are kept in memory.
const RECENT: usize = 500;

/// The audit log: a file if there is one, and the last entries in memory.
#[derive(Default)]
pub struct Audit {
    file: Option<Mutex<File>>,
    recent: Mutex<VecDeque<Value>>,
}

impl Audit {
    /// Appends to this file. Only its owner may read it if it is created.
    pub fn open(path: &Path) -> io::Result<Audit> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        Ok(Audit { file: Some(Mutex::new(file)), recent: Mutex::default() })
    }

    /// The last entries, the newest first, at most `limit`.
    pub fn recent(&self, limit: usize) -> Vec<Value> {
        self.recent.lock().iter().rev().take(limit).cloned().collect()
    }

    /// Records an event: who made it from where, and its details. Details never hold a password or a verifier.
    pub fn record(&self, event: &str, caller: &Caller, address: Option<IpAddr>, details: Value) {
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
        let entry = Value::Object(line);
        let mut text = entry.to_string();
        text.push('\n');
        {
            let mut recent = self.recent.lock();
            if recent.len() >= RECENT {
                recent.pop_front();
            }
            recent.push_back(entry);
        }
        let Some(file) = &self.file else { return };
        if let Err(error) = file.lock().write_all(text.as_bytes()) {
            tracing::error!(%error, "cannot write to the audit log");
        }
    }
}

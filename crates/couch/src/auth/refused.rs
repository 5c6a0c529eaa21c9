//! Refusals in the audit log: those of the route table, and those that handlers make.

use crate::server::Couch;
use diwan_access::Caller;
use hyper::Method;
use serde_json::json;
use std::net::IpAddr;

/// How many characters of a path the audit log shows.
const SHOWN_PATH: usize = 1000;

/// Whose request may be refused. It is made before the request is given to its handler.
pub(crate) struct Witness {
    caller: Caller,
    peer: IpAddr,
    method: Method,
    path: String,
}

impl Witness {
    /// What the audit log needs to know of a request.
    pub(crate) fn of(caller: &Caller, peer: IpAddr, method: &Method, path: &str) -> Witness {
        let path = path.chars().take(SHOWN_PATH).collect();
        Witness { caller: caller.clone(), peer, method: method.clone(), path }
    }

    /// Records that the request was refused, or the edit of one of its documents.
    pub(crate) fn refused(&self, couch: &Couch, document: Option<&str>, reason: &str) {
        let mut details = json!({
            "interface": "http", "method": self.method.as_str(), "path": self.path, "reason": reason
        });
        if let Some(document) = document {
            details["document"] = json!(document);
        }
        couch.access.audit.record("refused", &self.caller, Some(self.peer), details);
    }
}

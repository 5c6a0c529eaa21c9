//! Refusals in the audit log: those of the route table, and those that handlers make.

use crate::server::Couch;
use diwan_access::Caller;
use hyper::Method;
use serde_json::json;
use std::net::IpAddr;

/// Whose request may be refused. It is made before the request is given to its handler.
pub(crate) struct Witness {
    caller: Caller,
    peer: IpAddr,
    method: Method,
    path: String,
}

impl Witness {
    /// What the audit log needs to know of a request; `None` if there is no log.
    pub(crate) fn of(
        couch: &Couch,
        caller: &Caller,
        peer: IpAddr,
        method: &Method,
        path: &str,
    ) -> Option<Witness> {
        let make = || Witness { caller: caller.clone(), peer, method: method.clone(), path: path.to_owned() };
        couch.access.audit.is_on().then(make)
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

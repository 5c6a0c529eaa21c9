//! What a request's path leads to, and whether its caller may go there.

use super::Response;
use crate::auth::{Witness, rights};
use crate::error::Result;
use crate::routes::{self, Found};
use crate::server::Couch;
use diwan_access::Caller;
use hyper::Method;
use std::net::IpAddr;

/// What a path leads to.
pub enum Reached {
    /// A row of the route table.
    Row(Found),
    /// An answer that is not CouchDB's.
    Extra(Response),
}

/// Paths outside CouchDB's API that everybody reaches.
const PROBES: [&str; 2] = ["/healthz", "/readyz"];

/// Answers such a path.
pub fn probe(couch: &Couch, path: &str) -> Option<Response> {
    if PROBES.contains(&path) { extra(couch, path) } else { None }
}

/// Answers a path outside CouchDB's API.
fn extra(couch: &Couch, path: &str) -> Option<Response> {
    let (status, text) = (couch.config.extra)(path)?;
    Some(Response::new(status, "text/plain; version=0.0.4; charset=utf-8", text))
}

/// Finds what the request is for, and refuses a caller who lacks the right to it.
pub fn route(couch: &Couch, caller: &Caller, method: &Method, path: &str, peer: IpAddr) -> Result<Reached> {
    let found = match routes::find(method, path) {
        // Whoever must sign in first learns nothing else.
        Err(_) if matches!(caller, Caller::Anonymous) && couch.access.needs_valid_user() => {
            Err(rights::sign_in_first())
        }
        Err(error) => return Err(error),
        Ok(found) => match extra(couch, path) {
            None => found.check(couch, caller).map(|()| Reached::Row(found)),
            Some(response) => {
                rights::check(couch, caller, rights::Needs::Metrics, "").map(|()| Reached::Extra(response))
            }
        },
    };
    found.inspect_err(|error| {
        if error.is_refusal() {
            Witness::of(caller, peer, method, path).refused(couch, None, &error.reason);
        }
    })
}

//! A database of this server: calls the handlers directly, without a socket.

use super::{Answer, Call, Chunks, Payload, Peer};
use crate::error::Error;
use crate::http::{BSON, Body, Query, Request, Response, ResponseBody, RowReader};
use crate::replicator::context::UserContext;
use crate::replicator::failure::Failure;
use crate::replicator::stop::Stop;
use crate::routes;
use crate::server::Couch;
use diwan_access::{Caller, SERVER_ADMIN};
use diwan_query::Interrupt;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, SERVER};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::io::{Cursor, Read};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Weak};
use tokio::runtime::Handle;

/// A database of this server.
pub(crate) struct Local {
    /// Weak, so that a replication does not keep a closed server alive.
    couch: Weak<Couch>,
    runtime: Handle,
    stop: Stop,
    name: String,
    path: String,
    /// With whose rights requests are made, and which of them; `None` for the server itself.
    caller: Option<(Caller, Option<UserContext>)>,
}

impl Local {
    /// Creates a peer for the database of this name, with the rights of this caller or what he gives of them.
    pub(crate) fn new(
        couch: &Arc<Couch>,
        runtime: Handle,
        name: &str,
        stop: Stop,
        caller: Option<(Caller, Option<UserContext>)>,
    ) -> Local {
        let path = format!("/{}", utf8_percent_encode(name, NON_ALPHANUMERIC));
        Local { couch: Arc::downgrade(couch), runtime, stop, name: name.to_owned(), path, caller }
    }
}

impl Peer for Local {
    fn uri(&self) -> &str {
        &self.name
    }

    fn send(&self, call: Call) -> Result<Answer, Failure> {
        if self.stop.is_stopped() {
            return Err(Failure::stopped());
        }
        let couch = self.couch.upgrade().ok_or_else(Failure::stopped)?;
        let server = couch.server_header.clone();
        // Handlers of feeds spawn tasks, so they need the runtime.
        let _entered = self.runtime.enter();
        let (path, query) = match call.path.split_once('?') {
            Some((path, query)) => (path, query),
            None => (call.path.as_str(), ""),
        };
        let path = match path {
            "" => self.path.clone(),
            path => format!("{}/{path}", self.path),
        };
        let caller = match &self.caller {
            // The replicator itself, which reads its own databases.
            None => Caller::User(
                couch
                    .access
                    .external("_replicator", &[SERVER_ADMIN.to_owned()], None)
                    .map_err(Error::from)?,
            ),
            Some((owner, context)) => {
                let owner = couch.access.renew(owner).map_err(Error::from)?;
                match context {
                    None => owner,
                    Some(context) => context.apply(&couch.access, owner)?,
                }
            }
        };
        let found = routes::find(&call.method, &path);
        let found = found.and_then(|found| found.check(&couch, &caller).map(|()| found));
        let response = match found {
            Err(error) => error.into(),
            Ok(found) => {
                let mut headers = HeaderMap::new();
                headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
                for (name, value) in call.headers {
                    headers.insert(name, HeaderValue::from_static(value));
                }
                let body = match call.payload {
                    Payload::Empty => Body::Empty,
                    Payload::Json(bytes) => {
                        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                        Body::Bytes(bytes)
                    }
                    Payload::Bson(bytes) => {
                        headers.insert(CONTENT_TYPE, HeaderValue::from_static(BSON));
                        Body::Bytes(bytes)
                    }
                    Payload::Stream { content_type, length, reader } => {
                        if let Ok(value) = HeaderValue::from_str(&content_type) {
                            headers.insert(CONTENT_TYPE, value);
                        }
                        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
                        Body::Reader(reader)
                    }
                };
                let mut request = Request {
                    couch,
                    peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
                    local: IpAddr::V4(Ipv4Addr::LOCALHOST),
                    is_tls: false,
                    caller,
                    handler: None,
                    method: call.method,
                    path,
                    params: found.params,
                    query: Query::parse(query),
                    headers,
                    body,
                    interrupt: Interrupt::new(),
                    may_wait: true,
                };
                let response = (found.handler)(&mut request).unwrap_or_else(Response::from);
                // The connection would wait for durability after the handler; here the replication's thread does.
                let after = response.after.filter(|_| !call.relaxed);
                match after.map(|commit| request.couch.store.engine().wait_durable(commit)) {
                    Some(Err(error)) => Error::from(error).into(),
                    _ => response,
                }
            }
        };
        self.answer(response, server)
    }
}

impl Local {
    fn answer(&self, response: Response, server: HeaderValue) -> Result<Answer, Failure> {
        let chunks = |ready, source| -> Box<dyn Read + Send> {
            Box::new(Chunks { runtime: self.runtime.clone(), stop: self.stop.clone(), source, ready })
        };
        let body = match response.body {
            ResponseBody::Bytes(bytes) => Box::new(Cursor::new(bytes)),
            ResponseBody::Feed(feed) => chunks(Bytes::new(), feed),
            ResponseBody::Rows(rows) => Box::new(RowReader::new(rows)),
        };
        let mut headers: HeaderMap = response.headers.into_iter().collect();
        headers.insert(SERVER, server);
        Ok(Answer { status: response.status.as_u16(), headers, body })
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::new(error.error, error.reason)
    }
}

//! The end of each request: the headers that depend on the request and not on the handler.

use super::cors::Page;
use super::jsonp::Callback;
use super::response::ResponseBody;
use super::{Chunks, Outgoing, Response};
use crate::error::Error;
use crate::server::Couch;
use hyper::StatusCode;
use hyper::header::{HeaderValue, SERVER, SET_COOKIE, WWW_AUTHENTICATE};
use hyper::http::request::Parts;
use std::sync::Arc;

/// The header by which a client chooses how it is asked for a password.
const CHALLENGE: &str = "x-couchdb-www-authenticate";

/// How a browser is asked for a password.
const BASIC: &str = "Basic realm=\"server\"";

/// What a response takes from its request.
pub struct Ending {
    couch: Arc<Couch>,
    /// Where it comes from.
    pub page: Page,
    challenge: Option<HeaderValue>,
    callback: Callback,
    /// A cookie that continues the caller's session.
    pub renewal: Option<String>,
}

impl Ending {
    /// Reads the head of a request.
    pub fn of(couch: &Arc<Couch>, head: &Parts) -> Ending {
        let headers = &head.headers;
        let authority = head.uri.authority().map(|authority| authority.as_str());
        Ending {
            couch: couch.clone(),
            page: Page::of(headers, authority),
            challenge: headers.get(CHALLENGE).cloned(),
            callback: Callback::of(couch, head.uri.query()),
            renewal: None,
        }
    }

    /// Converts an error for hyper.
    pub fn refuse(self, error: Error) -> hyper::Response<Outgoing> {
        self.finish(error.into(), None)
    }

    /// Converts a response for hyper.
    pub fn finish(self, response: Response, chunks: Option<Chunks>) -> hyper::Response<Outgoing> {
        let (response, chunks) = self.callback.wrap(response, chunks);
        let mut response = self.page.decorate(&self.couch, response);
        let has = |response: &Response, name| response.headers.iter().any(|(header, _)| header == name);
        // A form for sign-ins that failed clears the cookie. It is no reason to ask for a password in another way.
        if response.status == StatusCode::UNAUTHORIZED
            && !has(&response, WWW_AUTHENTICATE)
            && !has(&response, SET_COOKIE)
            && let Some(challenge) = self.challenge()
        {
            response.headers.push((WWW_AUTHENTICATE, challenge));
        }
        // Signing in and out set the cookie themselves.
        if let Some(cookie) = self.renewal.as_ref().filter(|_| !has(&response, SET_COOKIE)) {
            response = response.with_header(SET_COOKIE, cookie);
        }
        self.send(response, chunks)
    }

    /// Converts the answer to a preflight request, whose headers are complete.
    pub fn finish_preflight(self, response: Response) -> hyper::Response<Outgoing> {
        self.send(response, None)
    }

    fn send(self, response: Response, chunks: Option<Chunks>) -> hyper::Response<Outgoing> {
        let body = match (chunks, response.body) {
            (Some(chunks), _) => Outgoing::Chunks(chunks),
            (None, ResponseBody::Bytes(bytes)) => Outgoing::Whole(bytes),
            (None, _) => Outgoing::Empty,
        };
        let mut out = hyper::Response::new(body);
        *out.status_mut() = response.status;
        // Reserve room for the headers added below and by hyper.
        out.headers_mut().reserve(response.headers.len() + 5);
        for (name, value) in response.headers {
            out.headers_mut().append(name, value);
        }
        out.headers_mut().insert(SERVER, self.couch.server_header.clone());
        out
    }

    /// The challenge of a 401: the one that the client or a setting chooses; else CouchDB sends one where all callers
    /// must sign in.
    fn challenge(&self) -> Option<HeaderValue> {
        if self.challenge.is_some() {
            return self.challenge.clone();
        }
        let set = self.couch.setting("chttpd", "WWW-Authenticate").filter(|value| !value.is_empty());
        match set {
            Some(value) => HeaderValue::try_from(value).ok(),
            None if self.couch.access.needs_valid_user() => Some(HeaderValue::from_static(BASIC)),
            None => None,
        }
    }
}

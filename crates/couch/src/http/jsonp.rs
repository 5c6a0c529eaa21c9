//! JSONP: with the setting `chttpd/allow_jsonp`, JSON answers become calls of the function that the parameter `callback`
//! names, so that a page of any origin can read them with a script element.
//!
//! As in CouchDB, this concerns all answers of the server in JSON, also errors, and no attachments nor answers of list
//! and show functions. A name that is not allowed is noticed when the answer begins.

use super::response::{Response, ResponseBody};
use super::{Chunks, Query};
use crate::error::Error;
use crate::server::Couch;
use hyper::body::Bytes;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE};

/// Ends the call.
const END: &[u8] = b");\n";

/// The function that a request wants to be called.
pub struct Callback {
    name: Option<String>,
}

impl Callback {
    /// Reads the query string of a request.
    pub fn of(couch: &Couch, query: Option<&str>) -> Callback {
        // Few requests have the parameter; the setting of all others is not needed.
        let query =
            query.filter(|text| text.contains("callback") && couch.setting_flag("chttpd", "allow_jsonp"));
        let name = query.and_then(|text| Query::parse(text).get("callback").map(str::to_owned));
        Callback { name: name.filter(|name| !name.is_empty()) }
    }

    /// Wraps the answer, if it is one to wrap.
    pub fn wrap(&self, response: Response, chunks: Option<Chunks>) -> (Response, Option<Chunks>) {
        let Some(name) = self.name.as_ref().filter(|_| response.is_json) else { return (response, chunks) };
        if !is_function_name(name) {
            return (Error::bad_request("invalid_callback").into(), None);
        }
        let start = format!("/* CouchDB */{name}(");
        // The type goes with the body; `with_header` is for handlers that answer in another one.
        let mut response = response.with_header(CONTENT_TYPE, "application/javascript");
        response.headers.retain(|(header, _)| header != CONTENT_LENGTH);
        let body = std::mem::replace(&mut response.body, ResponseBody::Bytes(Bytes::new()));
        response.body = match body {
            ResponseBody::Bytes(bytes) if chunks.is_none() => {
                let json = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
                ResponseBody::Bytes([start.as_bytes(), json, END].concat().into())
            }
            body => body,
        };
        let chunks = chunks.map(|chunks| {
            let first = [start.as_bytes(), &chunks.first.unwrap_or_default()].concat();
            Chunks { first: Some(first.into()), last: Some(Bytes::from_static(END)), length: None, ..chunks }
        });
        (response, chunks)
    }
}

/// Whether a text can only be the name of a function, or of a member of an object or a list.
fn is_function_name(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._[]".contains(&byte))
}

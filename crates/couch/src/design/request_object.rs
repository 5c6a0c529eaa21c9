//! The request object that functions of design documents receive.

use crate::database;
use crate::edit::user_context;
use crate::error::Result;
use crate::http::Request;
use diwan_store::Collection;
use hyper::header::COOKIE;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

/// Formats the request as CouchDB passes it to functions. `doc_id` is the document in the path, `body` the request's
/// body as text.
pub(crate) fn request_object(
    request: &Request,
    collection: &Collection,
    doc_id: Option<&str>,
    body: &[u8],
) -> Result<String> {
    let path = parts(&request.path);
    let requested = request.named_header(REQUESTED_PATH).unwrap_or(&request.path);
    let query: Map<String, Value> =
        request.query.iter().map(|(name, value)| (name.to_owned(), typed(name, value))).collect();
    let raw_query = request.query.text();
    let raw_path =
        if raw_query.is_empty() { request.path.clone() } else { format!("{}?{raw_query}", request.path) };
    let headers: Map<String, Value> = request
        .headers
        .iter()
        .map(|(name, value)| (header_name(name.as_str()), json!(String::from_utf8_lossy(value.as_bytes()))))
        .collect();
    let form = match request.content_type().as_deref() {
        Some("application/x-www-form-urlencoded") => pairs(&String::from_utf8_lossy(body)),
        _ => Map::new(),
    };
    let name = request.param("db");
    let object = json!({
        "info": database::info(name, collection)?,
        "id": doc_id,
        "uuid": request.couch.new_id(),
        "method": request.method.as_str(),
        "requested_path": parts(requested),
        "path": path,
        "raw_path": raw_path,
        "query": query,
        "headers": headers,
        "body": if body.is_empty() { Value::from("undefined") } else { String::from_utf8_lossy(body).into() },
        "peer": request.peer.to_string(),
        "form": form,
        "cookie": cookies(request),
        "userCtx": user_context(&request.caller, name),
        "secObj": serde_json::from_slice::<Value>(&database::security(collection)).unwrap_or_default()
    });
    Ok(object.to_string())
}

/// The header with the path before it was rewritten.
pub(crate) const REQUESTED_PATH: &str = "x-couchdb-requested-path";

/// Splits a path into percent-decoded segments.
fn parts(path: &str) -> Vec<String> {
    let path = path.split('?').next().unwrap_or_default();
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts.map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned()).collect()
}

/// Parses the cookies of a request.
fn cookies(request: &Request) -> Map<String, Value> {
    let pairs = request.header(COOKIE).unwrap_or_default().split(';').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().trim_matches('"').into())).collect()
}

/// Like CouchDB, parse the parameters that are JSON; all others are text.
fn typed(name: &str, value: &str) -> Value {
    match name {
        "key" | "startkey" | "endkey" | "descending" => {
            serde_json::from_str(value).unwrap_or_else(|_| value.into())
        }
        _ => value.into(),
    }
}

/// Parses the fields of a form.
fn pairs(text: &str) -> Map<String, Value> {
    let query = crate::http::Query::parse(text);
    query.iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
}

/// Capitalizes a header's name: functions look up `Content-Type`.
fn header_name(name: &str) -> String {
    let mut upper = true;
    name.chars()
        .map(|c| {
            let out = if upper { c.to_ascii_uppercase() } else { c };
            upper = c == '-';
            out
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_object_values_match_couchdb() {
        assert_eq!(header_name("content-type"), "Content-Type");
        assert_eq!(typed("key", "[1]"), json!([1]));
        assert_eq!(typed("n", "1"), json!("1"));
        assert_eq!(parts("/a%20b//c?d"), ["a b", "c"]);
        assert_eq!(pairs("a=1&b=x+y")["b"], json!("x y"));
    }
}

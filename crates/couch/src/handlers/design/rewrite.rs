//! `/{db}/_design/{ddoc}/_rewrite/{path}`: redirects a request within the database, by the rules or the function in a
//! design document.
//!
//! A rule is `{from, to, method, query, formats}`. In `from`, `:name` matches one segment and a trailing `*` matches
//! the rest. Both can be used in `to` and in the values of `query`; `formats` states which of them are numbers or
//! booleans. The first matching rule applies.

use crate::design::{REQUESTED_PATH, answer, request_object};
use crate::error::{Error, Result};
use crate::http::{Body, Query, Request, Response};
use crate::routes;
use diwan_script::Design;
use hyper::Method;
use hyper::header::{HeaderName, HeaderValue};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

/// How often a request may be rewritten; prevents cycles of rules.
const MOST: usize = 100;

/// The header that counts the rewrites of a request.
const COUNT: HeaderName = HeaderName::from_static("x-diwan-rewrites");

/// Rewrites the request and answers it.
pub(crate) fn call(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let design = request.design(&collection)?;
    let count = request.header(COUNT).and_then(|count| count.parse::<usize>().ok()).unwrap_or(0);
    if count >= MOST {
        return Err(Error::bad_request("Exceeded rewrite recursion limit"));
    }
    request.headers.insert(COUNT, HeaderValue::from(count + 1));
    if count == 0 {
        let requested = HeaderValue::from_str(&request.path).map_err(|_| invalid_path())?;
        request.headers.insert(REQUESTED_PATH, requested);
    }
    match design.fields().get("rewrites") {
        None => Err(invalid_path()),
        Some(Value::Array(rules)) => {
            let rules = rules.clone();
            by_rules(request, &rules)
        }
        Some(_) => by_function(request, &design, &collection),
    }
}

fn invalid_path() -> Error {
    Error::new(404, "rewrite_error", "Invalid path.")
}

fn by_rules(request: &mut Request, rules: &[Value]) -> Result<Response> {
    let path = request.param("path").to_owned();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    for rule in rules {
        let text = |name: &str| rule.get(name).and_then(Value::as_str);
        let method = text("method").unwrap_or("*");
        if method != "*" && !method.eq_ignore_ascii_case(request.method.as_str()) {
            continue;
        }
        let Some(mut bound) = bind(text("from").unwrap_or("*"), &parts) else { continue };
        for (name, value) in request.query.iter() {
            bound.entry(name).or_insert_with(|| value.into());
        }
        let to = text("to").unwrap_or("");
        let is_secure = request.couch.setting_flag("chttpd", "secure_rewrites");
        if is_secure && to.split('/').filter(|part| *part == "..").count() > MOST_UP {
            return Err(Error::new(500, "insecure_rewrite_rule", "too many ../.. segments"));
        }
        let target = fill_path(to, &bound);
        let mut query = request.query.clone();
        let formats = rule.get("formats").and_then(Value::as_object);
        for (name, value) in rule.get("query").and_then(Value::as_object).into_iter().flatten() {
            query.set(name, &fill_value(value, &bound, formats, name));
        }
        // Names bound in the path are also available as query parameters.
        for (name, value) in bound.iter().filter(|(name, _)| *name != "*") {
            if query.get(name).is_none() {
                query.set(name, value.as_str().unwrap_or_default());
            }
        }
        request.query = query;
        return dispatch(request, &target, !is_secure);
    }
    Err(Error::missing())
}

/// How many `..` segments a rule may use: from its design document up to the database.
const MOST_UP: usize = 2;

/// Matches a path against a pattern and returns the bound names.
fn bind(from: &str, parts: &[&str]) -> Option<Map<String, Value>> {
    let mut bound = Map::new();
    let mut rest = parts;
    for expected in from.split('/').filter(|part| !part.is_empty()) {
        if expected == "*" {
            bound.insert("*".to_owned(), rest.join("/").into());
            return Some(bound);
        }
        let (part, after) = rest.split_first()?;
        match expected.strip_prefix(':') {
            Some(name) => {
                bound.insert(name.to_owned(), (*part).into());
            }
            None if expected == *part => {}
            None => return None,
        }
        rest = after;
    }
    rest.is_empty().then_some(bound)
}

/// Substitutes bound names in a path.
fn fill_path(to: &str, bound: &Map<String, Value>) -> String {
    let text = |name: &str| bound.get(name).and_then(Value::as_str);
    let parts = to.split('/').filter(|part| !part.is_empty()).map(|part| match part.strip_prefix(':') {
        // CouchDB substitutes this for an unbound name.
        Some(name) => text(name).unwrap_or("undefined"),
        None if part == "*" => text("*").unwrap_or_default(),
        None => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Substitutes bound names in a query parameter and formats it as in a URL.
fn fill_value(
    value: &Value,
    bound: &Map<String, Value>,
    formats: Option<&Map<String, Value>>,
    name: &str,
) -> String {
    let is_key = matches!(name, "key" | "keys" | "startkey" | "endkey" | "start_key" | "end_key");
    let fill = |name: &str| {
        let value = bound.get(name)?;
        let format = formats.and_then(|formats| formats.get(name)).and_then(Value::as_str);
        Some(formatted(value, format.unwrap_or_default()))
    };
    match value {
        Value::String(text) => {
            let filled = text.strip_prefix(':').or((text == "*").then_some("*")).and_then(fill);
            match filled.as_ref().unwrap_or(value) {
                Value::String(text) if is_key && filled.is_some() => Value::from(text.as_str()).to_string(),
                Value::String(text) if is_key && serde_json::from_str::<Value>(text).is_err() => {
                    Value::from(text.as_str()).to_string()
                }
                Value::String(text) => text.clone(),
                other => other.to_string(),
            }
        }
        Value::Array(items) => {
            let filled: Vec<Value> = items
                .iter()
                .map(|item| {
                    let name = item.as_str().and_then(|text| text.strip_prefix(':'));
                    name.and_then(fill).unwrap_or_else(|| item.clone())
                })
                .collect();
            Value::Array(filled).to_string()
        }
        other => other.to_string(),
    }
}

/// Converts a bound text to its format; unchanged if it does not parse.
fn formatted(value: &Value, format: &str) -> Value {
    let Value::String(text) = value else { return value.clone() };
    let made = match format {
        "int" => text.parse::<i64>().ok().map(Value::from),
        "bool" => text.to_ascii_lowercase().parse::<bool>().ok().map(Value::from),
        _ => None,
    };
    made.unwrap_or_else(|| value.clone())
}

fn by_function(
    request: &mut Request,
    design: &Design,
    collection: &diwan_store::Collection,
) -> Result<Response> {
    let body = request.read_body()?;
    let object = request_object(request, collection, None, &body)?;
    let text = request.couch.scripts.rewrite(design, &object)?;
    let answered: Value = serde_json::from_str(&text).map_err(|error| Error::internal(error.to_string()))?;
    let target = match &answered {
        Value::String(path) => path.clone(),
        // The function answers the request itself.
        Value::Object(members) if members.contains_key("code") => {
            let copied =
                members.iter().filter(|(name, _)| matches!(name.as_str(), "code" | "headers" | "body"));
            let copied: Map<String, Value> =
                copied.map(|(name, value)| (name.clone(), value.clone())).collect();
            return answer(&Value::Object(copied).to_string(), 200);
        }
        Value::Null => return Err(invalid_path()),
        other => {
            let refuse = || failed("Rewrite result must produce a new path.".to_owned());
            other.get("path").and_then(Value::as_str).ok_or_else(refuse)?.to_owned()
        }
    };
    // The function has consumed the body; restore it for the target's handler.
    request.body = Body::Bytes(body);
    if let Some(method) = answered.get("method").and_then(Value::as_str) {
        request.method = Method::try_from(method).map_err(|_| failed(format!("{method} is not a method")))?;
    }
    if let Some(body) = answered.get("body").and_then(Value::as_str) {
        request.body = Body::Bytes(body.to_owned().into());
    }
    for (name, value) in answered.get("headers").and_then(Value::as_object).into_iter().flatten() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let name = HeaderName::try_from(name.as_str()).ok().filter(|name| *name != COUNT);
        if let (Some(name), Ok(value)) = (name, HeaderValue::try_from(text)) {
            request.headers.insert(name, value);
        }
    }
    if let Some(query) = answered.get("query").and_then(Value::as_object) {
        request.query = Query::default();
        for (name, value) in query {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            request.query.set(name, &text);
        }
    }
    dispatch(request, &target, true)
}

fn failed(reason: String) -> Error {
    Error::new(500, "rewrite_error", reason)
}

/// Answers the request at a path relative to its design document. As in CouchDB, a function may leave the database
/// with `..` but a rule may not. A leading slash has no effect.
fn dispatch(request: &mut Request, target: &str, may_leave: bool) -> Result<Response> {
    let (target, query) = target.split_once('?').unwrap_or((target, ""));
    let design = request.param("ddoc").to_owned();
    let database = request.param("db").to_owned();
    let mut parts: Vec<&str> = vec![&database, "_design", &design];
    for part in target.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let escape = |part: &&str| utf8_percent_encode(part, NON_ALPHANUMERIC).to_string();
    let path = format!("/{}", parts.iter().map(escape).collect::<Vec<_>>().join("/"));
    for (name, value) in Query::parse(query).iter() {
        request.query.set(name, value);
    }
    let found = routes::find(&request.method, &path)?;
    let reached = found.params.iter().find(|(name, _)| *name == "db").map(|(_, value)| value.as_str());
    if !may_leave && reached != Some(database.as_str()) {
        return Err(Error::forbidden("A rewrite rule must not leave its database"));
    }
    found.check(&request.couch, &request.caller)?;
    request.params = found.params;
    request.path = path;
    (found.handler)(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rewrite_rules_match_and_substitute() {
        let bound = bind("/posts/:id/*", &["posts", "7", "a", "b"]).unwrap();
        assert_eq!(Value::Object(bound.clone()), json!({ "id": "7", "*": "a/b" }));
        assert!(bind("/posts/:id", &["posts"]).is_none() && bind("/posts", &["posts", "7"]).is_none());
        assert!(bind("", &[]).is_some() && bind("*", &[]).is_some());
        assert_eq!(fill_path("/_show/post/:id/*", &bound), "_show/post/7/a/b");
        assert_eq!(fill_path(":none", &bound), "undefined");
        let fill = |value: Value, name: &str| fill_value(&value, &bound, None, name);
        assert_eq!(fill(json!([":id", 1]), "startkey"), r#"["7",1]"#);
        assert_eq!((fill(json!(":id"), "key"), fill(json!(":id"), "rev")), (r#""7""#.into(), "7".into()));
        assert_eq!(fill(json!(true), "descending"), "true");
        let formats = json!({ "id": "int" });
        assert_eq!(fill_value(&json!(":id"), &bound, formats.as_object(), "key"), "7");
        assert_eq!(formatted(&json!("TRUE"), "bool"), json!(true));
        assert_eq!(formatted(&json!("x"), "int"), json!("x"));
    }
}

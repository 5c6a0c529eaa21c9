//! The table of all routes.
//!
//! A pattern is a path whose parts are literal, `{name}` for any one part, or `{name*}` for one or more to the end, with
//! their slashes. Parts are compared unescaped. The first pattern that fits counts, so literal ones stand before those
//! with placeholders. A path that fits with another method answers 405 and says which methods there are.

use crate::error::{Error, Result};
use crate::handlers::*;
use crate::http::{Request, Response};
use hyper::Method;
use percent_encoding::percent_decode_str;
use std::sync::LazyLock;

/// Answers a request. The handler of a quick route may run in a task of the runtime; all others, on a thread that may
/// block.
pub type Handler = fn(&mut Request) -> Result<Response>;

/// One route.
pub struct Route {
    /// The methods, as in `Allow`.
    pub methods: &'static [&'static str],
    /// The path.
    pub pattern: &'static str,
    /// Who answers.
    pub handler: Handler,
    /// Whether the answer is found in little time, without waiting for more than a short read or write of the store.
    pub quick: bool,
}

const fn route(methods: &'static [&'static str], pattern: &'static str, handler: Handler) -> Route {
    Route { methods, pattern, handler, quick: false }
}

/// A route whose handler neither streams, nor scans, nor waits for the disk to sync: what must be durable before the
/// answer is sent it says by [`Response::after`]. Functions of design documents it calls only through
/// [`blocking`](crate::http::blocking).
const fn quick(methods: &'static [&'static str], pattern: &'static str, handler: Handler) -> Route {
    Route { methods, pattern, handler, quick: true }
}

const GET: &[&str] = &["GET", "HEAD"];
const POST: &[&str] = &["POST"];
const PUT: &[&str] = &["PUT"];
const DELETE: &[&str] = &["DELETE"];
const COPY: &[&str] = &["COPY"];
const PATCH: &[&str] = &["PATCH"];
/// Functions of design documents see the method and do as they like.
const FUNCTION: &[&str] = &["DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"];
/// Lists only read.
const LIST: &[&str] = &["GET", "HEAD", "OPTIONS", "POST"];
/// What does the same whatever is asked of it.
const ANY: &[&str] = &["COPY", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"];
/// All that can be asked of a document.
const DOCUMENT: &[&str] = &["COPY", "DELETE", "GET", "HEAD", "PUT"];

/// Every route there is, in the order in which they are tried.
pub const ROUTES: &[Route] = &[
    // The server.
    quick(GET, "/", welcome::get),
    quick(GET, "/_up", up::get),
    route(GET, "/_all_dbs", all_dbs::get),
    route(GET, "/_dbs_info", dbs_info::get),
    route(POST, "/_dbs_info", dbs_info::post),
    quick(GET, "/_uuids", uuids::get),
    quick(GET, "/_membership", membership::get),
    quick(GET, "/_cluster_setup", cluster_setup::get),
    route(POST, "/_cluster_setup", cluster_setup::post),
    quick(GET, "/_session", session::get),
    quick(POST, "/_session", session::post),
    quick(DELETE, "/_session", session::delete),
    route(GET, "/_active_tasks", active_tasks::get),
    route(POST, "/_replicate", replicate::post),
    route(GET, "/_scheduler/jobs", scheduler::jobs),
    route(GET, "/_scheduler/jobs/{job}", scheduler::job),
    route(GET, "/_scheduler/docs", scheduler::docs),
    route(GET, "/_scheduler/docs/{db}", scheduler::docs_of),
    route(GET, "/_scheduler/docs/{db}/{doc*}", scheduler::doc),
    route(GET, "/_scheduler", scheduler::missing),
    route(GET, "/_scheduler/{rest*}", scheduler::missing),
    route(GET, "/_db_updates", db_updates::get),
    quick(GET, "/favicon.ico", favicon::get),
    route(GET, "/_utils", web_interface::get),
    route(GET, "/_utils/{rest*}", web_interface::get),
    route(GET, "/_node/{node}/_stats", node::stats),
    route(GET, "/_node/{node}/_stats/{rest*}", node::stats),
    route(GET, "/_node/{node}/_system", node::system),
    route(GET, "/_node/{node}/_prometheus", node::prometheus),
    route(GET, "/_node/{node}/_versions", node::versions),
    route(GET, "/_node/{node}/_config", config::all),
    route(POST, "/_node/{node}/_config/_reload", config::reload),
    route(GET, "/_node/{node}/_config/{section}", config::section),
    route(GET, "/_node/{node}/_config/{section}/{key}", config::key),
    route(PUT, "/_node/{node}/_config/{section}/{key}", config::refuse),
    route(DELETE, "/_node/{node}/_config/{section}/{key}", config::refuse),
    quick(GET, "/_node/{node}", node::name),
    quick(ANY, "/_node/{node}/{rest*}", node::missing),
    quick(ANY, "/_node", node::unnamed),
    // Databases.
    route(GET, "/{db}", database::get),
    route(PUT, "/{db}", database::put),
    route(DELETE, "/{db}", database::delete),
    quick(POST, "/{db}/_ensure_full_commit", ensure_full_commit::post),
    quick(GET, "/{db}/_shards", shards::get),
    quick(GET, "/{db}/_shards/{doc}", shards::get_document),
    quick(GET, "/{db}/_security", security::get),
    quick(PUT, "/{db}/_security", security::put),
    quick(GET, "/{db}/_revs_limit", revs_limit::get),
    quick(PUT, "/{db}/_revs_limit", revs_limit::put),
    quick(GET, "/{db}/_purged_infos_limit", revs_limit::get_purged_infos),
    quick(PUT, "/{db}/_purged_infos_limit", revs_limit::put_purged_infos),
    route(POST, "/{db}/_purge", purge::post),
    route(POST, "/{db}/_compact", compact::post),
    route(POST, "/{db}/_compact/{ddoc}", compact::post_design),
    route(POST, "/{db}/_view_cleanup", compact::view_cleanup),
    route(POST, "/{db}/_sync_shards", compact::sync_shards),
    // Documents of a database, by their ids, as they change, by queries.
    route(GET, "/{db}/_all_docs", all_docs::get),
    route(POST, "/{db}/_all_docs", all_docs::post),
    route(POST, "/{db}/_all_docs/queries", all_docs::queries),
    route(GET, "/{db}/_design_docs", all_docs::get_design),
    route(POST, "/{db}/_design_docs", all_docs::post_design),
    route(POST, "/{db}/_design_docs/queries", all_docs::queries_design),
    route(GET, "/{db}/_changes", changes::get),
    route(POST, "/{db}/_changes", changes::post),
    route(POST, "/{db}/_find", find::post),
    route(POST, "/{db}/_explain", find::explain),
    route(POST, "/{db}/_aggregate", aggregate::post),
    route(GET, "/{db}/_index", index::get),
    route(POST, "/{db}/_index", index::post),
    route(POST, "/{db}/_index/_bulk_delete", index::bulk_delete),
    route(DELETE, "/{db}/_index/_design/{ddoc}/{kind}/{name}", index::delete),
    route(DELETE, "/{db}/_index/{ddoc}/{kind}/{name}", index::delete),
    route(ANY, "/{db}/_index/_design/{ddoc}/{kind}/{name}", index::missing),
    route(ANY, "/{db}/_index/{rest*}", index::missing),
    route(FUNCTION, "/{db}/_partition", partition::unnamed),
    route(GET, "/{db}/_partition/{partition}", partition::get),
    route(POST, "/{db}/_partition/{partition}", partition::post),
    route(GET, "/{db}/_partition/{partition}/_all_docs", all_docs::get_partition),
    route(POST, "/{db}/_partition/{partition}/_all_docs", all_docs::post_partition),
    route(POST, "/{db}/_partition/{partition}/_find", find::post_partition),
    route(POST, "/{db}/_partition/{partition}/_explain", find::explain_partition),
    route(GET, "/{db}/_partition/{partition}/_index", index::get_partition),
    route(POST, "/{db}/_partition/{partition}/_index", index::post_partition),
    // Documents, many at once.
    quick(POST, "/{db}", document::post),
    route(POST, "/{db}/_bulk_docs", bulk_docs::post),
    route(POST, "/{db}/_bulk_get", bulk_get::post),
    quick(POST, "/{db}/_revs_diff", revs_diff::post),
    quick(POST, "/{db}/_missing_revs", revs_diff::missing_revs),
    // Local documents.
    route(GET, "/{db}/_local_docs", local::list),
    route(POST, "/{db}/_local_docs", local::list_post),
    route(POST, "/{db}/_local_docs/queries", local::queries),
    quick(DOCUMENT, "/{db}/_local", local::refuse_unnamed),
    quick(GET, "/{db}/_local/{local}", document::get),
    quick(PUT, "/{db}/_local/{local}", document::put),
    quick(DELETE, "/{db}/_local/{local}", document::delete),
    quick(COPY, "/{db}/_local/{local}", document::copy),
    quick(DOCUMENT, "/{db}/_local/{local}/{name*}", local::refuse_attachment),
    // Functions of design documents.
    route(POST, "/{db}/_temp_view", view::post_temporary),
    route(GET, "/{db}/_design/{ddoc}/_view/{view}", view::get),
    route(POST, "/{db}/_design/{ddoc}/_view/{view}", view::post),
    route(POST, "/{db}/_design/{ddoc}/_view/{view}/queries", view::queries),
    route(ANY, "/{db}/_design/{ddoc}/_view", view::unnamed),
    route(ANY, "/{db}/_design/{ddoc}/_view/{view}/{rest*}", view::unnamed),
    route(GET, "/{db}/_partition/{partition}/_design/{ddoc}/_view/{view}", view::get),
    route(POST, "/{db}/_partition/{partition}/_design/{ddoc}/_view/{view}", view::post),
    route(GET, "/{db}/_design/{ddoc}/_info", design_info::get),
    route(FUNCTION, "/{db}/_design/{ddoc}/_show", show::unnamed),
    route(FUNCTION, "/{db}/_design/{ddoc}/_show/{show}", show::call),
    route(FUNCTION, "/{db}/_design/{ddoc}/_show/{show}/{doc*}", show::call),
    route(LIST, "/{db}/_design/{ddoc}/_list", list::unnamed),
    route(LIST, "/{db}/_design/{ddoc}/_list/{list}", list::unnamed),
    route(LIST, "/{db}/_design/{ddoc}/_list/{list}/{view}", list::call),
    route(LIST, "/{db}/_design/{ddoc}/_list/{list}/{source}/{view}", list::call),
    route(FUNCTION, "/{db}/_design/{ddoc}/_update", update::unnamed),
    route(FUNCTION, "/{db}/_design/{ddoc}/_update/{update}", update::call),
    route(FUNCTION, "/{db}/_design/{ddoc}/_update/{update}/{doc*}", update::call),
    route(FUNCTION, "/{db}/_design/{ddoc}/_rewrite", rewrite::call),
    route(FUNCTION, "/{db}/_design/{ddoc}/_rewrite/{path*}", rewrite::call),
    route(FUNCTION, "/{db}/_partition/{partition}/{rest*}", partition::missing),
    // Documents and attachments. These come last: a document may be called anything.
    quick(GET, "/{db}/_design/{ddoc}", document::get),
    quick(PUT, "/{db}/_design/{ddoc}", document::put),
    route(POST, "/{db}/_design/{ddoc}", document::post_form),
    quick(DELETE, "/{db}/_design/{ddoc}", document::delete),
    quick(COPY, "/{db}/_design/{ddoc}", document::copy),
    route(GET, "/{db}/_design/{ddoc}/{name*}", attachment::get),
    route(PUT, "/{db}/_design/{ddoc}/{name*}", attachment::put),
    route(DELETE, "/{db}/_design/{ddoc}/{name*}", attachment::delete),
    quick(GET, "/{db}/{doc}", document::get),
    quick(PUT, "/{db}/{doc}", document::put),
    route(POST, "/{db}/{doc}", document::post_form),
    quick(PATCH, "/{db}/{doc}", document::patch),
    quick(DELETE, "/{db}/{doc}", document::delete),
    quick(COPY, "/{db}/{doc}", document::copy),
    route(GET, "/{db}/{doc}/{name*}", attachment::get),
    route(PUT, "/{db}/{doc}/{name*}", attachment::put),
    route(DELETE, "/{db}/{doc}/{name*}", attachment::delete),
];

/// The methods that a path's refusal of another one tells of, where CouchDB tells of others than there are, or in
/// another order.
const TOLD: &[(&str, &str)] = &[
    ("/_uuids", "GET"),
    ("/_membership", "GET"),
    ("/_cluster_setup", "GET,POST"),
    ("/_session", "GET,HEAD,POST,DELETE"),
    ("/_db_updates", "GET"),
    ("/_node/{node}/_stats", "GET"),
    ("/_node/{node}/_system", "GET"),
    ("/_node/{node}/_prometheus", "GET"),
    ("/_node/{node}/_versions", "GET"),
    ("/_node/{node}/_config", "GET"),
    ("/_node/{node}/_config/{section}", "GET"),
    ("/_node/{node}/_config/{section}/{key}", "GET,PUT,DELETE"),
    ("/{db}", "DELETE,GET,HEAD,POST"),
    ("/{db}/_shards", "GET"),
    ("/{db}/_security", "PUT,GET"),
    ("/{db}/_revs_limit", "PUT,GET"),
    ("/{db}/_changes", "GET,POST,HEAD"),
    ("/{db}/_index", "GET,POST"),
    ("/{db}/_partition/{partition}", "GET"),
    ("/{db}/_design/{ddoc}/_view/{view}", "GET,POST,HEAD"),
    ("/{db}/_partition/{partition}/_design/{ddoc}/_view/{view}", "GET,POST,HEAD"),
    ("/{db}/_design/{ddoc}/_info", "GET"),
    ("/{db}/_design/{ddoc}/_list/{list}/{view}", "GET,POST,HEAD"),
    ("/{db}/_design/{ddoc}/_list/{list}/{source}/{view}", "GET,POST,HEAD"),
];

/// A route that fits a request.
pub struct Found {
    /// Who answers.
    pub handler: Handler,
    /// Whether it may do so in a task of the runtime.
    pub quick: bool,
    /// What the placeholders stand for.
    pub params: Vec<(&'static str, String)>,
}

/// One part of a pattern.
enum Part {
    Literal(&'static str),
    /// Any one part of a path, and the parameter that it becomes.
    One(&'static str),
    /// All parts to the end.
    Rest(&'static str),
}

/// The patterns of [`ROUTES`] in their parts, one for each route.
static PATTERNS: LazyLock<Vec<Vec<Part>>> =
    LazyLock::new(|| ROUTES.iter().map(|route| parts_of(route.pattern)).collect());

/// Finds the route of a request.
pub fn find(method: &Method, path: &str) -> Result<Found> {
    let parts = split(path)?;
    if matches!(*method, Method::GET | Method::HEAD) && names_design_as_one_part(path) {
        let db = parts.into_iter().next().unwrap_or_default();
        return Ok(Found { handler: document::redirect, quick: true, params: vec![("db", db)] });
    }
    let mut allowed: Vec<&str> = Vec::new();
    let mut first = None;
    for (route, pattern) in ROUTES.iter().zip(PATTERNS.iter()) {
        if !fits(pattern, &parts) {
            continue;
        }
        // What is not a method of `_all_docs` is not one of a document called so either.
        if *first.get_or_insert(route.pattern) != route.pattern {
            continue;
        }
        if route.methods.contains(&method.as_str()) {
            let params = params(pattern, parts);
            return Ok(Found { handler: route.handler, quick: route.quick, params });
        }
        allowed
            .extend(route.methods.iter().filter(|name| !allowed.contains(name)).copied().collect::<Vec<_>>());
    }
    if allowed.is_empty() {
        return Err(Error::missing());
    }
    allowed.sort_unstable();
    let told = TOLD.iter().find(|told| first == Some(told.0)).map(|told| told.1.to_owned());
    let list = told.unwrap_or_else(|| allowed.join(","));
    Err(Error::method_not_allowed(format!("Only {list} allowed")).with_header("allow", list))
}

/// Whether the part behind the database's is all of a design document's id.
fn names_design_as_one_part(path: &str) -> bool {
    let part = path.split('/').filter(|part| !part.is_empty()).nth(1).unwrap_or_default();
    let begin = part.get(..document::DESIGN_PART.len());
    begin.is_some_and(|begin| begin.eq_ignore_ascii_case(document::DESIGN_PART))
}

/// The parts of a pattern.
fn parts_of(pattern: &'static str) -> Vec<Part> {
    let part = |part: &'static str| match part.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
        None => Part::Literal(part),
        Some(name) => name.strip_suffix('*').map_or(Part::One(name), Part::Rest),
    };
    pattern.split('/').filter(|part| !part.is_empty()).map(part).collect()
}

/// The parts of a path, unescaped. Between two slashes, and behind the last, there is none.
fn split(path: &str) -> Result<Vec<String>> {
    let mut parts = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let decoded = percent_decode_str(part)
            .decode_utf8()
            .map_err(|_| Error::bad_request("The path is not UTF-8 when its escapes are undone"))?;
        // A design or local document's id may come as two parts or as one.
        match decoded.split_once('/') {
            Some((kind @ ("_design" | "_local" | "_partition"), rest)) if !parts.is_empty() => {
                parts.push(kind.to_owned());
                // A local document without a name is none, however its path is written.
                if !(kind == "_local" && rest.is_empty()) {
                    parts.push(rest.to_owned());
                }
            }
            _ => parts.push(decoded.into_owned()),
        }
    }
    Ok(parts)
}

/// Whether a path is of a pattern.
fn fits(pattern: &[Part], parts: &[String]) -> bool {
    let is_open = matches!(pattern.last(), Some(Part::Rest(_)));
    let is_long_enough = if is_open { parts.len() >= pattern.len() } else { parts.len() == pattern.len() };
    is_long_enough
        && pattern.iter().zip(parts).all(|(expected, part)| match expected {
            Part::Literal(literal) => literal == part,
            Part::One(_) | Part::Rest(_) => true,
        })
}

/// The parameters of a path that is of a pattern.
fn params(pattern: &[Part], parts: Vec<String>) -> Vec<(&'static str, String)> {
    let mut params = Vec::new();
    let mut parts = parts.into_iter();
    for expected in pattern {
        let Some(part) = parts.next() else { break };
        match expected {
            Part::Literal(_) => {}
            Part::One(name) => params.push((*name, part)),
            Part::Rest(name) => {
                let rest = parts.by_ref().fold(part, |path, part| path + "/" + &part);
                params.push((*name, rest));
            }
        }
    }
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(pattern: &'static str, path: &str) -> Option<Vec<(&'static str, String)>> {
        let (pattern, parts) = (parts_of(pattern), split(path).unwrap());
        fits(&pattern, &parts).then(|| params(&pattern, parts))
    }

    #[test]
    fn patterns_fit_paths() {
        assert_eq!(fit("/{db}", "/a%2Fb/").unwrap(), [("db", "a/b".to_owned())]);
        assert_eq!(fit("/", "/").unwrap(), []);
        assert_eq!(fit("/{db}/{doc}", "//a//b/").unwrap(), [("db", "a".to_owned()), ("doc", "b".to_owned())]);
        assert!(fit("/{db}", "/a/b").is_none() && fit("/{db}/x", "/a").is_none());
        let design = fit("/{db}/_design/{ddoc}/_view/{view}", "/db/_design%2Fd%20d/_view/v").unwrap();
        assert_eq!(design[1..], [("ddoc", "d d".to_owned()), ("view", "v".to_owned())]);
        let file = fit("/{db}/{doc}/{name*}", "/db/doc%2F1/a/b.txt").unwrap();
        assert_eq!(file[1..], [("doc", "doc/1".to_owned()), ("name", "a/b.txt".to_owned())]);
    }

    #[test]
    fn methods_are_told() {
        let error = find(&Method::PATCH, "/_all_dbs").err().unwrap();
        assert_eq!((error.status, error.reason.as_ref()), (405, "Only GET,HEAD allowed"));
        for (pattern, _) in TOLD {
            assert!(ROUTES.iter().any(|route| route.pattern == *pattern), "{pattern}");
        }
        assert!(find(&Method::GET, "/%ff").is_err());
    }
}

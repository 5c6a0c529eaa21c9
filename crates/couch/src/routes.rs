//! The table of all routes.
//!
//! A pattern is a path of segments. A segment is a literal, `{name}` for any one segment, or `{name*}` for one or
//! more segments up to the end, joined by slashes. Segments are compared after percent-decoding. The first matching
//! pattern wins, so literal patterns stand before patterns with placeholders. If the path matches but the method does
//! not, the answer is 405 with the allowed methods.
//!
//! A trie such as `matchit`'s would not make this shorter: paths would have to be normalized first (`_design%2Fx` is
//! two segments, `a%2Fb` is one, empty segments do not count) and the 405 answers depend on the order of this table.

use crate::error::{Error, Result};
use crate::handlers::administration::{active_tasks, cluster_setup, config, membership, node};
use crate::handlers::databases::{
    changes, compact, database, ensure_full_commit, partition, purge, revs_limit, security, shards,
};
use crate::handlers::design::{info, list, rewrite, show, update, view};
use crate::handlers::documents::{all_docs, attachment, bulk_docs, bulk_get, document, local};
use crate::handlers::queries::{aggregate, find, index};
use crate::handlers::replication::{replicate, revs_diff, scheduler};
use crate::handlers::server::{
    all_dbs, db_updates, dbs_info, favicon, session, up, uuids, web_interface, welcome,
};
use crate::http::{Request, Response};
use hyper::Method;
use percent_encoding::percent_decode_str;
use std::sync::LazyLock;

/// A handler. Those of quick routes may run in a task of the runtime; all others run on a thread that may block.
pub(crate) type Handler = fn(&mut Request) -> Result<Response>;

struct Route {
    /// The methods that the row serves.
    methods: &'static [&'static str],
    /// The path pattern, see the module's documentation.
    pattern: &'static str,
    /// The function that answers.
    handler: Handler,
    /// Whether the handler is short: it does no more than a brief read or write of the store and never waits for the
    /// disk.
    quick: bool,
}

const fn route(methods: &'static [&'static str], pattern: &'static str, handler: Handler) -> Route {
    Route { methods, pattern, handler, quick: false }
}

/// A route whose handler neither streams, nor scans, nor waits for the disk to sync. A handler that needs a durable
/// write names the commit with [`Response::after`], and the connection waits for it. It calls functions of design
/// documents only through [`blocking`](crate::http::blocking).
const fn quick(methods: &'static [&'static str], pattern: &'static str, handler: Handler) -> Route {
    Route { methods, pattern, handler, quick: true }
}

const GET: &[&str] = &["GET", "HEAD"];
const POST: &[&str] = &["POST"];
const PUT: &[&str] = &["PUT"];
const DELETE: &[&str] = &["DELETE"];
const COPY: &[&str] = &["COPY"];
const PATCH: &[&str] = &["PATCH"];
/// Functions of design documents receive the method and decide themselves.
const FUNCTION: &[&str] = &["DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"];
/// List functions only read.
const LIST: &[&str] = &["GET", "HEAD", "OPTIONS", "POST"];
/// Rows that answer every method alike.
const ANY: &[&str] = &["COPY", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"];
/// All methods on a document.
const DOCUMENT: &[&str] = &["COPY", "DELETE", "GET", "HEAD", "PUT"];

/// All routes, in matching order.
const ROUTES: &[Route] = &[
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
    // Queries over a database: documents by id, the changes feed, Mango queries, indexes, partitions.
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
    // Bulk reads and writes of documents.
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
    route(GET, "/{db}/_design/{ddoc}/_info", info::get),
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
    // Documents and attachments. These stand last because a document may have almost any name.
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

/// The methods that a 405 answer lists, where CouchDB's list or its order differs from this table.
const ALLOW_OVERRIDES: &[(&str, &str)] = &[
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

/// The route of a request.
pub(crate) struct Found {
    /// The function that answers.
    pub(crate) handler: Handler,
    /// Whether the handler may run in a task of the runtime.
    pub(crate) quick: bool,
    /// The values of the pattern's placeholders, percent-decoded.
    pub(crate) params: Vec<(&'static str, String)>,
}

/// One segment of a pattern.
enum Segment {
    Literal(&'static str),
    /// Any one segment; its value becomes the parameter of this name.
    One(&'static str),
    /// All remaining segments.
    Rest(&'static str),
}

/// The parsed patterns of [`ROUTES`], in the same order.
static PATTERNS: LazyLock<Vec<Vec<Segment>>> =
    LazyLock::new(|| ROUTES.iter().map(|route| parse_pattern(route.pattern)).collect());

pub(crate) fn find(method: &Method, path: &str) -> Result<Found> {
    let segments = split(path)?;
    if matches!(*method, Method::GET | Method::HEAD) && names_design_as_one_segment(path) {
        let db = segments.into_iter().next().unwrap_or_default();
        return Ok(Found { handler: document::redirect, quick: true, params: vec![("db", db)] });
    }
    let mut allowed: Vec<&str> = Vec::new();
    let mut first = None;
    for (route, pattern) in ROUTES.iter().zip(PATTERNS.iter()) {
        if !matches(pattern, &segments) {
            continue;
        }
        // The first matching pattern decides: a method that `_all_docs` does not support is not tried on a document
        // of that name.
        if *first.get_or_insert(route.pattern) != route.pattern {
            continue;
        }
        if route.methods.contains(&method.as_str()) {
            let params = params(pattern, segments);
            return Ok(Found { handler: route.handler, quick: route.quick, params });
        }
        allowed
            .extend(route.methods.iter().filter(|name| !allowed.contains(name)).copied().collect::<Vec<_>>());
    }
    if allowed.is_empty() {
        return Err(Error::missing());
    }
    allowed.sort_unstable();
    let listed =
        ALLOW_OVERRIDES.iter().find(|listed| first == Some(listed.0)).map(|listed| listed.1.to_owned());
    let list = listed.unwrap_or_else(|| allowed.join(","));
    Err(Error::method_not_allowed(format!("Only {list} allowed")).with_header("allow", list))
}

/// Whether the segment after the database is a design document's id written as one segment (`_design%2Fname`).
fn names_design_as_one_segment(path: &str) -> bool {
    let segment = path.split('/').filter(|segment| !segment.is_empty()).nth(1).unwrap_or_default();
    let begin = segment.get(..document::DESIGN_PART.len());
    begin.is_some_and(|begin| begin.eq_ignore_ascii_case(document::DESIGN_PART))
}

/// Parses a pattern.
fn parse_pattern(pattern: &'static str) -> Vec<Segment> {
    let segment =
        |segment: &'static str| match segment.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
            None => Segment::Literal(segment),
            Some(name) => name.strip_suffix('*').map_or(Segment::One(name), Segment::Rest),
        };
    pattern.split('/').filter(|segment| !segment.is_empty()).map(segment).collect()
}

/// Splits a path into percent-decoded segments and drops empty ones.
fn split(path: &str) -> Result<Vec<String>> {
    let mut segments = Vec::new();
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        let decoded = percent_decode_str(segment)
            .decode_utf8()
            .map_err(|_| Error::bad_request("The path is not UTF-8 after percent-decoding"))?;
        // The id of a design or local document may be written as two segments or as one with an escaped slash.
        match decoded.split_once('/') {
            Some((kind @ ("_design" | "_local" | "_partition"), rest)) if !segments.is_empty() => {
                segments.push(kind.to_owned());
                // A trailing slash after `_local` does not name a document, in either spelling.
                if !(kind == "_local" && rest.is_empty()) {
                    segments.push(rest.to_owned());
                }
            }
            _ => segments.push(decoded.into_owned()),
        }
    }
    Ok(segments)
}

/// Whether a path matches a pattern.
fn matches(pattern: &[Segment], segments: &[String]) -> bool {
    let is_open = matches!(pattern.last(), Some(Segment::Rest(_)));
    let is_long_enough =
        if is_open { segments.len() >= pattern.len() } else { segments.len() == pattern.len() };
    is_long_enough
        && pattern.iter().zip(segments).all(|(expected, segment)| match expected {
            Segment::Literal(literal) => literal == segment,
            Segment::One(_) | Segment::Rest(_) => true,
        })
}

/// Extracts the parameters of a path that matches the pattern.
fn params(pattern: &[Segment], segments: Vec<String>) -> Vec<(&'static str, String)> {
    let mut params = Vec::new();
    let mut segments = segments.into_iter();
    for expected in pattern {
        let Some(segment) = segments.next() else { break };
        match expected {
            Segment::Literal(_) => {}
            Segment::One(name) => params.push((*name, segment)),
            Segment::Rest(name) => {
                let rest = segments.by_ref().fold(segment, |path, segment| path + "/" + &segment);
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
        let (pattern, segments) = (parse_pattern(pattern), split(path).unwrap());
        matches(&pattern, &segments).then(|| params(&pattern, segments))
    }

    #[test]
    fn patterns_match_decoded_segments() {
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
    fn wrong_methods_answer_405_with_the_allowed_ones() {
        let error = find(&Method::PATCH, "/_all_dbs").err().unwrap();
        assert_eq!((error.status, error.reason.as_ref()), (405, "Only GET,HEAD allowed"));
        for (pattern, _) in ALLOW_OVERRIDES {
            assert!(ROUTES.iter().any(|route| route.pattern == *pattern), "{pattern}");
        }
        assert!(find(&Method::GET, "/%ff").is_err());
    }
}

//! The table of all routes.
//!
//! A pattern is a path of segments. A segment is a literal, `{name}` for any one segment, or `{name*}` for one or
//! more segments up to the end, joined by slashes. Segments are compared after percent-decoding. The first matching
//! pattern wins, so literal patterns stand before patterns with placeholders. If the path matches but the method does
//! not, the answer is 405 with the allowed methods.
//!
//! A trie such as `matchit`'s would not make this shorter: paths would have to be normalized first (`_design%2Fx` is
//! two segments, `a%2Fb` is one, empty segments do not count) and the 405 answers depend on the order of this table.
//!
//! Whoever calls a handler first compares the caller with the row's column `needs`: see [`Found::check`].

use crate::auth::rights::Needs::{
    AllDocuments, Database, DatabaseAdmin, DatabaseItself, Documents, ListDatabases, Maintenance, Metrics,
    Nothing, PublicDocuments, ServerAdmin, SignIn,
};
use crate::auth::rights::{self, Needs};
use crate::error::{Error, Result};
use crate::handlers::administration::{active_tasks, cluster_setup, config, membership, node};
use crate::handlers::databases::{
    changes, compact, database, ensure_full_commit, partition, purge, revs_limit, security, shards,
};
use crate::handlers::design::{info, list, rewrite, show, update, view};
use crate::handlers::diwan::{audit, command, conflicts, map, sample, slow, status};
use crate::handlers::documents::{all_docs, attachment, bulk_docs, bulk_get, document, local, transaction};
use crate::handlers::follow::{self, announcement, blob, lacks, news, offer};
use crate::handlers::queries::{aggregate, find, index};
use crate::handlers::replication::{replicate, revs_diff, scheduler};
use crate::handlers::server::{
    all_dbs, db_updates, dbs_info, favicon, session, up, uuids, web_interface, welcome,
};
use crate::http::{Request, Response};
use crate::server::Couch;
use diwan_access::{Action, Caller};
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
    /// What the caller needs.
    needs: Needs,
    /// The function that answers.
    handler: Handler,
    /// Whether the handler is short: it does no more than a brief read or write of the store and never waits for the
    /// disk.
    quick: bool,
}

const fn route(
    methods: &'static [&'static str],
    pattern: &'static str,
    needs: Needs,
    handler: Handler,
) -> Route {
    Route { methods, pattern, needs, handler, quick: false }
}

/// A route whose handler neither streams, nor scans, nor waits for the disk to sync. A handler that needs a durable
/// write names the commit with [`Response::after`], and the connection waits for it. It calls functions of design
/// documents only through [`blocking`](crate::http::blocking).
const fn quick(
    methods: &'static [&'static str],
    pattern: &'static str,
    needs: Needs,
    handler: Handler,
) -> Route {
    Route { methods, pattern, needs, handler, quick: true }
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

/// What documents and queries need.
const READ: &[Action] = &[Action::Find];
const WRITE: &[Action] = &[Action::Insert, Action::Update];
const CHANGE: &[Action] = &[Action::Find, Action::Insert, Action::Update];
const REMOVE: &[Action] = &[Action::Remove];
/// Design documents and the database's limits.
const DESIGN: &[Action] = &[Action::CollMod];
const COMPACT: &[Action] = &[Action::Compact];

/// All routes, in matching order.
const ROUTES: &[Route] = &[
    // The server.
    quick(GET, "/", Nothing, welcome::get),
    quick(GET, "/_up", Nothing, up::get),
    route(GET, "/_all_dbs", ListDatabases, all_dbs::get),
    route(GET, "/_dbs_info", ListDatabases, dbs_info::get),
    route(POST, "/_dbs_info", SignIn, dbs_info::post),
    quick(GET, "/_uuids", SignIn, uuids::get),
    quick(GET, "/_membership", ServerAdmin, membership::get),
    quick(GET, "/_cluster_setup", ServerAdmin, cluster_setup::get),
    route(POST, "/_cluster_setup", ServerAdmin, cluster_setup::post),
    quick(GET, "/_session", Nothing, session::get),
    quick(POST, "/_session", Nothing, session::post),
    quick(DELETE, "/_session", Nothing, session::delete),
    route(GET, "/_active_tasks", Metrics, active_tasks::get),
    route(POST, "/_replicate", SignIn, replicate::post),
    route(GET, "/_scheduler/jobs", ServerAdmin, scheduler::jobs),
    route(GET, "/_scheduler/jobs/{job}", ServerAdmin, scheduler::job),
    route(GET, "/_scheduler/docs", ServerAdmin, scheduler::docs),
    route(GET, "/_scheduler/docs/{db}", ServerAdmin, scheduler::docs_of),
    route(GET, "/_scheduler/docs/{db}/{doc*}", ServerAdmin, scheduler::doc),
    route(GET, "/_scheduler", ServerAdmin, scheduler::missing),
    route(GET, "/_scheduler/{rest*}", ServerAdmin, scheduler::missing),
    route(GET, "/_db_updates", ServerAdmin, db_updates::get),
    quick(GET, "/favicon.ico", Nothing, favicon::get),
    route(GET, "/_utils", Nothing, web_interface::get),
    route(GET, "/_utils/{rest*}", Nothing, web_interface::get),
    route(GET, "/_node/{node}/_stats", Metrics, node::stats),
    route(GET, "/_node/{node}/_stats/{rest*}", Metrics, node::stats),
    route(GET, "/_node/{node}/_system", Metrics, node::system),
    route(GET, "/_node/{node}/_prometheus", Metrics, node::prometheus),
    route(GET, "/_node/{node}/_versions", ServerAdmin, node::versions),
    route(GET, "/_node/{node}/_config", ServerAdmin, config::all),
    route(POST, "/_node/{node}/_config/_reload", ServerAdmin, config::reload),
    route(GET, "/_node/{node}/_config/{section}", ServerAdmin, config::section),
    route(GET, "/_node/{node}/_config/{section}/{key}", ServerAdmin, config::key),
    route(PUT, "/_node/{node}/_config/{section}/{key}", ServerAdmin, config::put),
    route(DELETE, "/_node/{node}/_config/{section}/{key}", ServerAdmin, config::delete),
    quick(GET, "/_node/{node}", ServerAdmin, node::name),
    quick(ANY, "/_node/{node}/{rest*}", ServerAdmin, node::missing),
    quick(ANY, "/_node", ServerAdmin, node::unnamed),
    // What CouchDB does not have.
    route(POST, "/_diwan/command/{database}", SignIn, command::post),
    route(POST, "/_transaction", SignIn, transaction::post),
    quick(GET, "/_diwan/status", SignIn, status::get),
    quick(GET, "/_diwan/history", Metrics, status::history),
    quick(GET, "/_diwan/slow", Metrics, slow::get),
    quick(DELETE, "/_diwan/slow", ServerAdmin, slow::delete),
    quick(GET, "/_diwan/audit", ServerAdmin, audit::get),
    route(GET, "/_diwan/conflicts/{db}", AllDocuments(READ), conflicts::get),
    route(POST, "/_diwan/map/{db}", DatabaseAdmin(DESIGN), map::post),
    route(POST, "/_diwan/sample", ServerAdmin, sample::post),
    // What a follower asks its primary.
    route(POST, "/_diwan/follow/news", ServerAdmin, news::post),
    quick(POST, "/_diwan/follow/announcement", ServerAdmin, announcement::post),
    route(POST, "/_diwan/follow/changes", ServerAdmin, follow::changes::post),
    route(POST, "/_diwan/follow/blob", ServerAdmin, blob::post),
    route(POST, "/_diwan/follow/lacks", ServerAdmin, lacks::post),
    route(POST, "/_diwan/follow/offer", ServerAdmin, offer::post),
    // Databases.
    route(GET, "/{db}", Database(READ), database::get),
    route(PUT, "/{db}", DatabaseItself(&[Action::CreateCollection]), database::put),
    route(DELETE, "/{db}", DatabaseItself(&[Action::DropCollection]), database::delete),
    quick(POST, "/{db}/_ensure_full_commit", Database(READ), ensure_full_commit::post),
    quick(GET, "/{db}/_shards", Database(READ), shards::get),
    quick(GET, "/{db}/_shards/{doc}", Database(READ), shards::get_document),
    quick(GET, "/{db}/_security", Database(READ), security::get),
    quick(PUT, "/{db}/_security", DatabaseAdmin(&[Action::GrantRole]), security::put),
    quick(GET, "/{db}/_revs_limit", Database(READ), revs_limit::get),
    quick(PUT, "/{db}/_revs_limit", DatabaseAdmin(DESIGN), revs_limit::put),
    quick(GET, "/{db}/_purged_infos_limit", Database(READ), revs_limit::get_purged_infos),
    quick(PUT, "/{db}/_purged_infos_limit", DatabaseAdmin(DESIGN), revs_limit::put_purged_infos),
    route(POST, "/{db}/_purge", ServerAdmin, purge::post),
    route(POST, "/{db}/_compact", Maintenance(COMPACT), compact::post),
    route(POST, "/{db}/_compact/{ddoc}", Maintenance(COMPACT), compact::post_design),
    route(POST, "/{db}/_view_cleanup", Maintenance(COMPACT), compact::view_cleanup),
    route(POST, "/{db}/_sync_shards", ServerAdmin, compact::sync_shards),
    // Queries over a database: documents by id, the changes feed, Mango queries, indexes, partitions.
    route(GET, "/{db}/_all_docs", PublicDocuments(READ), all_docs::get),
    route(POST, "/{db}/_all_docs", PublicDocuments(READ), all_docs::post),
    route(POST, "/{db}/_all_docs/queries", AllDocuments(READ), all_docs::queries),
    route(GET, "/{db}/_design_docs", AllDocuments(READ), all_docs::get_design),
    route(POST, "/{db}/_design_docs", AllDocuments(READ), all_docs::post_design),
    route(POST, "/{db}/_design_docs/queries", AllDocuments(READ), all_docs::queries_design),
    route(GET, "/{db}/_changes", AllDocuments(READ), changes::get),
    route(POST, "/{db}/_changes", AllDocuments(READ), changes::post),
    route(POST, "/{db}/_find", AllDocuments(READ), find::post),
    route(POST, "/{db}/_explain", AllDocuments(READ), find::explain),
    route(POST, "/{db}/_aggregate", AllDocuments(READ), aggregate::post),
    route(GET, "/{db}/_index", AllDocuments(&[Action::ListIndexes]), index::get),
    route(POST, "/{db}/_index", DatabaseAdmin(&[Action::CreateIndex]), index::post),
    route(POST, "/{db}/_index/_bulk_delete", DatabaseAdmin(&[Action::DropIndex]), index::bulk_delete),
    route(
        DELETE,
        "/{db}/_index/_design/{ddoc}/{kind}/{name}",
        DatabaseAdmin(&[Action::DropIndex]),
        index::delete,
    ),
    route(DELETE, "/{db}/_index/{ddoc}/{kind}/{name}", DatabaseAdmin(&[Action::DropIndex]), index::delete),
    route(ANY, "/{db}/_index/_design/{ddoc}/{kind}/{name}", Database(READ), index::missing),
    route(ANY, "/{db}/_index/{rest*}", Database(READ), index::missing),
    route(FUNCTION, "/{db}/_partition", AllDocuments(READ), partition::unnamed),
    route(GET, "/{db}/_partition/{partition}", AllDocuments(READ), partition::get),
    route(POST, "/{db}/_partition/{partition}", AllDocuments(READ), partition::post),
    route(GET, "/{db}/_partition/{partition}/_all_docs", AllDocuments(READ), all_docs::get_partition),
    route(POST, "/{db}/_partition/{partition}/_all_docs", AllDocuments(READ), all_docs::post_partition),
    route(POST, "/{db}/_partition/{partition}/_find", AllDocuments(READ), find::post_partition),
    route(POST, "/{db}/_partition/{partition}/_explain", AllDocuments(READ), find::explain_partition),
    route(
        GET,
        "/{db}/_partition/{partition}/_index",
        AllDocuments(&[Action::ListIndexes]),
        index::get_partition,
    ),
    route(
        POST,
        "/{db}/_partition/{partition}/_index",
        DatabaseAdmin(&[Action::CreateIndex]),
        index::post_partition,
    ),
    // Bulk reads and writes of documents.
    quick(POST, "/{db}", Documents(WRITE), document::post),
    route(POST, "/{db}/_bulk_docs", Documents(WRITE), bulk_docs::post),
    route(POST, "/{db}/_bulk_get", Documents(READ), bulk_get::post),
    quick(POST, "/{db}/_revs_diff", AllDocuments(READ), revs_diff::post),
    quick(POST, "/{db}/_missing_revs", AllDocuments(READ), revs_diff::missing_revs),
    // Local documents.
    route(GET, "/{db}/_local_docs", AllDocuments(READ), local::list),
    route(POST, "/{db}/_local_docs", AllDocuments(READ), local::list_post),
    route(POST, "/{db}/_local_docs/queries", AllDocuments(READ), local::queries),
    quick(DOCUMENT, "/{db}/_local", Database(READ), local::refuse_unnamed),
    quick(GET, "/{db}/_local/{local}", Documents(READ), document::get),
    quick(PUT, "/{db}/_local/{local}", Documents(WRITE), document::put),
    quick(DELETE, "/{db}/_local/{local}", Documents(REMOVE), document::delete),
    quick(COPY, "/{db}/_local/{local}", Documents(CHANGE), document::copy),
    quick(DOCUMENT, "/{db}/_local/{local}/{name*}", Database(READ), local::refuse_attachment),
    // Functions of design documents.
    route(POST, "/{db}/_temp_view", DatabaseAdmin(DESIGN), view::post_temporary),
    route(GET, "/{db}/_design/{ddoc}/_view/{view}", AllDocuments(READ), view::get),
    route(POST, "/{db}/_design/{ddoc}/_view/{view}", AllDocuments(READ), view::post),
    route(POST, "/{db}/_design/{ddoc}/_view/{view}/queries", AllDocuments(READ), view::queries),
    route(ANY, "/{db}/_design/{ddoc}/_view", AllDocuments(READ), view::unnamed),
    route(ANY, "/{db}/_design/{ddoc}/_view/{view}/{rest*}", AllDocuments(READ), view::unnamed),
    route(GET, "/{db}/_partition/{partition}/_design/{ddoc}/_view/{view}", AllDocuments(READ), view::get),
    route(POST, "/{db}/_partition/{partition}/_design/{ddoc}/_view/{view}", AllDocuments(READ), view::post),
    route(GET, "/{db}/_design/{ddoc}/_info", AllDocuments(READ), info::get),
    route(FUNCTION, "/{db}/_design/{ddoc}/_show", AllDocuments(READ), show::unnamed),
    route(FUNCTION, "/{db}/_design/{ddoc}/_show/{show}", AllDocuments(READ), show::call),
    route(FUNCTION, "/{db}/_design/{ddoc}/_show/{show}/{doc*}", AllDocuments(READ), show::call),
    route(LIST, "/{db}/_design/{ddoc}/_list", AllDocuments(READ), list::unnamed),
    route(LIST, "/{db}/_design/{ddoc}/_list/{list}", AllDocuments(READ), list::unnamed),
    route(LIST, "/{db}/_design/{ddoc}/_list/{list}/{view}", AllDocuments(READ), list::call),
    route(LIST, "/{db}/_design/{ddoc}/_list/{list}/{source}/{view}", AllDocuments(READ), list::call),
    route(FUNCTION, "/{db}/_design/{ddoc}/_update", AllDocuments(READ), update::unnamed),
    route(FUNCTION, "/{db}/_design/{ddoc}/_update/{update}", AllDocuments(CHANGE), update::call),
    route(FUNCTION, "/{db}/_design/{ddoc}/_update/{update}/{doc*}", AllDocuments(CHANGE), update::call),
    route(FUNCTION, "/{db}/_design/{ddoc}/_rewrite", AllDocuments(READ), rewrite::call),
    route(FUNCTION, "/{db}/_design/{ddoc}/_rewrite/{path*}", AllDocuments(READ), rewrite::call),
    route(FUNCTION, "/{db}/_partition/{partition}/{rest*}", AllDocuments(READ), partition::missing),
    // Documents and attachments. These stand last because a document may have almost any name.
    quick(GET, "/{db}/_design/{ddoc}", Documents(READ), document::get),
    quick(PUT, "/{db}/_design/{ddoc}", DatabaseAdmin(DESIGN), document::put),
    route(POST, "/{db}/_design/{ddoc}", DatabaseAdmin(DESIGN), document::post_form),
    quick(DELETE, "/{db}/_design/{ddoc}", DatabaseAdmin(DESIGN), document::delete),
    quick(COPY, "/{db}/_design/{ddoc}", Documents(CHANGE), document::copy),
    route(GET, "/{db}/_design/{ddoc}/{name*}", Documents(READ), attachment::get),
    route(PUT, "/{db}/_design/{ddoc}/{name*}", DatabaseAdmin(DESIGN), attachment::put),
    route(DELETE, "/{db}/_design/{ddoc}/{name*}", DatabaseAdmin(DESIGN), attachment::delete),
    quick(GET, "/{db}/{doc}", Documents(READ), document::get),
    quick(PUT, "/{db}/{doc}", Documents(WRITE), document::put),
    route(POST, "/{db}/{doc}", Documents(CHANGE), document::post_form),
    quick(PATCH, "/{db}/{doc}", Documents(CHANGE), document::patch),
    quick(DELETE, "/{db}/{doc}", Documents(REMOVE), document::delete),
    quick(COPY, "/{db}/{doc}", Documents(CHANGE), document::copy),
    route(GET, "/{db}/{doc}/{name*}", Documents(READ), attachment::get),
    route(PUT, "/{db}/{doc}/{name*}", Documents(WRITE), attachment::put),
    route(DELETE, "/{db}/{doc}/{name*}", Documents(CHANGE), attachment::delete),
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
    /// What the caller needs.
    pub(crate) needs: Needs,
    /// The function that answers.
    pub(crate) handler: Handler,
    /// Whether the handler may run in a task of the runtime.
    pub(crate) quick: bool,
    /// The values of the pattern's placeholders, percent-decoded.
    pub(crate) params: Vec<(&'static str, String)>,
}

impl Found {
    /// Refuses a caller who lacks what the row needs.
    pub(crate) fn check(&self, couch: &Couch, caller: &Caller) -> Result<()> {
        let database = self.params.iter().find(|(name, _)| *name == "db").map_or("", |(_, value)| value);
        rights::check(couch, caller, self.needs, database)
    }
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
        return Ok(Found {
            needs: Database(READ),
            handler: document::redirect,
            quick: true,
            params: vec![("db", db)],
        });
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
            return Ok(Found { needs: route.needs, handler: route.handler, quick: route.quick, params });
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
    fn only_these_rows_need_nothing() {
        let open = |route: &&Route| matches!(route.needs, Nothing);
        let open: Vec<&str> = ROUTES.iter().filter(open).map(|route| route.pattern).collect();
        assert_eq!(
            open,
            [
                "/",
                "/_up",
                "/_session",
                "/_session",
                "/_session",
                "/favicon.ico",
                "/_utils",
                "/_utils/{rest*}"
            ]
        );
    }

    #[test]
    fn rows_below_a_database_need_rights_on_it() {
        for route in ROUTES {
            let on_database = matches!(
                route.needs,
                AllDocuments(_)
                    | Database(_)
                    | DatabaseAdmin(_)
                    | DatabaseItself(_)
                    | Documents(_)
                    | Maintenance(_)
                    | PublicDocuments(_)
            );
            let is_below = route.pattern.contains("/{db}");
            assert!(on_database || !is_below || matches!(route.needs, ServerAdmin), "{}", route.pattern);
            assert!(is_below || !on_database, "{}", route.pattern);
        }
    }

    #[test]
    fn rows_that_write_need_more_than_to_read() {
        for route in ROUTES.iter().filter(|route| route.pattern.starts_with("/{db}/{doc}")) {
            let reads = route.methods == GET;
            let needs = match route.needs {
                Documents(actions) => actions,
                other => panic!("{} {other:?}", route.pattern),
            };
            assert_eq!(needs == READ, reads, "{} {:?}", route.pattern, route.methods);
        }
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

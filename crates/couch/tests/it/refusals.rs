//! Refused requests, with CouchDB's errors, and odd requests that CouchDB accepts.

use crate::setup::database;
use serde_json::json;

#[test]
fn wrong_content_types_and_encodings_are_refused() {
    let (_server, mut http) = database();
    let plain = [("Content-Type", "text/plain")];
    for path in ["/db/_changes", "/db/_ensure_full_commit"] {
        for headers in [&plain[..], &[]] {
            let refused = http.send("POST", path, headers, b"{}").refusal();
            let expected = (415, "bad_content_type", "Content-Type must be application/json");
            assert_eq!((refused.0, refused.1.as_str(), refused.2.as_str()), expected, "{path}");
        }
        assert!(http.post(path, &json!({})).status < 300);
    }
    let packed = [("Content-Type", "application/json"), ("Content-Encoding", "br")];
    for (method, path) in
        [("PUT", "/db/d"), ("POST", "/db"), ("POST", "/db/_bulk_docs"), ("POST", "/db/_find")]
    {
        let refused = http.send(method, path, &packed, b"{}").refusal();
        assert_eq!(
            (refused.0, refused.2.as_str()),
            (415, "br is not a supported content encoding."),
            "{path}"
        );
    }
    let refused = http.send("PUT", "/db/d/file", &packed, b"x").refusal();
    assert_eq!(
        (refused.0, refused.2.as_str()),
        (415, "Only gzip and identity content-encodings are supported")
    );
    assert_eq!(http.send("GET", "/db", &packed, b"").status, 200, "an empty body has no encoding");
}

#[test]
fn parameters_of_database_creation_are_checked() {
    let (_server, mut http) = database();
    let count = |name: &str| format!("The `{name}` value should be a positive integer.");
    let placement = "The `placement` value should be in a format `zone:n`.".to_owned();
    for (query, reason) in [
        ("q=0", count("q")),
        ("q=x", count("q")),
        ("n=-1", count("n")),
        ("n=", count("n")),
        ("placement=", placement.clone()),
        ("placement=zone", placement.clone()),
        ("placement=a:1,b:0", placement),
        ("engine=none", "invalid_engine_extension".to_owned()),
        ("partitioned=1", "Invalid `partitioned` parameter".to_owned()),
    ] {
        let refused = http.put(&format!("/new?{query}"), &json!({})).refusal();
        assert_eq!(refused, (400, "bad_request".to_owned(), reason), "{query}");
    }
    assert_eq!(http.get("/new").status, 404);
    assert_eq!(http.put("/new?q=2&n=1&placement=a:1&engine=couch&partitioned=false", &json!({})).status, 201);
}

#[test]
fn non_string_keys_sort_before_all_ids() {
    let (_server, mut http) = database();
    for id in ["a", "b"] {
        http.put(&format!("/db/{id}"), &json!({}));
    }
    for (query, count) in [
        ("endkey={}", 0),
        ("startkey={}", 2),
        ("startkey=7", 2),
        ("endkey=null", 0),
        ("startkey=null", 2),
        ("key=[]", 0),
        ("startkey={}&descending=true", 0),
        ("endkey={}&descending=true", 2),
        ("startkey={}&endkey=%22a%22", 1),
    ] {
        let list = http.get(&format!("/db/_all_docs?{query}"));
        assert_eq!((list.status, list.json()["rows"].as_array().unwrap().len()), (200, count), "{query}");
    }
    assert_eq!(http.post("/db/_all_docs", &json!({"end_key": {}})).json()["rows"], json!([]));
}

#[test]
fn unknown_index_paths_answer_like_couchdb() {
    let (_server, mut http) = database();
    for (method, path, status) in [
        ("GET", "/db/_index/foo", 404),
        ("PUT", "/db/_index/foo", 404),
        ("GET", "/db/_index/a/b", 404),
        ("GET", "/none/_index/foo", 404),
        ("GET", "/db/_index/_bulk_delete", 405),
        ("GET", "/db/_index/d/json/n", 405),
        ("PUT", "/db/_index", 405),
        ("DELETE", "/db/_index/d/json/n", 404),
    ] {
        assert_eq!(http.send(method, path, &[], b"").status, status, "{method} {path}");
    }
}

#[test]
fn wrong_methods_answer_405_like_couchdb() {
    let (_server, mut http) = database();
    for (method, path, allowed) in [
        ("POST", "/", "GET,HEAD"),
        ("PATCH", "/db", "DELETE,GET,HEAD,POST"),
        ("DELETE", "/_uuids", "GET"),
        ("PUT", "/_session", "GET,HEAD,POST,DELETE"),
        ("PUT", "/db/_changes", "GET,POST,HEAD"),
        ("PUT", "/db/_index", "GET,POST"),
        ("PUT", "/db/_all_docs", "GET,HEAD,POST"),
        ("DELETE", "/db/_security", "PUT,GET"),
        ("DELETE", "/db/_design/d/_view/v", "GET,POST,HEAD"),
        ("PUT", "/_scheduler/jobs", "GET,HEAD"),
        ("PUT", "/_scheduler/none", "GET,HEAD"),
    ] {
        let reply = http.send(method, path, &JSON, b"{}");
        assert_eq!(reply.header("allow"), Some(allowed), "{path}");
        let expected = (405, "method_not_allowed".to_owned(), format!("Only {allowed} allowed"));
        assert_eq!(reply.refusal(), expected);
    }
    assert_eq!(http.get("/_node").refusal().2, "Incomplete path to _node request");
    for path in ["/_scheduler", "/_scheduler/none"] {
        let reply = http.get(path);
        assert_eq!((reply.status, reply.json()), (404, json!({ "error": "not found" })));
    }
}

#[test]
fn malformed_flags_are_ignored() {
    let (_server, mut http) = database();
    http.put("/db/a", &json!({}));
    for query in ["include_docs=1", "include_docs=TRUE", "conflicts=x", "descending=", "attachments=yes"] {
        let reply = http.get(&format!("/db/_changes?{query}"));
        assert_eq!((reply.status, &reply.json()["results"][0]["doc"]), (200, &json!(null)), "{query}");
    }
    for query in ["revs=1", "conflicts=x", "attachments=", "meta=TRUE", "latest=0"] {
        assert_eq!(http.get(&format!("/db/a?{query}")).status, 200, "{query}");
    }
    assert_eq!(http.put("/db/b?new_edits=no", &json!({})).status, 201);
    for query in ["seq_interval=0", "seq_interval=-1", "seq_interval=x"] {
        let refused = http.get(&format!("/db/_changes?{query}")).refusal();
        assert_eq!((refused.0, refused.2.as_str()), (400, "invalid_seq_interval"), "{query}");
    }
}

#[test]
fn bodies_that_are_not_objects_are_refused() {
    let (_server, mut http) = database();
    let paths =
        ["_bulk_docs", "_bulk_get", "_find", "_explain", "_index", "_all_docs", "_revs_diff", "_purge"];
    for path in paths {
        for body in ["[]", " 1", "\"{}\"", "null", "true"] {
            let refused = http.send("POST", &format!("/db/{path}"), &JSON, body.as_bytes()).refusal();
            let expected = (400, "bad_request", "Request body must be a JSON object");
            assert_eq!((refused.0, refused.1.as_str(), refused.2.as_str()), expected, "{path} {body}");
        }
        let refused = http.send("POST", &format!("/db/{path}"), &JSON, b"{\"a\":").refusal();
        assert!(refused.0 == 400 && refused.2.starts_with("invalid UTF-8 JSON"), "{path}: {}", refused.2);
    }
}

const JSON: [(&str, &str); 1] = [("Content-Type", "application/json")];

#[test]
fn listings_check_view_parameters() {
    let (_server, mut http) = database();
    let design = json!({ "views": { "v": { "map": "function (doc) { emit(doc._id); }" } } });
    http.put("/db/_design/d", &design);
    for (query, reason) in [
        ("limit=-1", "Invalid value for positive integer: \"-1\""),
        ("skip=x", "Invalid value for integer: \"x\""),
        ("limit=1.5", "Invalid value for integer: \"1.5\""),
        ("reduce=true", "Reduce is invalid for map-only views."),
        ("reduce=x", "Invalid boolean parameter: \"x\""),
        ("group=true", "Invalid use of grouping on a map view."),
        ("group_level=1", "Invalid use of grouping on a map view."),
        ("stale=x", "Invalid value for `stale`."),
        ("update=x", "Invalid value for `update`."),
        ("stable=x", "Invalid value for `stable`."),
        ("sorted=x", "Invalid boolean parameter: \"x\""),
    ] {
        for listing in ["_all_docs", "_design/d/_view/v"] {
            let refused = http.get(&format!("/db/{listing}?{query}")).refusal();
            assert_eq!(
                (refused.0, refused.1.as_str(), refused.2.as_str()),
                (400, "query_parse_error", reason)
            );
        }
    }
    for query in
        ["limit=99999999999999999999", "reduce=false&group=false", "stale=ok&stable=true&sorted=false"]
    {
        for listing in ["_all_docs", "_design/d/_view/v"] {
            assert_eq!(http.get(&format!("/db/{listing}?{query}")).status, 200, "{listing}?{query}");
        }
    }
    assert_eq!(http.get("/db/_all_docs?keys=[]&startkey=%22a%22").json()["rows"], json!([]));
}

#[test]
fn too_long_database_names_are_refused() {
    let (_server, mut http) = database();
    let name = "a".repeat(239);
    let refused = http.put(&format!("/{name}"), &json!({})).refusal();
    let reason = format!("At least one path segment of `{name}` is too long.");
    assert_eq!(refused, (400, "database_name_too_long".to_owned(), reason));
}

//! Endpoints of the server as a whole.

use crate::setup::{client_of, database};
use serde_json::{Value, json};

#[test]
fn cluster_setup_reports_a_single_node() {
    let (_server, mut http) = database();
    assert_eq!(http.get("/_cluster_setup").json(), json!({ "state": "single_node_enabled" }));
    let mut setup = |body: Value| {
        let reply = http.post("/_cluster_setup", &body);
        (reply.status, reply.json()["reason"].as_str().unwrap_or_default().to_owned())
    };
    let with = |action: &str| json!({ "action": action });
    assert_eq!(setup(with("enable_single_node")).0, 201);
    assert_eq!(
        setup(json!({ "action": "enable_single_node", "ensure_dbs_exist": ["_users", "extra"] })).0,
        201
    );
    assert_eq!(setup(json!({ "action": "enable_single_node", "username": "a" })).0, 400);
    assert_eq!(setup(json!({ "action": "enable_single_node", "port": 80 })).0, 403);
    assert_eq!(setup(with("finish_cluster")), (400, "Cluster is already finished".to_owned()));
    for action in ["add_node", "remove_node", "receive_cookie"] {
        assert_eq!(setup(with(action)), (400, "Cluster is not enabled.".to_owned()));
    }
    assert_eq!(setup(with("enable_cluster")).0, 501);
    assert_eq!(setup(with("none")), (400, "Invalid Action'".to_owned()));
    assert_eq!(setup(json!([])), (400, "Missing JSON body'".to_owned()));
    assert_eq!(setup(json!({ "action": "enable_single_node", "ensure_dbs_exist": [1] })).0, 400);
    assert_eq!(http.get("/extra").status, 200);
    assert_eq!(http.send("POST", "/_cluster_setup", &[], b"{}").status, 415);
}

#[test]
fn cluster_setup_makes_the_first_administrator() {
    let (server, mut http) = database();
    server.couch().access().settings.set("chttpd_auth", "iterations", Some("10")).unwrap();
    let admin = json!({ "action": "enable_single_node", "username": "ada", "password": "secret" });
    assert_eq!(http.post("/_cluster_setup", &admin).status, 201);
    assert_eq!(http.get("/_all_dbs").status, 401);
    assert_eq!(client_of(&server, "ada", "secret").get("/_all_dbs").status, 200);
}

#[test]
fn all_dbs_lists_databases() {
    let (_server, mut http) = database();
    for name in ["a", "b", "c"] {
        http.put(&format!("/{name}"), &json!({}));
    }
    for (query, expected) in [
        ("", json!(["a", "b", "c", "db"])),
        ("startkey=%22b%22&endkey=%22c%22", json!(["b", "c"])),
        ("start_key=%22b%22&end_key=%22c%22&inclusive_end=false", json!(["b"])),
        ("startkey=%22c%22&endkey=%22a%22&descending=true&inclusive_end=false", json!(["c", "b"])),
        ("skip=1&limit=2", json!(["b", "c"])),
        ("key=%22b%22", json!(["b"])),
        ("endkey={}", json!([])),
    ] {
        assert_eq!(http.get(&format!("/_all_dbs?{query}")).json(), expected, "{query}");
    }
    let infos = http.get("/_dbs_info?limit=1").json();
    assert_eq!((&infos[0]["key"], &infos[0]["info"]["doc_count"]), (&json!("a"), &json!(0)));
    let infos = http.post("/_dbs_info", &json!({ "keys": ["b", "none", 1] })).json();
    assert_eq!((&infos[0]["key"], &infos[0]["info"]["db_name"]), (&json!("b"), &json!("b")));
    assert_eq!(infos[1], json!({ "key": "none", "error": "not_found" }));
    assert_eq!(infos[2], json!({ "key": 1, "error": "not_found" }));
    for (body, reason) in [
        (json!({}), "`keys` member must exist."),
        (json!({ "keys": "a" }), "`keys` member must be an array."),
        (json!({ "keys": vec!["a"; 101] }), "too_many_keys"),
    ] {
        let refused = http.post("/_dbs_info", &body).refusal();
        assert_eq!((refused.0, refused.2.as_str()), (400, reason));
    }
}

#[test]
fn answers_have_a_request_id() {
    let (_server, mut http) = database();
    http.put("/db/d", &json!({}));
    let mut ids = std::collections::HashSet::new();
    for (method, path) in [
        ("GET", "/"),
        ("HEAD", "/db/d"),
        ("GET", "/db/_all_docs"),
        ("GET", "/none"),
        ("PUT", "/db/_changes"),
        ("POST", "/db"),
    ] {
        let reply = http.send(method, path, &[("Content-Type", "application/json")], b"{}");
        let id = reply.header("x-couch-request-id").unwrap().to_owned();
        assert!(id.len() == 10 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{path}: {id}");
        assert!(ids.insert(id), "{path}");
        let time = reply.header("x-couchdb-body-time").map(str::parse::<u32>);
        assert!(matches!(time, Some(Ok(_))), "{path}: {time:?}");
    }
}

#[test]
fn up_reports_a_store_that_refuses_writes() {
    let (server, mut http) = database();
    let up = http.get("/_up");
    assert_eq!((up.status, &up.json()["status"]), (200, &json!("ok")));
    server.store().engine().close().unwrap();
    let up = http.get("/_up");
    assert_eq!((up.status, &up.json()["status"]), (404, &json!("read_only")));
    assert!(up.json()["reason"].is_string());
    // Dropping the server normally would close the store again.
    std::mem::forget(server);
}

#[test]
fn answers_name_the_server_and_the_clients_request_id() {
    let (_server, mut http) = database();
    let reply = http.send("GET", "/", &[("X-Couch-Request-ID", "mine-7")], b"");
    assert_eq!(reply.header("x-couch-request-id"), Some("mine-7"));
    assert!(reply.header("server").unwrap().starts_with("CouchDB/3."), "{:?}", reply.header("server"));
}

#[test]
fn all_dbs_has_an_etag() {
    let (_server, mut http) = database();
    let tag = http.get("/_all_dbs").header("etag").unwrap().to_owned();
    let known = [("If-None-Match", tag.as_str())];
    let again = http.send("GET", "/_all_dbs?limit=1", &known, b"");
    assert_eq!((again.status, again.header("content-length")), (304, Some("0")));
    http.put("/other", &json!({}));
    assert_eq!(http.send("GET", "/_all_dbs", &known, b"").json(), json!(["db", "other"]));
}

#[test]
fn unknown_server_paths_are_missing() {
    let (_server, mut http) = database();
    for (method, path, status, reason) in [
        // Endpoints of CouchDB 1, which are names of databases since.
        ("GET", "/_config", 404, "Database does not exist."),
        ("GET", "/_config/uuids", 404, "Database does not exist."),
        ("GET", "/_stats", 404, "Database does not exist."),
        ("GET", "/_node/_local/_config/uuids/none", 404, "unknown_config_value"),
        ("DELETE", "/_node/_local/_config/uuids/none", 404, "unknown_config_value"),
        ("GET", "/_node/_local/_config/a/b/c", 404, "missing"),
        ("GET", "/_node/_local/_config/_reload", 405, "Only POST allowed"),
        ("POST", "/_node/_local/_config", 405, "Only GET allowed"),
        ("POST", "/_node/_local/_stats", 405, "Only GET allowed"),
        ("GET", "/_node/_local/_none", 404, "missing"),
        ("GET", "/_node/none/_none", 404, "no such node: none"),
        ("PUT", "/favicon.ico", 405, "Only GET,HEAD allowed"),
    ] {
        let refused = http.send(method, path, &[], b"").refusal();
        assert_eq!((refused.0, refused.2.as_str()), (status, reason), "{method} {path}");
    }
    assert_eq!(http.get("/_node/_local/_stats/couchdb/none").text(), "null\n");
    assert_eq!(http.post("/_node/_local/_config/_reload", &json!({})).json(), json!({"ok": true}));
    assert_eq!(http.get("/favicon.ico").header("cache-control"), Some("public, max-age=31536000"));
}

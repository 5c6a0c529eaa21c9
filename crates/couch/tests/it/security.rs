//! What users may do: `_security`, design documents, the server's own routes.

use crate::setup::{Lines, add_user, client_of, rev, secured};
use diwan_testkit::{HttpClient, TestCouch};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A server with the database `db`, whose administrator is `chief`, whose member is `mia`, and a stranger `sam`.
fn guarded() -> (TestCouch, HttpClient) {
    let (server, mut root) = secured();
    assert_eq!(root.put("/db", &json!({})).status, 201);
    for (name, roles) in [("chief", &[][..]), ("mia", &["staff"]), ("sam", &[])] {
        add_user(&mut root, name, roles);
    }
    let object = json!({ "admins": { "names": ["chief"], "roles": [] }, "members": { "names": [], "roles": ["staff"] } });
    assert_eq!(root.put("/db/_security", &object).status, 200);
    (server, root)
}

fn as_user(server: &TestCouch, name: &str) -> HttpClient {
    client_of(server, name, name)
}

fn refused(http: &mut HttpClient, method: &str, path: &str, body: &[u8]) -> (u16, String) {
    let refusal = http.send(method, path, &[("Content-Type", "application/json")], body).refusal();
    (refusal.0, refusal.2)
}

#[test]
fn members_read_and_write_documents() {
    let (server, _root) = guarded();
    for name in ["mia", "chief"] {
        let mut http = as_user(&server, name);
        let made = http.put(&format!("/db/{name}"), &json!({ "n": 1 }));
        let rev = rev(&made);
        assert_eq!(http.get(&format!("/db/{name}")).status, 200);
        assert_eq!(http.get("/db/_all_docs").status, 200);
        assert_eq!(http.post("/db/_find", &json!({ "selector": {} })).status, 200);
        assert_eq!(http.get("/db/_changes").status, 200);
        assert_eq!(http.put(&format!("/db/_local/{name}"), &json!({})).status, 201);
        assert_eq!(http.get("/db").status, 200);
        assert_eq!(http.get("/db/_security").status, 200);
        let bulk = json!({ "docs": [{ "_id": name, "_rev": rev, "_deleted": true }] });
        assert_eq!(http.post("/db/_bulk_docs", &bulk).json()[0]["ok"], true);
    }
    let mut sam = as_user(&server, "sam");
    for (method, path) in [
        ("GET", "/db"),
        ("GET", "/db/doc"),
        ("PUT", "/db/doc"),
        ("DELETE", "/db/doc"),
        ("POST", "/db"),
        ("POST", "/db/_bulk_docs"),
        ("POST", "/db/_bulk_get"),
        ("GET", "/db/_all_docs"),
        ("GET", "/db/_changes"),
        ("GET", "/db/_security"),
        ("PUT", "/db/_security"),
        ("POST", "/db/_find"),
        ("PUT", "/db/_design/d"),
        ("GET", "/db/_design/d/_view/v"),
        ("PUT", "/db/doc/file"),
        ("PUT", "/db/_local/x"),
    ] {
        let expected = (403, "You are not allowed to access this db.".to_owned());
        assert_eq!(refused(&mut sam, method, path, b"{}"), expected, "{method} {path}");
    }
    assert_eq!(refused(&mut sam, "GET", "/none", b""), (404, "Database does not exist.".to_owned()));
}

#[test]
fn design_documents_and_settings_need_an_administrator_of_the_database() {
    let (server, _root) = guarded();
    let (mut mia, mut chief) = (as_user(&server, "mia"), as_user(&server, "chief"));
    let design = json!({ "views": { "v": { "map": "function (doc) { emit(doc._id); }" } } });
    let no = (403, "You are not a db or server admin.".to_owned());
    for (method, path) in [
        ("PUT", "/db/_design/d"),
        ("DELETE", "/db/_design/d"),
        ("PUT", "/db/_design/d/file"),
        ("PUT", "/db/_security"),
        ("PUT", "/db/_revs_limit"),
        ("PUT", "/db/_purged_infos_limit"),
        ("POST", "/db/_index"),
        ("POST", "/db/_index/_bulk_delete"),
        ("DELETE", "/db/_index/d/json/i"),
        ("POST", "/db/_temp_view"),
    ] {
        assert_eq!(refused(&mut mia, method, path, b"{}"), no, "{method} {path}");
    }
    // Inside other requests.
    let docs = json!({ "docs": [{ "_id": "_design/x", "views": {} }, { "_id": "plain" }] });
    let rows = mia.post("/db/_bulk_docs", &docs).json();
    assert_eq!((&rows[0]["error"], &rows[0]["reason"]), (&json!("forbidden"), &json!(no.1)));
    assert_eq!(rows[1]["ok"], true);
    assert_eq!(refused(&mut mia, "POST", "/db", br#"{"_id": "_design/x"}"#), no);
    let copy = [("Destination", "_design/x")];
    assert_eq!(mia.send("COPY", "/db/plain", &copy, b"").refusal().2, no.1);
    assert_eq!(mia.get("/db/_design/x").status, 404);
    // Her administrator may.
    assert_eq!(chief.put("/db/_design/d", &design).status, 201);
    assert_eq!(chief.post("/db/_index", &json!({ "index": { "fields": ["a"] } })).status, 200);
    assert_eq!(chief.put("/db/_revs_limit", &json!(10)).status, 200);
    assert_eq!(mia.get("/db/_design/d/_view/v").status, 200);
    let object = chief.get("/db/_security").json();
    assert_eq!(chief.put("/db/_security", &object).status, 200);
    // Maintenance has its own words.
    for path in ["/db/_compact", "/db/_compact/d", "/db/_view_cleanup"] {
        let no = (401, "You are not a server or db admin.".to_owned());
        assert_eq!(refused(&mut mia, "POST", path, b"{}"), no, "{path}");
        assert_eq!(chief.post(path, &json!({})).status, 202, "{path}");
    }
}

#[test]
fn the_server_belongs_to_its_administrators() {
    let (server, mut root) = guarded();
    let mut chief = as_user(&server, "chief");
    for (method, path) in [
        ("PUT", "/new"),
        ("DELETE", "/db"),
        ("POST", "/db/_purge"),
        ("POST", "/db/_sync_shards"),
        ("GET", "/_all_dbs"),
        ("GET", "/_dbs_info"),
        ("GET", "/_db_updates"),
        ("GET", "/_membership"),
        ("GET", "/_cluster_setup"),
        ("GET", "/_scheduler/jobs"),
        ("GET", "/_scheduler/docs"),
        ("GET", "/_node/_local"),
        ("GET", "/_node/_local/_versions"),
        ("GET", "/_node/_local/_config"),
        ("PUT", "/_node/_local/_config/admins/chief"),
        ("DELETE", "/_users"),
        ("PUT", "/_replicator"),
    ] {
        let no = (401, "You are not a server admin.".to_owned());
        assert_eq!(refused(&mut chief, method, path, b"\"x\""), no, "{method} {path}");
    }
    for path in
        ["/_active_tasks", "/_node/_local/_stats", "/_node/_local/_system", "/_node/_local/_prometheus"]
    {
        let no = (401, "You are not a server admin or read-only metrics user".to_owned());
        assert_eq!(refused(&mut chief, "GET", path, b""), no, "{path}");
    }
    for path in ["/_uuids", "/_session", "/"] {
        assert_eq!(chief.get(path).status, 200, "{path}");
    }
    let infos = chief.post("/_dbs_info", &json!({ "keys": ["db", "_users", "_replicator"] })).json();
    assert_eq!(infos[0]["info"]["db_name"], "db");
    assert_eq!(infos[2]["error"], "forbidden");
    add_user(&mut root, "meter", &["_metrics"]);
    let mut meter = as_user(&server, "meter");
    assert_eq!(meter.get("/_active_tasks").status, 200);
    assert_eq!(meter.get("/_node/_local/_stats").status, 200);
    assert_eq!(meter.get("/_node/_local/_config").status, 401);
    root.put("/_node/_local/_config/chttpd/admin_only_all_dbs", &json!("false"));
    assert_eq!(chief.get("/_all_dbs").status, 200);
}

#[test]
fn mongodbs_roles_are_rights_over_http() {
    let (server, mut root) = secured();
    root.put("/shop%2Forders", &json!({}));
    for (name, role) in
        [("reader", "read"), ("writer", "readWrite"), ("keeper", "dbAdmin"), ("owner", "dbOwner")]
    {
        server.add_user(name, name, &[(role, "shop")]);
    }
    let status = |name: &str, method: &str, path: &str, body: &Value| {
        as_user(&server, name).json(method, path, body).status
    };
    for (name, get, put, design, drop) in [
        ("reader", 404, 403, 403, 401),
        ("writer", 404, 201, 403, 401),
        ("keeper", 403, 403, 201, 401),
        ("owner", 404, 201, 201, 401),
    ] {
        let doc = format!("/shop%2Forders/{name}");
        let sheet = format!("/shop%2Forders/_design/{name}");
        assert_eq!(status(name, "GET", &doc, &json!({})), get, "{name} reads");
        assert_eq!(status(name, "PUT", &doc, &json!({})), put, "{name} writes");
        assert_eq!(status(name, "PUT", &sheet, &json!({})), design, "{name} designs");
        assert_eq!(status(name, "DELETE", "/db", &json!({})), drop, "{name} drops elsewhere");
        assert_eq!(status(name, "GET", "/test%2Fother", &json!({})), 404, "{name}");
    }
    // A pipeline needs rights on what it touches.
    root.put("/stock%2Fitems", &json!({}));
    for stage in [
        json!({ "$lookup": { "from": "orders", "pipeline": [{ "$unionWith": "orders" }], "as": "x" } }),
        json!({ "$unionWith": { "coll": "orders", "pipeline": [] } }),
    ] {
        assert_eq!(status("reader", "POST", "/shop%2Forders/_aggregate", &json!([stage])), 200, "{stage}");
    }
    for stage in [
        json!({ "$out": "other" }),
        json!({ "$out": { "db": "stock", "coll": "items" } }),
        json!({ "$merge": { "into": { "db": "stock", "coll": "items" } } }),
        json!({ "$merge": "orders" }),
        json!({ "$facet": { "a": [{ "$lookup": { "from": { "db": "stock", "coll": "items" }, "as": "x" } }] } }),
    ] {
        assert_eq!(status("reader", "POST", "/shop%2Forders/_aggregate", &json!([stage])), 403, "{stage}");
    }
    assert_eq!(
        status(
            "writer",
            "POST",
            "/shop%2Forders/_aggregate",
            &json!([{ "$match": { "n": 1 } }, { "$out": "other" }])
        ),
        200
    );
    root.put("/shop%2Forders/seed", &json!({}));
    let design = json!([{ "$project": { "_id": "_design/x" } }, { "$merge": "orders" }]);
    let refused = as_user(&server, "writer").json("POST", "/shop%2Forders/_aggregate", &design);
    assert_eq!(refused.status, 403, "{}", refused.text());
    let allowed = as_user(&server, "owner").json("POST", "/shop%2Forders/_aggregate", &design);
    assert_eq!(allowed.status, 200, "{}", allowed.text());
    let users = json!([{ "$merge": { "into": { "db": "admin", "coll": "_users" } } }]);
    assert_eq!(root.post("/shop%2Forders/_aggregate", &users).status, 403);
}

#[test]
fn open_databases_are_open_to_visitors_only_by_a_setting() {
    let (server, mut root) = secured();
    root.put("/db", &json!({}));
    root.put("/db/_security", &json!({}));
    let mut http = server.client();
    assert_eq!(http.get("/db").status, 401);
    root.put("/_node/_local/_config/chttpd/require_valid_user", &json!("false"));
    assert_eq!(http.get("/db").status, 200);
    let reply = http.put("/db/_design/d", &json!({}));
    let reason = "You are not a db or server admin.".to_owned();
    assert_eq!(reply.refusal(), (401, "unauthorized".to_owned(), reason));
    assert_eq!(reply.header("www-authenticate"), None);
    root.put("/closed", &json!({}));
    assert_eq!(
        refused(&mut http, "GET", "/closed", b""),
        (401, "You are not authorized to access this db.".to_owned())
    );
    assert_eq!(refused(&mut http, "PUT", "/new", b""), (401, "You are not a server admin.".to_owned()));
}

#[test]
fn functions_see_the_caller() {
    let (server, mut root) = guarded();
    let design = json!({
        "validate_doc_update": "function (doc, old, user, sec) { if (doc.by && doc.by !== user.name) { \
            throw { forbidden: user.name + ' ' + user.roles.join() + ' ' + user.db + ' ' + sec.admins.names[0] }; } }",
        "shows": { "who": "function (doc, req) { return { json: { user: req.userCtx, sec: req.secObj } }; }" },
        "updates": { "who": "function (doc, req) { return [null, req.userCtx.name]; }" },
        "filters": { "own": "function (doc, req) { return doc.by === req.userCtx.name; }" },
        "lists": { "who": "function (head, req) { send(req.userCtx.name); }" },
        "views": { "v": { "map": "function (doc) {}" } },
        "rewrites": [{ "from": "/drop", "to": "../..", "method": "DELETE" }, { "from": "/all", "to": "../../_all_docs" }]
    });
    assert_eq!(root.put("/db/_design/d", &design).status, 201);
    let mut mia = as_user(&server, "mia");
    assert_eq!(mia.put("/db/own", &json!({ "by": "mia" })).status, 201);
    let refused = mia.put("/db/other", &json!({ "by": "sam" })).refusal();
    assert_eq!((refused.0, refused.2.as_str()), (403, "mia staff db chief"));
    assert_eq!(root.put("/db/other", &json!({ "by": "root" })).status, 201);
    let shown = mia.get("/db/_design/d/_show/who").json();
    assert_eq!(shown["user"], json!({ "db": "db", "name": "mia", "roles": ["staff"] }));
    assert_eq!(shown["sec"]["admins"]["names"], json!(["chief"]));
    assert_eq!(mia.post("/db/_design/d/_update/who", &json!({})).text(), "mia");
    assert_eq!(mia.get("/db/_design/d/_list/who/v").text(), "mia");
    let rows = mia.get("/db/_changes?filter=d/own").json();
    assert_eq!(rows["results"].as_array().unwrap().len(), 1);
    // A rewritten request needs its own rights.
    assert_eq!(mia.get("/db/_design/d/_rewrite/all").status, 200);
    assert_eq!(mia.send("DELETE", "/db/_design/d/_rewrite/drop", &[], b"").status, 401);
    assert_eq!(root.get("/db").status, 200);
}

#[test]
fn feeds_end_when_their_user_loses_his_rights() {
    let (server, mut root) = guarded();
    let mut lines = Lines::open_as(&server, "mia", "/db/_changes?feed=continuous&heartbeat=60000");
    root.put("/db/first", &json!({}));
    assert_eq!(lines.json()["id"], "first");
    assert_eq!(root.put("/db/_security", &json!({ "members": { "names": ["root"] } })).status, 200);
    let began = Instant::now();
    let last = lines.json();
    assert!(last["last_seq"].is_string(), "{last}");
    assert!(lines.is_at_end());
    assert!(began.elapsed() < Duration::from_secs(10));
}

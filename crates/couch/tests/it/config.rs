//! `_node/_local/_config`: settings that change while the server runs.

use crate::setup::{client_of, database, secured};
use diwan_access::{Access, Audit, Fixed, Settings};
use diwan_kv::MemoryEngine;
use diwan_store::Store;
use diwan_testkit::{HttpClient, TestCouch};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const CONFIG: &str = "/_node/_local/_config";

fn put(http: &mut HttpClient, setting: &str, value: &str) -> (u16, Value) {
    let reply = http.put(&format!("{CONFIG}/{setting}"), &json!(value));
    (reply.status, reply.json())
}

fn get(http: &mut HttpClient, setting: &str) -> Value {
    http.get(&format!("{CONFIG}/{setting}")).json()
}

#[test]
fn settings_are_stored_and_answered() {
    let (_server, mut root) = secured();
    assert_eq!(put(&mut root, "own/key", " value "), (200, json!("")));
    assert_eq!(put(&mut root, "own/key", "other"), (200, json!("value")));
    assert_eq!(get(&mut root, "own/key"), json!("other"));
    assert_eq!(get(&mut root, "own"), json!({ "key": "other" }));
    assert_eq!(root.get(CONFIG).json()["own"], json!({ "key": "other" }));
    let gone = root.send("DELETE", &format!("{CONFIG}/own/key"), &[], b"");
    assert_eq!((gone.status, gone.json()), (200, json!("other")));
    for method in ["GET", "DELETE"] {
        let refused = root.send(method, &format!("{CONFIG}/own/key"), &[], b"").refusal();
        assert_eq!((refused.0, refused.2.as_str()), (404, "unknown_config_value"), "{method}");
    }
    // A default holds again when the setting is removed.
    assert_eq!(put(&mut root, "chttpd_auth/timeout", "60"), (200, json!("600")));
    root.send("DELETE", &format!("{CONFIG}/chttpd_auth/timeout"), &[], b"");
    assert_eq!(get(&mut root, "chttpd_auth/timeout"), json!("600"));
    // The older section is the newer one.
    assert_eq!(put(&mut root, "couch_httpd_auth/timeout", "70").0, 200);
    assert_eq!(get(&mut root, "chttpd_auth/timeout"), json!("70"));
    for name in ["nonode@nohost", "diwan@127.0.0.1"] {
        assert_eq!(root.get(&format!("/_node/{name}/_config/chttpd_auth/timeout")).json(), json!("70"));
    }
    assert_eq!(root.post(&format!("{CONFIG}/_reload"), &json!({})).json(), json!({ "ok": true }));
    assert_eq!(get(&mut root, "none"), json!({}));
}

#[test]
fn values_that_a_setting_cannot_have_are_refused() {
    let (_server, mut root) = secured();
    for (setting, value) in [
        ("chttpd_auth/timeout", "soon"),
        ("chttpd_auth/iterations", "0"),
        ("chttpd_auth/pbkdf2_prf", "md5"),
        ("chttpd_auth/password_regexp", "["),
        ("chttpd_auth/same_site", "maybe"),
        ("chttpd/authentication_handlers", "{x, y}"),
        ("chttpd/require_valid_user", "no"),
        ("couchdb/max_document_size", "4000000000"),
        ("jwt_keys/hmac:x", "%"),
        ("jwt_keys/x", "c2VjcmV0"),
        ("uuids/algorithm", "magic"),
        ("couchdb/max_partition_size", "-1"),
        ("query_server_config/reduce_limit", "maybe"),
        ("query_server_config/reduce_limit_ratio", "-2"),
        ("query_server_config/reduce_limit_ratio", "NaN"),
        ("query_server_config/reduce_limit_threshold", "1.5"),
        ("admins/", "x"),
        ("admins/a:b", "x"),
        ("admins/ada", ""),
        ("admins/ada", "-pbkdf2-x"),
    ] {
        let status = put(&mut root, setting, value).0;
        assert!(status == 400 || (setting == "admins/" && status == 405), "{setting} {value} {status}");
    }
    for body in ["1", "{}", "null"] {
        let kind = [("Content-Type", "application/json")];
        let reply = root.send("PUT", &format!("{CONFIG}/own/key"), &kind, body.as_bytes());
        assert_eq!(reply.status, 400, "{body}");
    }
    assert_eq!(put(&mut root, "query_servers/javascript", "/bin/sh").0, 403);
    // The register of users is one.
    assert_eq!(put(&mut root, "chttpd_auth/authentication_db", "_users"), (200, json!("_users")));
    assert_eq!(put(&mut root, "couch_httpd_auth/authentication_db", "people").0, 501);
}

#[test]
fn flags_fix_settings() {
    let store = Store::open(Arc::new(MemoryEngine::new())).unwrap();
    let mut fixed = BTreeMap::new();
    let flag = Fixed { value: "1000".to_owned(), source: "--max-document-size".to_owned() };
    fixed.insert(("couchdb".to_owned(), "max_document_size".to_owned()), flag);
    let settings = Settings::open(store.clone(), BTreeMap::new(), fixed).unwrap();
    let server = TestCouch::with_access(Access::open(store, settings, Audit::default()).unwrap());
    let mut http = server.client();
    assert_eq!(get(&mut http, "couchdb/max_document_size"), json!("1000"));
    for (method, body) in [("PUT", &b"\"5\""[..]), ("DELETE", b"")] {
        let kind = [("Content-Type", "application/json")];
        let reply = http.send(method, &format!("{CONFIG}/couchdb/max_document_size"), &kind, body);
        let refused = reply.refusal();
        assert_eq!((refused.0, refused.1.as_str()), (403, "forbidden"));
        assert!(refused.2.contains("--max-document-size"), "{}", refused.2);
    }
    http.put("/db", &json!({}));
    assert_eq!(http.put("/db/long", &json!({ "x": "x".repeat(1000) })).status, 413);
}

#[test]
fn administrators_are_the_section_admins() {
    let (server, mut root) = secured();
    let admins = get(&mut root, "admins");
    assert!(admins["root"].as_str().unwrap().starts_with("-pbkdf2:sha256-"), "{admins}");
    assert_eq!(put(&mut root, "admins/ada", "first"), (200, json!("")));
    assert_eq!(client_of(&server, "ada", "first").get("/_all_dbs").status, 200);
    let stored = root.get("/_users/org.couchdb.user:ada").json();
    assert_eq!(stored["grants"], json!([{ "role": "root", "db": "admin" }]));
    let (status, old) = put(&mut root, "admins/ada", "second");
    assert!(status == 200 && old.as_str().unwrap().starts_with("-pbkdf2:sha256-"), "{old}");
    assert_eq!(client_of(&server, "ada", "first").get("/_all_dbs").status, 401);
    // A hash that was made elsewhere, of the password `apple`.
    let hash = "-pbkdf2-e579375db0e0c6a6fc79cd9e36a36859f71575c3,1112283cf988a34f124200a050d308a1,10";
    assert_eq!(put(&mut root, "admins/jan", hash).0, 200);
    assert_eq!(client_of(&server, "jan", "apple").get("/_all_dbs").status, 200);
    assert_eq!(get(&mut root, "admins/jan"), json!(hash));
    for name in ["ada", "jan"] {
        assert_eq!(root.send("DELETE", &format!("{CONFIG}/admins/{name}"), &[], b"").status, 200);
        assert_eq!(root.get(&format!("/_users/org.couchdb.user:{name}")).status, 404);
    }
    let refused = root.send("DELETE", &format!("{CONFIG}/admins/root"), &[], b"").refusal();
    assert_eq!((refused.0, refused.1.as_str()), (403, "forbidden"));
    assert_eq!(root.send("DELETE", &format!("{CONFIG}/admins/none"), &[], b"").status, 404);
}

#[test]
fn the_first_administrator_can_be_a_setting() {
    let (server, mut http) = database();
    assert_eq!(put(&mut http, "chttpd_auth/iterations", "10").0, 200);
    assert_eq!(put(&mut http, "admins/ada", "secret"), (200, json!("")));
    assert_eq!(http.get("/_all_dbs").status, 401);
    assert_eq!(client_of(&server, "ada", "secret").get("/_all_dbs").status, 200);
}

#[test]
fn settings_take_effect_at_once() {
    let (_server, mut root) = secured();
    root.put("/db", &json!({}));
    assert_eq!(put(&mut root, "couchdb/max_document_size", "100").0, 200);
    let refused = root.put("/db/long", &json!({ "x": "x".repeat(200) })).refusal();
    assert_eq!((refused.0, refused.1.as_str()), (413, "document_too_large"));
    put(&mut root, "uuids/max_count", "2");
    assert_eq!(root.get("/_uuids?count=3").status, 400);
    put(&mut root, "uuids/algorithm", "utc_id");
    put(&mut root, "uuids/utc_id_suffix", "-here");
    let ids = root.get("/_uuids").json();
    assert!(ids["uuids"][0].as_str().unwrap().ends_with("-here"), "{ids}");
    let page = [("Origin", "https://app.example")];
    assert_eq!(root.send("GET", "/db", &page, b"").status, 403);
    put(&mut root, "chttpd/enable_cors", "true");
    put(&mut root, "cors/origins", "https://other.example, https://app.example");
    let reply = root.send("GET", "/db", &page, b"");
    assert_eq!(
        (reply.status, reply.header("access-control-allow-origin")),
        (200, Some("https://app.example"))
    );
}

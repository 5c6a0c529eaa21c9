//! The differences from CouchDB in `COMPATIBILITY.md` that no other test covers.

use crate::setup::{database, graft, made, rev};
use diwan_store::ops::{Delete, Update};
use diwan_store::{Collection, Namespace, WriteOptions};
use diwan_testkit::{HttpClient, TestCouch};
use diwan_value::{DocBuf, ObjectId, Value as Bson, doc};
use serde_json::{Value, json};
use std::sync::Arc;

/// Returns the collection with this MongoDB name.
fn collection(server: &TestCouch, database: &str, name: &str) -> Arc<Collection> {
    server.store().collection_or_create(&Namespace::new(database, name).unwrap()).unwrap()
}

fn insert(collection: &Collection, doc: &DocBuf) {
    let report = collection.insert(&[doc.as_doc()], true, WriteOptions::default()).unwrap();
    assert_eq!(report.inserted, 1);
}

fn bulk(client: &mut HttpClient, docs: &Value) {
    assert_eq!(client.post("/db/_bulk_docs", &json!({ "docs": docs })).status, 201);
}

// HTTP-1
#[test]
fn collections_appear_as_databases() {
    let (server, mut http) = database();
    insert(&collection(&server, "shop", "Orders.old"), &doc! { "_id": "a" });
    insert(&collection(&server, "test", "Cars"), &doc! { "_id": "a" });
    assert_eq!(http.get("/_all_dbs").json(), json!(["Cars", "db", "shop/Orders.old"]));
    assert_eq!(http.get("/shop%2FOrders.old/a").json()["_id"], "a");
    assert_eq!(http.put("/Bikes", &json!({})).refusal().1, "illegal_database_name");
    assert_eq!(http.put("/us$/a$b", &json!({})).status, 404);
    assert_eq!(http.put("/us$%2Fa$b", &json!({})).status, 201);
    insert(&collection(&server, "us＄", "a＄b"), &doc! { "_id": "a" });
    assert_eq!(http.get("/us$%2Fa$b/a").json()["_id"], "a");
}

// HTTP-2
#[test]
fn ids_of_other_types_become_text() {
    let (server, mut http) = database();
    let db = collection(&server, "test", "db");
    let hex = "65a1b2c3d4e5f60718293a4b";
    insert(&db, &doc! { "_id": 7 });
    insert(&db, &doc! { "_id": hex });
    insert(&db, &doc! { "_id": "_odd" });
    assert_eq!(http.put(&format!("/db/{hex}"), &json!({"n": 1})).status, 201);
    let stored =
        db.view().document(&diwan_store::id_key(Bson::ObjectId(ObjectId::parse_hex(hex).unwrap())).unwrap());
    assert!(stored.unwrap().is_some());
    let rows = http.get("/db/_all_docs").json()["rows"].take();
    let ids: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    let quoted = format!("~\"{hex}\"");
    assert_eq!(ids, [&quoted, hex, "~\"_odd\"", r#"~{"$numberInt":"7"}"#]);
    assert_eq!(http.get("/db/~%7B%22$numberInt%22:%227%22%7D").status, 200);
    let long = "x".repeat(20_000);
    assert_eq!(http.post("/db", &json!({ "_id": long })).refusal().1, "illegal_docid");
}

// HTTP-3
#[test]
fn bson_values_are_extended_json() {
    let (_server, mut http) = database();
    let sent = r#"{"big":9007199254740993,"huge":123456789012345678901234567890,"when":{"$date":"2024-05-06T07:08:09Z"},"whole":1.0}"#;
    assert_eq!(http.send("PUT", "/db/d", &[], sent.as_bytes()).status, 201);
    let text = http.get("/db/d").text();
    let fields = text.split_once(r#"","big""#).unwrap().1;
    let expected = concat!(
        r#":{"$numberLong":"9007199254740993"},"huge":1.2345678901234568e+29,"#,
        r#""when":{"$date":"2024-05-06T07:08:09Z"},"whole":1.0}"#
    );
    assert_eq!(fields.trim_end(), expected);
    let second = http.get("/db/d").json()["_rev"].as_str().unwrap().to_owned();
    http.put("/db/d", &json!({"_rev": second, "whole": 1}));
    assert!(http.get("/db/d").text().contains(r#""whole":1.0"#), "the number keeps its type");
    let mut deep = json!(1);
    for _ in 0..101 {
        deep = json!([deep]);
    }
    assert_eq!(http.put("/db/deep", &json!({ "a": deep })).refusal().1, "bad_request");
    assert_eq!(http.put("/db/nul", &json!({ "a\u{0}b": 1 })).refusal().1, "bad_request");
}

// HTTP-4
#[test]
fn underscore_fields_get_a_dollar_prefix() {
    let (server, mut http) = database();
    let db = collection(&server, "test", "db");
    insert(&db, &doc! { "_id": "m", "_class": "Car" });
    assert_eq!(http.get("/db/m").json()["$_class"], "Car");
    http.put("/db/h", &json!({ "$_v": 1 }));
    let found = http.post("/db/_find", &json!({ "selector": { "$_v": 1 } })).json();
    assert_eq!(found["docs"][0]["_id"], "h");
    assert_eq!(http.put("/db/x", &json!({ "$v": 1 })).refusal().1, "doc_validation");
}

// HTTP-5
#[test]
fn short_revisions_sort_apart_from_hashes() {
    let (_server, mut http) = database();
    let docs = json!([{"_id": "d", "_rev": "1-a"}, {"_id": "d", "_rev": made(1, '6')}, {"_id": "d", "_rev": made(1, '7')}]);
    http.post("/db/_bulk_docs", &json!({ "new_edits": false, "docs": docs }));
    let doc = http.get("/db/d?conflicts=true").json();
    assert_eq!((&doc["_rev"], &doc["_conflicts"]), (&json!(made(1, '7')), &json!(["1-a", made(1, '6')])));
}

// HTTP-6
#[test]
fn revision_hashes_differ_from_couchdb() {
    let (_server, mut http) = database();
    let first = rev(&http.put("/db/d", &json!({})));
    assert_ne!(first, "1-967a00dff5e02add41819138abb3284d");
    assert_ne!(rev(&http.put("/db/other", &json!({}))), first, "the id counts too");
}

// HTTP-7 HTTP-8
#[test]
fn mongodb_writes_drop_old_bodies_and_delete_all_leaves() {
    let (server, mut http) = database();
    let db = collection(&server, "test", "db");
    let first = rev(&http.put("/db/d", &json!({ "n": 1 })));
    let second = rev(&http.put("/db/d", &json!({ "_rev": first, "n": 2 })));
    assert_eq!(http.get(&format!("/db/d?rev={first}")).json()["n"], 1);
    let (filter, update) = (doc! { "_id": "d" }, doc! { "$set": { "n": 3 } });
    let request = Update {
        filter: filter.as_doc(),
        update: Some(Bson::Document(update.as_doc())),
        ..Update::default()
    };
    assert_eq!(db.update(&request).unwrap().modified, 1);
    assert_eq!(http.get(&format!("/db/d?rev={second}")).refusal().0, 404);
    graft(&mut http, "c", 1, "1", json!({}));
    graft(&mut http, "c", 1, "2", json!({}));
    let filter = doc! { "_id": "c" };
    assert_eq!(db.delete(&Delete { filter: filter.as_doc(), ..Delete::default() }).unwrap().count, 1);
    assert_eq!(http.get("/db/c").refusal().2, "deleted");
    let leaves = http.send("GET", "/db/c?open_revs=all", &[("Accept", "application/json")], b"").json();
    let leaves = leaves.as_array().unwrap();
    assert!(leaves.len() == 2 && leaves.iter().all(|leaf| leaf["ok"]["_deleted"] == true));
}

fn names(found: &Value) -> Vec<&str> {
    found["docs"].as_array().unwrap().iter().map(|doc| doc["name"].as_str().unwrap()).collect()
}

// HTTP-10 HTTP-12
#[test]
fn queries_sort_by_any_field_in_byte_order() {
    let (_server, mut http) = database();
    bulk(&mut http, &json!([{"name": "a"}, {"name": "B"}, {"name": "é"}, {"name": "z"}]));
    let query = json!({ "selector": { "name": { "$gt": null } }, "sort": ["name"] });
    for _ in 0..2 {
        let found = http.post("/db/_find", &query).json();
        assert_eq!(names(&found), ["B", "a", "z", "é"]);
        http.post("/db/_index", &json!({ "index": { "fields": ["name"] } }));
    }
    http.put("/db/_design/d", &json!({ "views": { "v": { "map": "function (doc) { emit(doc.name); }" } } }));
    let rows = http.get("/db/_design/d/_view/v").json();
    let keys: Vec<&str> =
        rows["rows"].as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["a", "B", "é", "z"]);
}

// HTTP-11 HTTP-13
#[test]
fn mango_indexes_are_collection_indexes() {
    let (server, mut http) = database();
    let index = json!({ "index": { "fields": ["a"] }, "ddoc": "d", "name": "n" });
    assert_eq!(http.post("/db/_index", &index).json()["id"], "_design/d");
    let db = collection(&server, "test", "db");
    assert!(db.schema().indexes.iter().any(|index| index.spec.name == "n"));
    assert_eq!(http.get("/db/_design/d/_view/n").refusal().1, "unknown_query_language");
    db.remove_indexes(|index| index.spec.name == "n").unwrap();
    assert_eq!(http.get("/db/_index").json()["total_rows"], 1);
    assert_eq!(http.send("DELETE", "/db/_index/d/json/n", &[], b"").status, 404);
    assert_eq!(http.get("/db/_design/d").status, 404);
    let explained = http.post("/db/_explain", &json!({ "selector": { "a": 1 } })).json();
    assert_eq!(explained["winning_plan"]["stage"], "LIMIT");
    assert!(explained["mrargs"].get("start_key").is_none());
    http.put("/db/_design/e", &json!({}));
    http.put("/db/a", &json!({}));
    let counted = http.post("/db/_find", &json!({ "selector": { "b": 1 }, "execution_stats": true })).json();
    assert_eq!(counted["execution_stats"]["total_docs_examined"], 2);
    for name in ["_rev", "_conflicts"] {
        let refused = http.post("/db/_index", &json!({ "index": { "fields": ["a", name] } })).refusal();
        assert_eq!((refused.0, refused.1.as_str()), (400, "invalid_sort_field"));
    }
}

// HTTP-14
#[test]
fn text_indexes_are_refused() {
    let (_server, mut http) = database();
    for kind in ["text", "nouveau"] {
        let index = json!({ "index": {}, "type": kind });
        assert_eq!(http.post("/db/_index", &index).status, 503);
    }
    let refused = http.post("/db/_find", &json!({ "selector": { "$text": "x" } })).refusal();
    assert_eq!((refused.0, refused.1.as_str()), (503, "required index service unavailable"));
    for path in ["/db/_design/d/_search/i?q=x", "/db/_design/d/_nouveau/i?q=x"] {
        assert_eq!(http.get(path).status, 404, "{path}");
    }
    for path in ["/_search_analyze", "/_nouveau_analyze"] {
        let asked = http.post(path, &json!({ "analyzer": "standard", "text": "x" }));
        assert_eq!(asked.status, 404, "{path}");
    }
}

// HTTP-15
#[test]
fn changes_with_limit_zero_report_pending() {
    let (_server, mut http) = database();
    bulk(&mut http, &json!([{"_id": "a"}, {"_id": "b"}]));
    let none = http.get("/db/_changes?limit=0").json();
    assert_eq!((&none["results"], &none["pending"]), (&json!([]), &json!(2)));
    assert!(none["last_seq"].as_str().unwrap().starts_with("0-"));
}

// HTTP-17
#[test]
fn temporary_views_are_supported() {
    let (_server, mut http) = database();
    bulk(&mut http, &json!([{"_id": "a"}, {"_id": "b"}]));
    let view = json!({ "map": "function (doc) { emit(doc._id, 1); }" });
    let reply = http.post("/db/_temp_view", &view);
    assert_eq!(reply.json()["total_rows"], 2, "{}", reply.text());
    let erlang = json!({ "language": "erlang", "views": { "v": { "map": "fun" } } });
    http.put("/db/_design/e", &erlang);
    assert_eq!(http.get("/db/_design/e/_view/v").refusal().1, "unknown_query_language");
}

// HTTP-18 HTTP-19 HTTP-20 HTTP-22 HTTP-23 HTTP-24 HTTP-25
#[test]
fn server_is_a_single_node_without_users() {
    let (_server, mut http) = database();
    http.put("/db/d", &json!({ "text": "x".repeat(100) }));
    let sizes = http.get("/db").json()["sizes"].take();
    assert!(sizes["file"] == sizes["active"] && sizes["active"] == sizes["external"]);
    let basic = [("Authorization", "Basic YWRtaW46YWRtaW4=")];
    assert_eq!(http.send("GET", "/", &basic, b"").refusal().1, "unauthorized");
    assert_eq!(http.get("/_session").json()["userCtx"], json!({ "name": null, "roles": ["_admin"] }));
    let login = json!({ "name": "a", "password": "b" });
    assert_eq!(http.post("/_session", &login).status, 401);
    let user = json!({ "name": "a", "password": "b", "type": "user", "roles": [] });
    // The first user must be an administrator.
    assert_eq!(http.put("/_users/org.couchdb.user:a", &user).refusal().1, "forbidden");
    assert_eq!(http.get("/_users/_design/_auth").status, 200);
    assert_eq!(http.get("/_membership").json()["all_nodes"].as_array().unwrap().len(), 1);
    assert_eq!(http.put("/four?q=4", &json!({})).status, 201);
    assert_eq!(http.get("/four").json()["cluster"], json!({ "q": 1, "n": 1, "w": 1, "r": 1 }));
    assert_eq!(http.post("/_cluster_setup", &json!({ "action": "enable_cluster" })).status, 501);
    for path in ["/_reshard", "/db/_purged_infos"] {
        assert_eq!(http.get(path).status, 404, "{path}");
    }
    let purged = http.post("/db/_purge", &json!({ "none": [made(1, '1')] })).json();
    assert_eq!(purged["purge_seq"], Value::Null);
    assert_eq!(http.send("GET", "/", &[("Origin", "https://example.org")], b"").refusal().1, "forbidden");
}

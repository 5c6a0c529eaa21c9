//! The errors that CouchDB clients get when the disk is almost full.

use crate::setup::rev;
use diwan_kv::{FaultEngine, MemoryEngine};
use diwan_testkit::{HttpReply, TestCouch};
use serde_json::json;
use std::sync::Arc;

#[track_caller]
fn assert_full(reply: &HttpReply, reason: &str) {
    let expected = json!({"error": "insufficent_storage", "reason": reason});
    assert_eq!((reply.status, reply.json()), (507, expected));
}

const FULL: &str = "database_dir is too full";

#[test]
fn full_disk_refuses_writes_with_507_but_allows_deletions() {
    let engine = Arc::new(FaultEngine::new(MemoryEngine::new()));
    let server = TestCouch::on_engine(engine.clone());
    let mut client = server.client().with_header("Accept", "application/json");
    assert_eq!(client.put("/db", &json!({})).status, 201);
    let views = json!({"views": {"all": {"map": "function (doc) { emit(doc._id) }"}}});
    rev(&client.put("/db/_design/d", &views));
    let first = rev(&client.put("/db/a", &json!({"n": 1})));

    engine.set_full(true);
    assert_full(&client.put("/db/b", &json!({})), FULL);
    assert_full(&client.put(&format!("/db/a?rev={first}"), &json!({})), FULL);
    assert_full(&client.put("/db/_local/x", &json!({})), FULL);
    assert_full(&client.put("/other", &json!({})), FULL);
    assert_full(&client.get("/db/_design/d/_view/all"), "not enough room to update index");
    let up = client.get("/_up");
    assert_eq!((up.status, up.json()["status"].as_str()), (404, Some("read_only")));
    assert_eq!(up.json()["reason"], "available disk space of 1 bytes is less than required minimum of 2");
    let docs = json!({"docs": [{"_id": "a", "_rev": first, "_deleted": true}, {"_id": "b"}]});
    let bulk = client.post("/db/_bulk_docs", &docs);
    assert_eq!(bulk.status, 201);
    assert_eq!(bulk.json()[0]["ok"], true, "{}", bulk.text());
    assert_eq!(bulk.json()[1], json!({"id": "b", "error": "insufficent_storage", "reason": FULL}));
    assert_eq!(client.get("/db/a").status, 404);
    assert_eq!(client.get("/db").json()["doc_count"], 1);

    engine.set_full(false);
    assert_eq!(client.get("/_up").status, 200);
    rev(&client.put("/db/b", &json!({})));
    assert_eq!(client.get("/db/_design/d/_view/all").json()["total_rows"], 1);
    engine.set_full(true);
    assert_eq!(client.send("DELETE", "/db", &[], b"").status, 200);
}

#[test]
fn replication_into_a_full_disk_resumes_later() {
    let source = TestCouch::in_memory();
    let mut at_source = source.client();
    assert_eq!(at_source.put("/db", &json!({})).status, 201);
    rev(&at_source.put("/db/a", &json!({})));
    let engine = Arc::new(FaultEngine::new(MemoryEngine::new()));
    let server = TestCouch::on_engine(engine.clone());
    let mut client = server.client();
    assert_eq!(client.put("/db", &json!({})).status, 201);
    let job = json!({"source": format!("http://{}/db", source.address()), "target": "db"});
    engine.set_full(true);
    let refused = client.post("/_replicate", &job);
    assert_eq!((refused.status, refused.json()["error"].as_str()), (507, Some("insufficent_storage")));
    engine.set_full(false);
    let copied = client.post("/_replicate", &job);
    assert_eq!((copied.status, client.get("/db/a").status), (200, 200), "{}", copied.text());
}

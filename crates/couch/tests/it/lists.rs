//! Listings of documents by id, database settings, partitions.

use crate::setup::{database, graft, made, rev};
use diwan_testkit::HttpClient;
use serde_json::{Value, json};

fn ids(reply: &Value) -> Vec<&str> {
    reply["rows"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap_or("?")).collect()
}

fn fill(client: &mut HttpClient, names: &[&str]) {
    let docs: Vec<Value> = names.iter().enumerate().map(|(n, id)| json!({"_id": id, "n": n})).collect();
    assert_eq!(client.post("/db/_bulk_docs", &json!({ "docs": docs })).status, 201);
}

#[test]
fn all_docs_lists_ranges_of_ids() {
    let (_server, mut client) = database();
    fill(&mut client, &["a", "b", "c", "d", "_design/x", "65a1b2c3d4e5f60718293a4b"]);
    for (query, expected) in [
        ("", vec!["65a1b2c3d4e5f60718293a4b", "_design/x", "a", "b", "c", "d"]),
        ("?descending=true&limit=2", vec!["d", "c"]),
        ("?startkey=%22b%22&endkey=%22c%22", vec!["b", "c"]),
        ("?start_key=%22b%22&end_key=%22c%22&inclusive_end=false", vec!["b"]),
        ("?startkey=%22c%22&endkey=%22a%22&descending=true", vec!["c", "b", "a"]),
        ("?key=%22b%22", vec!["b"]),
        ("?key=%22zz%22", vec![]),
        ("?startkey=%2265%22&endkey=%2266%22", vec!["65a1b2c3d4e5f60718293a4b"]),
        ("?skip=4", vec!["c", "d"]),
        ("?startkey_docid=c", vec!["c", "d"]),
        ("?start_key_doc_id=b&endkey_docid=c&inclusive_end=false", vec!["b"]),
        ("?startkey_docid=b&endkey_docid=a&descending=true", vec!["b", "a"]),
        ("?startkey=%22d%22&startkey_docid=a", vec!["d"]),
        ("?limit=0", vec![]),
    ] {
        let reply = client.get(&format!("/db/_all_docs{query}")).json();
        assert_eq!(ids(&reply), expected, "{query}");
        assert_eq!(reply["total_rows"], 6, "{query}");
    }
    let reply = client.get("/db/_all_docs?startkey=%22b%22&skip=1&update_seq=true").json();
    assert_eq!(reply["offset"], 4);
    assert!(reply["update_seq"].as_str().unwrap().starts_with("6-"));
    let reply = client.get("/db/_design_docs").json();
    assert_eq!((ids(&reply), &reply["total_rows"]), (vec!["_design/x"], &json!(1)));
    let keys = json!({"keys": ["a", "_design/x", "_design/y", "_design/x"], "limit": 3});
    let reply = client.post("/db/_design_docs", &keys).json();
    let rows = json!([
        {"id": "_design/x", "key": "_design/x", "value": reply["rows"][0]["value"]},
        {"key": "_design/y", "error": "not_found"}
    ]);
    assert_eq!((&reply["rows"], &reply["total_rows"]), (&rows, &json!(1)));
    let refused = client.get("/db/_all_docs?limit=x").refusal();
    assert_eq!((refused.0, refused.1.as_str()), (400, "query_parse_error"));
    assert_eq!(client.get("/none/_all_docs").status, 404);
    assert_eq!(client.send("HEAD", "/db/_all_docs", &[], b"").status, 200);
}

#[test]
fn all_docs_answers_each_key() {
    let (_server, mut client) = database();
    fill(&mut client, &["a", "b"]);
    let gone = rev(&client.put("/db/gone", &json!({})));
    let gone = rev(&client.send("DELETE", &format!("/db/gone?rev={gone}"), &[], b""));
    let keys = json!({"keys": ["b", "nope", "gone", "a", 7], "include_docs": true});
    let reply = client.post("/db/_all_docs", &keys).json();
    let rows = reply["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &reply["offset"]), (5, &Value::Null));
    assert_eq!(rows[0]["doc"]["_id"], "b");
    assert_eq!(rows[1], json!({"key": "nope", "error": "not_found"}));
    assert_eq!(
        rows[2],
        json!({"id": "gone", "key": "gone", "value": {"rev": gone, "deleted": true}, "doc": null})
    );
    assert_eq!(rows[4], json!({"key": 7, "error": "not_found"}));
    let keys = json!({"keys": ["gone"], "include_docs": true, "deleted": "ok"});
    let reply = client.post("/db/_all_docs", &keys).json();
    assert_eq!(reply["rows"][0]["doc"], json!({"_id": "gone", "_rev": gone, "_deleted": true}));
    let queries = json!({"queries": [{"keys": ["a"]}, {"limit": 1, "descending": true}]});
    let reply = client.post("/db/_all_docs/queries", &queries).json();
    assert_eq!((ids(&reply["results"][0]), ids(&reply["results"][1])), (vec!["a"], vec!["b"]));
    let refused = client.post("/db/_all_docs/queries", &json!({})).refusal();
    assert_eq!(refused.2, "POST body must include `queries` parameter.");
}

#[test]
fn all_docs_can_include_conflicts() {
    let (_server, mut client) = database();
    graft(&mut client, "a", 1, "1", json!({"v": 1}));
    graft(&mut client, "a", 1, "2", json!({"v": 2}));
    let reply = client.get("/db/_all_docs?include_docs=true&conflicts=true").json();
    let doc = &reply["rows"][0]["doc"];
    assert_eq!((&doc["_rev"], &doc["_conflicts"]), (&json!(made(1, '2')), &json!([made(1, '1')])));
    assert_eq!(
        client.get("/db/_all_docs?include_docs=true").json()["rows"][0]["doc"].get("_conflicts"),
        None
    );
}

#[test]
fn database_settings_are_stored() {
    let (_server, mut client) = database();
    assert_eq!(client.get("/db/_revs_limit").text(), "1000\n");
    assert_eq!(client.put("/db/_revs_limit", &json!(7)).json(), json!({"ok": true}));
    assert_eq!(client.get("/db/_revs_limit").text(), "7\n");
    assert_eq!(client.put("/db/_revs_limit", &json!(0)).status, 400);
    assert_eq!(client.put("/db/_purged_infos_limit", &json!("x")).status, 400);
    assert_eq!(client.put("/db/_purged_infos_limit", &json!(9)).status, 200);
    assert_eq!(client.get("/db/_purged_infos_limit").text(), "9\n");
    let admins = json!({"admins": {"names": ["me"], "roles": []}, "other": {"$x": 1}});
    assert_eq!(client.put("/db/_security", &admins).status, 200);
    assert_eq!(client.get("/db/_security").json(), admins);
    assert_eq!(client.put("/db/_security", &json!({"admins": {"names": 1}})).status, 400);
    assert_eq!(client.put("/_users/_security", &admins).status, 403);
    for path in ["_compact", "_view_cleanup", "_sync_shards"] {
        assert_eq!(client.post(&format!("/db/{path}"), &json!({})).status, 202, "{path}");
    }
}

#[test]
fn purge_removes_documents() {
    let (_server, mut client) = database();
    let first = rev(&client.put("/db/a", &json!({})));
    let reply = client.post("/db/_purge", &json!({"a": [first, made(9, '9')], "b": [made(1, '1')]}));
    assert_eq!((reply.status, &reply.json()["purged"]), (201, &json!({"a": [first], "b": []})));
    assert_eq!(client.get("/db/a").status, 404);
    let info = client.get("/db").json();
    assert_eq!(
        (&info["doc_count"], &info["doc_del_count"], &info["purge_seq"]),
        (&json!(0), &json!(0), &json!("1"))
    );
    assert_eq!(client.post("/db/_purge", &json!({"a": ["x"]})).status, 400);
    let many: serde_json::Map<String, Value> = (0..101).map(|n| (n.to_string(), json!([]))).collect();
    assert_eq!(
        client.post("/db/_purge", &Value::Object(many)).refusal().2,
        "Exceeded maximum number of documents."
    );
}

#[test]
fn partitions_restrict_lists_and_queries() {
    let (_server, mut client) = database();
    assert_eq!(client.put("/parts?partitioned=true", &json!({})).status, 201);
    for id in ["p:1", "p:2", "pp:1", "q:1"] {
        assert_eq!(client.put(&format!("/parts/{id}"), &json!({"v": 1})).status, 201);
    }
    assert_eq!(client.put("/parts/x", &json!({})).refusal().1, "illegal_docid");
    assert_eq!(client.get("/parts").json()["props"], json!({"partitioned": true}));
    let info = client.get("/parts/_partition/p").json();
    assert_eq!((&info["doc_count"], &info["partition"]), (&json!(2), &json!("p")));
    assert_eq!(ids(&client.get("/parts/_partition/p/_all_docs").json()), ["p:1", "p:2"]);
    assert_eq!(ids(&client.get("/parts/_all_docs?partition=p").json()), ["p:1", "p:2"]);
    let listed = client.get("/parts/_partition/p/_all_docs?descending=true&startkey=%22p:1%22").json();
    assert_eq!(ids(&listed), ["p:1"]);
    // As in CouchDB, `keys` may name documents outside the partition.
    let keys = json!({"keys": ["q:1", "p:2", "none"], "descending": true});
    assert_eq!(ids(&client.post("/parts/_partition/p/_all_docs", &keys).json()), ["?", "p:2", "q:1"]);
    let before = client.get("/parts/_partition/q").json()["sizes"]["active"].as_u64().unwrap();
    client.send("PUT", "/parts/q:2/file", &[("Content-Type", "image/png")], &[7; 1000]);
    let after = client.get("/parts/_partition/q").json()["sizes"].clone();
    assert!(after["active"].as_u64().unwrap() > before + 1000 && after["active"] == after["external"]);
    let refused = client.get("/db/_all_docs?partition=p").refusal();
    assert_eq!(refused.2, "`partition` parameter is not supported on this db");
    let body = json!({"partition": "p", "limit": 1});
    assert_eq!(ids(&client.post("/parts/_all_docs", &body).json()), ["p:1"]);
    assert_eq!(client.post("/db/_all_docs", &body).refusal(), refused);
    let query = json!({"selector": {}, "partition": "p"});
    assert_eq!(client.post("/db/_find", &query).refusal(), refused);
    let several = client.post("/parts/_all_docs/queries", &json!({"queries": [body, {}]})).json();
    assert_eq!(ids(&several["results"][0]), ["p:1"]);
    assert!(ids(&several["results"][1]).len() > 2);
    assert_eq!(client.get("/parts/_partition").refusal().2, "invalid_partition_req");
    let purge = client.post("/parts/_purge", &json!({"whole": ["1-abc"]}));
    assert_eq!(purge.refusal().2, "Doc id must be of form partition:id");
    let found = client.post("/parts/_partition/p/_find", &json!({"selector": {"v": 1}})).json();
    assert_eq!(found["docs"].as_array().unwrap().len(), 2);
    assert_eq!(client.get("/db/_partition/p").refusal().2, "database is not partitioned");
    assert_eq!(client.get("/parts/_partition/_p").refusal().1, "illegal_partition");
    let unnamed = client.post("/db/_partition/_find", &json!({"selector": {}})).refusal();
    assert_eq!((unnamed.0, unnamed.1.as_str()), (400, "illegal_partition"));
    assert_eq!(client.post("/parts/_partition/p", &json!({})).refusal().2, "Only GET allowed");
    for (path, status) in [
        ("/parts/_partition/p/_none", 404),
        ("/parts/_partition/p/_design/d", 404),
        ("/parts/_partition/p/_index", 200),
        ("/db/_partition/p/_index", 400),
        ("/db/_partition/p/_none", 400),
    ] {
        assert_eq!(client.get(path).status, status, "{path}");
    }
    let got = client.post("/parts/_bulk_get", &json!({"docs": [{"id": "x"}, {"id": "_a:b"}, {"id": "p:1"}]}));
    let got = got.json()["results"].clone();
    assert_eq!(got[0]["docs"][0]["error"]["reason"], "Doc id must be of form partition:id");
    assert_eq!(got[1]["docs"][0]["error"]["error"], "illegal_docid");
    assert_eq!(got[2]["docs"][0]["ok"]["_id"], "p:1");
}

// HTTP-21
#[test]
fn patch_applies_update_operators() {
    let (_server, mut client) = database();
    let first = rev(&client.put("/db/a", &json!({"n": 1, "tags": ["x"]})));
    let second = client.json("PATCH", "/db/a", &json!({"$inc": {"n": 1}, "$push": {"tags": "y"}}));
    assert_eq!(second.status, 201);
    let second = rev(&second);
    assert_eq!(client.get("/db/a").json(), json!({"_id": "a", "_rev": second, "n": 2, "tags": ["x", "y"]}));
    let refused = client.json("PATCH", &format!("/db/a?rev={first}"), &json!({"$set": {"n": 5}}));
    assert_eq!(refused.refusal(), (409, "conflict".into(), "Document update conflict.".into()));
    let reply =
        client.json("PATCH", &format!("/db/a?rev={second}"), &json!([{"$set": {"n": {"$add": ["$n", 5]}}}]));
    assert_eq!(reply.status, 201);
    let unchanged = client.json("PATCH", "/db/a", &json!({"$set": {"n": 7}}));
    assert_eq!((unchanged.status, rev(&unchanged)), (200, rev(&reply)));
    for bad in [json!({"n": 1}), json!({}), json!({"$nope": {}}), json!(1)] {
        assert_eq!(client.json("PATCH", "/db/a", &bad).status, 400, "{bad}");
    }
    assert_eq!(client.json("PATCH", "/db/none", &json!({"$set": {"n": 1}})).status, 404);
}

#[test]
fn full_partitions_refuse_what_makes_them_larger() {
    let (_server, mut http) = database();
    http.put("/parts?partitioned=true", &json!({}));
    let doc = json!({ "text": "x".repeat(1000) });
    for n in 0..12 {
        assert_eq!(http.put(&format!("/parts/a:{n}"), &doc).status, 201);
    }
    let limit = "/_node/_local/_config/couchdb/max_partition_size";
    assert_eq!(http.put(limit, &json!("10241")).status, 200);
    let refused = http.put("/parts/a:more", &doc).refusal();
    let reason = "Partition limit exceeded due to update on 'a:more'".to_owned();
    assert_eq!(refused, (403, "partition_overflow".to_owned(), reason));
    let bulk = json!({ "docs": [{ "_id": "a:bulk" }, { "_id": "b:1" }] });
    let outcomes = http.post("/parts/_bulk_docs", &bulk).json();
    assert_eq!((&outcomes[0]["error"], &outcomes[1]["ok"]), (&json!("partition_overflow"), &json!(true)));
    // Other partitions, design documents, databases without partitions.
    assert_eq!(http.put("/parts/b:2", &doc).status, 201);
    assert_eq!(http.put("/parts/_design/d", &json!({ "text": "x".repeat(20_000) })).status, 201);
    assert_eq!(http.put("/db/a:1", &json!({ "text": "x".repeat(20_000) })).status, 201);
    // What comes from another server, and what makes it smaller.
    let grafted = json!({ "new_edits": false, "docs": [{ "_id": "a:g", "_rev": "1-abc", "text": "x" }] });
    assert_eq!(http.post("/parts/_bulk_docs", &grafted).json(), json!([]));
    let rev = http.get("/parts/a:0").json()["_rev"].clone();
    assert_eq!(http.put("/parts/a:0", &json!({ "_rev": rev, "text": "y" })).status, 201);
    let rev = http.get("/parts/a:1").json()["_rev"].clone();
    assert_eq!(http.put("/parts/a:1", &json!({ "_rev": rev, "text": "y".repeat(1100) })).status, 403);
    for n in 1..8 {
        let rev = http.get(&format!("/parts/a:{n}")).json()["_rev"].as_str().unwrap().to_owned();
        assert_eq!(http.send("DELETE", &format!("/parts/a:{n}?rev={rev}"), &[], b"").status, 200);
    }
    // The partition is read again after a pause.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(http.put("/parts/a:more", &doc).status, 201);
    // Attachments count.
    let file = vec![b'x'; 9000];
    http.send("PUT", "/parts/c:1/f", &[("Content-Type", "image/png")], &file);
    http.put("/parts/c:2", &json!({ "text": "x".repeat(2000) }));
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(http.put("/parts/c:3", &doc).status, 403);
    http.put(limit, &json!("0"));
    assert_eq!(http.put("/parts/c:3", &doc).status, 201);
}

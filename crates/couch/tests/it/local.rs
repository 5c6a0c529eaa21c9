//! Local documents.

use crate::setup::database;
use serde_json::{Value, json};

#[test]
fn local_documents_have_counters_as_revisions() {
    let (_server, mut http) = database();
    let put = http.put("/db/_local/a", &json!({"n": 1}));
    assert_eq!((put.status, put.json()), (201, json!({"ok": true, "id": "_local/a", "rev": "0-1"})));
    assert_eq!(http.put("/db/_local%2Fa", &json!({"_rev": "0-1", "n": 2})).json()["rev"], "0-2");
    assert_eq!(http.get("/db/_local/a").json(), json!({"_id": "_local/a", "_rev": "0-2", "n": 2}));
    assert_eq!(http.put("/db/_local/a", &json!({"_rev": "1-x"})).refusal().2, "Invalid rev format");
    assert_eq!(http.get("/db/_local/none").refusal().0, 404);
    assert_eq!(http.get("/db").json()["doc_count"], 0);
    let deleted = http.send("DELETE", "/db/_local/a?rev=0-2", &[], b"");
    assert_eq!((deleted.status, deleted.json()["rev"].as_str()), (200, Some("0-0")));
    assert_eq!(http.send("DELETE", "/db/_local/a", &[], b"").refusal().0, 404);
    let attachment = http.send("PUT", "/db/_local/a/b", &[], b"x");
    assert_eq!(attachment.refusal().2, "_local documents do not accept attachments.");
    assert_eq!(http.get("/db/_local").refusal().2, "Invalid _local document id.");
    for path in ["/db/_local%2F", "/db/_local/"] {
        let refused = http.put(path, &json!({})).refusal();
        assert_eq!(refused, (400, "bad_request".into(), "Invalid _local document id.".into()), "{path}");
    }
    assert_eq!(http.post("/db", &json!({"_id": "_local/p"})).json()["rev"], "0-1");
    let with_file = json!({"n": 3, "_attachments": {"a": {"data": "aGk="}}});
    assert_eq!(http.put("/db/_local/f", &with_file).status, 201);
    assert_eq!(http.get("/db/_local/f").json(), json!({"_id": "_local/f", "_rev": "0-1", "n": 3}));
}

#[test]
fn local_documents_have_content_etags() {
    let (_server, mut http) = database();
    http.put("/db/_local/a", &json!({"n": 1}));
    let tag = http.send("HEAD", "/db/_local/a", &[], b"").header("etag").expect("a tag").to_owned();
    assert_eq!(http.send("GET", "/db/_local/a", &[("If-None-Match", &tag)], b"").status, 304);
    // The same revision with other content.
    http.send("DELETE", "/db/_local/a", &[], b"");
    http.put("/db/_local/a", &json!({"n": 2}));
    assert_eq!(http.send("GET", "/db/_local/a", &[("If-None-Match", &tag)], b"").status, 200);
}

#[test]
fn local_docs_lists_local_documents() {
    let (_server, mut http) = database();
    for name in ["a", "b", "c"] {
        http.put(&format!("/db/_local/{name}"), &json!({"name": name}));
    }
    let ids = |reply: Value| -> Vec<String> {
        let rows = reply["rows"].as_array().expect("rows").clone();
        rows.iter().map(|row| row["id"].as_str().unwrap_or("-").replace("_local/", "")).collect()
    };
    let all = http.get("/db/_local_docs").json();
    assert_eq!(all["rows"][0], json!({"id": "_local/a", "key": "_local/a", "value": {"rev": "0-1"}}));
    assert_eq!((&all["total_rows"], &all["offset"]), (&Value::Null, &Value::Null));
    for (query, expected) in [
        ("descending=true&limit=2", "c b"),
        ("skip=1", "b c"),
        ("startkey=%22_local/b%22", "b c"),
        ("endkey=%22_local/b%22&inclusive_end=false", "a"),
        ("startkey=%22_local/b%22&descending=true", "b a"),
        ("key=%22_local/c%22", "c"),
        ("startkey=%22a%22", ""),
        ("endkey=%22a%22", "a b c"),
        ("keys=[%22_local/c%22,%22x%22,%22_local/x%22]", "c -"),
        ("keys=[%22_local/c%22,%22x%22,%22_local/a%22]&descending=true&limit=2", "a"),
    ] {
        assert_eq!(ids(http.get(&format!("/db/_local_docs?{query}")).json()).join(" "), expected, "{query}");
    }
    let among = http.post("/db/_all_docs", &json!({"keys": ["_local/b", "_local/x"]})).json();
    assert_eq!(ids(among), ["b", "-"]);
    let posted = http.post("/db/_local_docs?include_docs=true", &json!({"keys": ["_local/b"]})).json();
    assert_eq!(posted["rows"][0]["doc"]["name"], "b");
    let plain = http.post("/db/_local_docs", &json!({"limit": 1, "descending": true})).json();
    assert_eq!(ids(plain), ["c"]);
    let queries = json!({"queries": [{"limit": 1}, {"keys": ["_local/c"], "include_docs": true}]});
    let several = http.post("/db/_local_docs/queries", &queries).json();
    assert_eq!(ids(several["results"][0].clone()), ["a"]);
    assert_eq!(several["results"][1]["rows"][0]["doc"]["name"], "c");
    let refused = http.post("/db/_local_docs/queries", &json!({})).refusal();
    assert_eq!(refused.2, "POST body must include `queries` parameter.");
}

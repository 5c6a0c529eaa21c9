//! Bulk reads and writes.

use crate::setup::{database, graft, hash, made, rev};
use serde_json::{Value, json};

const JSON: (&str, &str) = ("Content-Type", "application/json");

#[test]
fn bulk_docs_stores_or_refuses_each_document() {
    let (_server, mut http) = database();
    let first = rev(&http.put("/db/a", &json!({"n": 0})));
    let docs = json!({"docs": [
        {"_id": "a", "n": 1},
        {"_id": "a", "_rev": first, "n": 2},
        {"n": 3},
        {"_id": "b", "_deleted": true},
        {"_id": "c"},
        {"_id": "c"},
        {"_id": "_local/l", "n": 1},
        {"_id": "f", "_rev": "1-x"},
        {"_id": "with", "_attachments": {"t": {"data": "aGk="}}}
    ]});
    let reply = http.post("/db/_bulk_docs", &docs);
    assert_eq!(reply.status, 201);
    let rows = reply.json();
    let conflict = |id: &str| json!({"id": id, "error": "conflict", "reason": "Document update conflict."});
    assert_eq!(rows.as_array().unwrap().len(), 9);
    assert_eq!(rows[0], conflict("a"));
    assert!(rows[1]["rev"].as_str().unwrap().starts_with("2-") && rows[1]["ok"] == true);
    assert_eq!(rows[2]["id"].as_str().unwrap().len(), 32);
    assert_eq!((rows[3]["ok"].as_bool(), &rows[5]), (Some(true), &conflict("c")));
    assert_eq!(rows[6], json!({"ok": true, "id": "_local/l", "rev": "0-1"}));
    assert_eq!(rows[7], conflict("f"));
    assert_eq!(http.get("/db/with/t").body, b"hi");
    assert_eq!(http.get("/db/a").json()["n"], 2);
    assert_eq!(http.post("/db/_bulk_docs", &json!({"docs": []})).json(), json!([]));
}

#[test]
fn malformed_bulk_docs_store_nothing() {
    let (_server, mut http) = database();
    for (body, error, reason) in [
        (r#"{"docs":[{"_id":"a"},{"_bad":1}]}"#, "doc_validation", "Bad special document member: _bad"),
        (
            r#"{"docs":[{"_id":"a"},{"_id":"_b"}]}"#,
            "illegal_docid",
            "Only reserved document ids may start with underscore.",
        ),
        (r#"{"docs":[{"_id":"a"},7]}"#, "bad_request", "Document must be a JSON object"),
        (
            r#"{"docs":[{"_id":"a"},{"_attachments":{"_x":{}}}]}"#,
            "bad_request",
            "Attachment name '_x' starts with prohibited character '_'",
        ),
        (r#"{"doc":[]}"#, "bad_request", "POST body must include `docs` parameter."),
        (r#"{"docs":{}}"#, "bad_request", "`docs` parameter must be an array."),
        (
            r#"{"docs":[{"_id":"a"}],"new_edits":1}"#,
            "bad_request",
            "`new_edits` parameter must be a boolean.",
        ),
        (
            r#"{"docs":[{"_id":"a"}],"new_edits":false}"#,
            "bad_request",
            "When `new_edits: false`, the document needs `_rev` or `_revisions` specified",
        ),
    ] {
        let reply = http.send("POST", "/db/_bulk_docs", &[JSON], body.as_bytes()).refusal();
        assert_eq!(reply, (400, error.to_owned(), reason.to_owned()), "{body}");
    }
    for body in
        ["", "[]", "{", r#"{"docs":[{"_id":"a"}"#, r#"{"docs":[{"_id":"a"},{"a":}]}"#, r#"{"docs":[]}}"#]
    {
        let reply = http.send("POST", "/db/_bulk_docs", &[JSON], body.as_bytes()).refusal();
        assert_eq!((reply.0, reply.1.as_str()), (400, "bad_request"), "{body}");
    }
    let bare = http.send("POST", "/db/_bulk_docs", &[], b"{}");
    assert_eq!(bare.status, 415);
    assert_eq!(http.get("/db").json()["doc_count"], 0);
}

#[test]
fn new_edits_may_follow_the_documents() {
    let (_server, mut http) = database();
    let doc = format!(r#"{{"_id":"a","_rev":"{}","n":1}}"#, made(2, 'b'));
    let body = format!(r#"{{"docs":[{doc}],"new_edits":false}}"#);
    let reply = http.send("POST", "/db/_bulk_docs", &[JSON], body.as_bytes());
    assert_eq!((reply.status, reply.json()), (201, json!([])));
    assert_eq!(http.get("/db/a").json()["_rev"], made(2, 'b'));
    // The second time the revisions are stored already, which is not an error.
    assert_eq!(http.send("POST", "/db/_bulk_docs", &[JSON], body.as_bytes()).json(), json!([]));
}

// HTTP-26 HTTP-16
#[test]
fn long_bulk_docs_are_stored_while_received() {
    let (_server, mut http) = database();
    let filler = "x".repeat(1000);
    let count = 50_000;
    let mut pieces = vec![br#"{"docs":["#.to_vec()];
    for chunk in 0..count / 100 {
        let docs: Vec<String> = (0..100)
            .map(|at| format!(r#"{{"_id":"{:08}","filler":"{filler}"}}"#, chunk * 100 + at))
            .collect();
        let comma = if chunk > 0 { "," } else { "" };
        pieces.push(format!("{comma}{}", docs.join(",")).into_bytes());
    }
    let end = b"]}".to_vec();
    let all = || pieces.iter().map(Vec::as_slice);
    let reply = http.send_chunked("POST", "/db/_bulk_docs", &[JSON], all().chain([end.as_slice()]));
    assert_eq!(reply.status, 201);
    let rows = reply.json();
    assert_eq!(rows.as_array().map(Vec::len), Some(count));
    assert!(
        rows.as_array()
            .unwrap()
            .iter()
            .enumerate()
            .all(|(at, row)| row["id"] == format!("{at:08}") && row["ok"] == true)
    );
    assert_eq!(http.get("/db").json()["doc_count"], count);
    for (start, offset) in [("00049999", json!(49_999)), ("z", Value::Null)] {
        let list = http.get(&format!("/db/_all_docs?startkey=%22{start}%22")).json();
        assert_eq!(list["offset"], offset, "{start}");
    }
    let again = http.send_chunked("POST", "/db/_bulk_docs", &[JSON], all().chain([&b"{]}"[..]]));
    assert_eq!(again.status, 400);
    assert!(again.refusal().2.contains("documents of the request had been stored"), "{}", again.text());
}

#[test]
fn bulk_get_answers_each_request_in_order() {
    let (_server, mut http) = database();
    let first = rev(&http.put("/db/a", &json!({"n": 1})));
    let second = rev(&http.put("/db/a", &json!({"_rev": first, "n": 2})));
    graft(&mut http, "c", 1, "a", json!({}));
    graft(&mut http, "c", 1, "b", json!({}));
    let asked = json!({"docs": [
        {"id": "none"},
        {"id": "a", "rev": first},
        {"id": "a", "rev": made(7, 'f')},
        {"id": "c"},
        {"id": "a"},
        {"id": "_bad"},
        {"rev": "1-x"},
        {"id": "a", "rev": "x"},
        {"id": "none", "rev": "1-x"}
    ]});
    let reply = http.post("/db/_bulk_get?revs=true", &asked);
    assert_eq!(reply.status, 200);
    let results = reply.json()["results"].clone();
    let results = results.as_array().unwrap();
    assert_eq!(reply.json().as_object().unwrap().len(), 1);
    assert_eq!(results.len(), 9);
    let error = |id: Value, rev: Value, error: &str, reason: &str| json!([{"error": {"id": id, "rev": rev, "error": error, "reason": reason}}]);
    let missing = |id: &str, rev: &str| error(id.into(), rev.into(), "not_found", "missing");
    assert_eq!(results[0], json!({"id": "none", "docs": missing("none", "undefined")}));
    assert_eq!(results[1]["docs"][0]["ok"]["n"], 1);
    assert_eq!(results[2]["docs"], missing("a", &made(7, 'f')));
    assert_eq!(results[3]["docs"].as_array().unwrap().len(), 2);
    assert_eq!(results[3]["docs"][0]["ok"]["_revisions"], json!({"start": 1, "ids": [hash('b')]}));
    assert_eq!(
        results[4]["docs"][0]["ok"]["_revisions"],
        json!({"start": 2, "ids": [&second[2..], &first[2..]]})
    );
    assert_eq!(results[5]["docs"][0]["error"]["error"], "illegal_docid");
    assert_eq!(results[6]["docs"], error(Value::Null, Value::Null, "bad_request", "document id missed"));
    assert_eq!(results[7]["docs"], error("a".into(), "x".into(), "bad_request", "Invalid rev format"));
    assert_eq!(results[8]["docs"], missing("none", "1-x"));
    let latest = http.post("/db/_bulk_get?latest=true", &json!({"docs": [{"id": "a", "rev": first}]}));
    assert_eq!(latest.json()["results"][0]["docs"][0]["ok"]["n"], 2);
    assert_eq!(http.post("/db/_bulk_get", &json!({})).refusal().2, "Missing JSON list of 'docs'.");
    let bad = http.post("/db/_bulk_get?rev=1-x", &json!({"docs": []}));
    assert_eq!(bad.refusal().2, "\"rev\" query parameter is not acceptable");
    assert_eq!(http.post("/db/_bulk_get", &json!({"docs": []})).json(), json!({"results": []}));
}

#[test]
fn all_or_nothing_is_refused() {
    let (_server, mut client) = database();
    let first = rev(&client.put("/db/b", &json!({})));
    let docs = json!([{"_id": "a"}, {"_id": "b", "_rev": first}]);
    for body in
        [json!({"all_or_nothing": true, "docs": docs}), json!({"docs": docs, "z": 1, "all_or_nothing": true})]
    {
        let refused = client.post("/db/_bulk_docs", &body);
        let of = |id: &str, rev: &str| json!({"id": id, "rev": rev, "error": "not_implemented", "reason": "all_or_nothing is not supported"});
        assert_eq!((refused.status, refused.json()), (417, json!([of("a", "0-"), of("b", &first)])));
    }
    assert_eq!(client.get("/db/a").status, 404);
    for body in
        [json!({"all_or_nothing": true, "docs": []}), json!({"all_or_nothing": 1, "docs": [{"_id": "c"}]})]
    {
        assert_eq!(client.post("/db/_bulk_docs", &body).status, 201, "{body}");
    }
    let made = json!({"all_or_nothing": true, "new_edits": false, "docs": [{"_id": "d", "_rev": "1-a"}]});
    assert_eq!(client.post("/db/_bulk_docs", &made).status, 201);
    assert_eq!((client.get("/db/c").status, client.get("/db/d").status), (200, 200));
}

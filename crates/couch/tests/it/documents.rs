//! Single documents: edits, revisions, conflicts, `ETag`s.

use crate::setup::{database, graft, hash, made, rev};
use diwan_testkit::{HttpClient, TestCouch};
use serde_json::json;

fn refusal(status: u16, error: &str, reason: &str) -> (u16, String, String) {
    (status, error.to_owned(), reason.to_owned())
}

#[test]
fn documents_are_created_updated_deleted_and_recreated() {
    let (_server, mut http) = database();
    let made = http.put("/db/a%2Fb", &json!({"x": 1, "nested": {"y": [1, 2.5, null]}}));
    let first = rev(&made);
    assert_eq!(made.status, 201);
    assert_eq!(made.header("etag"), Some(format!("\"{first}\"").as_str()));
    assert_eq!(made.header("location"), Some("http://localhost/db/a%2Fb"));
    let proxied =
        http.send("PUT", "/db/p", &[("X-Forwarded-Host", "proxy"), ("X-Forwarded-Ssl", "on")], b"{}");
    assert_eq!(proxied.header("location"), Some("https://proxy/db/p"));
    assert_eq!(made.json(), json!({"ok": true, "id": "a/b", "rev": first}));
    let got = http.get("/db/a%2Fb");
    let expected = format!(r#"{{"_id":"a/b","_rev":"{first}","nested":{{"y":[1,2.5,null]}},"x":1}}"#);
    assert_eq!(got.text(), expected + "\n");
    assert_eq!(got.header("content-type"), Some("application/json"));
    assert_eq!(
        http.put("/db/a%2Fb", &json!({})).refusal(),
        refusal(409, "conflict", "Document update conflict.")
    );
    let second = rev(&http.put("/db/a%2Fb", &json!({"_rev": first, "x": 2})));
    assert!(second.starts_with("2-"));
    assert_eq!(http.put("/db/a%2Fb", &json!({"_rev": first})).status, 409);
    assert_eq!(http.put("/db/a%2Fb", &json!({"_rev": "2-abc"})).status, 409);
    assert_eq!(http.send("DELETE", "/db/a%2Fb", &[], b"").status, 409);
    let deleted = http.send("DELETE", &format!("/db/a%2Fb?rev={second}"), &[], b"");
    assert_eq!((deleted.status, rev(&deleted).starts_with("3-")), (200, true));
    assert_eq!(http.get("/db/a%2Fb").refusal(), refusal(404, "not_found", "deleted"));
    assert_eq!(http.get("/db/none").refusal(), refusal(404, "not_found", "missing"));
    assert_eq!(http.send("DELETE", "/db/none", &[], b"").refusal(), refusal(404, "not_found", "missing"));
    let tombstone = http.get(&format!("/db/a%2Fb?rev={}", rev(&deleted))).json();
    assert_eq!(tombstone, json!({"_id": "a/b", "_rev": rev(&deleted), "_deleted": true}));
    let again = rev(&http.put("/db/a%2Fb", &json!({"x": 3})));
    assert!(again.starts_with("4-"), "{again}");
    let with_body = http.put("/db/a%2Fb", &json!({"_rev": again, "_deleted": true, "why": "sold"}));
    assert_eq!(with_body.status, 200);
    let tombstone = http.get(&format!("/db/a%2Fb?rev={}", rev(&with_body))).json();
    assert_eq!(tombstone["why"], "sold");
}

#[test]
fn deleted_documents_can_be_recreated_but_not_edited() {
    let (_server, mut http) = database();
    let first = rev(&http.put("/db/d", &json!({"x": 1})));
    let deleted = rev(&http.send("DELETE", &format!("/db/d?rev={first}"), &[], b""));
    assert_eq!(http.put("/db/d", &json!({"_rev": deleted, "x": 2})).status, 409);
    let back = rev(&http.put("/db/d", &json!({"x": 2})));
    assert!(back.starts_with("3-"));
    assert_eq!(http.get("/db/d").json()["x"], 2);
}

#[test]
fn equal_edits_get_equal_revisions() {
    let revs: Vec<String> = (0..2)
        .map(|_| {
            let (_server, mut http) = database();
            let first = rev(&http.put("/db/d", &json!({"x": 1})));
            rev(&http.put("/db/d", &json!({"_rev": first, "x": 2})))
        })
        .collect();
    assert_eq!(revs[0], revs[1]);
}

#[test]
fn revisions_of_other_servers_are_kept() {
    let (_server, mut http) = database();
    let docs = json!([{"_id": "d", "_rev": "1-a", "n": 1}, {"_id": "d", "_rev": "1-b", "n": 2},
        {"_id": "e", "_revisions": {"start": 3, "ids": ["foo", "x", "1"]}}]);
    let reply = http.post("/db/_bulk_docs", &json!({"new_edits": false, "docs": docs}));
    assert_eq!((reply.status, reply.json()), (201, json!([])));
    let doc = http.get("/db/d?conflicts=true").json();
    assert_eq!(doc, json!({"_id": "d", "_rev": "1-b", "_conflicts": ["1-a"], "n": 2}));
    assert_eq!(http.get("/db/d?rev=1-a").json()["n"], 1);
    let path = http.get("/db/e?revs=true").json()["_revisions"].take();
    assert_eq!(path, json!({"start": 3, "ids": ["foo", "x", "1"]}));
    let asked = json!({"d": ["1-a", "1-b", "1-c"], "e": ["2-x", "3-foo"]});
    let missing = http.post("/db/_revs_diff", &asked).json();
    assert_eq!(missing, json!({"d": {"missing": ["1-c"]}}));
    // Revisions newer than all stored ones, and a list with older ones too.
    let newer = json!({"missing": ["4-y", "5-z"], "possible_ancestors": ["3-foo"]});
    for (asked, told) in [(json!(["4-y", "5-z"]), &newer), (json!(["4-y", "2-x", "5-z"]), &newer)] {
        assert_eq!(http.post("/db/_revs_diff", &json!({"e": asked})).json()["e"], *told);
    }
    let rows = http.get("/db/_changes?style=all_docs").json()["results"].take();
    let of =
        |id: &str| rows.as_array().unwrap().iter().find(|row| row["id"] == id).unwrap()["changes"].clone();
    assert_eq!(of("d"), json!([{"rev": "1-b"}, {"rev": "1-a"}]));
    let got = http.post("/db/_bulk_get", &json!({"docs": [{"id": "d", "rev": "1-a"}]})).json();
    assert_eq!(got["results"][0]["docs"][0]["ok"]["_rev"], "1-a");
    let edited = rev(&http.put("/db/d", &json!({"_rev": "1-b", "n": 3})));
    assert!(edited.starts_with("2-"));
    assert_eq!(http.send("DELETE", "/db/d?rev=1-a", &[], b"").status, 200);
    let purged = http.post("/db/_purge", &json!({"e": ["3-foo"]})).json();
    assert_eq!(purged["purged"], json!({"e": ["3-foo"]}));
    // HTTP-5
    let long = json!({"new_edits": false, "docs": [{"_id": "l", "_rev": "1-abcdefghijk"}]});
    let rows = http.post("/db/_bulk_docs", &long).json();
    assert_eq!((&rows[0]["rev"], &rows[0]["error"]), (&json!("1-abcdefghijk"), &json!("bad_request")));
    let single = json!({"_rev": "1-abcdefghijk"});
    assert_eq!(http.put("/db/l?new_edits=false", &single).refusal().1, "bad_request");
    let path = json!({"_id": "l", "_revisions": {"start": 1, "ids": ["z".repeat(32)]}});
    let reply = http.post("/db/_bulk_docs", &json!({"new_edits": false, "docs": [path]}));
    assert_eq!(reply.refusal(), refusal(400, "doc_validation", "RevId isn't a valid hexadecimal"));
}

#[test]
fn id_in_the_path_overrides_the_body() {
    let (_server, mut http) = database();
    assert_eq!(http.put("/db/d", &json!({"_id": "other", "n": 1})).json()["id"], "d");
    assert_eq!(http.get("/db/d").json()["_id"], "d");
    assert_eq!(http.get("/db/other").status, 404);
}

#[test]
fn posted_documents_get_generated_ids() {
    let (_server, mut http) = database();
    let made = http.post("/db", &json!({"x": 1}));
    assert_eq!((made.status, made.json()["id"].as_str().map(str::len)), (201, Some(32)));
    let id = made.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(made.header("location"), Some(format!("http://localhost/db/{id}").as_str()));
    assert_eq!(http.post("/db", &json!({"_id": "own"})).json()["id"], "own");
    assert_eq!(http.post("/db", &json!({"_id": "own"})).status, 409);
    let plain = http.send("POST", "/db", &[("Content-Type", "text/plain")], b"{}");
    assert_eq!(plain.refusal(), refusal(415, "bad_content_type", "Content-Type must be application/json"));
    let batch = http.post("/db?batch=ok", &json!({"_id": "later"}));
    assert_eq!((batch.status, batch.json()), (202, json!({"ok": true, "id": "later"})));
    assert_eq!(http.get("/db/later").status, 200);
}

#[test]
fn matching_etags_are_answered_with_304() {
    let (_server, mut http) = database();
    let first = rev(&http.put("/db/d", &json!({})));
    let tag = format!("\"{first}\"");
    let known = http.send("GET", "/db/d", &[("If-None-Match", &format!("\"x\", W/{tag}"))], b"");
    assert_eq!((known.status, known.header("etag"), known.body.len()), (304, Some(tag.as_str()), 0));
    let head = http.send("HEAD", "/db/d", &[], b"");
    assert_eq!((head.status, head.header("etag")), (200, Some(tag.as_str())));
    assert!(head.header("content-length").is_some_and(|length| length != "0"));
    assert!(http.get("/db/d?meta=true").header("etag").is_none());
    let second = rev(&http.send("PUT", "/db/d", &[("If-Match", &tag)], b"{}"));
    let stale = http.send("PUT", "/db/d", &[("If-Match", &tag)], b"{}");
    assert_eq!(stale.status, 409);
    let differ =
        http.send("PUT", &format!("/db/d?rev={first}"), &[("If-Match", &format!("\"{second}\""))], b"{}");
    assert_eq!(differ.refusal(), refusal(400, "bad_request", "Document rev and etag have different values"));
    let differ = http.put(&format!("/db/d?rev={first}"), &json!({"_rev": second}));
    assert_eq!(
        differ.json()["reason"],
        "Document rev from request body and query string have different values"
    );
}

#[test]
fn conflicts_are_stored_shown_and_resolved() {
    let (_server, mut http) = database();
    graft(&mut http, "c", 2, "ba", json!({"n": 1}));
    graft(&mut http, "c", 2, "ca", json!({"n": 2}));
    graft(&mut http, "c", 3, "eda", json!({"n": 3, "_deleted": true}));
    let doc = http.get("/db/c?conflicts=true&deleted_conflicts=true&revs=true").json();
    assert_eq!(doc["_rev"], made(2, 'c'));
    assert_eq!(doc["_conflicts"], json!([made(2, 'b')]));
    assert_eq!(doc["_deleted_conflicts"], json!([made(3, 'e')]));
    assert_eq!(doc["_revisions"], json!({"start": 2, "ids": [hash('c'), hash('a')]}));
    let info = http.get("/db/c?revs_info=true").json();
    assert_eq!(info["_revs_info"][0], json!({"rev": made(2, 'c'), "status": "available"}));
    assert_eq!(info["_revs_info"][1], json!({"rev": made(1, 'a'), "status": "missing"}));
    let meta = http.get("/db/c?meta=true&local_seq=true").json();
    assert!(meta["_local_seq"].as_u64() >= Some(3) && meta["_conflicts"].is_array());
    assert_eq!(http.get(&format!("/db/c?rev={}", made(2, 'b'))).json()["n"], 1);
    let all = http.get("/db/c?open_revs=all").json();
    let revs: Vec<_> = all.as_array().unwrap().iter().map(|one| one["ok"]["_rev"].clone()).collect();
    assert_eq!(revs, [made(2, 'c'), made(2, 'b'), made(3, 'e')]);
    let list = format!("/db/c?open_revs=[\"{}\",\"{}\",\"9-x\"]", made(2, 'b'), made(1, 'a'));
    let some = http.get(&list.replace('"', "%22")).json();
    assert_eq!(some[0]["ok"]["n"], 1);
    assert_eq!(some.as_array().unwrap()[1..], [json!({"missing": made(1, 'a')}), json!({"missing": "9-x"})]);
    let latest = format!("/db/c?latest=true&open_revs=[%22{}%22]", made(1, 'a'));
    assert_eq!(http.get(&latest).json().as_array().unwrap().len(), 3);
    assert_eq!(http.get("/db/none?open_revs=all").status, 404);
    assert_eq!(http.get("/db/none?open_revs=[%221-x%22]").json(), json!([{"missing": "1-x"}]));
    // Delete the losing revision; the winner remains.
    assert_eq!(http.send("DELETE", &format!("/db/c?rev={}", made(2, 'b')), &[], b"").status, 200);
    let doc = http.get("/db/c?conflicts=true").json();
    assert_eq!((doc["_rev"].as_str(), doc.get("_conflicts")), (Some(made(2, 'c').as_str()), None));
}

#[test]
fn replicated_edits_keep_their_revisions() {
    let (_server, mut http) = database();
    let path = json!({"_revisions": {"start": 3, "ids": [hash('c'), hash('b'), hash('a')]}});
    let put = http.put("/db/d?new_edits=false", &path);
    assert_eq!((put.status, rev(&put)), (201, made(3, 'c')));
    assert_eq!(http.put("/db/d?new_edits=false", &path).status, 201);
    assert_eq!(http.get("/db/d?revs=true").json()["_revisions"], path["_revisions"]);
    let no_rev = http.put("/db/e?new_edits=false", &json!({}));
    assert_eq!(
        no_rev.refusal(),
        refusal(
            400,
            "bad_request",
            "When `new_edits: false`, the document needs `_rev` or `_revisions` specified"
        )
    );
    let asked = json!({"d": [made(2, 'b'), made(4, 'd'), made(1, 'f')], "none": [made(1, 'a')], "known": []});
    let diff = http.post("/db/_revs_diff", &asked).json();
    assert_eq!(
        diff,
        json!({
            "d": {"missing": [made(4, 'd'), made(1, 'f')], "possible_ancestors": [made(3, 'c')]},
            "none": {"missing": [made(1, 'a')]}
        })
    );
    let missing = http.post("/db/_missing_revs", &asked).json();
    assert_eq!(missing, json!({"missing_revs": {"d": [made(4, 'd'), made(1, 'f')], "none": [made(1, 'a')]}}));
}

#[test]
fn copy_creates_an_independent_document() {
    let (_server, mut http) = database();
    http.put("/db/d", &json!({"x": 1}));
    let copy = http.send("COPY", "/db/d", &[("Destination", "e%2Ff")], b"");
    assert_eq!((copy.status, copy.json()["id"].as_str()), (201, Some("e/f")));
    assert_eq!(copy.header("location"), Some("http://localhost/db/e%2Ff"));
    assert_eq!(http.get("/db/e%2Ff").json()["x"], 1);
    assert_eq!(http.send("COPY", "/db/d", &[("Destination", "e%2Ff")], b"").status, 409);
    let over = format!("e%2Ff?rev={}", rev(&copy));
    assert!(rev(&http.send("COPY", "/db/d", &[("Destination", &over)], b"")).starts_with("2-"));
    let none = http.send("COPY", "/db/d", &[], b"");
    assert_eq!(none.refusal(), refusal(400, "bad_request", "Destination header is mandatory for COPY."));
    let absolute = http.send("COPY", "/db/d", &[("Destination", "http://x/y")], b"");
    assert_eq!(absolute.json()["reason"], "Destination URL must be relative.");
    assert_eq!(http.send("COPY", "/db/d", &[("Destination", "_bad")], b"").refusal().1, "illegal_docid");
    assert_eq!(http.send("COPY", "/db/none", &[("Destination", "f")], b"").status, 404);
}

#[test]
fn invalid_documents_are_refused() {
    let (_server, mut http) = database();
    for (path, body, expected) in [
        (
            "/db/_x",
            "{}",
            refusal(400, "illegal_docid", "Only reserved document ids may start with underscore."),
        ),
        ("/db/d", "[]", refusal(400, "bad_request", "Document must be a JSON object")),
        ("/db/d", r#"{"_x":1}"#, refusal(400, "doc_validation", "Bad special document member: _x")),
        ("/db/d", r#"{"$x":1}"#, refusal(400, "doc_validation", "Bad special document member: $x")),
        ("/db/d", r#"{"_rev":"x"}"#, refusal(400, "bad_request", "Invalid rev format")),
        ("/db/d", r#"{"_rev":1}"#, refusal(400, "bad_request", "Invalid rev format")),
        ("/db/d", r#"{"_id":1}"#, refusal(400, "illegal_docid", "Document id must be a string")),
        ("/db/d?rev=x", "{}", refusal(400, "bad_request", "Invalid rev format")),
        ("/none/d", "{}", refusal(404, "not_found", "Database does not exist.")),
    ] {
        let reply = http.send("PUT", path, &[("Content-Type", "application/json")], body.as_bytes());
        assert_eq!(reply.refusal(), expected, "{path} {body}");
    }
    for body in ["", "{", r#"{"a":}"#, "{\"a\":1}x", "{\"\u{0}\":1}", r#"{"a":"\ud800"}"#] {
        let reply = http.send("PUT", "/db/d", &[], body.as_bytes()).refusal();
        assert_eq!((reply.0, reply.1.as_str()), (400, "bad_request"), "{body}");
        assert!(reply.2.contains(" at byte "), "{}", reply.2);
    }
    let large = json!({"x": "x".repeat(17 << 20)});
    assert_eq!(http.put("/db/large", &large).refusal(), refusal(413, "document_too_large", "large"));
    let reply = http.send("LOCK", "/db/d", &[], b"{}");
    assert_eq!((reply.status, reply.header("allow")), (405, Some("COPY,DELETE,GET,HEAD,PATCH,POST,PUT")));
    assert_eq!(http.send("GET", "/db/_bulk_docs", &[], b"").refusal().0, 405);
    assert_eq!(http.get("/db").json()["doc_count"], 0);
}

#[test]
fn escaped_design_document_paths_are_redirected() {
    let (_server, mut http) = database();
    assert_eq!(http.put("/db/_design/d", &json!({"views": {}})).json()["id"], "_design/d");
    for (path, target) in [
        ("/db/_design%2Fd", "/db/_design/d"),
        ("/db/_design%2fd/_view/v?key=%221%22", "/db/_design/d/_view/v?key=%221%22"),
    ] {
        let led = http.get(path);
        let expected = format!("http://localhost{target}");
        assert_eq!((led.status, led.header("location")), (301, Some(expected.as_str())), "{path}");
        assert_eq!((led.body.len(), led.header("content-type")), (0, None));
    }
    assert_eq!(http.get("/none/_design%2Fd").status, 404);
    // Only reads are redirected.
    let old = http.get("/db/_design/d").json()["_rev"].as_str().unwrap().to_owned();
    assert_eq!(http.put("/db/_design%2Fd", &json!({"_rev": old, "views": {}})).status, 201);
    assert_eq!(http.get("/db/_design/none").status, 404);
}

#[test]
fn validation_functions_refuse_edits() {
    let (_server, mut http) = database();
    let function = "function (doc, old, user, security) {
        if (doc.bad) throw {forbidden: 'not so'};
        if (doc.secret) throw {unauthorized: 'who are you'};
        if (old && old.fixed !== doc.fixed && !doc._deleted) throw {forbidden: 'fixed in ' + user.db};
    }";
    let first = rev(&http.put("/db/_design/rules", &json!({"validate_doc_update": function})));
    assert_eq!(http.put("/db/d", &json!({"bad": true})).refusal(), refusal(403, "forbidden", "not so"));
    assert_eq!(
        http.put("/db/d", &json!({"secret": true})).refusal(),
        refusal(401, "unauthorized", "who are you")
    );
    let made = rev(&http.put("/db/d", &json!({"fixed": 1})));
    let changed = http.put("/db/d", &json!({"_rev": made, "fixed": 2}));
    assert_eq!(changed.refusal(), refusal(403, "forbidden", "fixed in db"));
    let docs = json!({"docs": [{"_id": "x", "bad": 1}, {"_id": "y"}]});
    let rows = http.post("/db/_bulk_docs", &docs).json();
    assert_eq!(rows[0], json!({"id": "x", "error": "forbidden", "reason": "not so"}));
    assert_eq!(rows[1]["ok"], true);
    let elsewhere = json!({"new_edits": false, "docs": [{"_id": "z", "_rev": made, "bad": 1}]});
    let rows = http.post("/db/_bulk_docs", &elsewhere).json();
    assert_eq!(rows, json!([{"id": "z", "rev": made, "error": "forbidden", "reason": "not so"}]));
    let attachment = http.send("PUT", &format!("/db/d/a?rev={made}"), &[], b"x");
    assert_eq!(attachment.status, 201);
    http.send("DELETE", &format!("/db/_design/rules?rev={first}"), &[], b"");
    assert_eq!(http.put("/db/now", &json!({"bad": true})).status, 201);
    let broken = http.put("/db/_design/broken", &json!({"views": {"v": {"map": "function (doc) { emit("}}}));
    assert_eq!(broken.refusal().1, "compilation_error");
}

#[test]
fn acknowledged_writes_survive_a_restart() {
    let server = TestCouch::on_disk();
    let mut http = server.client();
    http.put("/db", &json!({}));
    let first = rev(&http.put("/db/d", &json!({"x": 1})));
    http.put("/db/_local/l", &json!({"n": 1}));
    let att =
        http.send("PUT", &format!("/db/d/a.txt?rev={first}"), &[("Content-Type", "text/plain")], b"hello");
    assert_eq!(att.status, 201);
    drop(http);
    let server = server.restart();
    let mut http = server.client();
    assert_eq!(http.get("/db/d").json()["x"], 1);
    assert_eq!(http.get("/db/d/a.txt").body, b"hello");
    assert_eq!(http.get("/db/_local/l").json()["_rev"], "0-1");
}

#[test]
fn unescaped_quotes_in_urls_are_accepted() {
    let (server, mut http) = database();
    http.put("/db/a", &json!({"x": "\"<GET />\""}));
    http.put("/db/b", &json!({}));
    for _ in 0..3 {
        assert_eq!(http.get("/db/_all_docs?startkey=\"b\"").json()["offset"], 1);
        let keys = http.get("/db/_all_docs?keys=[\"a\",\"<`>\"]").json();
        assert_eq!(keys["rows"][1], json!({"key": "<`>", "error": "not_found"}));
        // Bodies and other headers are not changed.
        let posted = http.post("/db/_all_docs?limit=\"", &json!({}));
        assert_eq!(posted.status, 400);
        let text = b"GET /\"<>` HTTP/1.1\r\n\r\n".repeat(20_000);
        let current = http.get("/db/b?x=\"\"").json()["_rev"].as_str().unwrap().to_owned();
        let put = http.send("PUT", &format!("/db/b/text?rev={current}"), &[], &text);
        assert_eq!(put.status, 201);
        assert_eq!(http.get("/db/b/text").body, text);
        // After a streamed body the connection no longer accepts unescaped quotes.
        http = server.client();
    }
}

#[test]
fn method_override_header_is_supported() {
    let (_server, mut http) = database();
    let stands_for =
        |method: &'static str| [("X-HTTP-Method-Override", method), ("Content-Type", "application/json")];
    let made = http.send("POST", "/db/d", &stands_for("PUT"), br#"{"x":1}"#);
    assert_eq!(made.status, 201);
    assert_eq!(http.send("POST", "/db/d", &stands_for("GET"), b"").json()["x"], 1);
    assert_eq!(http.send("GET", "/db/d", &stands_for("DELETE"), b"").status, 200);
    let gone = http.send("POST", &format!("/db/d?rev={}", rev(&made)), &stands_for("DELETE"), b"");
    assert_eq!((gone.status, http.get("/db/d").status), (200, 404));
    let created = http.send("PUT", "/a%2Fb", &[], b"");
    assert_eq!(created.header("location"), Some("http://localhost/a%2Fb"));
}

#[test]
fn etags_cover_what_is_shown() {
    let (_server, mut http) = database();
    let first = rev(&http.put("/db/a:b", &json!({})));
    for query in ["", "?conflicts=true", "?conflicts=true&deleted_conflicts=true"] {
        let tag = format!("\"{first}\"");
        let got = http.get(&format!("/db/a:b{query}"));
        assert_eq!(got.header("etag"), Some(tag.as_str()), "{query}");
        let known = http.send("GET", &format!("/db/a:b{query}"), &[("If-None-Match", &tag)], b"");
        assert_eq!((known.status, known.header("content-length")), (304, Some("0")));
    }
    for query in ["?revs_info=true", "?local_seq=true", "?meta=true"] {
        assert_eq!(http.get(&format!("/db/a:b{query}")).header("etag"), None, "{query}");
    }
    graft(&mut http, "a:b", 1, "1", json!({}));
    assert_eq!(http.get("/db/a:b?conflicts=true").header("etag"), None);
    assert!(http.get("/db/a:b?deleted_conflicts=true").header("etag").is_some());
    let made = http.put("/db/c:d%20e", &json!({}));
    assert_eq!(made.header("location"), Some("http://localhost/db/c:d%20e"));
}

// HTTP-9
#[test]
fn batch_ok_writes_at_once_and_hides_conflicts() {
    let (_server, mut http) = database();
    for _ in 0..2 {
        let later = http.put("/db/a?batch=ok", &json!({"n": 1}));
        assert_eq!((later.status, later.json()), (202, json!({"ok": true, "id": "a"})));
    }
    assert_eq!(http.get("/db/a").json()["n"], 1);
    assert_eq!(http.post("/db?batch=ok", &json!({"_id": "a"})).status, 202);
    assert_eq!(http.put("/db/b?batch=ok", &json!({"_x": 1})).refusal().1, "doc_validation");
    let old = http.get("/db/a").json()["_rev"].as_str().unwrap().to_owned();
    assert_eq!(http.send("DELETE", &format!("/db/a?batch=ok&rev={old}"), &[], b"").status, 200);
}

#[test]
fn revs_are_shown_up_to_the_limit() {
    let (_server, mut http) = database();
    let mut last = rev(&http.put("/db/a", &json!({})));
    for _ in 0..4 {
        last = rev(&http.put("/db/a", &json!({ "_rev": last })));
    }
    let shown = |http: &mut HttpClient| {
        let revisions = http.get("/db/a?revs=true").json()["_revisions"].clone();
        (revisions["start"].as_u64().unwrap(), revisions["ids"].as_array().unwrap().len())
    };
    assert_eq!(shown(&mut http), (5, 5));
    http.put("/db/_revs_limit", &json!(2));
    assert_eq!(shown(&mut http), (5, 2));
}

//! Replication with a fake CouchDB peer, and requests that CouchDB's replicator sends.

use crate::fake_couchdb::{Asked, FakeCouchDb, Told, told};
use crate::setup::{database, hash, made};
use diwan_store::{Collection, Edit, Namespace, WriteOptions, id_key};
use diwan_testkit::{HttpClient, TestCouch};
use diwan_value::{Doc, DocBuf, Value as BsonValue, doc};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Runs a replication without retries.
fn replicate(http: &mut HttpClient, source: &str, target: &str, options: Value) -> Value {
    let mut body = json!({ "source": source, "target": target, "retries_per_request": 0 });
    body.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    http.post("/_replicate", &body).json()
}

fn pull(http: &mut HttpClient, fake: &FakeCouchDb, options: Value) -> Value {
    replicate(http, &fake.url(), "db", options)
}

/// Waits until a condition holds.
fn until(what: &str, mut check: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !check() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the number in the checkpoint's sequence. How changes are batched varies.
fn noted(fake: &FakeCouchDb) -> u64 {
    let seq = fake.checkpoint()["source_last_seq"].as_str().unwrap_or("0").to_owned();
    seq.split('-').next().unwrap().parse().unwrap()
}

fn is_there(http: &mut HttpClient, id: &str) -> bool {
    http.get(&format!("/db/{id}")).status == 200
}

#[test]
fn design_documents_are_pulled_from_couchdb() {
    for bulk in [true, false] {
        let (_server, mut http) = database();
        let fake = FakeCouchDb::start();
        fake.put("_design/plain", 1, 'a', json!({ "language": "javascript" }));
        fake.put("_design/with space", 1, 'b', json!({ "n": 1 }));
        fake.attach("_design/with space", "large.bin", "application/octet-stream", 1, &[7; 100_000]);
        fake.put("_design/small", 1, 'c', json!({}));
        fake.attach("_design/small", "small.png", "image/png", 1, b"png");
        let answer = pull(&mut http, &fake, json!({ "use_bulk_get": bulk }));
        assert_eq!(answer["history"][0]["docs_written"], 3, "{answer}");
        assert_eq!(answer["history"][0]["doc_write_failures"], 0);
        assert_eq!(http.get("/db/_design/with%20space/large.bin").body, [7; 100_000]);
        assert_eq!(http.get("/db/_design/small/small.png").body, b"png");
        let asked = fake.state.lock().asked.clone();
        assert!(asked.iter().all(|asked| !asked.path.contains("%2F")), "no request needs a redirect");
    }
}

#[test]
fn redirects_are_followed_without_leaking_credentials() {
    for status in [301, 302, 303, 307, 308] {
        let (_server, mut http) = database();
        let (fake, other) = (FakeCouchDb::start(), FakeCouchDb::start());
        for peer in [&fake, &other] {
            peer.put("a", 1, 'a', json!({ "n": 1 }));
            peer.attach("a", "f", "application/octet-stream", 1, &[7; 100_000]);
        }
        let (home, away) = (fake.url(), other.url());
        fake.hook(move |asked| match asked.path.as_str() {
            // One document is on another server, and an attachment at another path of the same server.
            "a" if !asked.query.contains("hop") => {
                Some((status, vec![("Location", format!("{home}/a?{}&hop=1", asked.query))], vec![]))
            }
            "a/f" => Some((status, vec![("Location", format!("{away}/a/f?{}", asked.query))], vec![])),
            _ => None,
        });
        let answer = replicate(&mut http, &fake.secret_url(), "db", json!({}));
        assert_eq!(answer["history"][0]["docs_written"], 1, "{status} {answer}");
        assert_eq!(http.get("/db/a/f").body, [7; 100_000]);
        let has_secret = |asked: &Asked| asked.headers.contains_key("authorization");
        // The sign-in for a session has the password in its body.
        let is_sign_in = |asked: &Asked| asked.path.ends_with("_session");
        assert!(fake.state.lock().asked.iter().all(|asked| is_sign_in(asked) || has_secret(asked)));
        let asked = other.state.lock().asked.clone();
        assert!(asked.len() == 1 && !has_secret(&asked[0]), "{asked:?}");
    }
    // Redirect loops end.
    let (_server, mut http) = database();
    let fake = FakeCouchDb::start();
    let home = fake.url();
    fake.hook(move |_| Some((307, vec![("Location", home.clone())], vec![])));
    assert_eq!(pull(&mut http, &fake, json!({}))["error"], "too_many_redirects");
}

/// Replaces the answer to every request for a document or its attachments.
fn fails(id: &'static str, answer: impl Fn() -> Told + Send + 'static) -> impl FnMut(&Asked) -> Option<Told> {
    move |asked| {
        if asked.method == "GET" && (asked.path == id || asked.path.starts_with(&format!("{id}/"))) {
            return Some(answer());
        }
        if asked.path == "_bulk_get" {
            let docs = asked.json()["docs"].as_array().unwrap().clone();
            let error =
                json!({ "id": id, "rev": made(1, '3'), "error": "internal_server_error", "reason": "x" });
            let results = docs.iter().map(|doc| match doc["id"] == id {
                true => json!({ "id": id, "docs": [{ "error": error }] }),
                false => json!({ "id": doc["id"], "docs": [{ "ok": {
                    "_id": doc["id"], "_rev": doc["rev"], "n": 1,
                    "_revisions": { "start": 1, "ids": [doc["rev"].as_str().unwrap()[2..]] },
                } }] }),
            });
            return Some(told(200, &json!({ "results": results.collect::<Vec<_>>() })));
        }
        None
    }
}

#[test]
fn checkpoints_do_not_pass_unreadable_documents() {
    let error = |status| move || told(status, &json!({ "error": "x", "reason": "y" }));
    // Status 0 closes the connection.
    for what in [500, 503, 429, 408, 403, 400, 0] {
        for bulk in [true, false] {
            let (_server, mut http) = database();
            let fake = FakeCouchDb::start();
            for (at, id) in ["a", "b", "bad", "d", "e"].iter().enumerate() {
                fake.put(id, 1, char::from(b'1' + at as u8), json!({ "n": 1 }));
            }
            fake.hook(fails("bad", error(what)));
            let options = json!({ "use_bulk_get": bulk, "worker_batch_size": 1, "worker_processes": 1 });
            let failed = pull(&mut http, &fake, options.clone());
            assert!(failed["error"].is_string(), "{what} {bulk} {failed}");
            // The documents before it are copied, and the checkpoint says so.
            assert!(is_there(&mut http, "a") && is_there(&mut http, "b") && !is_there(&mut http, "bad"));
            assert_eq!(fake.checkpoint()["source_last_seq"], "2-g1AAAACLeJzLYWBg", "{what} {bulk}");
            fake.unhook();
            let done = pull(&mut http, &fake, options);
            assert_eq!(done["source_last_seq"], "5-g1AAAACLeJzLYWBg", "{done}");
            assert_eq!(done["history"][0]["docs_written"], 5, "counts go on: {done}");
            assert_eq!(http.get("/db").json()["doc_count"], 5);
        }
    }
}

#[test]
fn documents_read_before_a_failure_are_written() {
    let (_server, mut http) = database();
    let fake = FakeCouchDb::start();
    for number in 0..100 {
        fake.put(&format!("d{number}"), 1, '1', json!({ "n": number }));
    }
    fake.hook(fails("d70", || told(500, &json!({}))));
    assert!(pull(&mut http, &fake, json!({}))["error"].is_string());
    assert_eq!(http.get("/db").json()["doc_count"], 99);
    assert!(noted(&fake) <= 70, "{}", fake.checkpoint());
    // A continuous job waits until the document can be read.
    let body = json!({ "source": fake.url(), "target": "db", "retries_per_request": 3, "continuous": true });
    let id = http.post("/_replicate", &body).json()["_local_id"].as_str().unwrap().to_owned();
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = tries.clone();
    fake.hook(fails("d70", move || {
        counted.fetch_add(1, Ordering::SeqCst);
        told(500, &json!({}))
    }));
    until("it is tried again", || tries.load(Ordering::SeqCst) > 1);
    fake.unhook();
    until("it is there", || is_there(&mut http, "d70"));
    assert_eq!(http.post("/_replicate", &json!({ "cancel": true, "replication_id": id })).status, 200);
}

#[test]
fn purged_documents_are_skipped() {
    let (_server, mut http) = database();
    let fake = FakeCouchDb::start();
    fake.put("a", 1, 'a', json!({}));
    fake.put("gone", 1, 'b', json!({}));
    // The document is purged after the changes were read.
    fake.hook(|asked| match asked.path.as_str() {
        "_changes" if !asked.query.contains("limit=0") => {
            let rows = ["a", "gone"].iter().zip(['a', 'b']).enumerate().map(|(at, (id, digit))| {
                let seq = format!("{}-g1AAAACLeJzLYWBg", at + 1);
                json!({ "seq": seq, "id": id, "changes": [{ "rev": made(1, digit) }] })
            });
            let rows: Vec<Value> = rows.collect();
            Some(told(200, &json!({ "results": rows, "last_seq": "2-g1AAAACLeJzLYWBg" })))
        }
        _ => None,
    });
    fake.state.lock().docs.remove("gone");
    let done = pull(&mut http, &fake, json!({}));
    assert!(is_there(&mut http, "a"));
    assert_eq!(
        (&done["ok"], &done["source_last_seq"]),
        (&json!(true), &json!("2-g1AAAACLeJzLYWBg")),
        "{done}"
    );
    // A revision that the source knows but does not return is not skipped.
    fake.recreate();
    fake.put("hidden", 1, 'c', json!({}));
    fake.hook(|asked| match asked.path.as_str() {
        "hidden" => Some(told(404, &json!({ "error": "not_found", "reason": "missing" }))),
        "_bulk_get" => Some(told(200, &json!({ "results": [] }))),
        _ => None,
    });
    let failed = pull(&mut http, &fake, json!({}));
    assert_eq!(failed["error"], "not_found", "{failed}");
    fake.unhook();
    assert!(pull(&mut http, &fake, json!({}))["ok"] == true && is_there(&mut http, "hidden"));
}

#[test]
fn permanent_refusals_are_skipped_and_temporary_ones_retried() {
    let (_server, mut http) = database();
    let fake = FakeCouchDb::start();
    let docs: Vec<Value> = (0..1000).map(|n| json!({ "_id": format!("d{n:04}"), "n": n })).collect();
    assert_eq!(http.post("/db/_bulk_docs", &json!({ "docs": docs })).status, 201);
    let row = |doc: &Value, error: &str| json!({ "id": doc["_id"], "rev": doc["_rev"], "error": error, "reason": "r" });
    let some = |asked: &Asked| -> Vec<Value> {
        let docs = asked.json()["docs"].as_array().cloned().unwrap_or_default();
        docs.into_iter().filter(|doc| doc["n"].as_u64().unwrap() % 100 == 7).collect()
    };
    for error in ["internal_server_error", "timeout"] {
        fake.hook(move |asked| {
            (asked.path == "_bulk_docs")
                .then(|| told(201, &some(asked).iter().map(|doc| row(doc, error)).collect()))
        });
        let failed = replicate(&mut http, "db", &fake.url(), json!({}));
        assert_eq!(failed["error"], error, "{failed}");
        assert!(noted(&fake) <= 7, "{}", fake.checkpoint());
    }
    let stored = fake.state.clone();
    fake.hook(move |asked| {
        (asked.path == "_bulk_docs")
            .then(|| told(201, &some(asked).iter().map(|doc| row(doc, "forbidden")).collect()))
    });
    let done = replicate(&mut http, "db", &fake.url(), json!({}));
    let session = &done["history"][0];
    assert_eq!(session["doc_write_failures"], 10, "{done}");
    assert!(session["docs_written"].as_u64().unwrap() >= 990, "{done}");
    assert_eq!(stored.lock().locals.len(), 1);
    // If the whole request is refused, no document counts as refused.
    http.put("/db/one", &json!({ "n": 1 }));
    for (status, error) in [(403, "forbidden"), (404, "not_found"), (409, "conflict"), (500, "x")] {
        fake.hook(move |asked| {
            (asked.path == "_bulk_docs").then(|| told(status, &json!({ "error": error, "reason": "r" })))
        });
        let failed = replicate(&mut http, "db", &fake.url(), json!({}));
        assert_eq!(failed["error"], error, "{failed}");
    }
    fake.unhook();
    assert_eq!(replicate(&mut http, "db", &fake.url(), json!({}))["ok"], true);
    assert_eq!(fake.ids(), ["one"]);
}

#[test]
fn counters_continue_from_the_last_session() {
    let (_server, mut http) = database();
    let fake = FakeCouchDb::start();
    let mut expected = Vec::new();
    for round in 1..=3 {
        fake.put(&format!("d{round}"), 1, 'a', json!({}));
        let done = pull(&mut http, &fake, json!({}));
        expected.insert(0, json!(round));
        let sessions = done["history"].as_array().unwrap();
        for name in ["docs_read", "docs_written", "missing_checked", "missing_found"] {
            let counts: Vec<Value> = sessions.iter().map(|session| session[name].clone()).collect();
            assert_eq!(counts, expected, "{name}");
        }
        assert!(done.get("no_changes").is_none());
        assert_eq!(pull(&mut http, &fake, json!({}))["no_changes"], true);
    }
}

#[test]
fn instance_start_time_distinguishes_recreated_databases() {
    let server = TestCouch::on_disk();
    let mut http = server.client();
    let created = |http: &mut HttpClient| {
        let info = http.get("/db").json()["instance_start_time"].as_str().unwrap().to_owned();
        let commit = http.post("/db/_ensure_full_commit", &json!({})).json()["instance_start_time"].take();
        assert_eq!(commit, info);
        info
    };
    http.put("/db", &json!({}));
    let first = created(&mut http);
    assert!(first.parse::<u64>().unwrap() > 1_600_000_000_000_000);
    drop(http);
    let server = server.restart();
    let mut http = server.client();
    assert_eq!(created(&mut http), first);
    let (from, to) = (Namespace::new("test", "db").unwrap(), Namespace::new("test", "moved").unwrap());
    server.store().rename(&from, &to, false).unwrap();
    assert_eq!(http.get("/moved").json()["instance_start_time"], first);
    http.put("/db", &json!({}));
    assert!(created(&mut http) > first);
}

#[test]
fn recreated_databases_restart_the_replication() {
    let (server, mut http) = database();
    let fake = FakeCouchDb::start();
    fake.put("old", 1, 'a', json!({}));
    let body = |source: &str, target: &str| json!({ "source": source, "target": target, "continuous": true, "checkpoint_interval": 100, "retries_per_request": 1 });
    // The source is recreated, with fewer changes than were read.
    for number in 0..5 {
        fake.put(&format!("d{number}"), 1, 'a', json!({}));
    }
    let pulling = http.post("/_replicate", &body(&fake.url(), "db")).json()["_local_id"].take();
    until("it is noted", || fake.checkpoint()["source_last_seq"] == "6-g1AAAACLeJzLYWBg");
    fake.recreate();
    fake.put("new", 1, 'b', json!({}));
    until("the new one is read", || is_there(&mut http, "new"));
    // The target is recreated while the source does not change.
    assert!(server.store().drop_collection(&Namespace::new("test", "db").unwrap()).unwrap());
    assert_eq!(server.client().put("/db", &json!({})).status, 201);
    until("it is filled again", || is_there(&mut http, "new"));
    let cancel = json!({ "cancel": true, "replication_id": pulling });
    assert_eq!(http.post("/_replicate", &cancel).status, 200);
    // A remote target is recreated.
    http.post("/_replicate", &body("db", &fake.url()));
    http.put("/db/mine", &json!({ "n": 1 }));
    until("it is sent", || fake.ids().contains(&"mine".to_owned()));
    fake.recreate();
    until("all is sent again", || fake.ids() == ["mine", "new"]);
}

#[test]
fn checkpoints_do_not_stay_in_a_target_that_was_recreated_meanwhile() {
    let (_server, mut http) = database();
    let fake = FakeCouchDb::start();
    http.put("/db/mine", &json!({ "n": 1 }));
    fake.recreate_before_checkpoint();
    let body =
        json!({ "source": "db", "target": fake.url(), "continuous": true, "checkpoint_interval": 100 });
    http.post("/_replicate", &body);
    until("the database is recreated", || fake.state.lock().instance > 1_700_000_000);
    until("the document is sent again", || fake.ids() == ["mine"]);
}

#[test]
fn replicated_attachments_are_unchanged() {
    let (_server, mut http) = database();
    let fake = FakeCouchDb::start();
    let large = vec![9; 100_000];
    for (id, bytes) in [("small", b"x".as_slice()), ("large", &large)] {
        fake.put(id, 2, 'a', json!({}));
        fake.attach(id, "", "application/octet-stream", 2, bytes);
        fake.attach(id, "zero", "application/octet-stream", 0, bytes);
        fake.attach(id, "one", "application/octet-stream", 1, bytes);
    }
    fake.put("zero", 2, 'a', json!({}));
    fake.attach("zero", "zero", "application/octet-stream", 0, &large);
    let done = pull(&mut http, &fake, json!({}));
    assert_eq!(done["history"][0]["docs_written"], 3, "{done}");
    for (id, length) in [("small", 1), ("large", 100_000)] {
        let list = http.get(&format!("/db/{id}")).json()["_attachments"].take();
        assert_eq!((&list[""]["length"], &list[""]["revpos"]), (&json!(length), &json!(2)), "{list}");
        assert_eq!((&list["zero"]["revpos"], &list["one"]["revpos"]), (&json!(0), &json!(1)));
        // Attachments with generation 0 are returned too.
        let whole = http.get(&format!("/db/{id}?attachments=true")).json();
        assert!(
            whole["_attachments"]["zero"]["data"].is_string()
                && whole["_attachments"][""]["data"].is_string()
        );
    }
    assert_eq!(http.get("/db/zero").json()["_attachments"]["zero"]["revpos"], 0);
    // A local edit keeps the attachment.
    let mut doc = http.get("/db/zero").json();
    doc["n"] = json!(1);
    let edited = http.put("/db/zero", &doc);
    assert_eq!(edited.status, 201, "{}", edited.text());
    assert_eq!(http.get("/db/zero").json()["_attachments"]["zero"]["revpos"], 0);
}

// HTTP-3 HTTP-4 HTTP-5
#[test]
fn a_refused_document_does_not_fail_its_batch() {
    let (_server, mut http) = database();
    let mut deep = json!(1);
    for _ in 0..120 {
        deep = json!([deep]);
    }
    let long = "not-a-hash-but-some-long-text";
    let mut docs = vec![
        json!({ "_id": "class", "_rev": made(1, 'a'), "$class": "Car" }),
        json!({ "_id": "deep", "_rev": made(1, 'a'), "a": deep }),
        json!({ "_id": "nul", "_rev": made(1, 'a'), "a\u{0}b": 1 }),
        json!({ "_id": "long", "_rev": format!("1-{long}") }),
        json!({ "_id": "longer", "_revisions": { "start": 2, "ids": [long, hash('a')] } }),
        json!({ "_id": "x".repeat(20_000), "_rev": made(1, 'a') }),
    ];
    let refused = docs.len();
    for id in ["a", "~", "~x", "~true", "~\"a\"", "z"] {
        docs.push(
            json!({ "_id": id, "_rev": made(1, 'a'), "_revisions": { "start": 1, "ids": [hash('a')] } }),
        );
    }
    let reply = http.post("/db/_bulk_docs", &json!({ "new_edits": false, "docs": docs }));
    assert_eq!(reply.status, 201, "{}", reply.text());
    let rows = reply.json();
    let rows = rows.as_array().unwrap();
    let told: Vec<_> =
        rows.iter().map(|row| (&row["id"], &row["rev"], row["error"].as_str().unwrap())).collect();
    let first = json!(made(1, 'a'));
    assert_eq!(rows.len(), refused);
    assert_eq!(told[0], (&json!("class"), &first, "doc_validation"));
    assert_eq!(told[1], (&json!("deep"), &first, "bad_request"));
    assert_eq!(told[2], (&json!("nul"), &first, "bad_request"));
    assert_eq!(told[3], (&json!("long"), &json!(format!("1-{long}")), "bad_request"));
    assert_eq!(told[4], (&json!("longer"), &json!(format!("2-{long}")), "bad_request"));
    assert_eq!(told[5].2, "illegal_docid");
    // `~true` looks like the id of a boolean.
    let ids: Vec<Value> = http.get("/db/_all_docs").json()["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["id"].clone())
        .collect();
    assert_eq!(ids, ["a", "z", "~", "~true", "~\"a\"", "~x"]);
    for id in ["~", "~x", "~true", "~%22a%22"] {
        assert_eq!(http.get(&format!("/db/{id}")).json()["_rev"], made(1, 'a'), "{id}");
    }
    // Local edits also get one result per document.
    let reply =
        http.post("/db/_bulk_docs", &json!({ "docs": [{ "_id": "b" }, { "_id": "c", "$class": 1 }] }));
    let rows = reply.json();
    assert_eq!(
        (reply.status, &rows[0]["error"], &rows[1]["ok"]),
        (201, &json!("doc_validation"), &json!(true))
    );
    // Malformed JSON, and documents that CouchDB refuses too, store nothing.
    let json = [("Content-Type", "application/json")];
    for body in [
        r#"{"new_edits":false,"docs":[{"_id":"d","_rev":"1-a"},{"_id":"e","_rev":"1-a","$x":1,}]}"#,
        r#"{"new_edits":false,"docs":[{"_id":"d","_rev":"1-a"},{"_id":"e","_rev":"1-a","_x":1}]}"#,
        r#"{"new_edits":false,"docs":[{"_id":"d","_rev":"1-a"},{"_id":"_e","_rev":"1-a"}]}"#,
        r#"{"new_edits":false,"docs":[{"_id":"d","_rev":"1-a"},{"_id":"e"}]}"#,
    ] {
        assert_eq!(http.send("POST", "/db/_bulk_docs", &json, body.as_bytes()).status, 400, "{body}");
    }
    assert_eq!(http.get("/db/d").status, 404);
}

#[test]
fn ten_refused_documents_of_a_thousand_are_skipped() {
    let (_server, mut http) = database();
    let docs: Vec<Value> = (0..1000)
        .map(|n| {
            let mut doc = json!({ "_id": format!("d{n:04}"), "_rev": made(1, 'a'), "n": n });
            if n % 100 == 7 {
                doc["$class"] = json!("X");
            }
            doc
        })
        .collect();
    let reply = http.post("/db/_bulk_docs", &json!({ "new_edits": false, "docs": docs }));
    assert_eq!((reply.status, reply.json().as_array().unwrap().len()), (201, 10));
    assert_eq!(http.get("/db").json()["doc_count"], 990);
}

#[test]
fn long_branches_with_a_conflict_are_shown_up_to_the_limit() {
    let (_server, mut http) = database();
    let name = |number: u64| format!("{number:032x}");
    let branch = |from: u64, to: u64, tip: u64| -> Vec<String> {
        [name(tip)].into_iter().chain((from..to).rev().map(name)).collect()
    };
    for (start, ids) in [(500, branch(1, 500, 7000)), (1200, branch(1, 1200, 1200))] {
        let doc = json!({ "_id": "d", "_revisions": { "start": start, "ids": ids } });
        let reply = http.post("/db/_bulk_docs", &json!({ "new_edits": false, "docs": [doc] }));
        assert_eq!((reply.status, reply.json()), (201, json!([])));
    }
    let doc = http.get("/db/d?revs=true&conflicts=true").json();
    assert_eq!(doc["_conflicts"], json!([format!("500-{}", name(7000))]));
    let ids = doc["_revisions"]["ids"].as_array().unwrap();
    assert_eq!((ids.len(), &ids[999]), (1000, &json!(name(201))));
}

#[test]
fn large_integers_are_exact_in_replication() {
    let (_server, mut http) = database();
    let fake = FakeCouchDb::start();
    let number = 9_007_199_254_740_993_u64;
    fake.put("theirs", 1, 'a', json!({ "n": number, "list": [{ "n": -9_007_199_254_740_995_i64 }] }));
    let theirs = fake.state.lock().docs["theirs"][0].fields.clone();
    assert_eq!(pull(&mut http, &fake, json!({}))["ok"], true);
    http.put("/db/ours", &json!({ "n": { "$numberLong": number.to_string() } }));
    // To CouchDB, by Diwan's replicator and by CouchDB's.
    fake.recreate();
    assert_eq!(replicate(&mut http, "db", &fake.url(), json!({}))["ok"], true);
    assert_eq!(fake.state.lock().docs["theirs"][0].fields, theirs);
    assert_eq!(fake.state.lock().docs["ours"][0].fields["n"], number);
    let agent = [("User-Agent", "CouchDB-Replicator/3.5.2"), ("Content-Type", "application/json")];
    let rev = http.get("/db/theirs").json()["_rev"].take();
    let asked = json!({ "docs": [{ "id": "theirs", "rev": rev }] }).to_string();
    let given = http.send("POST", "/db/_bulk_get?revs=true&latest=true", &agent, asked.as_bytes()).json();
    assert_eq!(given["results"][0]["docs"][0]["ok"]["n"], number);
    let list = format!("/db/theirs?revs=true&open_revs=[%22{}%22]", rev.as_str().unwrap());
    let accept = [agent[0], ("Accept", "application/json")];
    assert_eq!(http.send("GET", &list, &accept, b"").json()[0]["ok"]["list"], theirs["list"]);
    // Other clients might round the number.
    assert_eq!(http.get("/db/theirs").json()["n"], json!({ "$numberLong": number.to_string() }));
}

// HTTP-3
#[test]
fn replicated_extended_json_keeps_its_text() {
    let (_server, mut http) = database();
    let json = [("Content-Type", "application/json")];
    for (id, field) in [
        ("offset", r#"{"$date":"2024-05-06T07:08:09+02:00"}"#),
        ("millis", r#"{"$date":{"$numberLong":"5"}}"#),
        ("date", r#"{"$date":"2024-05-06T07:08:09Z"}"#),
        ("upper", r#"{"$oid":"0102030405060708090A0B0C"}"#),
        ("long", r#"{"$numberLong":"9007199254740993"}"#),
    ] {
        let doc = format!(r#"{{"_id":"{id}","_rev":"{}","f":{field}}}"#, made(1, 'a'));
        let body = format!(r#"{{"new_edits":false,"docs":[{doc}]}}"#);
        assert_eq!(http.send("POST", "/db/_bulk_docs", &json, body.as_bytes()).json(), json!([]));
        assert_eq!(http.get(&format!("/db/{id}")).text().trim_end(), doc);
        // A local edit parses it.
        let edited = format!(r#"{{"_rev":"{}","f":{field}}}"#, made(1, 'a'));
        assert_eq!(http.send("PUT", &format!("/db/{id}"), &json, edited.as_bytes()).status, 201);
    }
    assert_eq!(http.get("/db/offset").json()["f"], json!({ "$date": "2024-05-06T05:08:09Z" }));
    assert_eq!(http.get("/db/millis").json()["f"], json!({ "$date": "1970-01-01T00:00:00.005Z" }));
}

/// Writes as MongoDB's face does: makes `edit` of the documents with these numbers.
fn edit(collection: &Collection, numbers: &[i32], edit: impl Fn(&str) -> Edit) {
    let names: Vec<String> = numbers.iter().map(|number| format!("d{number:02}")).collect();
    let ids: Vec<Vec<u8>> = names.iter().map(|name| id_key(BsonValue::String(name)).unwrap()).collect();
    collection.edit(&ids, WriteOptions::default(), |at, _| Ok(edit(&names[at]))).unwrap();
}

fn put(n: i32) -> impl Fn(&str) -> Edit {
    move |name| Edit::Put(doc! { "_id": name, "n": n })
}

#[test]
fn a_first_replication_of_what_mongodb_clients_wrote_is_complete() {
    let (server, mut http) = database();
    let name = Namespace::new("test", "source").unwrap();
    let source = server.store().collection_or_create(&name).unwrap();
    let docs: Vec<DocBuf> = (0..20).map(|n| doc! { "_id": format!("d{n:02}"), "n": 0 }).collect();
    let docs: Vec<Doc<'_>> = docs.iter().map(DocBuf::as_doc).collect();
    source.insert(&docs, true, WriteOptions::default()).unwrap();
    let all: Vec<i32> = (0..20).collect();
    edit(&source, &all, put(1));
    edit(&source, &all, put(2));
    edit(&source, &all[5..10], |_| Edit::Delete);
    edit(&source, &all[..5], put(3));
    let forget = || assert!(source.expire_tombstones(u64::MAX / 2, &|| false).unwrap());
    forget();
    assert_eq!((source.keeps_history(), source.count(), source.deleted_count()), (false, 15, 0));

    let first = replicate(&mut http, "source", "db", json!({}));
    assert_eq!((&first["ok"], &first["history"][0]["docs_written"]), (&json!(true), &json!(15)), "{first}");
    assert!(source.keeps_history());
    for (number, generation) in [(0, "4-"), (19, "3-")] {
        let there = http.get(&format!("/source/d{number:02}")).json();
        let here = http.get(&format!("/db/d{number:02}")).json();
        assert_eq!(here, there);
        assert!(here["_rev"].as_str().unwrap().starts_with(generation), "{here}");
    }
    assert_eq!(http.get("/db/d07").json()["reason"], "missing");

    // Deletions and changes after the checkpoint are sent, and make no conflicts.
    edit(&source, &[0, 1], |_| Edit::Delete);
    edit(&source, &[2, 3], put(4));
    assert_eq!(source.deleted_count(), 2);
    let second = replicate(&mut http, "source", "db", json!({}));
    // The counts include those of the first session.
    assert_eq!(second["history"][0]["docs_written"], 15 + 4, "{second}");
    assert_eq!(http.get("/db/d00").json()["reason"], "deleted");
    assert_eq!(http.get("/db/d02?conflicts=true").json(), http.get("/source/d02").json());
    assert_eq!(http.get("/db").json()["doc_count"], 13);
}

#[test]
fn counts_of_a_database_do_not_make_it_keep_history_and_its_documents_do() {
    let server = TestCouch::in_memory();
    let mut http = server.client();
    for (path, touches) in [
        ("/_all_dbs", false),
        ("/_dbs_info", false),
        ("/_db_updates", false),
        ("/db/_changes", true),
        ("/db/_all_docs", true),
        ("/db/x", true),
        ("/db", true),
        ("/db/_local_docs", true),
    ] {
        let name = Namespace::new("test", "db").unwrap();
        let collection = server.store().collection_or_create(&name).unwrap();
        http.get(path);
        assert_eq!(collection.keeps_history(), touches, "{path}");
        server.store().drop_collection(&name).unwrap();
    }
}

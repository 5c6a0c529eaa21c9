//! Feeds with filter functions.

use crate::setup::{Lines, database, graft, made, rev};
use diwan_testkit::HttpClient;
use serde_json::{Value, json};

fn ids(reply: &Value) -> Vec<&str> {
    reply["results"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect()
}

#[test]
fn filter_functions_select_changes() {
    let (_server, mut client) = database();
    let design = json!({
        "filters": {
            "even": "function (doc, req) { return doc.n % 2 == 0 && req.query.go == 'yes'; }",
            "bad": "function (doc) { throw {forbidden: 'no'}; }"
        },
        "views": {"odd": {"map": "function (doc) { if (doc.n % 2) emit(doc.n); }"}}
    });
    assert_eq!(client.put("/db/_design/d", &design).status, 201);
    for n in 0..4 {
        client.put(&format!("/db/{n}"), &json!({ "n": n }));
    }
    assert_eq!(ids(&client.get("/db/_changes?filter=d/even&go=yes").json()), ["0", "2"]);
    assert_eq!(ids(&client.get("/db/_changes?filter=d/even").json()), [""; 0]);
    assert_eq!(ids(&client.get("/db/_changes?filter=_view&view=d/odd").json()), ["1", "3"]);
    assert_eq!(client.get("/db/_changes?filter=d/none").refusal().2, "missing json key: none");
    assert_eq!(client.get("/db/_changes?filter=none/x").status, 404);
    assert_eq!(client.get("/db/_changes?filter=d").status, 400);
}

#[test]
fn replications_require_an_existing_filter() {
    let (_server, mut client) = database();
    client.put("/db/_design/d", &json!({ "filters": { "all": "function () { return true; }" } }));
    for (filter, reason) in [
        ("none/x", "Couldn't open document `_design/none` from source database `db`: not_found: missing"),
        ("d/none", "Couldn't parse filter code from document d on `db` Error: missing json key: none"),
    ] {
        for continuous in [false, true] {
            let body = json!({ "source": "db", "target": "copy", "create_target": true, "filter": filter,
                "continuous": continuous });
            let refused = client.post("/_replicate", &body).refusal();
            assert_eq!(refused, (404, "not_found".to_owned(), reason.to_owned()));
        }
    }
    assert_eq!(client.get("/copy").status, 404);
    assert_eq!(client.get("/_scheduler/jobs").json()["total_rows"], 0);
    let body = json!({ "source": "db", "target": "copy", "create_target": true, "filter": "d/all" });
    assert_eq!(client.post("/_replicate", &body).status, 200);
    assert_eq!(client.get("/copy/_design/d").status, 200);
    let view =
        json!({ "source": "db", "target": "copy", "filter": "_view", "query_params": { "view": "d/none" } });
    assert_eq!(client.post("/_replicate", &view).status, 404);
}

#[test]
fn filters_see_conflicts_of_winners_only() {
    let (_server, mut client) = database();
    let filter = "function (doc) { return !!doc._conflicts; }";
    client.put("/db/_design/f", &json!({ "filters": { "torn": filter } }));
    client.put("/db/whole", &json!({}));
    graft(&mut client, "torn", 1, "1", json!({}));
    graft(&mut client, "torn", 1, "2", json!({}));
    let exists = json!({ "selector": { "_conflicts": { "$exists": true } } });
    assert_eq!(ids(&client.get("/db/_changes?filter=f/torn").json()), ["torn"]);
    assert_eq!(ids(&client.post("/db/_changes?filter=_selector", &exists).json()), ["torn"]);
    // With `style=all_docs` each leaf is tested alone, without conflicts.
    assert_eq!(ids(&client.get("/db/_changes?filter=f/torn&style=all_docs").json()), [""; 0]);
    assert_eq!(ids(&client.post("/db/_changes?filter=_selector&style=all_docs", &exists).json()), [""; 0]);
    // Queries see conflicts if they request them.
    assert_eq!(client.post("/db/_find", &exists).json()["docs"], json!([]));
    let mut asked = exists;
    (asked["conflicts"], asked["fields"]) = (json!(true), json!(["_id", "_conflicts"]));
    let found = client.post("/db/_find", &asked).json();
    assert_eq!(found["docs"], json!([{ "_id": "torn", "_conflicts": [made(1, '1')] }]));
}

#[test]
fn editing_a_filter_restarts_the_replication() {
    let (_server, mut client) = database();
    client.put("/copy", &json!({}));
    let mut design = json!({ "filters": { "few": "function (doc, req) { return doc.n < req.query.end; }" } });
    design["_rev"] = rev(&client.put("/db/_design/d", &design)).into();
    for n in 0..4 {
        client.put(&format!("/db/{n}"), &json!({ "n": n }));
    }
    let run = |client: &mut HttpClient, end: &str| {
        let body =
            json!({ "source": "db", "target": "copy", "filter": "d/few", "query_params": { "end": end } });
        client.post("/_replicate", &body).json()
    };
    assert_eq!(run(&mut client, "0")["no_changes"], true, "no document passed");
    let first = run(&mut client, "2");
    assert_eq!((&first["history"][0]["docs_written"], &first["no_changes"]), (&json!(2), &json!(null)));
    assert_eq!(run(&mut client, "2")["no_changes"], true);
    design["filters"]["few"] = "function (doc) { return doc.n >= 0; }".into();
    client.put("/db/_design/d", &design);
    let history = run(&mut client, "2")["history"].clone();
    assert_eq!((history.as_array().map(Vec::len), &history[0]["docs_written"]), (Some(1), &json!(2)));
    assert_eq!(client.get("/copy").json()["doc_count"], 4);
}

#[test]
fn failing_filters_are_reported_as_errors() {
    let (_server, mut client) = database();
    client.put("/db/a", &json!({ "n": 1 }));
    let filters = json!({ "no": "function (doc) { throw({ forbidden: 'not you' }); }", "bad": "function (" });
    client.put("/db/_design/f", &json!({ "filters": filters }));
    let thrown = client.get("/db/_changes?filter=f/no").refusal();
    assert_eq!(thrown, (403, "forbidden".to_owned(), "not you".to_owned()));
    for feed in ["normal", "longpoll", "continuous", "eventsource"] {
        let wrong = client.get(&format!("/db/_changes?filter=f/bad&feed={feed}&since=now")).refusal();
        assert_eq!((wrong.0, wrong.1.as_str()), (400, "compilation_error"), "{feed}");
    }
}

#[test]
fn early_filter_failures_are_error_responses_in_every_feed() {
    let (server, mut client) = database();
    let picky = "function (doc) { if (doc.bad) throw { forbidden: 'not you' }; return doc.n > 1; }";
    let map = "function (doc) { if (doc.bad) throw new TypeError('no'); emit(doc.n); }";
    let design = json!({ "filters": { "picky": picky }, "views": { "v": { "map": map } } });
    client.put("/db/_design/f", &design);
    client.put("/db/a", &json!({ "n": 1 }));
    client.put("/db/b", &json!({ "bad": true }));
    let since = client.get("/db/_changes?limit=2").json()["last_seq"].as_str().unwrap().to_owned();
    for feed in ["longpoll", "continuous", "eventsource"] {
        let thrown = client.get(&format!("/db/_changes?filter=f/picky&feed={feed}")).refusal();
        assert_eq!(thrown, (403, "forbidden".to_owned(), "not you".to_owned()), "{feed}");
        let path = format!("/db/_changes?filter=_view&view=f/v&feed={feed}&since={since}");
        assert_eq!(
            client.get(&path).status,
            client.get("/db/_changes?filter=_view&view=f/v").status,
            "{feed}"
        );
    }

    // After the first row the connection is closed, without the end of the feed.
    let mut waiting = Lines::open(&server, "/db/_changes?filter=f/picky&feed=continuous&since=now");
    client.put("/db/c", &json!({ "n": 2 }));
    assert_eq!(waiting.json()["id"], "c");
    client.put("/db/d", &json!({ "bad": true }));
    assert!(waiting.is_at_end());
    let mut poll = Lines::open(&server, "/db/_changes?filter=f/picky&feed=longpoll&since=now");
    assert_eq!(poll.next(), "{\"results\":[");
    client.put("/db/e", &json!({ "bad": true }));
    assert!(poll.is_at_end());
}

/// A filter that takes a tenth of a second per document and only accepts the one called `last`.
const SLOW: &str = "function (doc) { var begun = Date.now(); while (Date.now() - begun < 100); \
                    return doc._id == 'last'; }";

#[test]
fn slow_filters_do_not_delay_heartbeats() {
    let (server, mut client) = database();
    client.put("/db/_design/f", &json!({ "filters": { "slow": SLOW } }));
    for n in 0..20 {
        client.put(&format!("/db/{n:02}"), &json!({}));
    }
    client.put("/db/last", &json!({}));
    let mut feed = Lines::open(&server, "/db/_changes?filter=f/slow&feed=continuous&heartbeat=50");
    let mut beats = 0;
    let row = loop {
        let line = feed.raw();
        match line.is_empty() {
            true => beats += 1,
            false => break line,
        }
    };
    assert!(row.contains("\"last\"") && beats >= 5, "{beats} heartbeats before {row}");
}

#[test]
fn filtering_stops_when_the_client_leaves() {
    let (server, mut client) = database();
    client.put("/db/_design/f", &json!({ "filters": { "slow": SLOW } }));
    let docs: Vec<Value> = (0..400).map(|n| json!({ "_id": format!("{n:03}") })).collect();
    client.post("/db/_bulk_docs", &json!({ "docs": docs }));
    // More feeds than threads for them; each would filter for most of a minute.
    let path = "/db/_changes?filter=f/slow&feed=continuous&heartbeat=50";
    let gone: Vec<Lines> = (0..6).map(|_| Lines::open(&server, path)).collect();
    drop(gone);
    let mut docs =
        Lines::open(&server, "/db/_changes?feed=continuous&include_docs=true&limit=1&heartbeat=60000");
    assert_eq!(docs.json()["id"], "_design/f");
}

#[test]
fn filtered_feeds_report_new_changes() {
    let (server, mut client) = database();
    let design = json!({
        "filters": { "even": "function (doc) { return doc.n % 2 == 0; }" },
        "views": { "odd": { "map": "function (doc) { if (doc.n % 2) emit(doc.n); }" } }
    });
    client.put("/db/_design/d", &design);
    let feed = |filter: &str| {
        Lines::open(&server, &format!("/db/_changes?{filter}&feed=continuous&since=now&heartbeat=100"))
    };
    let mut feeds = [feed("filter=d/even"), feed("filter=_view&view=d/odd"), feed("filter=_design")];
    assert!(feeds.iter_mut().all(|feed| feed.raw().is_empty()), "heartbeats come first");
    client.put("/db/two", &json!({ "n": 2 }));
    client.put("/db/one", &json!({ "n": 1 }));
    client.put("/db/_design/new", &json!({}));
    for (feed, expected) in feeds.iter_mut().zip(["two", "one", "_design/new"]) {
        assert_eq!(feed.json()["id"], expected);
    }
}

//! Changes feeds: existing changes, and new ones.

use crate::setup::{Lines, database, graft, made, rev};
use diwan_testkit::HttpClient;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn put(client: &mut HttpClient, id: &str) -> String {
    rev(&client.put(&format!("/db/{id}"), &json!({"id": id})))
}

fn ids(reply: &Value) -> Vec<&str> {
    reply["results"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect()
}

#[test]
fn normal_feeds_report_each_document_once() {
    let (_server, mut client) = database();
    let first = put(&mut client, "a");
    put(&mut client, "b");
    put(&mut client, "c");
    let second = rev(&client.put(&format!("/db/a?rev={first}"), &json!({})));
    let gone = client.get("/db/b").json()["_rev"].as_str().unwrap().to_owned();
    let gone = rev(&client.send("DELETE", &format!("/db/b?rev={gone}"), &[], b""));
    let reply = client.get("/db/_changes").json();
    assert_eq!(ids(&reply), ["c", "a", "b"]);
    let rows = reply["results"].as_array().unwrap();
    assert_eq!(rows[1]["changes"], json!([{ "rev": second }]));
    assert_eq!((&rows[2]["deleted"], rows[0].get("deleted")), (&json!(true), None));
    assert_eq!((&reply["last_seq"], &reply["pending"]), (&rows[2]["seq"], &json!(0)));

    let reply = client.get("/db/_changes?limit=1").json();
    assert_eq!((ids(&reply), &reply["pending"]), (vec!["c"], &json!(2)));
    let since = reply["last_seq"].as_str().unwrap();
    assert_eq!(ids(&client.get(&format!("/db/_changes?since={since}")).json()), ["a", "b"]);
    let reply = client.get(&format!("/db/_changes?limit=0&since={since}")).json();
    assert_eq!((ids(&reply), &reply["pending"]), (vec![], &json!(2)));
    assert_eq!(ids(&client.get("/db/_changes?since=now").json()), [""; 0]);
    assert_eq!(ids(&client.get("/db/_changes?descending=true&limit=2").json()), ["b", "a"]);
    assert_eq!(ids(&client.get("/db/_changes?descending=true&feed=longpoll").json()), ["b", "a", "c"]);
    let reply = client.get("/db/_changes?include_docs=true").json();
    assert_eq!(reply["results"][2]["doc"], json!({"_id": "b", "_rev": gone, "_deleted": true}));
    // `seq_interval` counts rows down from the limit; the default limit is even.
    for (query, expected) in [
        ("seq_interval=2", vec![true, false, true]),
        ("seq_interval=2&limit=3", vec![false, true, false]),
        ("seq_interval=3&limit=3", vec![true, false, false]),
        ("seq_interval=2&limit=3&feed=longpoll", vec![false, true, false]),
    ] {
        let reply = client.get(&format!("/db/_changes?{query}")).json();
        let with_seq: Vec<bool> =
            reply["results"].as_array().unwrap().iter().map(|row| row["seq"].is_string()).collect();
        assert_eq!(with_seq, expected, "{query}");
    }
    // A sequence of another database is read as 0.
    for since in ["0", "99-00000000", "%2299-00000000%22", "23-g1AAAAE7eJzLYWBg4Mhg", "g2wAAAAB"] {
        assert_eq!(ids(&client.get(&format!("/db/_changes?since={since}")).json()).len(), 3, "{since}");
    }
    assert_eq!(ids(&client.get("/db/_changes?since=x&descending=true").json()).len(), 3);
    for (query, reason) in [
        ("since=x", "Malformed sequence supplied in 'since' parameter."),
        ("since=", "Malformed sequence supplied in 'since' parameter."),
        ("since=3", "Malformed sequence supplied in 'since' parameter."),
        ("since=99999", "Malformed sequence supplied in 'since' parameter."),
        ("since=%220%22", "Malformed sequence supplied in 'since' parameter."),
        ("since=3-x", "Malformed sequence supplied in 'since' parameter."),
        ("seq_interval=0", "invalid_seq_interval"),
        ("feed=x", "Supported `feed` types: normal, continuous, live, longpoll, eventsource"),
        ("filter=_x", "unknown builtin filter name"),
        ("filter=_doc_ids", "`doc_ids` filter parameter is not a list of doc ids."),
        ("filter=_selector", "Selector must be specified in POST payload"),
        ("filter=_view", "`view` filter parameter is not provided."),
        ("heartbeat=0", "The heartbeat value should be a positive integer (in milliseconds)."),
        ("heartbeat=-1", "The heartbeat value should be a positive integer (in milliseconds)."),
    ] {
        let refused = client.get(&format!("/db/_changes?{query}"));
        assert_eq!(refused.refusal(), (400, "bad_request".into(), reason.into()), "{query}");
    }
}

#[test]
fn builtin_filters_select_changes() {
    let (_server, mut client) = database();
    for id in ["a", "b", "_design/d"] {
        put(&mut client, id);
    }
    let gone = put(&mut client, "gone");
    client.send("DELETE", &format!("/db/gone?rev={gone}"), &[], b"");
    let post = |client: &mut HttpClient, query: &str, body: Value| {
        client.post(&format!("/db/_changes?{query}"), &body).json()
    };
    let reply = post(&mut client, "filter=_doc_ids", json!({"doc_ids": ["b", "gone", "nope", "a"]}));
    assert_eq!(ids(&reply), ["a", "b", "gone"]);
    assert!(reply["last_seq"].as_str().unwrap().starts_with("5-"));
    let reply = post(&mut client, "filter=_doc_ids&limit=1", json!({"doc_ids": ["b", "a"]}));
    assert_eq!((ids(&reply), &reply["pending"]), (vec!["a"], &json!(1)));
    let reply = client.get("/db/_changes?filter=_doc_ids&doc_ids=%5B%22b%22%5D").json();
    assert_eq!(ids(&reply), ["b"]);
    let reply = post(&mut client, "filter=_selector", json!({"selector": {"id": "b"}}));
    assert_eq!(ids(&reply), ["b"]);
    let reply = post(&mut client, "filter=_selector", json!({"selector": {"_deleted": true}}));
    assert_eq!(ids(&reply), ["gone"]);
    let body = json!({"selector": {"id": "a"}, "fields": ["id"]});
    let reply = post(&mut client, "filter=_selector&include_docs=true", body);
    assert_eq!(reply["results"][0]["doc"], json!({"id": "a"}));
    assert_eq!(ids(&client.get("/db/_changes?filter=_design").json()), ["_design/d"]);
    let refused = client.post("/db/_changes?filter=_selector", &json!({"selector": {"$x": 1}})).refusal();
    assert_eq!((refused.0, refused.1.as_str()), (400, "bad_request"));
}

#[test]
fn style_all_docs_names_all_leaves() {
    let (_server, mut client) = database();
    graft(&mut client, "a", 1, "1", json!({}));
    graft(&mut client, "a", 1, "2", json!({}));
    let reply = client.get("/db/_changes?style=all_docs").json();
    assert_eq!(reply["results"][0]["changes"], json!([{"rev": made(1, '2')}, {"rev": made(1, '1')}]));
    assert_eq!(client.get("/db/_changes").json()["results"][0]["changes"], json!([{"rev": made(1, '2')}]));
}

#[test]
fn waiting_feeds_report_new_changes() {
    let (server, mut client) = database();
    put(&mut client, "old");
    let mut continuous = Lines::open(&server, "/db/_changes?feed=continuous&since=now&heartbeat=50");
    let mut docs = Lines::open(&server, "/db/_changes?feed=live&include_docs=true&heartbeat=true");
    let mut events = Lines::open(&server, "/db/_changes?feed=eventsource&since=now");
    let mut poll = Lines::open(&server, "/db/_changes?feed=longpoll&since=now&timeout=20000");
    assert_eq!(docs.json()["doc"]["id"], "old");
    assert_eq!(continuous.raw(), "");
    put(&mut client, "new");
    assert_eq!(continuous.json()["id"], "new");
    assert_eq!(docs.json()["doc"]["id"], "new");
    let event = events.next();
    let event: Value = serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!((&event["id"], events.next()), (&json!("new"), format!("id: {}", event["seq"])));
    assert_eq!(poll.next(), "{\"results\":[");
    assert_eq!(poll.json()["id"], "new");
    assert_eq!((poll.next().as_str(), poll.next().split(':').next().unwrap()), ("],", "\"last_seq\""));
    assert!(poll.is_at_end());

    let begun = Instant::now();
    let reply = client.get("/db/_changes?feed=longpoll&since=now&timeout=100").json();
    assert!(ids(&reply).is_empty() && begun.elapsed() >= Duration::from_millis(100));
    let mut limited = Lines::open(&server, "/db/_changes?feed=continuous&limit=1");
    assert_eq!((limited.json()["id"].clone(), limited.json()["pending"].clone()), (json!("old"), json!(1)));
    assert!(limited.is_at_end());

    // A filtered feed ignores other changes, and deleting the database ends its feeds.
    let mut filtered =
        Lines::open(&server, "/db/_changes?feed=continuous&since=now&filter=_design&heartbeat=1000");
    put(&mut client, "plain");
    put(&mut client, "_design/d");
    assert_eq!(filtered.json()["id"], "_design/d");
    assert_eq!(client.send("DELETE", "/db", &[], b"").status, 200);
    assert!(filtered.json()["last_seq"].is_string() && filtered.is_at_end());
}

#[test]
fn renaming_a_database_ends_its_feeds() {
    let (server, mut client) = database();
    let mut feed = Lines::open(&server, "/db/_changes?feed=continuous&heartbeat=60000");
    put(&mut client, "a");
    assert_eq!(feed.json()["id"], "a");
    let name = |collection: &str| diwan_store::Namespace::new("test", collection).unwrap();
    server.store().rename(&name("db"), &name("new"), false).unwrap();
    assert!(feed.json()["last_seq"].is_string() && feed.is_at_end());
    let mut feed = Lines::open(&server, "/new/_changes?feed=continuous&since=now&heartbeat=60000");
    client.put("/new/b", &json!({}));
    assert_eq!(feed.json()["id"], "b");
}

#[test]
fn many_feeds_report_every_change_in_order() {
    let (server, mut client) = database();
    let mut feeds: Vec<Lines> =
        (0..50).map(|_| Lines::open(&server, "/db/_changes?feed=continuous&heartbeat=1000")).collect();
    for n in 0..200 {
        put(&mut client, &format!("doc-{n:03}"));
    }
    for feed in &mut feeds {
        for n in 0..200 {
            assert_eq!(feed.json()["id"], format!("doc-{n:03}"));
        }
    }
}

#[test]
fn db_updates_reports_created_and_deleted_databases() {
    let (server, mut client) = database();
    let since = client.get("/_db_updates").json()["last_seq"].as_str().unwrap().to_owned();
    let mut feed = Lines::open(&server, "/_db_updates?feed=continuous&since=now&heartbeat=1000");
    client.put("/other", &json!({}));
    let told = feed.json();
    assert_eq!((&told["db_name"], &told["type"]), (&json!("other"), &json!("created")));
    client.put("/other/a", &json!({}));
    assert_eq!(feed.json()["type"], "updated");
    client.send("DELETE", "/other", &[], b"");
    assert_eq!(feed.json()["type"], "deleted");
    let reply = client.get(&format!("/_db_updates?since={since}")).json();
    let kinds: Vec<&str> =
        reply["results"].as_array().unwrap().iter().map(|row| row["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["created", "updated", "deleted"]);
}

#[test]
fn normal_feeds_have_an_etag() {
    let (_server, mut client) = database();
    put(&mut client, "a");
    let tag = client.get("/db/_changes").header("etag").unwrap().to_owned();
    let known = [("If-None-Match", tag.as_str())];
    let again = client.send("GET", "/db/_changes?since=0", &known, b"");
    assert_eq!((again.status, again.header("etag")), (304, Some(tag.as_str())));
    assert_eq!(again.header("content-length"), Some("0"));
    assert_eq!(client.get("/db/_changes?feed=longpoll").header("etag"), None);
    let second = put(&mut client, "b");
    let newer = client.send("GET", "/db/_changes", &known, b"");
    assert_eq!((newer.status, ids(&newer.json())), (200, vec!["a", "b"]));
    let tag = newer.header("etag").unwrap().to_owned();
    assert_eq!(client.post("/db/_purge", &json!({"b": [second]})).status, 201);
    let purged = client.send("GET", "/db/_changes", &[("If-None-Match", &tag)], b"");
    assert_eq!((purged.status, ids(&purged.json())), (200, vec!["a"]));
}

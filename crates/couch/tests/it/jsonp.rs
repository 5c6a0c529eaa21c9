//! The setting `chttpd/allow_jsonp` and the parameter `callback`.

use crate::setup::{Lines, database, secured};
use diwan_testkit::{HttpClient, HttpReply};
use serde_json::{Value, json};

const CONFIG: &str = "/_node/_local/_config";

fn allow(http: &mut HttpClient) {
    assert_eq!(http.put(&format!("{CONFIG}/chttpd/allow_jsonp"), &json!("true")).status, 200);
}

/// The argument of the call of `name` that a reply is.
fn argument(reply: &HttpReply, name: &str) -> Value {
    assert_eq!(reply.header("content-type"), Some("application/javascript"), "{}", reply.text());
    let text = reply.text();
    let rest = text.strip_prefix(&format!("/* CouchDB */{name}(")).expect("a call");
    serde_json::from_str(rest.strip_suffix(");\n").expect("the end of the call")).expect("JSON")
}

#[test]
fn json_answers_become_calls_where_the_setting_allows_it() {
    let (_server, mut http) = database();
    http.put("/db/a", &json!({ "x": 1 }));
    let plain = http.get("/db/a?callback=f");
    assert_eq!((plain.header("content-type"), &plain.json()["x"]), (Some("application/json"), &json!(1)));
    allow(&mut http);
    let whole = http.get("/db/a?callback=app.f%5B0%5D");
    assert_eq!(argument(&whole, "app.f[0]")["x"], 1);
    assert!(whole.text().ends_with("});\n"), "{}", whole.text());
    assert_eq!(whole.header("content-length"), Some(whole.body.len().to_string().as_str()));
    // Rows, long ones too.
    for n in 0..300 {
        http.put(&format!("/db/long{n}"), &json!({ "text": "x".repeat(1000) }));
    }
    for path in ["/db/_all_docs?include_docs=true&callback=f", "/db/_changes?include_docs=true&callback=f"] {
        let list = argument(&http.get(path), "f");
        let rows = list["rows"].as_array().or(list["results"].as_array()).unwrap();
        assert_eq!(rows.len(), 301, "{path}");
    }
    // Errors, and requests of any method.
    assert_eq!(argument(&http.get("/db/none?callback=f"), "f")["error"], "not_found");
    assert_eq!(http.get("/db/none?callback=f").status, 404);
    assert_eq!(argument(&http.put("/db/b?callback=f", &json!({})), "f")["ok"], true);
    let queried = http.post("/db/_find?callback=f", &json!({ "selector": {}, "limit": 1 }));
    assert_eq!(argument(&queried, "f")["docs"].as_array().unwrap().len(), 1);
    // An empty name is none.
    assert_eq!(http.get("/db/a?callback=").header("content-type"), Some("application/json"));
    let head = http.send("HEAD", "/db/a?callback=f", &[], b"");
    assert_eq!((head.status, head.header("content-type")), (200, Some("application/javascript")));
    let tag = whole.header("etag").unwrap();
    let same = http.send("GET", "/db/a?callback=f", &[("If-None-Match", tag)], b"");
    assert_eq!((same.status, same.body.len()), (304, 0));
}

#[test]
fn waiting_feeds_become_calls() {
    let (server, mut http) = database();
    http.put("/db/a", &json!({}));
    allow(&mut http);
    let mut lines = Lines::open(&server, "/db/_changes?feed=longpoll&callback=f");
    let text: String =
        std::iter::from_fn(|| if lines.is_at_end() { None } else { Some(lines.raw()) }).collect();
    // The answer is in chunks, whose lengths stand between.
    assert!(text.contains("/* CouchDB */f(") && text.trim_end_matches('0').ends_with(");"), "{text}");
}

#[test]
fn callbacks_that_are_no_names_are_refused() {
    let (_server, mut http) = database();
    allow(&mut http);
    for name in ["alert(1)", "a%3Bb", "%3Cscript%3E", "a%20b", "f%0a", "%C3%A9", "$f", "a-b", "a%22"] {
        for path in ["/", "/db/_all_docs", "/none"] {
            let refused = http.get(&format!("{path}?callback={name}"));
            let expected = (400, "bad_request".to_owned(), "invalid_callback".to_owned());
            assert_eq!(refused.refusal(), expected, "{path} {name}");
            assert_eq!(refused.header("content-type"), Some("application/json"));
        }
    }
}

#[test]
fn what_is_not_json_of_the_server_stays_as_it_is() {
    let (_server, mut http) = database();
    allow(&mut http);
    let shown = "function (doc, req) { return { json: { callback: req.query.callback } }; }";
    let listed = "function (head, req) { send('list'); }";
    http.put("/db/_design/d", &json!({ "shows": { "s": shown }, "lists": { "l": listed } }));
    http.send("PUT", "/db/a/file", &[("Content-Type", "application/json")], b"{}");
    let file = http.get("/db/a/file?callback=f");
    assert_eq!((file.header("content-type"), file.text().as_str()), (Some("application/json"), "{}"));
    let shown = http.get("/db/_design/d/_show/s?callback=f(1)");
    assert_eq!((shown.status, shown.json()), (200, json!({ "callback": "f(1)" })));
    let listed = http.get("/db/_design/d/_list/l/_all_docs?callback=f");
    assert_eq!(listed.text(), "list");
    let parts =
        http.send("GET", "/db/a?attachments=true&callback=f", &[("Accept", "multipart/related")], b"");
    assert!(parts.header("content-type").unwrap().starts_with("multipart/related"), "{:?}", parts.headers);
    assert!(parts.text().starts_with("--"), "{}", parts.text());
}

#[test]
fn refusals_of_strangers_become_calls() {
    let (server, mut root) = secured();
    allow(&mut root);
    let refused = server.client().get("/_all_dbs?callback=f");
    assert_eq!((refused.status, &argument(&refused, "f")["error"]), (401, &json!("unauthorized")));
}

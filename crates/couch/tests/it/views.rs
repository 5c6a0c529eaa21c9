//! Views over HTTP: stored, temporary, reduced, and within partitions.

use crate::setup::{database, graft, rev};
use diwan_testkit::HttpClient;
use serde_json::{Value, json};

const VIEW: &str = "/db/_design/d/_view";

fn fill(client: &mut HttpClient) {
    let by_n = "function (doc) { if ('n' in doc) emit(doc.n, doc.n); }";
    let design = json!({"views": {
        "n": {"map": by_n},
        "pair": {"map": "function (doc) { if ('n' in doc) emit([doc.n % 3, doc.n], doc.n); }", "reduce": "_sum"},
        "grow": {"map": by_n, "reduce": "function () { var out = []; for (var i = 0; i < 2000; i++) out.push('wazzap'); return out; }"},
        "fail": {"map": "function (doc) { if (doc.n == 5) throw 'x'; if ('n' in doc) emit(doc.n, 1); }", "reduce": "function () { nothing.here; }"},
        "link": {"map": "function (doc) { if (doc.link) emit(doc._id, {_id: doc.link}); }"},
        "all": {"map": "function (doc) { emit(doc._id, doc._local_seq > 0); }"}
    }});
    assert_eq!(client.put("/db/_design/d", &design).status, 201);
    let docs: Vec<Value> = (0..10).map(|n| json!({"_id": format!("d{n}"), "n": n})).collect();
    assert_eq!(client.post("/db/_bulk_docs", &json!({ "docs": docs })).status, 201);
}

fn view(client: &mut HttpClient, path: &str) -> Value {
    let reply = client.get(&format!("{VIEW}/{path}"));
    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    reply.json()
}

fn keys(reply: &Value) -> Vec<i64> {
    reply["rows"].as_array().unwrap().iter().map(|row| row["key"].as_i64().unwrap()).collect()
}

#[test]
fn view_parameters_select_rows() {
    let (_server, mut client) = database();
    fill(&mut client);
    for (path, expected) in [
        ("n?startkey=3&endkey=5", vec![3, 4, 5]),
        ("n?start_key=3&end_key=5&inclusive_end=false", vec![3, 4]),
        ("n?startkey=5&endkey=3&descending=true", vec![5, 4, 3]),
        ("n?keys=[7,1,99,7]", vec![7, 1, 7]),
        ("n?keys=[7,1,4]&descending=true&limit=2", vec![4, 1]),
        ("n?startkey=3;endkey=4&limit=1;skip=1", vec![4]),
        ("n?key=4", vec![4]),
        ("n?skip=8", vec![8, 9]),
        ("n?limit=2&skip=1&descending=true", vec![8, 7]),
        ("n?startkey=3&startkey_docid=d4&limit=1", vec![4]),
        ("n?update=lazy&limit=1", vec![0]),
        ("n?stale=ok&limit=1", vec![0]),
    ] {
        assert_eq!(keys(&view(&mut client, path)), expected, "{path}");
    }
    let page = view(&mut client, "n?startkey=4&limit=1&include_docs=true&update_seq=true");
    assert_eq!(
        (&page["total_rows"], &page["offset"], &page["rows"][0]["doc"]["n"]),
        (&json!(10), &json!(4), &json!(4))
    );
    assert!(page["update_seq"].is_string());
    let posted = client.post(&format!("{VIEW}/n?descending=true"), &json!({"limit": 2}));
    assert_eq!(keys(&posted.json()), [9, 8]);
    // The URL overrides the body, but not single queries.
    let posted = client.post(&format!("{VIEW}/n?limit=1"), &json!({"limit": 2, "skip": 3}));
    assert_eq!(keys(&posted.json()), [3]);
    let both = client.post(&format!("{VIEW}/n/queries?limit=1"), &json!({"queries": [{"limit": 2}, {}]}));
    assert_eq!((keys(&both.json()["results"][0]), keys(&both.json()["results"][1])), (vec![0, 1], vec![0]));
    let several =
        client.post(&format!("{VIEW}/n/queries"), &json!({"queries": [{"key": 1}, {"keys": [3, 2]}]})).json();
    assert_eq!((keys(&several["results"][0]), keys(&several["results"][1])), (vec![1], vec![3, 2]));
    client.put("/db/l", &json!({"link": "d3"}));
    client.put("/db/m", &json!({"link": "none"}));
    let linked = view(&mut client, "link?include_docs=true");
    assert_eq!((&linked["rows"][0]["doc"]["n"], &linked["rows"][1]["doc"]), (&json!(3), &Value::Null));
    graft(&mut client, "d9", 1, "f", json!({"n": 100}));
    let conflicting = view(&mut client, "n?startkey=9&include_docs=true&conflicts=true");
    assert_eq!(conflicting["rows"][0]["doc"]["_conflicts"].as_array().unwrap().len(), 1);
    let mut body = client.get("/db/d1").json();
    let old = body["_rev"].as_str().unwrap().to_owned();
    client.send("DELETE", &format!("/db/d1?rev={old}"), &[], b"");
    body = view(&mut client, "n?startkey=0&endkey=2");
    assert_eq!((keys(&body), &body["total_rows"]), (vec![0, 2], &json!(9)));
}

#[test]
fn invalid_view_queries_are_refused() {
    let (_server, mut client) = database();
    fill(&mut client);
    for (path, error) in [
        ("n?group=true", "query_parse_error"),
        ("n?reduce=true", "query_parse_error"),
        ("n?startkey=5&endkey=2", "query_parse_error"),
        ("n?limit=-1", "query_parse_error"),
        ("n?key=abc", "bad_request"),
        ("n?keys=1", "query_parse_error"),
        ("n?partition=x", "query_parse_error"),
        ("pair?include_docs=true", "query_parse_error"),
        ("pair?keys=[1,2]", "query_parse_error"),
    ] {
        let refused = client.get(&format!("{VIEW}/{path}")).refusal();
        assert_eq!((refused.0, refused.1.as_str()), (400, error), "{path}");
    }
    let post = |client: &mut HttpClient, body: Value| client.post(&format!("{VIEW}/n"), &body).refusal().2;
    assert_eq!(post(&mut client, json!([])), "Request body must be a JSON object");
    assert_eq!(post(&mut client, json!({"keys": 1})), "`keys` member must be an array.");
    assert_eq!(post(&mut client, json!({"queries": 1})), "`queries` member must be an array.");
    let both = json!({"keys": [1], "queries": []});
    assert_eq!(post(&mut client, both), "`keys` and `queries` are mutually exclusive");
    assert_eq!(
        client.send("POST", &format!("{VIEW}/n"), &[("Content-Type", "text/plain")], b"{}").status,
        415
    );
    assert_eq!(client.get(&format!("{VIEW}/none")).refusal().2, "missing_named_view");
    assert_eq!(client.get("/db/_design/none/_view/n").refusal().2, "missing");
    let index = client.post("/db/_index", &json!({"index": {"fields": ["n"]}, "partitioned": true}));
    assert_eq!(index.refusal().1, "invalid_design_doc");
    assert_eq!(client.post("/db/_index", &json!({"index": {"fields": ["n"]}, "ddoc": ""})).status, 400);
    for (bad, reason) in [
        (json!({"views": {"x": {"map": "function ("}}}), "Compilation of the map function"),
        (json!({"views": {"x": {"map": "function () {}", "reduce": "_none"}}}), "`_none` is not a supported"),
        (json!({"options": {"partitioned": true}}), "partitioned option cannot be true"),
    ] {
        let refused = client.put("/db/_design/bad", &bad).refusal();
        assert!(refused.0 == 400 && refused.2.starts_with(reason), "{refused:?}");
    }
}

#[test]
fn views_are_reduced() {
    let (_server, mut client) = database();
    fill(&mut client);
    let value = |client: &mut HttpClient, path: &str| view(client, path)["rows"].clone();
    assert_eq!(value(&mut client, "pair"), json!([{"key": null, "value": 45}]));
    let groups = json!([{"key": [0], "value": 18}, {"key": [1], "value": 12}, {"key": [2], "value": 15}]);
    assert_eq!(value(&mut client, "pair?group_level=1"), groups);
    assert_eq!(value(&mut client, "pair?startkey=[1]&endkey=[1,{}]"), json!([{"key": null, "value": 12}]));
    assert_eq!(
        value(&mut client, "pair?group=true&descending=true&limit=1"),
        json!([{"key": [2, 8], "value": 8}])
    );
    assert_eq!(value(&mut client, "pair?group=true&keys=[[1,4],[9]]"), json!([{"key": [1, 4], "value": 4}]));
    assert_eq!(value(&mut client, "pair?keys=[[1,4]]"), json!([{"key": null, "value": 4}]));
    assert_eq!(view(&mut client, "pair?reduce=false")["total_rows"], 10);
    let grown = value(&mut client, "grow");
    assert_eq!((&grown[0]["key"], &grown[0]["error"]), (&Value::Null, &json!("reduce_overflow_error")));
    // A function that throws contributes nothing: a map no rows, a reduction no value.
    assert_eq!(value(&mut client, "fail"), json!([{"key": null, "value": null}]));
    assert_eq!(view(&mut client, "fail?reduce=false")["total_rows"], 9);
}

#[test]
fn temporary_views_are_not_stored() {
    let (_server, mut client) = database();
    fill(&mut client);
    let map = "function (doc) { if ('n' in doc) emit(doc.n % 2, doc.n); }";
    let mut ask = |path: &str, body: Value| client.post(&format!("/db/_temp_view{path}"), &body);
    assert_eq!(keys(&ask("?limit=1", json!({ "map": map })).json()), [0]);
    assert_eq!(
        ask("", json!({"map": map, "reduce": "_sum"})).json()["rows"],
        json!([{"key": null, "value": 45}])
    );
    let groups =
        ask("?group=true", json!({"map": map, "reduce": "function (keys, values) { return sum(values); }"}));
    assert_eq!(groups.json()["rows"], json!([{"key": 0, "value": 20}, {"key": 1, "value": 25}]));
    assert_eq!(ask("", json!({"map": map, "keys": [1]})).json()["rows"].as_array().unwrap().len(), 5);
    let everything = json!({"map": "function (doc) { emit(doc._id); }", "options": {"include_design": true}});
    assert_eq!(ask("", everything).json()["total_rows"], 11);
    for (body, error) in [
        (json!({}), "bad_request"),
        (json!([]), "bad_request"),
        (json!({"map": "x y"}), "compilation_error"),
        (json!({"map": map, "reduce": "_none"}), "invalid_design_doc"),
        (json!({"map": map, "language": "erlang"}), "unknown_query_language"),
    ] {
        assert_eq!(ask("", body.clone()).refusal().1, error, "{body}");
    }
}

#[test]
fn views_are_queried_by_partition() {
    let (_server, mut client) = database();
    assert_eq!(client.put("/parts?partitioned=true", &json!({})).status, 201);
    let map = "function (doc) { emit(doc.n, doc._id); }";
    let own = json!({"views": {"n": {"map": map}, "count": {"map": map, "reduce": "_count"}}});
    rev(&client.put("/parts/_design/own", &own));
    rev(&client.put(
        "/parts/_design/global",
        &json!({"options": {"partitioned": false}, "views": {"n": {"map": map}}}),
    ));
    for n in 0..6 {
        client.put(&format!("/parts/{}:{n}", if n % 2 == 0 { "a" } else { "b" }), &json!({ "n": n }));
    }
    let at = "/parts/_partition/a/_design/own/_view";
    assert_eq!(keys(&client.get(&format!("{at}/n?startkey=2")).json()), [2, 4]);
    assert_eq!(keys(&client.get(&format!("{at}/n?descending=true&limit=1")).json()), [4]);
    assert_eq!(keys(&client.post(&format!("{at}/n"), &json!({"keys": [4, 1]})).json()), [4]);
    assert_eq!(client.get(&format!("{at}/count")).json()["rows"][0]["value"], 3);
    assert_eq!(keys(&client.get("/parts/_design/global/_view/n").json()), [0, 1, 2, 3, 4, 5]);
    for (path, reason) in [
        ("/parts/_design/own/_view/n", "`partition` parameter is mandatory for queries to this view."),
        (
            "/parts/_partition/a/_design/global/_view/n",
            "`partition` parameter is not supported in this design doc",
        ),
        (
            "/parts/_partition/a/_design/own/_view/n?partition=b",
            "Conflicting value for `partition` in query string",
        ),
        ("/parts/_partition/_a/_design/own/_view/n", "Partition must not start with an underscore"),
    ] {
        let refused = client.get(path).refusal();
        assert_eq!((refused.0, refused.2.as_str()), (400, reason), "{path}");
    }
}

#[test]
fn sum_adds_large_integers() {
    let (_server, mut client) = database();
    let map = "function (doc) { emit(null, doc.n); }";
    let view = |reduce: &str| json!({ "map": map, "reduce": reduce });
    client.put("/db/_design/d", &json!({ "views": { "sum": view("_sum"), "stats": view("_stats") } }));
    for (id, n) in [("a", 9_007_199_254_740_993_i64), ("b", 9_007_199_254_740_995), ("c", 1)] {
        client.put(&format!("/db/{id}"), &json!({ "n": n }));
    }
    let mut value =
        |view: &str| client.get(&format!("/db/_design/d/_view/{view}")).json()["rows"][0]["value"].take();
    assert_eq!(value("sum"), json!(18_014_398_509_481_989_i64));
    let stats = value("stats");
    assert_eq!((&stats["count"], &stats["max"]), (&json!(3), &json!(9_007_199_254_740_995_i64)));
}

#[test]
fn integers_beyond_javascript_are_sorted_keys() {
    let (_server, mut client) = database();
    let map = "function (doc) { emit(doc.n); emit(['in', doc.n]); }";
    client.put("/db/_design/d", &json!({ "views": { "v": { "map": map } } }));
    for (id, n) in [("a", "9007199254740993"), ("b", "1e18"), ("c", "9223372036854775807"), ("d", "5")] {
        let body = format!("{{\"n\":{n}}}");
        let json = [("Content-Type", "application/json")];
        assert_eq!(client.send("PUT", &format!("/db/{id}"), &json, body.as_bytes()).status, 201);
    }
    let ids = |client: &mut HttpClient, query: &str| -> String {
        let reply = client.get(&format!("/db/_design/d/_view/v?{query}")).json();
        reply["rows"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect()
    };
    assert_eq!(ids(&mut client, ""), "dabcdabc");
    assert_eq!(ids(&mut client, "key=9007199254740993"), "a");
    assert_eq!(ids(&mut client, "startkey=6&endkey=1e18"), "ab");
    assert_eq!(ids(&mut client, "startkey=[%22in%22,9e17]&endkey=[%22in%22,1e19]"), "bc");
    let info = client.get("/db/_design/d/_info").json();
    assert!(info["view_index"]["collator_versions"][0].is_string());
}

#[test]
fn design_info_describes_the_index() {
    let (_server, mut client) = database();
    fill(&mut client);
    let info = |client: &mut HttpClient| client.get("/db/_design/d/_info").json()["view_index"].clone();
    let size = |info: &Value, name: &str| info["sizes"][name].as_u64().unwrap();
    let before = info(&mut client);
    assert!(before["update_seq"] == 0 && size(&before, "active") < size(&before, "file"));
    view(&mut client, "n");
    let after = info(&mut client);
    assert_eq!(after["update_seq"], 11);
    assert!(size(&after, "active") > 0 && size(&after, "active") < size(&after, "file"));
}

#[test]
fn paths_without_a_view_answer_405() {
    let (_server, mut client) = database();
    fill(&mut client);
    for (method, path, allowed) in [
        ("GET", "", "GET,POST,HEAD"),
        ("PUT", "", "GET,POST,HEAD"),
        ("GET", "/n/x", "GET,POST,HEAD"),
        ("GET", "/n/queries", "POST"),
    ] {
        let refused = client.send(method, &format!("{VIEW}{path}"), &[], b"");
        assert_eq!((refused.status, refused.header("allow")), (405, Some(allowed)), "{method} {path}");
    }
    assert_eq!(client.get("/db/_design/none/_view").status, 404);
}

#[test]
fn settings_limit_reductions_that_do_not_shrink() {
    let (_server, mut http) = database();
    let set = |http: &mut HttpClient, key: &str, value: &str| {
        let path = format!("/_node/_local/_config/query_server_config/{key}");
        assert_eq!(http.put(&path, &json!(value)).status, 200);
    };
    for n in 0..10 {
        let words: serde_json::Map<_, _> = (0..60).map(|m| (format!("word {n} {m}"), json!(1))).collect();
        http.put(&format!("/db/{n}"), &json!({ "words": words }));
    }
    // A view of its own for each setting: what an index holds does not change.
    let mut made = 0;
    let mut reduced = |http: &mut HttpClient, reduce: &str| {
        made += 1;
        let view =
            json!({ "map": format!("function (doc) {{ emit({made}, doc.words); }}"), "reduce": reduce });
        http.put(&format!("/db/_design/d{made}"), &json!({ "views": { "v": view } }));
        let reply = http.get(&format!("/db/_design/d{made}/_view/v"));
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()["rows"][0].clone()
    };
    const GROWING: &str = "function (keys, values) { return values; }";
    let overflows = |value: &Value| value["error"] == "reduce_overflow_error";
    let refused = reduced(&mut http, GROWING);
    assert!(overflows(&refused), "{refused}");
    let refused = reduced(&mut http, "_sum");
    assert!(refused.to_string().contains("must shrink more rapidly"), "{refused}");
    for (key, value) in [
        ("reduce_limit", "log"),
        ("reduce_limit", "false"),
        ("reduce_limit_threshold", "1000000"),
        ("reduce_limit_ratio", "0.1"),
    ] {
        set(&mut http, key, value);
        assert!(reduced(&mut http, GROWING)["value"].is_array(), "{key} {value}");
        assert_eq!(reduced(&mut http, "_sum")["value"].as_object().unwrap().len(), 600, "{key} {value}");
        if key != "reduce_limit" || value == "false" {
            http.send("DELETE", &format!("/_node/_local/_config/query_server_config/{key}"), &[], b"");
            assert!(overflows(&reduced(&mut http, GROWING)), "{key}");
        }
    }
}

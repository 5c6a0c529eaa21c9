//! The routes below `/_diwan` that `docs/http-diwan.md` describes.

use crate::setup::{database, graft};
use diwan_couch::Config;
use diwan_testkit::TestCouch;
use diwan_value::{Doc, DocBuf, DocBuilder, doc};
use serde_json::{Value, json};

#[test]
fn map_shows_the_rows_of_each_document_and_their_reduction() {
    let (_server, mut http) = database();
    for (id, letters) in [("a", json!(["x", "y"])), ("b", json!(["x"])), ("c", json!([]))] {
        assert_eq!(http.put(&format!("/db/{id}"), &json!({ "letters": letters })).status, 201);
    }
    let map = "function (doc) { doc.letters.forEach(function (l) { emit(l, 1.0); }); }";
    let answer = http.post("/_diwan/map/db", &json!({ "map": map, "reduce": "_sum", "sample": 2 }));
    assert_eq!(
        answer.json(),
        json!({
            "documents": [
                { "id": "a", "rows": [{ "key": "x", "value": 1 }, { "key": "y", "value": 1 }], "error": null },
                { "id": "b", "rows": [{ "key": "x", "value": 1 }], "error": null },
            ],
            "reduced": 3,
            "error": null,
        })
    );
    let answer = http.post("/_diwan/map/db", &json!({ "map": map, "ids": ["b", "missing", "c"] })).json();
    assert_eq!(answer["documents"][0]["id"], "b");
    assert_eq!(answer["documents"][1]["rows"], json!([]));
    assert!(answer.get("reduced").is_none());
}

#[test]
fn map_says_where_a_function_fails() {
    let (_server, mut http) = database();
    for (id, body) in [("a", json!({})), ("b", json!({ "name": { "first": 1 } }))] {
        assert_eq!(http.put(&format!("/db/{id}"), &body).status, 201);
    }
    let mut run = |body: Value| http.post("/_diwan/map/db", &body).json();
    let thrown = run(json!({ "map": "function (doc) {\n  emit(doc.name.first);\n}" }));
    let error = &thrown["documents"][0]["error"];
    assert!(error["message"].as_str().unwrap().starts_with("TypeError: "), "{thrown}");
    assert_eq!(error["line"], 2);
    assert_eq!(
        thrown["documents"][1],
        json!({ "id": "b", "rows": [{ "key": 1, "value": null }], "error": null })
    );

    let first_line = run(json!({ "map": "doc => doc.a.b.c" }));
    assert_eq!(first_line["documents"][0]["error"]["line"], 1);
    let unreadable = run(json!({ "map": "function (doc) {\n  emit(doc.name\n}" }));
    assert_eq!(unreadable["documents"], json!([]));
    assert_eq!(unreadable["error"]["in"], "map");
    assert_eq!(unreadable["error"]["line"], 3, "{unreadable}");
    let no_function = run(json!({ "map": "5" }));
    assert_eq!(no_function["error"]["message"], "The source is not a function.");
    let reduce = run(json!({ "map": "doc => emit(1, 'x')", "reduce": "(keys, values) =>\n values.a.b" }));
    assert_eq!(reduce["error"]["in"], "reduce");
    assert_eq!(reduce["documents"][0]["rows"][0]["value"], "x");
    let endless = run(json!({ "map": "doc => { for (;;); }" }));
    assert!(endless["error"]["message"].as_str().unwrap().contains("seconds"), "{endless}");
}

#[test]
fn conflicts_are_listed_in_pages() {
    let (_server, mut http) = database();
    for id in ["a", "b", "c"] {
        graft(&mut http, id, 1, "a", json!({}));
        graft(&mut http, id, 1, "b", json!({}));
    }
    assert_eq!(http.put("/db/d", &json!({})).status, 201);
    // A deleted leaf is no conflict.
    graft(&mut http, "c", 2, "ca", json!({ "_deleted": true }));
    let first = http.get("/_diwan/conflicts/db?limit=1").json();
    assert_eq!(first["rows"][0]["id"], "a");
    assert_eq!(first["rows"][0]["conflicts"].as_array().unwrap().len(), 1);
    let next = first["next"].as_str().unwrap();
    let second = http.get(&format!("/_diwan/conflicts/db?start={next}")).json();
    let ids: Vec<&Value> = second["rows"].as_array().unwrap().iter().map(|row| &row["id"]).collect();
    assert_eq!(ids, ["b"]);
    assert_eq!(second["next"], Value::Null);
    assert_eq!(http.get("/_diwan/conflicts/db?limit=0").status, 400);
    assert_eq!(http.get("/_diwan/conflicts/db?start=%21").status, 400);
}

#[test]
fn samples_fill_empty_databases_only() {
    let (_server, mut http) = database();
    let persons = http.post("/_diwan/sample", &json!({ "name": "persons", "count": 2500 }));
    assert_eq!((persons.status, persons.json()), (201, json!({ "db": "persons", "documents": 2500 })));
    let again = http.post("/_diwan/sample", &json!({ "name": "persons" }));
    assert_eq!((again.status, again.json()["error"].as_str()), (412, Some("file_exists")));
    let library = http.post("/_diwan/sample", &json!({ "name": "library", "db": "db" }));
    assert_eq!((library.status, library.json()["documents"].as_u64()), (201, Some(25)));
    let conflicts = http.get("/_diwan/conflicts/db").json();
    assert_eq!(conflicts["rows"][0]["id"], "book:dracula");
    let dracula = http.get("/db/book:dracula?conflicts=true").json();
    let loser = dracula["_conflicts"][0].as_str().unwrap();
    let both = [dracula.clone(), http.get(&format!("/db/book:dracula?rev={loser}")).json()];
    assert!(
        both.iter().any(|doc| doc["_attachments"]["first-edition.svg"]["content_type"] == "image/svg+xml")
    );
    assert_eq!(http.get("/db/_design/library/_view/tags").json()["rows"][0]["value"], 29);
    for wrong in [json!({ "name": "cars" }), json!({ "name": "persons", "db": "x", "count": 0 }), json!({})] {
        assert_eq!(http.post("/_diwan/sample", &wrong).status, 400, "{wrong}");
    }
}

/// What a follower sends first.
fn greeting() -> DocBuf {
    doc! {
        "protocol": 1, "member": "", "host": "", "acknowledged": 0, "applied": 0, "position": 0i64, "waitMillis": 0
    }
}

#[test]
fn store_that_other_processes_write_to_is_not_followed() {
    let ask = |followable| {
        let couch = TestCouch::with_config(Config { followable, ..Config::default() });
        couch.client().send("POST", "/_diwan/follow/news", &[], greeting().as_doc().as_bytes())
    };
    assert_eq!(ask(true).status, 200);
    let (status, error, _) = ask(false).refusal();
    assert_eq!((status, error.as_str()), (409, "not_followable"));
}

#[test]
fn follower_of_another_version_is_told_so() {
    let couch = TestCouch::in_memory();
    let mut asked = DocBuilder::new();
    asked.append("protocol", 2).append_all(greeting().as_doc());
    let refused = couch.client().send("POST", "/_diwan/follow/news", &[], asked.finish().as_doc().as_bytes());
    let (status, error, reason) = refused.refusal();
    assert_eq!((status, error.as_str()), (409, "other_version"));
    assert!(reason.contains("same version"), "{reason}");
}

#[test]
fn malformed_requests_of_followers_are_refused() {
    let couch = TestCouch::in_memory();
    couch.client().put("/db", &json!({}));
    let named =
        doc! { "db": "test", "name": "db", "uuid": 1, "blobs": [{ "length": -1i64 }], "documents": [1] };
    let bodies =
        [Vec::new(), b"{}".to_vec(), vec![255; 40], Doc::EMPTY.as_bytes().to_vec(), named.into_bytes()];
    for route in ["news", "announcement", "changes", "blob", "lacks", "offer"] {
        for body in &bodies {
            let path = format!("/_diwan/follow/{route}");
            let answer = couch.client().send("POST", &path, &[], body);
            assert!([400, 404, 409].contains(&answer.status), "{route} {} {}", answer.status, answer.text());
        }
    }
}

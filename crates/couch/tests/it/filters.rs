//! Feeds that functions of design documents filter.

use crate::setup::database;
use serde_json::{Value, json};

fn ids(reply: &Value) -> Vec<&str> {
    reply["results"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect()
}

#[test]
fn functions_of_design_documents_filter() {
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
fn filters_of_replications_are_there() {
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
fn filters_that_fail_are_told_as_errors() {
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

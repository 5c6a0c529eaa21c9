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

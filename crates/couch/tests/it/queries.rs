//! Queries, their indexes, and pipelines.

use crate::setup::{database, rev};
use diwan_testkit::HttpClient;
use serde_json::{Value, json};

fn fill(client: &mut HttpClient) {
    let docs: Vec<Value> = (0..40)
        .map(|n| json!({"_id": format!("d{n:02}"), "n": n, "group": n % 4, "deep": {"x": -n}}))
        .collect();
    assert_eq!(client.post("/db/_bulk_docs", &json!({ "docs": docs })).status, 201);
    assert_eq!(client.put("/db/_design/x", &json!({"n": 3})).status, 201);
}

fn find(client: &mut HttpClient, body: &Value) -> Value {
    let reply = client.post("/db/_find", body);
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

fn numbers(reply: &Value) -> Vec<i64> {
    reply["docs"].as_array().unwrap().iter().map(|doc| doc["n"].as_i64().unwrap()).collect()
}

const NO_INDEX: &str = "No matching index found, create an index to optimize query time.";

#[test]
fn queries_find_with_and_without_an_index() {
    let (_server, mut client) = database();
    fill(&mut client);
    let everything = find(&mut client, &json!({"selector": {}}));
    assert_eq!(everything["docs"].as_array().unwrap().len(), 25);
    assert_eq!(everything["warning"], NO_INDEX);
    let query = json!({"selector": {"n": {"$gte": 36}}, "sort": [{"n": "desc"}], "execution_stats": true});
    let plain = find(&mut client, &query);
    assert_eq!(numbers(&plain), [39, 38, 37, 36]);
    assert!(plain["warning"].as_str().unwrap().starts_with(NO_INDEX));
    assert_eq!(plain["execution_stats"]["results_returned"], 4);
    let index = json!({"index": {"fields": ["n"]}, "name": "by-n", "ddoc": "i"});
    let made = client.post("/db/_index", &index).json();
    assert_eq!(made, json!({"result": "created", "id": "_design/i", "name": "by-n"}));
    assert_eq!(client.post("/db/_index", &index).json()["result"], "exists");
    let indexed = find(&mut client, &query);
    assert_eq!((numbers(&indexed), indexed.get("warning")), (vec![39, 38, 37, 36], None));
    assert_eq!(indexed["execution_stats"]["total_docs_examined"], 4);
    let fields =
        json!({"selector": {"n": 7}, "fields": ["deep.x", "_id", "nope"], "use_index": ["i", "by-n"]});
    assert_eq!(find(&mut client, &fields)["docs"], json!([{"deep": {"x": -7}, "_id": "d07"}]));
    // Without the field of the sort a document is not found.
    client.put("/db/without", &json!({"group": 1}));
    let sorted = find(&mut client, &json!({"selector": {"group": 1}, "sort": ["n"]}));
    assert_eq!(numbers(&sorted), [1, 5, 9, 13, 17, 21, 25, 29, 33, 37]);
    let metadata =
        find(&mut client, &json!({"selector": {"_rev": {"$gt": null}, "n": 3}, "fields": ["_rev"]}));
    assert_eq!(metadata["docs"][0]["_rev"], client.get("/db/d03").json()["_rev"]);
}

#[test]
fn bookmarks_continue_pages() {
    let (_server, mut client) = database();
    fill(&mut client);
    for indexed in [false, true] {
        if indexed {
            client.post("/db/_index", &json!({"index": {"fields": ["group", "n"]}}));
        }
        for (selector, sort) in [
            (json!({}), json!([])),
            (json!({"group": 2}), json!([])),
            (json!({"group": {"$gte": 1}}), json!(["group", "n"])),
            (json!({"n": {"$lt": 30}}), json!([{"deep.x": "desc"}])),
        ] {
            let mut query = json!({"selector": selector, "sort": sort, "limit": 1000});
            let all = numbers(&find(&mut client, &query));
            query["limit"] = json!(7);
            let mut pages = Vec::new();
            loop {
                let page = find(&mut client, &query);
                let found = numbers(&page);
                if found.is_empty() {
                    break;
                }
                pages.extend(found);
                query["bookmark"] = page["bookmark"].clone();
            }
            assert_eq!(pages, all, "{selector} {sort}");
        }
    }
    let refused = client.post("/db/_find", &json!({"selector": {}, "bookmark": "x"})).refusal();
    assert_eq!((refused.0, refused.1.as_str()), (400, "invalid_bookmark"));
}

#[test]
fn indexes_are_listed_and_deleted() {
    let (server, mut client) = database();
    fill(&mut client);
    let special =
        json!({"ddoc": null, "name": "_all_docs", "type": "special", "def": {"fields": [{"_id": "asc"}]}});
    assert_eq!(client.get("/db/_index").json(), json!({"total_rows": 1, "indexes": [special]}));
    let partial = json!({"fields": [{"n": "desc"}], "partial_filter_selector": {"group": {"$gt": 2}}});
    let made = client.post("/db/_index", &json!({"index": partial, "ddoc": "p", "name": "big"}));
    assert_eq!(made.status, 200, "{}", made.text());
    // An index of a MongoDB client, and another name for the same one.
    let namespace = diwan_store::Namespace::new("test", "db").unwrap();
    let collection = server.store().collection(&namespace).unwrap().unwrap();
    let spec = diwan_value::doc! { "key": diwan_value::doc! { "group": 1 }, "name": "group_1" };
    let spec = diwan_store::IndexSpec::parse(spec.as_doc(), None).unwrap();
    collection
        .create_indexes(vec![spec], &diwan_query::Interrupt::new(), &diwan_store::BuildProgress::default())
        .unwrap();
    let listed = client.get("/db/_index").json();
    assert_eq!(listed["indexes"][1]["name"], "group_1");
    assert_eq!((&listed["indexes"][1]["ddoc"], &listed["total_rows"]), (&Value::Null, &json!(3)));
    assert_eq!(listed["indexes"][2]["def"], partial);
    client.post("/db/_index", &json!({"index": {"fields": ["group"]}, "ddoc": "g", "name": "n"}));
    assert_eq!(client.send("DELETE", "/db/_index/g/json/n", &[], b"").json(), json!({"ok": true}));
    assert_eq!(collection.schema().indexes.len(), 3);
    let query = json!({"selector": {"n": {"$gt": 10}}, "use_index": "_design/p", "limit": 100});
    assert!(numbers(&find(&mut client, &query)).iter().all(|n| n % 4 == 3));
    let query = json!({"selector": {"n": {"$gt": 10}}, "use_index": "none"});
    let warning = find(&mut client, &query)["warning"].as_str().unwrap().to_owned();
    assert!(
        warning.starts_with(
            "_design/none was not used because it does not contain a valid index for this query."
        )
    );
    let deleted = client.post("/db/_index/_bulk_delete", &json!({"docids": ["_design/p", "none"]})).json();
    let expected = json!({
        "success": [{"id": "_design/p", "ok": true}],
        "fail": [{"id": "_design/none", "error": "not_found"}]
    });
    assert_eq!(deleted, expected);
    assert_eq!(client.send("DELETE", "/db/_index/_design/p/json/big", &[], b"").status, 404);
    assert_eq!(collection.schema().indexes.len(), 2);
    let refused = client.post("/db/_index", &json!({"index": {}, "type": "text"})).refusal();
    assert_eq!(refused, (503, "required index service unavailable".into(), "text".into()));
}

#[test]
fn queries_are_explained_and_refused() {
    let (_server, mut client) = database();
    fill(&mut client);
    client.post("/db/_index", &json!({"index": {"fields": ["n"]}, "ddoc": "i", "name": "by-n"}));
    let explained = client.post("/db/_explain", &json!({"selector": {"n": 1}, "limit": 5})).json();
    assert_eq!((&explained["dbname"], &explained["index"]["name"]), (&json!("db"), &json!("by-n")));
    assert_eq!((&explained["selector"], &explained["limit"]), (&json!({"n": {"$eq": 1}}), &json!(5)));
    let explained = client.post("/db/_explain", &json!({"selector": {"other": 1}})).json();
    assert_eq!(explained["index"]["name"], "_all_docs");
    for (body, error) in [
        (json!({}), "missing_required_key"),
        (json!({"selector": {}, "limit": "x"}), "invalid_non_neg_integer"),
        (json!({"selector": {}, "foo": 1}), "invalid_key"),
        (json!({"selector": {"a": {"$foo": 1}}}), "invalid_operator"),
        (json!({"selector": []}), "invalid_selector_json"),
        (json!({"selector": {}, "sort": [{"a": "up"}]}), "invalid_sort_field"),
        (json!({"selector": {"a": 1}, "use_index": "x", "allow_fallback": false}), "invalid_index"),
    ] {
        let refused = client.post("/db/_find", &body).refusal();
        assert_eq!((refused.0, refused.1.as_str()), (400, error), "{body}");
    }
    assert_eq!(client.send("POST", "/db/_find", &[], b"{}").status, 415);
}

#[test]
fn pipelines_are_answered() {
    let (_server, mut client) = database();
    fill(&mut client);
    let stages = json!([
        {"$match": {"n": {"$gte": 0}, "group": {"$exists": true}}},
        {"$group": {"_id": "$group", "sum": {"$sum": "$n"}}},
        {"$sort": {"_id": 1}}
    ]);
    let expected = json!([{"_id": 0, "sum": 180}, {"_id": 1, "sum": 190}, {"_id": 2, "sum": 200}, {"_id": 3, "sum": 210}]);
    assert_eq!(client.post("/db/_aggregate", &stages).json()["docs"], expected);
    let options = json!({"pipeline": stages, "allowDiskUse": false});
    assert_eq!(client.post("/db/_aggregate", &options).json()["docs"], expected);
    assert_eq!(client.post("/db/_aggregate", &json!([{"$out": "copy"}])).json()["docs"], json!([]));
    assert_eq!(client.get("/copy").json()["doc_count"], 41);
    assert_eq!(rev(&client.put("/copy/new", &json!({}))).split('-').next(), Some("1"));
    for bad in [
        json!({}),
        json!([{"$nope": 1}]),
        json!(1),
        json!({"pipeline": [], "x": 1}),
        json!([{"$project": {"x": {"$divide": [1, 0]}}}]),
    ] {
        assert_eq!(client.post("/db/_aggregate", &bad).status, 400, "{bad}");
    }
}

//! Mango queries and indexes, and aggregation pipelines.

use crate::setup::{database, rev};
use diwan_query::Interrupt;
use diwan_store::{BuildProgress, Collection, IndexSpec, Namespace, WriteOptions};
use diwan_testkit::{HttpClient, TestCouch};
use diwan_value::doc;
use serde_json::{Value, json};
use std::sync::Arc;

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

#[test]
fn strings_with_equal_prefixes_are_sorted_fully() {
    let (_server, mut client) = database();
    for (id, place, n) in [("aaa", "AUS", 1), ("abc", "AND", 2), ("b", "A", 3), ("c", "B", 0)] {
        client.put(&format!("/db/{id}"), &json!({"place": place, "n": n}));
    }
    client.post("/db/_index", &json!({"index": {"fields": ["place", "n"]}}));
    let mut sorted = |sort: Value| {
        let selector = json!({"place": {"$beginsWith": "A"}, "n": {"$gt": 0}});
        numbers(&find(&mut client, &json!({"selector": selector, "sort": sort})))
    };
    assert_eq!(sorted(json!([{"place": "desc"}, {"n": "desc"}])), [1, 2, 3]);
    assert_eq!(sorted(json!(["place"])), [3, 2, 1]);
    assert_eq!(sorted(json!(["n"])), [1, 2, 3]);
}

#[test]
fn queries_sort_types_like_couchdb() {
    let (_server, mut client) = database();
    let values = [
        json!(null),
        json!(false),
        json!(true),
        json!(-3),
        json!(2.5),
        json!(""),
        json!("a"),
        json!([]),
        json!([0, 9]),
        json!([7]),
        json!(["a"]),
        json!({}),
        json!({"a": 1}),
        json!({"b": 0}),
    ];
    for (n, value) in values.iter().enumerate().rev() {
        client.put(&format!("/db/{}", (n * 5) % values.len()), &json!({"v": value, "n": n}));
    }
    let ascending: Vec<i64> = (0..values.len() as i64).collect();
    for indexed in [false, true] {
        if indexed {
            client.post("/db/_index", &json!({"index": {"fields": ["v"]}}));
        }
        let mut sorted = |direction: &str, selector: Value| {
            let sort = json!([{ "v": direction }]);
            numbers(&find(&mut client, &json!({"selector": selector, "sort": sort, "limit": 50})))
        };
        assert_eq!(sorted("asc", json!({})), ascending);
        assert_eq!(sorted("desc", json!({})), ascending.iter().rev().copied().collect::<Vec<_>>());
        assert_eq!(sorted("asc", json!({"v": {"$gt": "", "$lt": {"a": 1}}})), [6, 7, 8, 9, 10, 11]);
        assert_eq!(sorted("asc", json!({"v": {"$gte": true, "$lt": "a"}})), [2, 3, 4, 5]);
    }
}

#[test]
fn descending_indexes_serve_ascending_sorts() {
    let (_server, mut client) = database();
    fill(&mut client);
    client.post("/db/_index", &json!({"index": {"fields": [{"n": "desc"}]}}));
    let selector = json!({"n": {"$gt": 36}});
    let query = json!({"selector": selector, "execution_stats": true});
    let found = find(&mut client, &query);
    assert_eq!(numbers(&found), [37, 38, 39]);
    assert_eq!(found["execution_stats"]["total_docs_examined"], 3);
    assert_eq!(client.post("/db/_explain", &query).json()["mrargs"]["direction"], "fwd");
    let descending = json!({"selector": selector, "sort": [{"n": "desc"}]});
    assert_eq!(numbers(&find(&mut client, &descending)), [39, 38, 37]);
    assert_eq!(client.post("/db/_explain", &descending).json()["mrargs"]["direction"], "rev");
    // Pages continue in the same order.
    let first = find(&mut client, &json!({"selector": selector, "limit": 2}));
    let second = find(&mut client, &json!({"selector": selector, "limit": 2, "bookmark": first["bookmark"]}));
    assert_eq!((numbers(&first), numbers(&second)), (vec![37, 38], vec![39]));
}

const NO_INDEX: &str = "No matching index found, create an index to optimize query time.";

#[test]
fn queries_return_the_same_with_and_without_index() {
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
    // Documents without the sort field are not found.
    client.put("/db/without", &json!({"group": 1}));
    let sorted = find(&mut client, &json!({"selector": {"group": 1}, "sort": ["n"]}));
    assert_eq!(numbers(&sorted), [1, 5, 9, 13, 17, 21, 25, 29, 33, 37]);
    // A lone empty list of conditions matches nothing.
    for list in ["$and", "$or", "$nor"] {
        assert_eq!(find(&mut client, &json!({"selector": {list: []}}))["docs"], json!([]));
        let beside = find(&mut client, &json!({"selector": {list: [], "n": 5}}));
        assert_eq!(numbers(&beside), [5]);
    }
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
fn indexes_can_be_listed_and_deleted() {
    let (server, mut client) = database();
    fill(&mut client);
    let special =
        json!({"ddoc": null, "name": "_all_docs", "type": "special", "def": {"fields": [{"_id": "asc"}]}});
    assert_eq!(client.get("/db/_index").json(), json!({"total_rows": 1, "indexes": [special]}));
    let partial = json!({"fields": [{"n": "desc"}], "partial_filter_selector": {"group": {"$gt": 2}}});
    let made = client.post("/db/_index", &json!({"index": partial, "ddoc": "p", "name": "big"}));
    assert_eq!(made.status, 200, "{}", made.text());
    // An index of a MongoDB client, and a second name for the same index.
    let collection = collection(&server);
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
fn explain_describes_and_refuses_queries() {
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
fn aggregate_runs_pipelines() {
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

/// Returns the names of the database's indexes.
fn listed(client: &mut HttpClient, database: &str) -> Vec<String> {
    let list = client.get(&format!("/{database}/_index")).json();
    let indexes = list["indexes"].as_array().unwrap().iter().skip(1);
    indexes
        .map(|index| format!("{} {}", index["ddoc"].as_str().unwrap_or("-"), index["name"].as_str().unwrap()))
        .collect()
}

#[test]
fn indexes_are_stored_in_design_documents() {
    let (server, mut client) = database();
    let partial = json!({ "n": { "$gt": 2 } });
    let index = json!({ "fields": ["a.b", { "$_c": "asc" }], "partial_filter_selector": partial });
    let made = client.post("/db/_index", &json!({ "index": index, "ddoc": "d", "name": "n" })).json();
    assert_eq!(made, json!({ "result": "created", "id": "_design/d", "name": "n" }));
    let design = client.get("/db/_design/d").json();
    let view = json!({
        "map": { "fields": { "a.b": "asc", "$_c": "asc" }, "partial_filter_selector": partial },
        "reduce": "_count",
        "options": { "def": index }
    });
    assert_eq!((&design["language"], &design["views"]), (&json!("query"), &json!({ "n": view })));
    let all = client.get("/db/_all_docs?startkey=%22_design/%22").json();
    assert_eq!(all["rows"][0]["id"], "_design/d");
    let again = client.post("/db/_index", &json!({ "index": index, "ddoc": "d", "name": "n" })).json();
    assert_eq!(again["result"], "exists");
    client.post("/db/_index", &json!({ "index": { "fields": ["x"] }, "ddoc": "d", "name": "m" }));
    assert_eq!(listed(&mut client, "db"), ["_design/d m", "_design/d n"]);
    // Replicating the document creates its indexes in the target.
    let body = json!({ "source": "db", "target": "copy", "create_target": true });
    assert_eq!(client.post("/_replicate", &body).json()["ok"], true);
    assert_eq!(listed(&mut client, "copy"), ["_design/d m", "_design/d n"]);
    let namespace = Namespace::new("test", "copy").unwrap();
    let copy = server.store().collection(&namespace).unwrap().unwrap();
    assert_eq!(copy.schema().indexes.len(), 3);
    // Deleting an index keeps the document for the others; deleting the last one deletes the document.
    assert_eq!(client.send("DELETE", "/copy/_index/d/json/m", &[], b"").status, 200);
    assert_eq!(client.get("/copy/_design/d").json()["views"], json!({ "n": view }));
    assert_eq!(client.send("DELETE", "/copy/_index/_design/d/json/n", &[], b"").status, 200);
    assert_eq!(client.get("/copy/_design/d").refusal().2, "deleted");
    assert_eq!(copy.schema().indexes.len(), 1);
    // Deleting the document drops its indexes.
    let rev = client.get("/db/_design/d").json()["_rev"].as_str().unwrap().to_owned();
    client.send("DELETE", &format!("/db/_design/d?rev={rev}"), &[], b"");
    assert_eq!(listed(&mut client, "db"), [""; 0]);
    assert_eq!(client.get("/db").json()["doc_count"], 0);
    assert_eq!(client.get("/db/_all_docs").json()["rows"], json!([]));
}

#[test]
fn writing_a_design_document_creates_its_indexes() {
    let (server, mut client) = database();
    fill(&mut client);
    let view = |field: &str| json!({ "map": { "fields": { field: "asc" } }, "reduce": "_count" });
    let design =
        json!({ "language": "query", "views": { "v": view("n"), "odd": { "map": { "fields": 7 } } } });
    let put = client.put("/db/_design/d", &design);
    assert_eq!(put.status, 201, "{}", put.text());
    // The index is built without a request for it.
    let collection = collection(&server);
    let begun = std::time::Instant::now();
    while collection.schema().indexes.len() < 2 {
        assert!(begun.elapsed().as_secs() < 60, "no index was made");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(listed(&mut client, "db"), ["_design/d v"]);
    let query = json!({ "selector": { "n": { "$gt": 10 } }, "use_index": "d" });
    let explained = client.post("/db/_explain", &query).json();
    assert_eq!(
        (&explained["index"]["ddoc"], &explained["index"]["name"]),
        (&json!("_design/d"), &json!("v"))
    );
    let rev = put.json()["rev"].take();
    let changed =
        json!({ "_id": "_design/d", "_rev": rev, "language": "query", "views": { "v": view("group") } });
    assert_eq!(client.post("/db/_bulk_docs", &json!({ "docs": [changed] })).status, 201);
    let explained =
        client.post("/db/_explain", &json!({ "selector": { "group": 1 }, "use_index": "d" })).json();
    assert_eq!(explained["index"]["def"], json!({ "fields": [{ "group": "asc" }] }));
    assert_eq!(collection.schema().indexes.len(), 2);
    client.put("/db/_design/js", &json!({ "views": {} }));
    let index = json!({ "index": { "fields": ["x"] }, "ddoc": "js" });
    assert_eq!(client.post("/db/_index", &index).refusal().1, "invalid_ddoc_lang");
    assert_eq!(collection.schema().indexes.len(), 2);
}

/// Returns the collection of the database `db`.
fn collection(server: &TestCouch) -> Arc<Collection> {
    server.store().collection(&Namespace::new("test", "db").unwrap()).unwrap().unwrap()
}

#[test]
fn dropping_an_index_in_mongodb_updates_the_design_document() {
    let (server, mut client) = database();
    for name in ["m", "n"] {
        client.post("/db/_index", &json!({ "index": { "fields": [name] }, "ddoc": "d", "name": name }));
    }
    let collection = collection(&server);
    collection.remove_indexes(|index| index.spec.name == "m").unwrap();
    assert_eq!(listed(&mut client, "db"), ["_design/d n"]);
    let design = client.get("/db/_design/d").json();
    assert_eq!(design["views"].as_object().unwrap().keys().collect::<Vec<_>>(), ["n"]);
    // A document changed to JavaScript keeps its views, whatever their names.
    let views = json!({ "n": { "map": "function (doc) { emit(1); }" } });
    let design = json!({ "_rev": design["_rev"], "views": views });
    collection.remove_indexes(|index| index.spec.name == "n").unwrap();
    assert_eq!(client.put("/db/_design/d", &design).status, 201);
    assert_eq!(listed(&mut client, "db"), [""; 0]);
    assert_eq!(client.get("/db/_design/d").json()["views"], views);
    // An index that a MongoDB client created can serve a design document, and stays when the document is deleted.
    let spec = doc! { "key": { "x": 1 }, "name": "theirs" };
    let spec = IndexSpec::parse(spec.as_doc(), None).unwrap();
    collection.create_indexes(vec![spec], &Interrupt::new(), &BuildProgress::default()).unwrap();
    client.post("/db/_index", &json!({ "index": { "fields": ["x"] }, "ddoc": "e", "name": "ours" }));
    assert_eq!(listed(&mut client, "db"), ["- theirs", "_design/e ours"]);
    let design = client.get("/db/_design/e").json();
    let gone = json!({ "_id": "_design/e", "_rev": design["_rev"], "_deleted": true });
    assert_eq!(client.post("/db/_bulk_docs", &json!({ "docs": [gone] })).status, 201);
    assert_eq!(listed(&mut client, "db"), ["- theirs"]);
}

#[test]
fn design_documents_by_other_paths_are_synchronized_on_demand() {
    let (server, mut client) = database();
    fill(&mut client);
    let collection = collection(&server);
    let design = |field: &str| {
        doc! { "_id": "_design/d", "language": "query", "views": { "v": { "map": { "fields": { field: "asc" } } } } }
    };
    collection.insert(&[design("n").as_doc()], true, WriteOptions::default()).unwrap();
    let query = json!({ "selector": { "n": 3 }, "use_index": ["d", "v"] });
    let found = find(&mut client, &query);
    assert_eq!((numbers(&found), found.get("warning")), (vec![3], None));
    assert_eq!(collection.schema().indexes.len(), 2);
    // A purge removes the document and its indexes.
    let design = client.get("/db/_design/d").json();
    client.post("/db/_purge", &json!({ "_design/d": [design["_rev"]] }));
    assert_eq!(listed(&mut client, "db"), [""; 0]);
    assert_eq!(collection.schema().indexes.len(), 1);
}

#[test]
fn design_documents_state_whether_indexes_are_partitioned() {
    let (_server, mut client) = database();
    assert_eq!(client.send("PUT", "/parts?partitioned=true", &[], b"").status, 201);
    let mut index = |ddoc: &str, name: &str, partitioned: Option<bool>| {
        let mut body = json!({ "index": { "fields": ["a"] }, "ddoc": ddoc, "name": name });
        if let Some(partitioned) = partitioned {
            body["partitioned"] = json!(partitioned);
        }
        client.post("/parts/_index", &body)
    };
    assert_eq!(index("d", "n", None).json()["result"], "created");
    assert_eq!(index("g", "n", Some(false)).json()["result"], "created");
    let refused = index("d", "m", Some(false)).refusal();
    assert_eq!((refused.0, refused.1.as_str()), (400, "invalid_partitioned_option"));
    assert_eq!(index("g", "m", None).refusal().1, "invalid_partitioned_option");
    assert_eq!(index("g", "m", Some(false)).json()["result"], "created");
    let list = client.get("/parts/_index").json();
    let partitioned: Vec<&Value> =
        list["indexes"].as_array().unwrap().iter().map(|index| &index["partitioned"]).collect();
    assert_eq!(partitioned, [&Value::Null, &json!(true), &json!(false), &json!(false)]);
    assert_eq!(client.get("/parts/_design/d").json().get("options"), None);
    assert_eq!(client.get("/parts/_design/g").json()["options"], json!({ "partitioned": false }));
    // Other members of the document are kept.
    for name in ["m", "n"] {
        assert_eq!(client.send("DELETE", &format!("/parts/_index/g/json/{name}"), &[], b"").status, 200);
    }
    let left = client.get("/parts/_design/g").json();
    assert_eq!((left.get("views"), &left["language"]), (None, &json!("query")));
}

#[test]
fn index_definitions_survive_a_restart() {
    let server = TestCouch::on_disk();
    let mut client = server.client().with_header("Accept", "application/json");
    client.put("/db", &json!({}));
    fill(&mut client);
    client.post("/db/_index", &json!({ "index": { "fields": ["n"] }, "ddoc": "d", "name": "n" }));
    client.post("/db/_index", &json!({ "index": { "fields": ["group"] }, "ddoc": "d", "name": "g" }));
    // One definition is removed and one added, and the server stops before it synchronizes them.
    let collection_before = collection(&server);
    collection_before.remove_indexes(|index| index.spec.name == "g").unwrap();
    let design = doc! { "_id": "_design/e", "language": "query", "views": { "v": { "map": { "fields": { "m": "asc" } } } } };
    collection_before.insert(&[design.as_doc()], true, WriteOptions::default()).unwrap();
    drop(collection_before);
    let server = server.restart();
    let mut client = server.client().with_header("Accept", "application/json");
    assert_eq!(listed(&mut client, "db"), ["_design/d n", "_design/e v"]);
    let query = json!({ "selector": { "n": 7 }, "use_index": ["d", "n"], "execution_stats": true });
    assert_eq!(find(&mut client, &query)["execution_stats"]["total_docs_examined"], 1);
    let index = json!({ "index": { "fields": ["n"] }, "ddoc": "d", "name": "n" });
    assert_eq!(client.post("/db/_index", &index).json()["result"], "exists");
    client.send("DELETE", "/db/_index/d/json/n", &[], b"");
    assert_eq!(collection(&server).schema().indexes.len(), 2);
}

#[test]
fn indexes_that_cannot_hold_a_document_are_dropped() {
    let (server, mut client) = database();
    let index = json!({ "index": { "fields": ["a", "b"] }, "ddoc": "d", "name": "n" });
    let doc = json!({ "a": [1, 2], "b": [3] });
    client.put("/db/before", &doc);
    assert_eq!(client.post("/db/_index", &index).status, 400);
    assert_eq!(client.get("/db/_design/d").status, 404);
    let before = client.get("/db/before").json();
    rev(&client.put("/db/before", &json!({ "_rev": before["_rev"] })));
    let made = |client: &mut HttpClient| client.post("/db/_index", &index).json()["result"].clone();
    assert_eq!(made(&mut client), "created");
    client.post("/db/_index", &json!({ "index": { "fields": ["a"] }, "ddoc": "d", "name": "m" }));
    let bulk = json!({ "docs": [{ "_id": "x", "a": [1, 2], "b": [3] }, { "_id": "y" }] });
    let rows = client.post("/db/_bulk_docs", &bulk).json();
    assert_eq!((&rows[0]["ok"], &rows[1]["ok"]), (&json!(true), &json!(true)));
    // The index that can hold the document stays, and so does the design document.
    let list = client.get("/db/_index").json();
    assert_eq!((&list["indexes"][1]["name"], list["indexes"][1].get("error")), (&json!("m"), None));
    assert!(list["indexes"][2]["name"] == "n" && list["indexes"][2]["error"].is_string());
    assert!(client.get("/db/_design/d").json()["views"]["n"].is_object());
    assert_eq!(find(&mut client, &json!({ "selector": { "b": [3] } }))["docs"][0]["_id"], "x");
    // A number that is both an array index and a field name does not refuse the document either.
    client.post("/db/_index", &json!({ "index": { "fields": ["e.1"] }, "ddoc": "e", "name": "e" }));
    assert_eq!(client.put("/db/e", &json!({ "e": [{ "1": 3 }, 7] })).status, 201);
    // An index of a MongoDB client is never dropped.
    let spec = doc! { "key": { "c": 1, "d": 1 }, "name": "theirs" };
    let spec = IndexSpec::parse(spec.as_doc(), None).unwrap();
    let collection = collection(&server);
    collection.create_indexes(vec![spec], &Interrupt::new(), &BuildProgress::default()).unwrap();
    assert_eq!(client.put("/db/z", &json!({ "c": [1, 2], "d": [3, 4] })).status, 400);
    assert_eq!(collection.schema().indexes.len(), 3);
}

#[test]
fn indexes_that_cannot_be_built_are_listed_with_the_reason() {
    let (_server, mut client) = database();
    client.put("/db/x", &json!({ "a": [1, 2], "b": [3] }));
    let view = |fields: Value| json!({ "map": { "fields": fields }, "reduce": "_count" });
    let design = json!({ "_id": "_design/d", "language": "query", "views": {
        "bad": view(json!({ "a": "asc", "b": "asc" })), "good": view(json!({ "b": "asc" })) } });
    // As replication would write it.
    let design = json!({ "docs": [design] });
    assert_eq!(client.post("/db/_bulk_docs", &design).status, 201);
    let list = client.get("/db/_index").json();
    assert_eq!(list["total_rows"], 3);
    let bad = &list["indexes"][1];
    assert_eq!((&bad["ddoc"], &bad["name"]), (&json!("_design/d"), &json!("bad")));
    assert_eq!(bad["def"]["fields"], json!([{ "a": "asc" }, { "b": "asc" }]));
    let reason = bad["error"].as_str().unwrap().to_owned();
    assert!(reason.contains("parallel arrays"), "{reason}");
    assert_eq!((&list["indexes"][2]["name"], list["indexes"][2].get("error")), (&json!("good"), None));

    let mut query = json!({ "selector": { "a": 1, "b": 3 }, "use_index": ["d", "bad"] });
    let found = find(&mut client, &query);
    let warning = format!(
        "_design/d, bad was not used because it is not a valid index for this query. It cannot \
                           be built: {reason}"
    );
    assert!(found["warning"].as_str().unwrap().starts_with(&warning), "{found}");
    let explained = client.post("/db/_explain", &query).json();
    let candidates = explained["index_candidates"].as_array().unwrap();
    let bad = candidates.iter().find(|candidate| candidate["index"]["name"] == "bad").unwrap();
    let analysis = (&bad["analysis"]["usable"], &bad["analysis"]["reasons"]);
    assert_eq!(analysis, (&json!(false), &json!([{ "name": "build_failed" }])));
    query["allow_fallback"] = json!(false);
    let refused = client.post("/db/_find", &query).refusal();
    assert_eq!((refused.0, refused.1.as_str()), (400, "invalid_index"));
    assert!(refused.2.ends_with(&reason), "{}", refused.2);

    // It can be deleted like any other index.
    assert_eq!(client.send("DELETE", "/db/_index/d/json/bad", &[], b"").status, 200);
    assert_eq!(client.get("/db/_index").json()["total_rows"], 2);
    assert_eq!(client.send("DELETE", "/db/_index/d/json/bad", &[], b"").status, 404);
    assert!(client.get("/db/_design/d").json()["views"]["good"].is_object());
}

#[test]
fn explain_reports_covering_indexes() {
    let (_server, mut client) = database();
    client.post("/db/_index", &json!({ "index": { "fields": ["a", "b"] }, "ddoc": "d", "name": "n" }));
    let mut explained = |body: Value| {
        let explained = client.post("/db/_explain", &body).json();
        assert_eq!(explained["mrargs"]["include_docs"], !explained["covering"].as_bool().unwrap());
        (explained["covering"].clone(), explained["index_candidates"].clone())
    };
    let (covering, others) = explained(json!({ "selector": { "a": 1, "b": 2 }, "fields": ["_id", "b"] }));
    assert_eq!((covering, others.as_array().unwrap().len()), (json!(true), 1));
    assert_eq!(others[0]["analysis"]["reasons"], json!([{ "name": "unfavored_type" }]));
    let not = json!({ "selector": { "a": 1, "b": { "$gt": 0 }, "$not": { "c": 1 } }, "fields": ["b"] });
    for query in [
        not,
        json!({ "selector": { "a": 1, "b": 2 } }),
        json!({ "selector": { "a": 1, "b": 2 }, "fields": ["c"] }),
    ] {
        assert_eq!(explained(query.clone()).0, false, "{query}");
    }
}

#[test]
fn sorting_by_id_needs_no_index() {
    let (_server, mut client) = database();
    fill(&mut client);
    let index = json!({"index": {"fields": ["_id"]}, "name": "n", "ddoc": "i"});
    let refused = client.post("/db/_index", &index);
    assert_eq!((refused.status, refused.json()["error"].as_str()), (400, Some("bad_request")));
    assert_eq!(listed(&mut client, "db"), Vec::<String>::new());
    let both = json!({"index": {"fields": ["_id", "n"]}, "name": "n", "ddoc": "i"});
    assert_eq!(client.post("/db/_index", &both).json()["result"], "created");
}

#[test]
fn generated_index_names_hash_the_whole_request() {
    let (_server, mut client) = database();
    let mut make = |members: Value| {
        let mut body = json!({"index": {"fields": ["a"]}});
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let made = client.post("/db/_index", &body).json();
        let text = |name: &str| made[name].as_str().unwrap().trim_start_matches("_design/").to_owned();
        (text("result"), text("id"), text("name"))
    };
    let (_, ddoc, name) = make(json!({}));
    assert_eq!(ddoc, name);
    assert_eq!(make(json!({})).0, "exists");
    let (result, other_ddoc, _) = make(json!({"name": "n"}));
    assert!(result == "created" && other_ddoc != ddoc);
    let (_, _, other_name) = make(json!({"ddoc": "d"}));
    assert_ne!(other_name, name);
}

#[test]
fn partial_filter_selectors_are_normalized() {
    let (_server, mut client) = database();
    client.put("/db/x", &json!({"a": 1, "b": {"c": 2}, "list": [81]}));
    client.put("/db/y", &json!({"a": 1, "b": {"c": 3}, "list": [90]}));
    let asked = json!({"b": {"c": 2}, "list": {"$elemMatch": {"$gte": 80, "$lt": 85}}});
    let normalized = json!({"$and": [
        {"b.c": {"$eq": 2}},
        {"list": {"$elemMatch": {"$and": [{"": {"$gte": 80}}, {"": {"$lt": 85}}]}}}
    ]});
    let index = json!({"fields": ["a"], "partial_filter_selector": asked});
    let made = client.post("/db/_index", &json!({"index": index, "ddoc": "d", "name": "n"}));
    assert_eq!(made.json()["result"], "created", "{}", made.text());
    let view = client.get("/db/_design/d").json()["views"]["n"].clone();
    assert_eq!(view["map"]["partial_filter_selector"], normalized);
    assert_eq!(view["options"]["def"], index);
    let listed = client.get("/db/_index").json();
    assert_eq!(listed["indexes"][1]["def"]["partial_filter_selector"], normalized);
    let query = json!({"selector": {"a": 1}, "use_index": ["d", "n"], "fields": ["_id"]});
    assert_eq!(client.post("/db/_find", &query).json()["docs"], json!([{"_id": "x"}]));
    // The same index again, with the normalized selector.
    assert_eq!(
        client.post("/db/_index", &json!({"index": index, "ddoc": "d", "name": "n"})).json()["result"],
        "exists"
    );
}

#[test]
fn unknown_paths_below_index_are_missing() {
    let (_server, mut client) = database();
    for (method, path, status) in [
        ("GET", "/db/_index/x", 404),
        ("COPY", "/db/_index/x", 404),
        ("GET", "/db/_index/_design/d/json/n", 404),
        ("PUT", "/db/_index/a/b/c/d/e", 404),
        ("DELETE", "/db/_index/_design/d/json/n", 404),
        ("GET", "/db/_index/d/json/n", 405),
        ("GET", "/db/_index/_bulk_delete", 405),
        ("PUT", "/db/_index", 405),
    ] {
        assert_eq!(client.send(method, path, &[], b"").status, status, "{method} {path}");
    }
}

//! Commands and their errors.

use diwan_mongo::{Options, Topology};
use diwan_testkit::{TestClient, TestServer};
use diwan_value::{Doc, DocBuf, Timestamp, Value, array, doc};

/// Runs a command that must succeed.
fn ok(client: &mut TestClient, command: DocBuf) -> DocBuf {
    let reply = client.run("test", command).unwrap();
    assert_eq!(reply.as_doc().get("ok"), Some(Value::Double(1.0)), "{reply:?}");
    reply
}

/// Runs a command that must fail, and returns its code.
fn code(client: &mut TestClient, database: &str, command: DocBuf) -> i64 {
    let reply = client.run(database, command).unwrap();
    assert_eq!(reply.as_doc().get("ok"), Some(Value::Double(0.0)), "{reply:?}");
    reply.as_doc().get("code").and_then(Value::as_i64_exact).unwrap()
}

fn number(doc: Doc<'_>, key: &str) -> Option<i64> {
    doc.get(key).and_then(Value::as_i64_exact)
}

#[test]
fn hello_reports_the_replica_set_or_a_standalone_server() {
    let set = TestServer::in_memory();
    let hello = ok(&mut set.client(), doc! { "hello": 1 });
    assert_eq!(hello.as_doc().get_str("setName"), Some("rs0"));
    assert_eq!(hello.as_doc().get_str("me"), Some(set.address().to_string().as_str()));
    assert_eq!(number(hello.as_doc(), "maxWireVersion"), Some(25));
    let alone = TestServer::with_options(Options { topology: Topology::Standalone, ..Options::default() });
    let hello = ok(&mut alone.client(), doc! { "hello": 1 });
    assert!(!hello.as_doc().contains_key("setName") && !hello.as_doc().contains_key("$clusterTime"));
}

#[test]
fn unknown_names_and_wrong_types_have_their_own_codes() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    assert_eq!(code(client, "test", doc! { "atlasVersion": 1 }), 59);
    assert_eq!(code(client, "test", doc! { "mapReduce": "c" }), 238);
    assert_eq!(code(client, "test", doc! { "top": 1 }), 13);
    assert_eq!(code(client, "test", doc! { "find": "c", "colour": 1 }), 40415);
    assert_eq!(code(client, "test", doc! { "find": "c", "filter": 1 }), 14);
    assert_eq!(code(client, "test", doc! { "insert": "c" }), 40414);
    assert_eq!(code(client, "a b", doc! { "ping": 1 }), 73);
    assert_eq!(code(client, "test", doc! { "ping": 1, "apiVersion": "7" }), 322);
    assert_eq!(code(client, "test", doc! { "buildInfo": 1, "apiVersion": "1", "apiStrict": true }), 323);
}

#[test]
fn crud_commands_report_their_counts() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    let reply = ok(client, doc! { "insert": "c", "documents": [{ "_id": 1, "a": 1 }, { "_id": 2, "a": 1 }] });
    assert_eq!(number(reply.as_doc(), "n"), Some(2));
    let reply =
        ok(client, doc! { "update": "c", "updates": [{ "q": { "a": 1 }, "u": { "$inc": { "a": 1 } } }] });
    assert_eq!((number(reply.as_doc(), "n"), number(reply.as_doc(), "nModified")), (Some(1), Some(1)));
    let reply = ok(client, doc! { "count": "c", "query": { "a": 1 } });
    assert_eq!(number(reply.as_doc(), "n"), Some(1));
    let reply = ok(client, doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 0 }] });
    assert_eq!(number(reply.as_doc(), "n"), Some(2));
}

#[test]
fn duplicate_key_error_names_pattern_and_value() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    ok(client, doc! { "insert": "c", "documents": [{ "_id": 1 }] });
    let documents =
        doc! { "insert": "c", "documents": [{ "_id": 0 }, { "_id": 1 }, { "_id": 2 }], "ordered": false };
    let reply = ok(client, documents);
    assert_eq!(number(reply.as_doc(), "n"), Some(2));
    let error = reply.as_doc().get_array("writeErrors").unwrap().get(0).and_then(Value::as_doc).unwrap();
    assert_eq!((number(error, "index"), number(error, "code")), (Some(1), Some(11000)));
    assert_eq!(error.get_doc("keyPattern"), Some(doc! { "_id": 1 }.as_doc()));
    assert_eq!(error.get_doc("keyValue"), Some(doc! { "_id": 1 }.as_doc()));
}

#[test]
fn bulk_write_reports_each_operation_and_the_totals() {
    let server = TestServer::in_memory();
    let bulk = doc! {
        "bulkWrite": 1,
        "ops": [
            { "insert": 0, "document": { "_id": 1 } },
            { "insert": 1, "document": { "_id": 1 } },
            { "update": 0, "filter": { "_id": 1 }, "updateMods": { "$set": { "a": 1 } } },
            { "delete": 1, "filter": { "_id": 1 } },
            { "insert": 0, "document": { "_id": 1 } }
        ],
        "nsInfo": [{ "ns": "test.a" }, { "ns": "test.b" }]
    };
    let reply = server.client().run("admin", bulk).unwrap();
    let reply = reply.as_doc();
    let totals = ["nErrors", "nInserted", "nMatched", "nModified", "nUpserted", "nDeleted"];
    assert_eq!(totals.map(|name| number(reply, name)), [1, 2, 1, 1, 0, 1].map(Some), "{reply:?}");
    assert_eq!(reply.get_doc("cursor").unwrap().get_array("firstBatch").unwrap().count(), 5);
}

#[test]
fn unsatisfiable_write_concern_is_reported_after_the_write() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1 }], "writeConcern": { "w": 2 } };
    let reply = ok(client, insert);
    assert_eq!(number(reply.as_doc().get_doc("writeConcernError").unwrap(), "code"), Some(100));
    assert_eq!(number(ok(client, doc! { "count": "c" }).as_doc(), "n"), Some(1));
}

#[test]
fn merge_and_out_report_pattern_and_value_of_a_duplicate_key() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    let unique = doc! { "key": { "a": 1 }, "name": "a_1", "unique": true };
    ok(client, doc! { "createIndexes": "to", "indexes": [unique] });
    ok(client, doc! { "insert": "to", "documents": [{ "_id": 1, "a": 5 }] });
    ok(client, doc! { "insert": "from", "documents": [{ "_id": 2, "a": 5 }, { "_id": 3, "a": 5 }] });
    let merge = doc! { "$merge": { "into": "to" } };
    let by_id = doc! { "$merge": { "into": "to", "on": "a", "whenMatched": "fail" } };
    for stage in [merge, by_id, doc! { "$out": "to" }] {
        let command = doc! { "aggregate": "from", "pipeline": [(stage)], "cursor": {} };
        let reply = client.run("test", command).unwrap();
        let reply = reply.as_doc();
        assert_eq!(
            (number(reply, "code"), reply.get_doc("keyPattern")),
            (Some(11000), Some(doc! { "a": 1 }.as_doc()))
        );
        assert_eq!(reply.get_doc("keyValue"), Some(doc! { "a": 5 }.as_doc()));
        assert!(reply.get_str("errmsg").unwrap().contains(" index: a_1 dup key: { a: 5 }"), "{reply:?}");
    }
}

#[test]
fn default_write_concern_survives_a_restart() {
    let server = TestServer::on_disk();
    let client = &mut server.client();
    let set = doc! { "setDefaultRWConcern": 1, "defaultWriteConcern": { "w": 1, "j": true } };
    let reply = client.run("admin", set.clone()).unwrap();
    assert_eq!(reply.as_doc().get_str("defaultWriteConcernSource"), Some("global"), "{reply:?}");
    assert_eq!(number(client.run("test", set).unwrap().as_doc(), "code"), Some(13));
    let server = server.restart();
    let reply = server.client().run("admin", doc! { "getDefaultRWConcern": 1 }).unwrap();
    let reply = reply.as_doc();
    assert_eq!(reply.get_doc("defaultWriteConcern"), Some(doc! { "w": 1, "j": true }.as_doc()));
    assert_eq!(reply.get_str("defaultReadConcernSource"), Some("implicit"));
    assert!(reply.contains_key("updateOpTime"));
}

#[test]
fn refused_upsert_creates_no_collection() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    let bad = doc! { "$what": { "a": 1 } };
    let update = doc! { "q": {}, "u": (bad.clone()), "upsert": true };
    let reply = ok(client, doc! { "update": "c", "updates": [(update)] });
    assert!(reply.as_doc().contains_key("writeErrors"));
    let reply = client.run("test", doc! { "findAndModify": "c", "update": bad, "upsert": true }).unwrap();
    assert_eq!(number(reply.as_doc(), "code"), Some(9));
    let modify =
        doc! { "findAndModify": "c", "update": {}, "upsert": true, "fields": { "a": { "$what": 1 } } };
    assert_eq!(client.run("test", modify).unwrap().as_doc().get("ok"), Some(Value::Double(0.0)));
    let listed = ok(client, doc! { "listCollections": 1 });
    assert!(listed.as_doc().get_doc("cursor").unwrap().get_array("firstBatch").unwrap().is_empty());
}

#[test]
fn insert_of_invalid_documents_creates_no_collection() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    for (ordered, count) in [(true, 1), (false, 2)] {
        let docs = array![doc! { "_id": array![1] }, doc! { "$a": 1 }];
        let reply = ok(client, doc! { "insert": "c", "documents": docs, "ordered": ordered });
        assert_eq!(number(reply.as_doc(), "n"), Some(0));
        assert_eq!(reply.as_doc().get_array("writeErrors").unwrap().iter().count(), count);
        let listed = ok(client, doc! { "listCollections": 1 });
        assert!(listed.as_doc().get_doc("cursor").unwrap().get_array("firstBatch").unwrap().is_empty());
    }
    let docs = array![doc! { "$a": 1 }, doc! { "_id": 1 }];
    let reply = ok(client, doc! { "insert": "c", "documents": docs, "ordered": false });
    assert_eq!(number(reply.as_doc(), "n"), Some(1));
}

#[test]
fn numeric_arguments_accept_decimals() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    let documents: Vec<DocBuf> = (0..5).map(|n| doc! { "_id": n }).collect();
    ok(client, doc! { "insert": "c", "documents": documents });
    let decimal = |text: &str| Value::Decimal128(text.parse().unwrap());
    let find =
        doc! { "find": "c", "skip": (decimal("1")), "limit": (decimal("2E0")), "batchSize": (decimal("5")) };
    let reply = ok(client, find);
    assert_eq!(reply.as_doc().get_doc("cursor").unwrap().get_array("firstBatch").unwrap().count(), 2);
    let capped = doc! { "create": "d", "capped": (decimal("1")), "size": (decimal("4096")) };
    ok(client, capped);
}

#[test]
fn pipeline_with_out_refuses_linearizable_reads() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    let linearizable = doc! { "level": "linearizable" };
    let out = doc! {
        "aggregate": "c", "pipeline": [{ "$out": "d" }], "cursor": {}, "readConcern": (linearizable.clone())
    };
    assert_eq!(number(client.run("test", out).unwrap().as_doc(), "code"), Some(72));
    ok(client, doc! { "aggregate": "c", "pipeline": [], "cursor": {}, "readConcern": linearizable });
}

#[test]
fn null_arguments_count_as_absent() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    ok(client, doc! { "insert": "c", "documents": [{ "_id": 1 }], "ordered": null, "writeConcern": null });
    let statement = doc! { "q": { "_id": 1 }, "u": { "$set": { "a": 1 } }, "multi": null, "upsert": null, "collation": null };
    let reply = ok(client, doc! { "update": "c", "updates": [statement], "let": null });
    assert_eq!(number(reply.as_doc(), "nModified"), Some(1));
    ok(client, doc! { "find": "c", "filter": null, "sort": null, "limit": null, "readConcern": null });
    ok(client, doc! { "aggregate": "c", "pipeline": [], "cursor": { "batchSize": null } });
    ok(client, doc! { "create": "d", "capped": null, "size": null, "collation": null });
    ok(client, doc! { "create": "v", "validator": { "x": { "$gt": 0 } } });
    ok(client, doc! { "collMod": "v", "validator": null, "pipeline": null });
    let refused = ok(client, doc! { "insert": "v", "documents": [{ "x": -1 }] });
    assert!(refused.as_doc().contains_key("writeErrors"), "{refused:?}");
    assert_eq!(code(client, "test", doc! { "find": "c", "colour": null }), 40415);
    assert_eq!(code(client, "test", doc! { "create": "e", "colour": null }), 40415);
    assert_eq!(code(client, "test", doc! { "find": "c", "hint": null }), 9);
    assert_eq!(code(client, "test", doc! { "aggregate": "c", "pipeline": null, "cursor": {} }), 40414);
}

#[test]
fn create_refuses_size_and_max_without_capped() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    for bound in ["size", "max"] {
        assert_eq!(code(client, "test", doc! { "create": "c", bound: 100 }), 72, "{bound}");
    }
}

#[test]
fn insert_replaces_empty_timestamps_at_the_top_level() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    let empty = Timestamp { seconds: 0, increment: 0 };
    let document = doc! { "at": empty, "_id": 1, "then": empty, "inner": { "at": empty } };
    ok(client, doc! { "insert": "c", "documents": [&document] });
    let found = ok(client, doc! { "find": "c" });
    let batch = found.as_doc().get_doc("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    let Some(Value::Document(stored)) = batch.and_then(|batch| batch.get(0)) else { panic!("{found:?}") };
    let time = |name| match stored.get(name) {
        Some(Value::Timestamp(time)) => time,
        other => panic!("{name}: {other:?}"),
    };
    assert!(empty < time("at") && time("at") < time("then"));
    assert_eq!(stored.get_doc("inner"), document.as_doc().get_doc("inner"));
    let kept = doc! { "_id": 2, "at": empty };
    ok(client, doc! { "insert": "c", "documents": [&kept], "bypassEmptyTsReplacement": true });
    assert_eq!(number(ok(client, doc! { "count": "c", "query": { "at": empty } }).as_doc(), "n"), Some(1));
}

#[test]
fn filemd5_hashes_the_chunks_in_order() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    let chunk = |n: i32, bytes| doc! { "files_id": "f", "n": n, "data": Value::Binary { subtype: 0, bytes } };
    ok(client, doc! { "insert": "fs.chunks", "documents": [chunk(1, b"lo"), chunk(0, b"hel")] });
    let reply = ok(client, doc! { "filemd5": "f", "root": "fs" });
    assert_eq!(reply.as_doc().get_str("md5"), Some("5d41402abc4b2a76b9719d911017c592"));
    assert_eq!(number(reply.as_doc(), "numChunks"), Some(2));
    ok(client, doc! { "delete": "fs.chunks", "deletes": [{ "q": { "n": 0 }, "limit": 1 }] });
    assert_eq!(code(client, "test", doc! { "filemd5": "f" }), 10040);
}

#[test]
fn collection_uuid_mismatch_is_refused() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    ok(client, doc! { "create": "c" });
    ok(client, doc! { "create": "other" });
    let listed = ok(client, doc! { "listCollections": 1, "filter": { "name": "other" } });
    let batch = listed.as_doc().get_doc("cursor").unwrap().get_array("firstBatch").unwrap();
    let other = batch.iter().next().unwrap().as_doc().unwrap().get_doc("info").unwrap().get("uuid").unwrap();
    let reply = client.run("test", doc! { "find": "c", "collectionUUID": other }).unwrap();
    let reply = reply.as_doc();
    assert_eq!(
        (number(reply, "code"), reply.get_str("codeName")),
        (Some(361), Some("CollectionUUIDMismatch"))
    );
    assert_eq!(reply.get_str("expectedCollection"), Some("c"));
    assert_eq!(reply.get_str("actualCollection"), Some("other"));
    ok(client, doc! { "find": "other", "collectionUUID": other });
    assert_eq!(code(client, "test", doc! { "drop": "c", "collectionUUID": other }), 361);
    assert_eq!(code(client, "test", doc! { "explain": { "find": "c", "collectionUUID": other } }), 361);
    let rename = doc! { "renameCollection": "test.c", "to": "test.d", "collectionUUID": other };
    assert_eq!(code(client, "admin", rename), 361);
    let infos = array![{ "ns": "test.c", "collectionUUID": other }];
    let bulk = doc! { "bulkWrite": 1, "ops": [{ "insert": 0, "document": {} }], "nsInfo": infos };
    assert_eq!(code(client, "admin", bulk), 361);
    assert_eq!(code(client, "test", doc! { "find": "c", "encryptionInformation": {} }), 238);
}

#[test]
fn cluster_time_variable_is_the_time_of_a_replica_set_only() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    ok(client, doc! { "insert": "c", "documents": [{ "_id": 1 }] });
    let update = array![{ "q": {}, "u": [{ "$set": { "at": "$$CLUSTER_TIME" } }] }];
    let written = ok(client, doc! { "update": "c", "updates": update });
    let found = ok(client, doc! { "find": "c" });
    let batch = found.as_doc().get_doc("cursor").unwrap().get_array("firstBatch").unwrap();
    let Some(Value::Timestamp(at)) = batch.iter().next().unwrap().as_doc().unwrap().get("at") else {
        panic!()
    };
    let Some(Value::Timestamp(time)) = written.as_doc().get("operationTime") else { panic!() };
    assert!(at.seconds > 0 && at < time);
    let options = Options { topology: Topology::Standalone, ..Options::default() };
    let server = TestServer::with_options(options);
    let pipeline = array![{ "$documents": [{}] }, { "$set": { "at": "$$CLUSTER_TIME" } }];
    let command = doc! { "aggregate": 1, "pipeline": pipeline, "cursor": {} };
    assert_eq!(code(&mut server.client(), "test", command), 51144);
}

#[test]
fn distinct_returns_sorted_values() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    let documents =
        array![{ "t": "uno" }, { "t": "dos" }, { "t": ["cuatro", 3] }, { "t": "uno" }, { "t": null }, {}];
    ok(client, doc! { "insert": "c", "documents": documents });
    let reply = ok(client, doc! { "distinct": "c", "key": "t" });
    let expected = doc! { "v": [null, 3, "cuatro", "dos", "uno"] };
    assert_eq!(reply.as_doc().get("values"), expected.as_doc().get("v"));
}

#[test]
fn field_paths_reach_into_dbrefs() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    ok(client, doc! { "insert": "a", "documents": [{ "_id": 1, "l": { "$ref": "b", "$id": 7 } }] });
    ok(client, doc! { "insert": "b", "documents": [{ "_id": 7, "x": 1 }] });
    let lookup = doc! { "from": "b", "localField": "l.$id", "foreignField": "_id", "as": "o" };
    let project = doc! { "o": "$o.x", "to": "$l.$ref" };
    let pipeline = array![{ "$lookup": lookup }, { "$sort": { "l.$id": 1 } }, { "$project": project }];
    let found = ok(client, doc! { "aggregate": "a", "pipeline": pipeline, "cursor": {} });
    let batch = found.as_doc().get_doc("cursor").unwrap().get_array("firstBatch").unwrap();
    let expected = doc! { "_id": 1, "o": [1], "to": "b" };
    assert_eq!(batch.iter().next(), Some(Value::Document(expected.as_doc())));
    let found = ok(client, doc! { "find": "a", "projection": { "l.$id": 1 }, "sort": { "l.$id": -1 } });
    let batch = found.as_doc().get_doc("cursor").unwrap().get_array("firstBatch").unwrap();
    let expected = doc! { "_id": 1, "l": { "$id": 7 } };
    assert_eq!(batch.iter().next(), Some(Value::Document(expected.as_doc())));
    let pipeline = array![{ "$project": { "x": "$l.$other" } }];
    assert_eq!(code(client, "test", doc! { "aggregate": "a", "pipeline": pipeline, "cursor": {} }), 16410);
}

#[test]
fn id_index_has_one_name_and_no_options() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    ok(client, doc! { "create": "c" });
    let mut create =
        |index: DocBuf| client.run("test", doc! { "createIndexes": "c", "indexes": [index] }).unwrap();
    let reply = create(doc! { "key": { "_id": 1 }, "name": "_id_1" });
    assert_eq!(reply.as_doc().get_str("note"), Some("all indexes already exist"));
    for (index, expected) in [
        (
            doc! { "key": { "_id": -1 }, "name": "x" },
            (2, "The field 'key' for an _id index must be {_id: 1}, but got { _id: -1 }"),
        ),
        (
            doc! { "key": { "_id": 1 }, "name": "_id_", "unique": true },
            (
                197,
                "The field 'unique' is not valid for an _id index specification. Specification: \
                 { key: { _id: 1 }, name: \"_id_\", unique: true }",
            ),
        ),
    ] {
        let reply = create(index);
        assert_eq!(
            (number(reply.as_doc(), "code"), reply.as_doc().get_str("errmsg")),
            (Some(expected.0), Some(expected.1))
        );
    }
    let reply = create(doc! { "key": { "a": 1 }, "name": "_id_" });
    assert_eq!(number(reply.as_doc(), "code"), Some(2));
    assert_eq!(
        number(create(doc! { "key": { "_id": 1, "a": 1 }, "name": "both" }).as_doc(), "numIndexesAfter"),
        Some(2)
    );
}

#[test]
fn unacknowledged_write_gets_no_counts() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    let concern = || doc! { "w": 0 };
    for command in [
        doc! { "insert": "c", "documents": [{ "_id": 1 }], "writeConcern": concern() },
        doc! { "insert": "c", "documents": [{ "_id": 1 }], "writeConcern": concern() },
        doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "_id": 2 } } }], "writeConcern": concern() },
        doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 0 }], "writeConcern": concern() },
    ] {
        let reply = ok(client, command);
        let known = ["ok", "$clusterTime", "operationTime"];
        assert!(reply.as_doc().iter().all(|field| known.contains(&field.key_str())), "{reply:?}");
    }
    assert_eq!(number(ok(client, doc! { "count": "c" }).as_doc(), "n"), Some(0));
    let command = doc! { "insert": "c", "documents": [{ "_id": 1 }], "writeConcern": { "w": 0, "j": true } };
    assert_eq!(number(ok(client, command).as_doc(), "n"), Some(1));
}

#[test]
fn api_strict_refuses_stages_outside_the_stable_api() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    ok(client, doc! { "create": "c" });
    for (stage, allowed) in [
        (doc! { "$indexStats": {} }, false),
        (doc! { "$collStats": { "count": {}, "storageStats": {} } }, false),
        (doc! { "$collStats": { "count": {} } }, true),
        (doc! { "$match": {} }, true),
        (doc! { "$unionWith": { "coll": "c", "pipeline": [{ "$indexStats": {} }] } }, false),
        (doc! { "$facet": { "one": [{ "$match": {} }], "two": [{ "$indexStats": {} }] } }, false),
    ] {
        let command = doc! {
            "aggregate": "c", "pipeline": [stage], "cursor": {}, "apiVersion": "1", "apiStrict": true
        };
        if allowed {
            ok(client, command);
        } else {
            assert_eq!(code(client, "test", command), 323);
        }
    }
}

#[test]
fn current_op_shows_itself() {
    let server = TestServer::in_memory();
    let reply = server.client().run("admin", doc! { "currentOp": 1 }).unwrap();
    let running = reply.as_doc().get_array("inprog").unwrap();
    let commands: Vec<_> = running.iter().filter_map(|one| one.as_doc()?.get_doc("command")).collect();
    assert!(commands.len() == 1 && commands[0].contains_key("currentOp"));
}

#[test]
fn explain_shows_a_simple_pipeline_as_a_find() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    ok(client, doc! { "insert": "c", "documents": [{ "a": 1 }, { "a": 3 }, { "a": 2 }] });
    let mut explain = |pipeline: diwan_value::ArrayBuilder| {
        let aggregate = doc! { "aggregate": "c", "pipeline": pipeline, "cursor": {} };
        ok(client, doc! { "explain": aggregate, "verbosity": "executionStats" })
    };
    let explained = explain(
        array![{ "$match": { "a": { "$gt": 0 } } }, { "$sort": { "a": 1 } }, { "$skip": 1 }, { "$limit": 5 }],
    );
    let plan = explained.as_doc().get_doc("queryPlanner").unwrap().get_doc("winningPlan").unwrap();
    assert_eq!(plan.get_str("stage"), Some("SKIP"));
    assert_eq!(plan.get_doc("inputStage").unwrap().get_str("stage"), Some("SORT"));
    assert_eq!(number(explained.as_doc().get_doc("executionStats").unwrap(), "nReturned"), Some(2));
    let explained = explain(array![{ "$limit": 1 }]);
    let stats = explained.as_doc().get_doc("executionStats").unwrap();
    assert_eq!(number(stats, "totalDocsExamined"), Some(1));
    let explained = explain(array![{ "$limit": 5 }, { "$skip": 1 }]);
    let stages = explained.as_doc().get_array("stages").unwrap();
    let names: Vec<_> =
        stages.iter().filter_map(|stage| Some(stage.as_doc()?.iter().next()?.key_str())).collect();
    assert_eq!(names, ["$cursor", "$skip"]);
}

#[test]
fn natural_order_of_a_capped_collection_is_insertion_order_with_any_filter() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    ok(client, doc! { "create": "c", "capped": true, "size": 10_000 });
    let documents: Vec<DocBuf> = [5, 1, 4, 9, 7].into_iter().map(|n| doc! { "_id": n }).collect();
    ok(client, doc! { "insert": "c", "documents": documents });
    for (option, order) in [("sort", -1), ("hint", -1), ("sort", 1), ("hint", 1)] {
        let mut find = doc! { "find": "c", "filter": { "_id": { "$gt": 1 } } }.into_builder();
        find.append(option, doc! { "$natural": order });
        let found = ok(client, find.finish());
        let batch = found.as_doc().get_doc("cursor").unwrap().get_array("firstBatch").unwrap();
        let mut ids: Vec<_> = batch.iter().filter_map(|doc| number(doc.as_doc()?, "_id")).collect();
        if order == -1 {
            ids.reverse();
        }
        assert_eq!(ids, [5, 4, 9, 7], "{option} {order}");
    }
}

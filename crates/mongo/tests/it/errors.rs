//! Error texts that drivers and libraries match on, and the fields beside them.

use diwan_mongo::{Options, Topology};
use diwan_testkit::{TestClient, TestServer};
use diwan_value::{Doc, DocBuf, Value, array, doc};

/// Runs a command that must fail, and returns its reply.
fn failed(client: &mut TestClient, command: DocBuf) -> DocBuf {
    let reply = client.run("test", command).unwrap();
    assert_eq!(reply.as_doc().get("ok"), Some(Value::Double(0.0)), "{reply:?}");
    reply
}

/// The code and the text of a failed command.
fn refused(client: &mut TestClient, command: DocBuf) -> (i64, String) {
    let reply = failed(client, command);
    let code = reply.as_doc().get("code").and_then(Value::as_i64_exact).unwrap();
    (code, reply.as_doc().get_str("errmsg").unwrap().to_owned())
}

fn write_error(client: &mut TestClient, command: DocBuf) -> (i64, String) {
    let reply = client.run("test", command).unwrap();
    assert_eq!(reply.as_doc().get("ok"), Some(Value::Double(1.0)), "{reply:?}");
    let errors = reply.as_doc().get_array("writeErrors").unwrap();
    let error = errors.get(0).and_then(Value::as_doc).unwrap();
    let code = error.get("code").and_then(Value::as_i64_exact).unwrap();
    (code, error.get_str("errmsg").unwrap().to_owned())
}

fn filled() -> TestServer {
    let server = TestServer::in_memory();
    let documents = array![{ "_id": 1, "n": 0, "s": "x" }, { "_id": 2, "n": 0, "s": "x" }];
    let insert =
        doc! { "insert": "c", "documents": Value::Array(diwan_value::Array::trusted(&documents.finish())) };
    server.client().run("test", insert).unwrap();
    server
}

/// An expression that fails when it is evaluated for a document of [`filled`], and is not constant.
fn by_zero() -> DocBuf {
    doc! { "$divide": [1, "$n"] }
}

#[test]
fn execution_errors_name_the_command() {
    let server = filled();
    let client = &mut server.client();
    let filter = doc! { "$expr": by_zero() };
    let cause = "can't $divide by zero";
    let (code, text) = refused(client, doc! { "find": "c", "filter": &filter });
    assert_eq!(
        (code, text),
        (2, format!("Executor error during find command: test.c :: caused by :: {cause}"))
    );
    let pipeline = doc! { "$project": { "z": by_zero() } };
    let (_, text) = refused(client, doc! { "aggregate": "c", "pipeline": [&pipeline], "cursor": {} });
    let during = "Executor error during aggregate command on namespace: test.c";
    assert_eq!(text, format!("{during} :: caused by :: {cause}"));
    let reply =
        client.run("test", doc! { "aggregate": "c", "pipeline": [&pipeline], "cursor": { "batchSize": 0 } });
    let reply = reply.unwrap();
    let id = reply.as_doc().get_doc("cursor").unwrap().get("id").and_then(Value::as_i64_exact).unwrap();
    let (_, text) = refused(client, doc! { "getMore": id, "collection": "c" });
    assert_eq!(text, format!("Executor error during getMore :: caused by :: {cause}"));
    let (_, text) = refused(client, doc! { "distinct": "c", "key": "s", "query": &filter });
    assert_eq!(text, format!("Executor error during distinct command :: caused by :: {cause}"));
    client.run("test", doc! { "create": "v", "viewOn": "c", "pipeline": [] }).unwrap();
    for over_view in [
        doc! { "find": "v", "filter": &filter },
        doc! { "distinct": "v", "key": "s", "query": &filter },
        doc! { "aggregate": "v", "pipeline": [&pipeline], "cursor": {} },
    ] {
        let (_, text) = refused(client, over_view);
        let during = "Executor error during aggregate command on namespace: test.v";
        assert_eq!(text, format!("{during} :: caused by :: {cause}"));
    }
    let (code, text) = refused(client, doc! { "findAndModify": "c", "update": { "$inc": { "s": 1 } } });
    let during = "Plan executor error during findAndModify :: caused by :: Cannot apply $inc";
    assert!(code == 14 && text.starts_with(during), "{code} {text}");
}

#[test]
fn parsing_and_planning_errors_have_no_prefix() {
    let server = filled();
    let client = &mut server.client();
    for command in [
        doc! { "find": "c", "filter": { "$foo": 1 } },
        doc! { "find": "c", "hint": "none" },
        doc! { "distinct": "c", "key": "s", "query": { "$foo": 1 } },
        doc! { "aggregate": "c", "pipeline": [{ "$foo": 1 }], "cursor": {} },
        doc! { "findAndModify": "c", "update": { "$foo": { "s": 1 } } },
        doc! { "findAndModify": "c", "remove": true, "hint": "none" },
        doc! { "findAndModify": "c", "remove": true, "fields": { "a": 1, "b": 0 } },
    ] {
        let (_, text) = refused(client, command.clone());
        assert!(!text.contains("during"), "{command:?}: {text}");
    }
    let update = doc! { "update": "c", "updates": [{ "q": {}, "u": { "$inc": { "s": 1 } } }] };
    let (code, text) = write_error(client, update);
    assert!(code == 14 && text.starts_with("Cannot apply $inc"), "{text}");
}

#[test]
fn constant_that_fails_is_refused_before_any_document_is_read() {
    let server = filled();
    let client = &mut server.client();
    let constant = doc! { "$divide": [1, 0] };
    for stage in [
        doc! { "$project": { "z": &constant } },
        doc! { "$group": { "_id": 1, "z": { "$sum": &constant } } },
        doc! { "$lookup": { "from": "d", "pipeline": [{ "$set": { "z": &constant } }], "as": "z" } },
    ] {
        for collection in ["c", "empty"] {
            let command = doc! { "aggregate": collection, "pipeline": [&stage], "cursor": {} };
            let (code, text) = refused(client, command);
            let expected = "Failed to optimize pipeline :: caused by :: can't $divide by zero";
            assert_eq!((code, text.as_str()), (2, expected), "{stage:?}");
        }
    }
}

#[test]
fn failed_index_build_names_the_collection() {
    let server = filled();
    let client = &mut server.client();
    let index = doc! { "key": { "n": 1 }, "name": "n_1", "unique": true };
    let reply = failed(client, doc! { "createIndexes": "c", "indexes": [index] });
    let text = reply.as_doc().get_str("errmsg").unwrap();
    assert!(text.starts_with("Index build failed: "), "{text}");
    let (_, rest) = text.split_once(": Collection test.c ( ").unwrap();
    let (uuid, cause) = rest.split_once(" ) :: caused by :: ").unwrap();
    assert_eq!(uuid.len(), 36);
    assert!(cause.starts_with("E11000 duplicate key error collection: test.c index: n_1"), "{cause}");
    assert_eq!(reply.as_doc().get_doc("keyPattern"), Some(doc! { "n": 1 }.as_doc()));
    // An error from before the build has no prefix.
    let index = |name: &str, unique: bool| doc! { "key": { "s": 1 }, "name": name, "unique": unique };
    client.run("test", doc! { "createIndexes": "c", "indexes": [index("a", false)] }).unwrap();
    let (code, text) = refused(client, doc! { "createIndexes": "c", "indexes": [index("a", true)] });
    assert!(matches!(code, 85 | 86) && !text.contains("Index build failed"), "{code} {text}");
}

#[test]
fn create_indexes_refuses_conflicts_within_one_command() {
    let server = filled();
    let client = &mut server.client();
    let index = doc! { "key": { "a": 1 }, "name": "a_1" };
    let twice = doc! { "createIndexes": "c", "indexes": [&index, &index] };
    let (code, text) = refused(client, twice.clone());
    assert_eq!((code, text.as_str()), (68, "Identical index already exists: a_1"));
    let reply = client.run("test", doc! { "createIndexes": "c", "indexes": [&index] }).unwrap();
    assert_eq!(reply.as_doc().get("numIndexesAfter"), Some(Value::Int32(2)));
    // Specifications of existing indexes are ignored, even several of the same.
    let reply = client.run("test", twice).unwrap();
    assert_eq!(reply.as_doc().get_str("note"), Some("all indexes already exist"));
    let conflict = "An existing index has the same name as the requested index. When index names are not specified, \
                    they are auto generated and can cause conflicts. Please refer to our documentation. Requested \
                    index: { v: 2, key: { y: 1 }, name: \"x\" }, existing index: { v: 2, key: { x: 1 }, name: \"x\" }";
    for (first, second, code, text) in [
        (
            doc! { "key": { "x": 1 }, "name": "x", "sparse": true },
            doc! { "key": { "x": 1 }, "name": "x", "sparse": 1 },
            68,
            "Identical index already exists: x",
        ),
        (
            doc! { "key": { "x": 1 }, "name": "x" },
            doc! { "key": { "x": 1 }, "name": "y" },
            85,
            "Index already exists with a different name: x",
        ),
        (doc! { "key": { "x": 1 }, "name": "x" }, doc! { "key": { "y": 1 }, "name": "x" }, 86, conflict),
    ] {
        let command = doc! { "createIndexes": "c", "indexes": [&first, &second] };
        assert_eq!(refused(client, command), (code, text.to_owned()), "{first:?} {second:?}");
    }
}

#[test]
fn multi_and_upsert_must_be_booleans() {
    let server = filled();
    let client = &mut server.client();
    for name in ["multi", "upsert"] {
        let mut statement = doc! { "q": {}, "u": { "$set": { "a": 1 } } }.into_builder();
        statement.append(name, 1);
        let update = doc! { "update": "c", "updates": [statement.finish()] };
        let text =
            format!("BSON field 'update.updates.{name}' is the wrong type 'int', expected type 'bool'");
        assert_eq!(refused(client, update), (14, text));
    }
}

#[test]
fn failed_write_reports_its_unsatisfiable_concern() {
    let server = filled();
    let client = &mut server.client();
    client.run("test", doc! { "insert": "c", "documents": [{ "_id": 3, "s": "y" }] }).unwrap();
    let concern = doc! { "w": 2 };
    let merge = doc! { "$merge": { "into": "c", "whenMatched": "fail" } };
    let fail = doc! { "$project": { "z": by_zero() } };
    let aggregate = |stages: diwan_value::ArrayBuilder| {
        doc! { "aggregate": "c", "pipeline": stages, "cursor": {}, "writeConcern": &concern }
    };
    for (command, has) in [
        (doc! { "findAndModify": "c", "update": { "$inc": { "s": 1 } }, "writeConcern": &concern }, true),
        (doc! { "create": "c", "capped": true, "size": 100, "writeConcern": &concern }, true),
        (doc! { "dropIndexes": "c", "index": "none", "writeConcern": &concern }, true),
        (aggregate(array![&merge]), true),
        (aggregate(array![&fail, &merge]), true),
        (aggregate(array![&fail]), false),
        (doc! { "findAndModify": "c", "update": { "$foo": 1 }, "writeConcern": &concern }, false),
        (doc! { "findAndModify": "c", "update": { "$inc": { "s": 1 } } }, false),
    ] {
        let reply = failed(client, command.clone());
        let code = reply.as_doc().get_doc("writeConcernError").and_then(|error| error.get("code"));
        assert_eq!(code, has.then_some(Value::Int32(100)), "{command:?}");
    }
}

#[test]
fn unknown_stage_in_an_update_fails_the_statement() {
    let server = filled();
    let client = &mut server.client();
    for collection in ["c", "empty"] {
        let update = |stage: DocBuf| doc! { "update": collection, "updates": [{ "q": {}, "u": [stage] }] };
        assert_eq!(write_error(client, update(doc! { "$foo": 1 })).0, 40324);
        assert_eq!(write_error(client, update(doc! { "$match": {} })).0, 72);
        assert_eq!(write_error(client, update(doc! { "$densify": {} })).0, 72);
    }
}

#[test]
fn unknown_stages_are_reported_before_unimplemented_ones() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    let run = |client: &mut TestClient, pipeline: diwan_value::ArrayBuilder| {
        refused(client, doc! { "aggregate": "c", "pipeline": pipeline, "cursor": {} }).0
    };
    assert_eq!(run(client, array![{ "$densify": {} }]), 238);
    assert_eq!(run(client, array![{ "$densify": {} }, { "$foo": 1 }]), 40324);
    assert_eq!(run(client, array![{ "$match": 1 }, { "$foo": 1 }]), 40324);
    assert_eq!(run(client, array![{ "$facet": { "a": [{ "$foo": 1 }] } }, { "$densify": {} }]), 40324);
    assert_eq!(run(client, array![{ "$densify": {} }, { "$match": {}, "$limit": 1 }]), 40323);
}

#[test]
fn standalone_server_refuses_change_streams() {
    let change_stream = doc! { "aggregate": "c", "pipeline": [{ "$changeStream": {} }], "cursor": {} };
    let alone = TestServer::with_options(Options { topology: Topology::Standalone, ..Options::default() });
    let (code, text) = refused(&mut alone.client(), change_stream.clone());
    assert_eq!((code, text.as_str()), (40573, "The $changeStream stage is only supported on replica sets"));
}

/// A document with two fields of the name `_id`.
fn two_ids() -> DocBuf {
    let mut out = doc! { "_id": 1, "a": 1 }.into_builder();
    out.append("_id", 2);
    out.finish()
}

#[test]
fn documents_with_two_ids_are_refused_by_every_write() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    let text = "can't have multiple _id fields in one document";
    let insert = doc! { "insert": "c", "documents": [two_ids()] };
    assert_eq!(write_error(client, insert), (2, text.to_owned()));
    let replace = doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": two_ids(), "upsert": true }] };
    assert_eq!(write_error(client, replace.clone()), (2, text.to_owned()));
    client.run("test", doc! { "insert": "c", "documents": [{ "_id": 1, "inner": two_ids() }] }).unwrap();
    assert_eq!(write_error(client, replace), (2, text.to_owned()));
    let with = doc! { "$replaceWith": "$inner" };
    let update = doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": [&with] }] };
    assert_eq!(write_error(client, update), (2, text.to_owned()));
    for (kind, target) in [("$out", doc! { "db": "test", "coll": "d" }), ("$merge", doc! { "into": "d" })] {
        let mut stage = diwan_value::DocBuilder::new();
        stage.append(kind, target);
        let pipeline = doc! { "aggregate": "c", "pipeline": [&with, stage.finish()], "cursor": {} };
        let (code, message) = refused(client, pipeline);
        assert!(code == 2 && message.ends_with(text), "{kind}: {message}");
    }
    let bulk = doc! { "bulkWrite": 1, "ops": [{ "insert": 0, "document": two_ids() }], "nsInfo": [{ "ns": "test.c" }] };
    let reply = client.run("admin", bulk).unwrap();
    assert_eq!(reply.as_doc().get("nErrors"), Some(Value::Int32(1)), "{reply:?}");
    let left = client.run("test", doc! { "find": "c" }).unwrap();
    let left = left.as_doc().get_doc("cursor").unwrap_or(Doc::EMPTY).get_array("firstBatch").unwrap();
    assert_eq!(left.count(), 1);
}

#[test]
fn writes_to_system_collections_are_refused() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    let writes = |name: &str| {
        [
            doc! { "insert": name, "documents": [{ "a": 1 }] },
            doc! { "update": name, "updates": [{ "q": {}, "u": { "$set": { "a": 1 } } }] },
            doc! { "delete": name, "deletes": [{ "q": {}, "limit": 0 }] },
            doc! { "findAndModify": name, "remove": true },
        ]
    };
    for (name, code, text) in [
        ("system.views", 73, "cannot write to test.system.views"),
        ("system.profile", 73, "cannot write to test.system.profile"),
        ("system.foo", 73, "Invalid system namespace: test.system.foo"),
        ("system.roles", 73, "Invalid system namespace: test.system.roles"),
        ("a.system.b", 2, "Invalid namespace: test.a.system.b"),
    ] {
        for command in writes(name) {
            assert_eq!(refused(client, command.clone()), (code, text.to_owned()), "{command:?}");
        }
    }
    for name in ["system.js", "system.users"] {
        let reply =
            client.run("test", doc! { "delete": name, "deletes": [{ "q": {}, "limit": 0 }] }).unwrap();
        assert_eq!(reply.as_doc().get("n"), Some(Value::Int32(0)), "{reply:?}");
    }
}

#[test]
fn arguments_of_the_wrong_type_are_refused_with_mongodb_texts() {
    let server = filled();
    let client = &mut server.client();
    let number = "maxTimeMS must be a number";
    let boolean = "Field 'singleBatch' should be a boolean value, but found: int";
    for (command, code, text) in [
        (doc! { "find": "c", "maxTimeMS": 1.5 }, 2, "maxTimeMS has non-integral value"),
        (doc! { "find": "c", "maxTimeMS": "1" }, 2, number),
        (doc! { "find": "c", "maxTimeMS": true }, 2, number),
        (doc! { "find": "c", "maxTimeMS": Value::Null }, 2, number),
        (doc! { "find": "c", "maxTimeMS": -1 }, 2, "-1 value for maxTimeMS is out of range [0, 2147483647]"),
        (doc! { "find": "c", "singleBatch": 1 }, 14, boolean),
        (
            doc! { "find": "c", "tailable": 1 },
            14,
            "Field 'tailable' should be a boolean value, but found: int",
        ),
        (
            doc! { "collStats": "c", "scale": 0 },
            51024,
            "BSON field 'scale' value must be >= 1, actual value '0'",
        ),
        (
            doc! { "dbStats": 1, "scale": -2 },
            51024,
            "BSON field 'scale' value must be >= 1, actual value '-2'",
        ),
        (
            doc! { "dbStats": 1, "scale": "x" },
            14,
            "BSON field 'dbStats.scale' is the wrong type 'string', expected types '[long, int, decimal, double]'",
        ),
    ] {
        assert_eq!(refused(client, command.clone()), (code, text.to_owned()), "{command:?}");
    }
    for (options, code) in [
        (doc! { "scale": 0 }, 51024),
        (doc! { "scale": -1.5 }, 51024),
        (doc! { "scale": "x" }, 14),
        (doc! { "verbose": "x" }, 14),
        (doc! { "colour": 1 }, 40415),
    ] {
        let pipeline = doc! { "$collStats": { "storageStats": &options } };
        let command = doc! { "aggregate": "c", "pipeline": [pipeline], "cursor": {} };
        assert_eq!(refused(client, command).0, code, "{options:?}");
    }
}

#[test]
fn positional_projection_without_a_matched_element_is_refused() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    client.run("test", doc! { "insert": "c", "documents": [{ "_id": 1, "v": [42, "foo"] }] }).unwrap();
    let during = "Executor error during find command: test.c :: caused by :: positional operator '.$'";
    for (filter, projection, code, text) in [
        (
            doc! {},
            doc! { "v.$": 1 },
            51246,
            format!("{during} couldn't find a matching element in the array"),
        ),
        (doc! { "v": 42 }, doc! { "v.foo.$": 1 }, 51247, format!("{during} element mismatch")),
        (doc! { "$expr": true }, doc! { "v.$": 1 }, 224, "$expr is not allowed in this context".to_owned()),
        (
            doc! { "v": 42, "$or": [{ "$expr": true }] },
            doc! { "v.$": 1 },
            224,
            "$expr is not allowed in this context".to_owned(),
        ),
    ] {
        let find = doc! { "find": "c", "filter": filter, "projection": projection };
        assert_eq!(refused(client, find.clone()), (code, text), "{find:?}");
    }
    // A projection of a field that no condition names is accepted if the document has no such array.
    let find = doc! { "find": "c", "filter": { "v": 42 }, "projection": { "w.$": 1 } };
    assert_eq!(client.run("test", find).unwrap().as_doc().get("ok"), Some(Value::Double(1.0)));
}

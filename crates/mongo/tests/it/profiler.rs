//! The profiler: which commands have entries in `system.profile`, and the fields of the entries.

use diwan_testkit::{TestClient, TestServer};
use diwan_value::{DocBuf, Value, array, doc};

fn run(client: &mut TestClient, command: DocBuf) -> DocBuf {
    let reply = client.run("test", command).unwrap();
    assert_eq!(reply.as_doc().get("ok"), Some(Value::Double(1.0)), "{reply:?}");
    reply
}

fn refused(client: &mut TestClient, command: DocBuf) -> (i64, String) {
    let reply = client.run("test", command).unwrap();
    let reply = reply.as_doc();
    let code = reply.get("code").and_then(Value::as_i64_exact).unwrap();
    (code, reply.get_str("errmsg").unwrap().to_owned())
}

/// The entries, oldest first, without those of this query itself.
fn entries(client: &mut TestClient) -> Vec<DocBuf> {
    let filter = doc! { "ns": { "$ne": "test.system.profile" } };
    let found = run(client, doc! { "find": "system.profile", "filter": filter, "sort": { "$natural": 1 } });
    let batch = found.as_doc().get_doc("cursor").unwrap().get_array("firstBatch").unwrap();
    batch.iter().map(|entry| entry.as_doc().unwrap().to_owned()).collect()
}

/// Kind and namespace of every entry, and its counts with these `names`.
fn shown(entries: &[DocBuf], names: &[&str]) -> Vec<String> {
    let show = |entry: &DocBuf| {
        let entry = entry.as_doc();
        let mut shown = format!("{} {}", entry.get_str("op").unwrap(), entry.get_str("ns").unwrap());
        for name in names {
            if let Some(count) = entry.get(name).and_then(Value::as_i64_exact) {
                shown.push_str(&format!(" {name}={count}"));
            }
        }
        shown
    };
    entries.iter().map(show).collect()
}

#[test]
fn level_2_records_every_command_on_a_collection() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    let reply = run(client, doc! { "profile": 2 });
    let reply = reply.as_doc();
    assert_eq!(reply.get("was").and_then(Value::as_i64_exact), Some(0));
    assert_eq!(reply.get("slowms").and_then(Value::as_i64_exact), Some(100));
    assert_eq!(reply.get("sampleRate"), Some(Value::Double(1.0)));
    run(client, doc! { "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }, { "_id": 3 }] });
    let updates = array![
        { "q": { "_id": 1 }, "u": { "$set": { "a": 1 } } },
        { "q": { "_id": 9 }, "u": { "$set": { "a": 1 } }, "upsert": true },
    ];
    run(client, doc! { "update": "c", "updates": updates });
    run(client, doc! { "find": "c", "batchSize": 3, "comment": "all of them" });
    run(client, doc! { "aggregate": "c", "pipeline": [{ "$limit": 2 }], "cursor": {} });
    run(client, doc! { "findAndModify": "c", "query": { "_id": 2 }, "remove": true });
    run(client, doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 0 }] });
    let (ops, infos) = (array![{ "insert": 0, "document": { "_id": 7 } }], array![{ "ns": "test.c" }]);
    client.run("admin", doc! { "bulkWrite": 1, "ops": ops, "nsInfo": infos }).unwrap();
    run(client, doc! { "ping": 1 });
    assert_eq!(refused(client, doc! { "find": "c", "filter": { "$no": 1 } }).0, 2);
    run(client, doc! { "profile": 0 });
    run(client, doc! { "count": "c" });
    let entries = entries(client);
    let names = ["ninserted", "nMatched", "nModified", "nUpserted", "nreturned", "ndeleted", "errCode"];
    let expected = [
        "insert test.c ninserted=3",
        "update test.c nMatched=1 nModified=1 nUpserted=0",
        "update test.c nMatched=0 nModified=0 nUpserted=1",
        "query test.c nreturned=3",
        "command test.c nreturned=2",
        "command test.c ndeleted=1",
        "remove test.c ndeleted=3",
        "insert test.c ninserted=1",
        "query test.c errCode=2",
    ];
    assert_eq!(shown(&entries, &names), expected);
    let find = entries[3].as_doc();
    assert_eq!(find.get_doc("command").unwrap().get_str("comment"), Some("all of them"));
    assert!(find.get("cursorid").is_some() && find.get("ts").is_some() && find.get("millis").is_some());
    assert_eq!(find.get_str("planSummary"), Some("COLLSCAN"));
    assert_eq!(find.get("docsExamined").and_then(Value::as_i64_exact), Some(3));
    assert_eq!(entries[1].as_doc().get_str("planSummary"), Some("EXPRESS_IXSCAN { _id: 1 }"));
    let update = entries[2].as_doc().get_doc("command").unwrap();
    assert_eq!(
        update,
        doc! { "q": { "_id": 9 }, "u": { "$set": { "a": 1 } }, "multi": false, "upsert": true }.as_doc()
    );
}

#[test]
fn level_1_records_slow_commands_or_those_the_filter_selects() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    run(client, doc! { "profile": 1 });
    run(client, doc! { "count": "quick" });
    run(client, doc! { "profile": 1, "slowms": -1 });
    run(client, doc! { "count": "slow" });
    run(client, doc! { "profile": 1, "sampleRate": 0.0 });
    run(client, doc! { "count": "left out" });
    let reply =
        run(client, doc! { "profile": 1, "filter": { "ns": "test.told", "command.query.a": { "$gt": 1 } } });
    assert!(
        reply
            .as_doc()
            .get_str("note")
            .is_some_and(|note| note.starts_with("When a filter expression is set"))
    );
    run(client, doc! { "count": "told", "query": { "a": 1 } });
    run(client, doc! { "count": "told", "query": { "a": 2 } });
    let reply = run(client, doc! { "profile": -1 });
    assert_eq!(reply.as_doc().get("was").and_then(Value::as_i64_exact), Some(1));
    assert!(reply.as_doc().get_doc("filter").is_some());
    run(client, doc! { "profile": 0, "filter": "unset", "slowms": 100, "sampleRate": 1 });
    assert_eq!(shown(&entries(client), &[]), ["command test.slow", "command test.told"]);
    let (code, text) = refused(client, doc! { "profile": 0, "sampleRate": 2 });
    assert_eq!((code, text.as_str()), (2, "'sampleRate' must be between 0.0 and 1.0 inclusive"));
    assert_eq!(refused(client, doc! { "profile": 0, "other": 2 }).0, 40415);
    assert_eq!(refused(client, doc! { "profile": 1, "filter": { "$no": 2 } }).0, 2);
}

#[test]
fn clients_cannot_write_or_drop_active_profile_collections() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    run(client, doc! { "profile": 2 });
    run(client, doc! { "collMod": "system.profile" });
    for command in [
        doc! { "insert": "system.profile", "documents": [{ "a": 1 }] },
        doc! { "update": "system.profile", "updates": [{ "q": {}, "u": { "a": 1 } }] },
        doc! { "delete": "system.profile", "deletes": [{ "q": {}, "limit": 0 }] },
        doc! { "findAndModify": "system.profile", "remove": true },
    ] {
        let (code, text) = refused(client, command);
        assert_eq!((code, text.as_str()), (73, "cannot write to test.system.profile"));
    }
    let (code, text) = refused(client, doc! { "drop": "system.profile" });
    assert_eq!((code, text.as_str()), (20, "turn off profiling before dropping system.profile collection"));
    run(client, doc! { "dropDatabase": 1 });
    let reply = run(client, doc! { "profile": -1 });
    assert_eq!(reply.as_doc().get("was").and_then(Value::as_i64_exact), Some(0));
    let listed = run(client, doc! { "listCollections": 1 });
    let batch = listed.as_doc().get_doc("cursor").unwrap().get_array("firstBatch").unwrap();
    assert_eq!(batch.iter().count(), 0, "the database stays dropped");
    run(client, doc! { "profile": 2 });
    run(client, doc! { "profile": 0 });
    run(client, doc! { "drop": "system.profile" });
}

#[test]
fn entries_have_plans_and_examined_counts() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    let documents: Vec<DocBuf> = (0..10).map(|n| doc! { "_id": n, "a": n % 2, "b": n }).collect();
    run(client, doc! { "insert": "c", "documents": documents });
    run(client, doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1, "b": -1 }, "name": "ab" }] });
    run(client, doc! { "profile": 2 });
    let found =
        run(client, doc! { "find": "c", "filter": { "a": 1 }, "projection": { "x": 1 }, "batchSize": 2 });
    let id = found.as_doc().get_doc("cursor").unwrap().get("id").unwrap();
    run(client, doc! { "getMore": id, "collection": "c" });
    run(client, doc! { "count": "c", "query": { "b": 1 } });
    run(
        client,
        doc! { "update": "c", "updates": [{ "q": { "a": 0 }, "u": { "$inc": { "c": 1 } }, "multi": true }] },
    );
    let or = array![{ "_id": 3 }, { "a": 1, "b": { "$gt": 8 } }];
    run(client, doc! { "find": "c", "filter": { "$or": or } });
    let lookup = doc! { "from": "c", "localField": "_id", "foreignField": "_id", "as": "same" };
    run(client, doc! { "aggregate": "c", "pipeline": [{ "$lookup": lookup }], "cursor": {} });
    run(client, doc! { "profile": 0 });
    let shown: Vec<String> = entries(client)
        .iter()
        .map(|entry| {
            let entry = entry.as_doc();
            let number = |name| entry.get(name).and_then(Value::as_i64_exact).unwrap();
            let plan = entry.get_str("planSummary").unwrap();
            format!("{plan} {} {}", number("keysExamined"), number("docsExamined"))
        })
        .collect();
    let expected = [
        "IXSCAN { a: 1, b: -1 } 2 2",
        "IXSCAN { a: 1, b: -1 } 3 3",
        "COLLSCAN 0 10",
        "IXSCAN { a: 1, b: -1 } 5 5",
        "EXPRESS_IXSCAN { _id: 1 }, IXSCAN { a: 1, b: -1 } 2 2",
        "COLLSCAN, EXPRESS_IXSCAN { _id: 1 } 10 20",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn tailing_the_profile_collection_records_one_entry() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    run(client, doc! { "profile": 2 });
    let filter = doc! { "op": "nothing" };
    let find = doc! { "find": "system.profile", "filter": filter, "tailable": true, "awaitData": true };
    let found = run(client, find);
    let id = found.as_doc().get_doc("cursor").unwrap().get("id").unwrap();
    run(client, doc! { "getMore": id, "collection": "system.profile", "maxTimeMS": 300 });
    let counted = run(client, doc! { "count": "system.profile", "query": { "op": "getmore" } });
    assert_eq!(counted.as_doc().get("n").and_then(Value::as_i64_exact), Some(1));
}

#[test]
fn entries_are_abbreviated_and_their_collection_is_capped() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    run(client, doc! { "create": "system.profile" });
    let (code, text) = refused(client, doc! { "profile": 2 });
    assert_eq!((code, text.as_str()), (48, "test.system.profile exists but isn't capped"));
    run(client, doc! { "drop": "system.profile" });
    run(client, doc! { "profile": 2 });
    let long = "x".repeat(2 << 20);
    let updates = array![
        { "q": { "_id": 1 }, "u": { "text": long.as_str() }, "upsert": true, "collation": { "locale": "en" } },
        { "q": { "a": 1 }, "u": { "$set": { "b": 1 } } },
    ];
    run(client, doc! { "update": "c", "updates": updates });
    let modify = doc! { "findAndModify": "c", "query": { "_id": 2 }, "update": { "a": 1 }, "upsert": true };
    run(client, modify);
    let ops = array![{ "insert": 0, "document": { "_id": 1 } }, { "insert": 0, "document": { "_id": 9 } }];
    let bulk = doc! { "bulkWrite": 1, "ops": ops, "nsInfo": [{ "ns": "test.c" }] };
    client.run("admin", bulk).unwrap();
    run(client, doc! { "profile": 0 });
    let entries = entries(client);
    let names = ["nMatched", "nUpserted", "ninserted"];
    let expected = [
        "update test.c nMatched=0 nUpserted=1",
        "update test.c nMatched=0 nUpserted=0",
        "command test.c nUpserted=1",
        "insert test.c ninserted=0",
    ];
    assert_eq!(shown(&entries, &names), expected);
    let plans: Vec<_> = entries[..2].iter().map(|entry| entry.as_doc().get_str("planSummary")).collect();
    assert_eq!(plans, [Some("EXPRESS_IXSCAN { _id: 1 }"), Some("COLLSCAN")]);
    let statement = entries[0].as_doc().get_doc("command").unwrap();
    let expected = doc! {
        "q": { "_id": 1 }, "multi": false, "upsert": true, "collation": { "locale": "en" }, "$truncated": true
    };
    assert_eq!(statement, expected.as_doc());
}

//! Statistics and parameters: sizes, counts, latencies.

use diwan_testkit::{TestClient, TestServer};
use diwan_value::{Doc, DocBuf, Value, doc};

fn run(client: &mut TestClient, database: &str, command: DocBuf) -> DocBuf {
    let reply = client.run(database, command).unwrap();
    assert_eq!(reply.as_doc().get("ok"), Some(Value::Double(1.0)), "{reply:?}");
    reply
}

fn fill(client: &mut TestClient) {
    let documents: Vec<DocBuf> = (0..200).map(|n| doc! { "_id": n, "text": "x".repeat(200) }).collect();
    run(client, "test", doc! { "insert": "c", "documents": documents });
    let index = doc! { "key": { "text": 1 }, "name": "text_1" };
    run(client, "test", doc! { "createIndexes": "c", "indexes": [index] });
}

fn number(doc: Doc<'_>, key: &str) -> f64 {
    match doc.get(key) {
        Some(Value::Int32(number)) => number.into(),
        Some(Value::Int64(number)) => number as f64,
        Some(Value::Double(number)) => number,
        other => panic!("{key}: {other:?}"),
    }
}

#[test]
fn sizes_include_unflushed_writes() {
    for server in [TestServer::in_memory(), TestServer::on_disk()] {
        let client = &mut server.client();
        fill(client);
        let stats = run(client, "test", doc! { "collStats": "c" });
        let stats = stats.as_doc();
        assert!(number(stats, "storageSize") > 1000.0, "{stats:?}");
        assert!(number(stats, "totalIndexSize") > 0.0, "{stats:?}");
        for name in ["size", "count", "avgObjSize", "storageSize", "totalSize", "scaleFactor", "nindexes"] {
            assert!(matches!(stats.get(name), Some(Value::Int32(_))), "{name}: {stats:?}");
        }
        let sizes = stats.get_doc("indexSizes").unwrap();
        assert!(number(sizes, "_id_") == 0.0 && number(sizes, "text_1") > 0.0, "{sizes:?}");
        let scaled = run(client, "test", doc! { "collStats": "c", "scale": 1024 });
        assert!(number(scaled.as_doc(), "size") < number(stats, "size") / 1000.0);
        let stats = run(client, "test", doc! { "dbStats": 1, "freeStorage": 1 });
        assert!(number(stats.as_doc(), "storageSize") > 1000.0, "{stats:?}");
        for name in ["freeStorageSize", "indexFreeStorageSize", "totalFreeStorageSize"] {
            assert_eq!(stats.as_doc().get(name), Some(Value::Double(0.0)));
        }
        let stats = run(client, "test", doc! { "dbStats": 1 });
        assert!(!stats.as_doc().contains_key("freeStorageSize"));
        let list = run(client, "admin", doc! { "listDatabases": 1 });
        let first = list.as_doc().get_array("databases").unwrap().get(0).and_then(Value::as_doc).unwrap();
        assert!(number(first, "sizeOnDisk") > 1000.0, "{list:?}");
    }
}

#[test]
fn index_stats_and_coll_stats_name_the_host() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    fill(client);
    let port = format!(":{}", server.address().port());
    for stage in [doc! { "$indexStats": {} }, doc! { "$collStats": { "count": {} } }] {
        let reply = run(client, "test", doc! { "aggregate": "c", "pipeline": [&stage], "cursor": {} });
        let batch = reply.as_doc().get_doc("cursor").unwrap().get_array("firstBatch").unwrap();
        let host = batch.get(0).and_then(Value::as_doc).unwrap().get_str("host").unwrap().to_owned();
        assert!(host.len() > port.len() && host.ends_with(&port), "{host}");
    }
}

#[test]
fn explain_adds_the_database_to_the_command_once() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    fill(client);
    let aggregate = doc! { "aggregate": "c", "pipeline": [], "cursor": {}, "explain": true };
    for command in [doc! { "explain": { "find": "c" } }, aggregate] {
        let reply = run(client, "test", command);
        let shown = reply.as_doc().get_doc("command").unwrap();
        assert_eq!(shown.iter().filter(|element| element.key == b"$db").count(), 1, "{shown:?}");
        assert_eq!(shown.get_str("$db"), Some("test"));
    }
    let explain = doc! { "explain": { "find": "c", "limit": 2 }, "verbosity": "executionStats" };
    let reply = run(client, "test", explain);
    let stages = reply.as_doc().get_doc("executionStats").unwrap().get_doc("executionStages").unwrap();
    for name in ["limitAmount", "nReturned", "works"] {
        assert!(matches!(stages.get(name), Some(Value::Int32(_))), "{name}: {stages:?}");
    }
}

#[test]
fn server_status_counts_collections_and_cursors() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    fill(client);
    run(client, "test", doc! { "create": "v", "viewOn": "c", "pipeline": [] });
    run(client, "test", doc! { "create": "log", "capped": true, "size": 10_000 });
    run(client, "admin", doc! { "create": "own" });
    let open = |client: &mut TestClient| {
        let reply = run(client, "test", doc! { "find": "c", "batchSize": 2 });
        reply.as_doc().get_doc("cursor").unwrap().get("id").and_then(Value::as_i64_exact).unwrap()
    };
    let (read, left) = (open(client), open(client));
    run(client, "test", doc! { "getMore": read, "collection": "c", "batchSize": 2 });
    run(client, "test", doc! { "killCursors": "c", "cursors": [read] });
    let status = run(client, "admin", doc! { "serverStatus": 1 });
    let catalog = status.as_doc().get_doc("catalogStats").unwrap();
    for (name, count) in
        [("collections", 2), ("capped", 1), ("views", 1), ("internalCollections", 1), ("internalViews", 0)]
    {
        assert_eq!(catalog.get(name), Some(Value::Int32(count)), "{name}");
    }
    let cursor = status.as_doc().get_doc("metrics").unwrap().get_doc("cursor").unwrap();
    for (name, count) in [("totalOpened", 2), ("moreThanOneBatch", 1), ("timedOut", 0)] {
        assert_eq!(cursor.get(name), Some(Value::Int64(count)), "{name}");
    }
    let open = cursor.get_doc("open").unwrap();
    assert_eq!((open.get("total"), open.get("pinned")), (Some(Value::Int64(1)), Some(Value::Int64(0))));
    let lifespans = cursor.get_doc("lifespan").unwrap();
    assert_eq!(lifespans.iter().filter_map(|class| class.value().as_i64_exact()).sum::<i64>(), 1);
    assert!(left > 0);
}

#[test]
fn get_parameter_selects_by_name_and_by_when_it_can_be_set() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    let reply = run(client, "admin", doc! { "getParameter": 1, "quiet": 1 });
    assert_eq!(reply.as_doc().get("quiet"), Some(Value::Boolean(false)));
    let detailed = doc! { "getParameter": { "showDetails": true }, "quiet": 1 };
    let reply = run(client, "admin", detailed);
    assert_eq!(reply.as_doc().get_doc("quiet").unwrap().get("value"), Some(Value::Boolean(false)));
    let settable = doc! { "getParameter": { "allParameters": true, "setAt": "runtime" } };
    let reply = run(client, "admin", settable);
    assert!(reply.as_doc().contains_key("cursorTimeoutMillis") && !reply.as_doc().contains_key("quiet"));
    for command in [
        doc! { "getParameter": 1 },
        doc! { "getParameter": "quiet" },
        doc! { "getParameter": 1, "colour": 1 },
        doc! { "getParameter": { "setAt": "startup" }, "cursorTimeoutMillis": 1 },
    ] {
        let reply = client.run("admin", command.clone()).unwrap();
        assert_eq!(reply.as_doc().get("code"), Some(Value::Int32(72)), "{command:?}");
        assert_eq!(reply.as_doc().get_str("errmsg"), Some("no option found to get"));
    }
    let wrong = client.run("admin", doc! { "getParameter": { "setAt": "noon" }, "quiet": 1 }).unwrap();
    assert_eq!(wrong.as_doc().get("code"), Some(Value::Int32(2)));
}

#[test]
fn coll_stats_reports_latencies_and_collection_scans() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    fill(client);
    for filter in [doc! { "_id": 1 }, doc! { "text": "y" }, doc! { "other": 1 }] {
        run(client, "test", doc! { "find": "c", "filter": filter });
    }
    let mut stats = |options: DocBuf| {
        let pipeline = [doc! { "$collStats": options }];
        let reply = client
            .run("test", doc! { "aggregate": "c", "pipeline": pipeline.to_vec(), "cursor": {} })
            .unwrap();
        let cursor = reply.as_doc().get_doc("cursor").map(Doc::to_owned);
        let first = cursor.as_ref().and_then(|cursor| cursor.as_doc().get_array("firstBatch")?.get(0));
        first.and_then(Value::as_doc).map(Doc::to_owned).ok_or(reply)
    };
    let found = stats(doc! { "latencyStats": { "histograms": true }, "queryExecStats": {} }).unwrap();
    let latencies = found.as_doc().get_doc("latencyStats").unwrap();
    for (class, count) in [("reads", 3.0), ("writes", 2.0), ("commands", 0.0), ("transactions", 0.0)] {
        let latency = latencies.get_doc(class).unwrap();
        assert_eq!(number(latency, "ops"), count, "{class}");
        let buckets = latency.get_array("histogram").unwrap();
        let counted: f64 = buckets.iter().map(|bucket| number(bucket.as_doc().unwrap(), "count")).sum();
        assert_eq!(counted, count, "{class}");
    }
    let scans = found.as_doc().get_doc("queryExecStats").unwrap().get_doc("collectionScans").unwrap();
    assert_eq!((number(scans, "total"), number(scans, "nonTailable")), (1.0, 1.0));
    let found = stats(doc! { "latencyStats": {} }).unwrap();
    let reads = found.as_doc().get_doc("latencyStats").unwrap().get_doc("reads").unwrap();
    assert!(!reads.contains_key("histogram") && number(reads, "ops") > 3.0);
    for (options, code) in [(doc! { "histograms": 1 }, 14), (doc! { "colour": 1 }, 40415)] {
        let refused = stats(doc! { "latencyStats": options }).unwrap_err();
        assert_eq!(refused.as_doc().get("code"), Some(Value::Int32(code)));
    }
}

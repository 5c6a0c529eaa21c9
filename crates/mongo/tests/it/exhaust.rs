//! Several replies to one message: exhaust cursors, and hellos that wait or stream.

use diwan_mongo::{Options, Topology};
use diwan_testkit::{Reply, TestClient, TestServer};
use diwan_value::{Doc, DocBuf, ObjectId, Value, doc};
use std::time::{Duration, Instant};

/// The flag `exhaustAllowed`: the client accepts several replies.
const EXHAUST_ALLOWED: u32 = 1 << 16;

fn code(reply: &DocBuf) -> Option<i64> {
    reply.as_doc().get("code").and_then(Value::as_i64_exact)
}

/// Opens a cursor over `count` documents, with an empty first batch.
fn open(client: &mut TestClient, count: i32) -> i64 {
    let documents: Vec<DocBuf> = (0..count).map(|n| doc! { "_id": n }).collect();
    client.run("test", doc! { "insert": "c", "documents": documents }).unwrap();
    let reply = client.run("test", doc! { "find": "c", "batchSize": 0 }).unwrap();
    reply.as_doc().get_doc("cursor").unwrap().get("id").and_then(Value::as_i64_exact).unwrap()
}

fn ids(batch: Doc<'_>) -> Vec<i64> {
    let documents = batch.get_doc("cursor").unwrap().get_array("nextBatch").unwrap();
    documents.iter().filter_map(|doc| doc.as_doc()?.get("_id")?.as_i64_exact()).collect()
}

#[test]
fn exhaust_get_more_sends_every_batch() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    let id = open(client, 10);
    client.send("test", doc! { "getMore": id, "collection": "c", "batchSize": 4 }, EXHAUST_ALLOWED).unwrap();
    let mut found = Vec::new();
    let mut previous = None;
    for at in 0..3 {
        let reply = client.receive_reply().unwrap();
        found.extend(ids(reply.document.as_doc()));
        assert_eq!(reply.more_to_come, at < 2);
        if let Some(previous) = previous {
            assert_eq!(reply.response_to, previous);
        }
        previous = Some(reply.number);
    }
    assert_eq!(found, (0..10).collect::<Vec<i64>>());
    // The connection can be used as before.
    let ping = client.run("test", doc! { "ping": 1 }).unwrap();
    assert_eq!(ping.as_doc().get("ok"), Some(Value::Double(1.0)));
}

#[test]
fn get_more_without_the_exhaust_flag_sends_one_reply() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    let id = open(client, 10);
    client.send("test", doc! { "getMore": id, "collection": "c", "batchSize": 4 }, 0).unwrap();
    assert!(!client.receive_reply().unwrap().more_to_come);
    assert_eq!(code(&client.run("test", doc! { "ping": 1 }).unwrap()), None);
}

#[test]
fn exhaust_ends_with_the_error_of_a_killed_cursor() {
    let server = TestServer::in_memory();
    let (client, other) = (&mut server.client(), &mut server.client());
    client.run("test", doc! { "create": "log", "capped": true, "size": 10_000 }).unwrap();
    client.run("test", doc! { "insert": "log", "documents": [{ "_id": 1 }] }).unwrap();
    let find = doc! { "find": "log", "tailable": true, "awaitData": true, "batchSize": 1 };
    let reply = client.run("test", find).unwrap();
    let id = reply.as_doc().get_doc("cursor").unwrap().get("id").and_then(Value::as_i64_exact).unwrap();
    let more = doc! { "getMore": id, "collection": "log", "maxTimeMS": 10 };
    client.send("test", more, EXHAUST_ALLOWED).unwrap();
    for _ in 0..2 {
        assert!(client.receive_reply().unwrap().more_to_come);
    }
    other.run("test", doc! { "killCursors": "anything", "cursors": [id] }).unwrap();
    let last = loop {
        let reply = client.receive_reply().unwrap();
        if !reply.more_to_come {
            break reply;
        }
    };
    // The server was waiting for news of the cursor, or was about to read it.
    assert!(matches!(code(&last.document), Some(43 | 237)));
}

/// The topology version in the reply to a hello.
fn version(reply: &DocBuf) -> DocBuf {
    reply.as_doc().get_doc("topologyVersion").unwrap_or_else(|| panic!("{reply:?}")).to_owned()
}

#[test]
fn hello_waits_while_the_client_knows_the_topology() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    let known = version(&client.run("admin", doc! { "hello": 1 }).unwrap());
    let awaited = |version: &DocBuf, millis: i32| {
        doc! { "hello": 1, "topologyVersion": version, "maxAwaitTimeMS": millis }
    };
    let begun = Instant::now();
    let reply = client.run("admin", awaited(&known, 300)).unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(300), "{:?}", begun.elapsed());
    assert_eq!(version(&reply), known);
    // A driver that knows the topology of another process gets its reply at once.
    let begun = Instant::now();
    let other = doc! { "processId": ObjectId([7; 12]), "counter": 5i64 };
    assert_eq!(version(&client.run("admin", awaited(&other, 60_000)).unwrap()), known);
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn waiting_hellos_do_not_block_other_clients() {
    let server = TestServer::in_memory();
    let known = version(&server.client().run("admin", doc! { "hello": 1 }).unwrap());
    let hello = doc! { "hello": 1, "topologyVersion": &known, "maxAwaitTimeMS": i64::MAX };
    let mut waiting: Vec<TestClient> = (0..300).map(|_| server.client()).collect();
    for client in &mut waiting {
        client.send("admin", hello.clone(), 0).unwrap();
    }
    assert_eq!(code(&server.client().run("test", doc! { "ping": 1 }).unwrap()), None);
}

#[test]
fn waiting_hello_ends_when_its_client_disconnects() {
    let server = TestServer::in_memory();
    let known = version(&server.client().run("admin", doc! { "hello": 1 }).unwrap());
    let mut waiting = server.client();
    let hello = doc! { "hello": 1, "topologyVersion": &known, "maxAwaitTimeMS": i64::MAX };
    waiting.send("admin", hello, 0).unwrap();
    drop(waiting);
    let begun = Instant::now();
    while server.connections() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the connection stays");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn streamed_hello_sends_a_reply_per_interval() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    let stale = doc! { "processId": ObjectId([7; 12]), "counter": 0i64 };
    let hello = doc! { "hello": 1, "topologyVersion": stale, "maxAwaitTimeMS": 20 };
    client.send("admin", hello, EXHAUST_ALLOWED).unwrap();
    let mut previous = client.receive_reply().unwrap();
    assert!(previous.more_to_come);
    let time = |reply: &Reply| match reply.document.as_doc().get("localTime") {
        Some(Value::DateTime(millis)) => millis,
        other => panic!("{other:?}"),
    };
    for _ in 0..3 {
        let reply = client.receive_reply().unwrap();
        assert!(reply.more_to_come && reply.response_to == previous.number);
        assert_eq!(version(&reply.document), version(&previous.document));
        // The first reply has told the topology of now: the others wait.
        assert!(time(&reply) - time(&previous) >= 19, "{} {}", time(&previous), time(&reply));
        previous = reply;
    }
}

#[test]
fn hello_refuses_incomplete_topology_arguments() {
    for (topology, codes) in [
        (Topology::ReplicaSet, [31368, 31368, 31372, 31382]),
        (Topology::Standalone, [31368, 31368, 31372, 31382]),
        (Topology::Mongos, [51760, 51760, 51758, 51761]),
    ] {
        let server = TestServer::with_options(Options { topology, ..Options::default() });
        let client = &mut server.client();
        let known = version(&client.run("admin", doc! { "hello": 1 }).unwrap());
        let process = known.as_doc().get("processId").unwrap();
        let versioned = |counter: i64| doc! { "processId": process, "counter": counter };
        for (hello, expected) in [
            (doc! { "hello": 1, "topologyVersion": &known }, codes[0]),
            (doc! { "hello": 1, "maxAwaitTimeMS": 0 }, codes[1]),
            (doc! { "hello": 1, "topologyVersion": versioned(-1), "maxAwaitTimeMS": 0 }, codes[2]),
            (doc! { "hello": 1, "topologyVersion": versioned(1), "maxAwaitTimeMS": 0 }, codes[3]),
            (doc! { "hello": 1, "topologyVersion": &known, "maxAwaitTimeMS": -1 }, 51024),
            (doc! { "hello": 1, "topologyVersion": &known, "maxAwaitTimeMS": "1" }, 14),
            (doc! { "hello": 1, "topologyVersion": "x", "maxAwaitTimeMS": 0 }, 14),
            (doc! { "hello": 1, "topologyVersion": { "counter": 0i64 }, "maxAwaitTimeMS": 0 }, 40414),
            (doc! { "isMaster": 1, "topologyVersion": { "processId": process }, "maxAwaitTimeMS": 0 }, 40414),
            (
                doc! { "hello": 1, "topologyVersion": { "processId": process, "counter": 0 }, "maxAwaitTimeMS": 0 },
                14,
            ),
            (
                doc! {
                    "hello": 1,
                    "topologyVersion": { "processId": process, "counter": 0i64, "x": 1 },
                    "maxAwaitTimeMS": 0
                },
                40415,
            ),
        ] {
            assert_eq!(code(&client.run("admin", hello.clone()).unwrap()), Some(expected), "{hello:?}");
        }
        client.send("admin", doc! { "hello": 1 }, EXHAUST_ALLOWED).unwrap();
        let expected = if topology == Topology::Mongos { 51763 } else { 51756 };
        assert_eq!(code(&client.receive().unwrap()), Some(expected));
    }
}

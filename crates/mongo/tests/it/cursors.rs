//! Cursors over several batches.

use diwan_testkit::{TestClient, TestServer};
use diwan_value::{DocBuf, Value, doc};

fn fill(client: &mut TestClient, count: i32) {
    let documents: Vec<DocBuf> = (0..count).map(|n| doc! { "_id": n }).collect();
    client.run("test", doc! { "insert": "c", "documents": documents }).unwrap();
}

/// The number of the cursor, and the number of documents in the batch.
fn batch(reply: &DocBuf, name: &str) -> (i64, usize) {
    let cursor = reply.as_doc().get_doc("cursor").unwrap_or_else(|| panic!("{reply:?}"));
    let id = cursor.get("id").and_then(Value::as_i64_exact).unwrap();
    (id, cursor.get_array(name).unwrap().count())
}

#[test]
fn get_more_returns_every_batch_and_then_cursor_not_found() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    fill(client, 250);
    let first = client.run("test", doc! { "find": "c" }).unwrap();
    let (id, count) = batch(&first, "firstBatch");
    assert!(id > 0 && count == 101);
    let more = client.run("test", doc! { "getMore": id, "collection": "c", "batchSize": 100 }).unwrap();
    assert_eq!(batch(&more, "nextBatch"), (id, 100));
    let last = client.run("test", doc! { "getMore": id, "collection": "c" }).unwrap();
    assert_eq!(batch(&last, "nextBatch"), (0, 49));
    let gone = client.run("test", doc! { "getMore": id, "collection": "c" }).unwrap();
    assert_eq!(gone.as_doc().get("code"), Some(Value::Int32(43)));
}

#[test]
fn limit_reached_in_the_first_batch_closes_the_cursor() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    fill(client, 10);
    let reply = client.run("test", doc! { "find": "c", "limit": 5 }).unwrap();
    assert_eq!(batch(&reply, "firstBatch"), (0, 5));
    let reply = client.run("test", doc! { "find": "c", "batchSize": 0 }).unwrap();
    let (id, count) = batch(&reply, "firstBatch");
    assert!(id > 0 && count == 0);
    let killed = client.run("test", doc! { "killCursors": "c", "cursors": [id, 77i64] }).unwrap();
    assert_eq!(killed.as_doc().get_array("cursorsKilled").unwrap().count(), 1);
    assert_eq!(killed.as_doc().get_array("cursorsNotFound").unwrap().count(), 1);
}

#[test]
fn kill_cursors_ignores_the_collection() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    fill(client, 10);
    let open = |client: &mut TestClient| {
        batch(&client.run("test", doc! { "find": "c", "batchSize": 2 }).unwrap(), "firstBatch").0
    };
    let (first, second) = (open(client), open(client));
    // A command that is refused closes no cursor.
    let refused = client.run("test", doc! { "killCursors": "c", "cursors": [first, 7] }).unwrap();
    assert_eq!(refused.as_doc().get("code"), Some(Value::Int32(14)));
    let text = "BSON field 'killCursors.cursors.1' is the wrong type 'int', expected type 'long'";
    assert_eq!(refused.as_doc().get_str("errmsg"), Some(text));
    let killed = client.run("other", doc! { "killCursors": "d", "cursors": [77i64, first, second] }).unwrap();
    let ids = |name: &str| -> Vec<i64> {
        killed.as_doc().get_array(name).unwrap().iter().filter_map(Value::as_i64_exact).collect()
    };
    assert_eq!(ids("cursorsKilled"), [first, second]);
    assert_eq!(ids("cursorsNotFound"), [77]);
    for id in [first, second] {
        let gone = client.run("test", doc! { "getMore": id, "collection": "c" }).unwrap();
        assert_eq!(gone.as_doc().get("code"), Some(Value::Int32(43)));
    }
}

#[test]
fn get_more_refuses_another_collection() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    fill(client, 10);
    let reply = client.run("test", doc! { "find": "c", "batchSize": 2 }).unwrap();
    let (id, _) = batch(&reply, "firstBatch");
    let other = client.run("test", doc! { "getMore": id, "collection": "d" }).unwrap();
    assert_eq!(other.as_doc().get("code"), Some(Value::Int32(13)));
}

#[test]
fn await_data_get_more_returns_a_document_inserted_meanwhile() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    client.run("test", doc! { "create": "c", "capped": true, "size": 10_000 }).unwrap();
    fill(client, 1);
    let reply = client.run("test", doc! { "find": "c", "tailable": true, "awaitData": true }).unwrap();
    let (id, count) = batch(&reply, "firstBatch");
    assert!(id > 0 && count == 1);
    let mut writer = server.client();
    let late = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        writer.run("test", doc! { "insert": "c", "documents": [{ "_id": "late" }] }).unwrap();
    });
    let more = client.run("test", doc! { "getMore": id, "collection": "c", "maxTimeMS": 30_000 }).unwrap();
    assert_eq!(batch(&more, "nextBatch"), (id, 1));
    let none = client.run("test", doc! { "getMore": id, "collection": "c", "maxTimeMS": 10 }).unwrap();
    assert_eq!(batch(&none, "nextBatch"), (id, 0));
    late.join().unwrap();
}

/// A filter that takes a long time for each document.
fn slow() -> DocBuf {
    let sum = doc! { "$add": ["$$value", "$$this"] };
    let reduce = doc! { "input": { "$range": [0, 1_000_000] }, "initialValue": "$_id", "in": sum };
    doc! { "$expr": { "$gt": [{ "$reduce": reduce }, 0] } }
}

#[test]
fn max_time_of_a_find_covers_its_batches_and_not_idle_time() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    fill(client, 1000);
    // The first two documents match at once. All the others take longer than the limit on any machine.
    let filter = doc! { "$or": [{ "_id": { "$lt": 2 } }, slow()] };
    let find = doc! { "find": "c", "filter": filter, "batchSize": 1, "maxTimeMS": 3000 };
    let reply = client.run("test", find).unwrap();
    let (id, _) = batch(&reply, "firstBatch");
    // The time between two requests does not count.
    std::thread::sleep(std::time::Duration::from_millis(3100));
    let one = client.run("test", doc! { "getMore": id, "collection": "c", "batchSize": 1 }).unwrap();
    assert_eq!(batch(&one, "nextBatch"), (id, 1));
    let all = client.run("test", doc! { "getMore": id, "collection": "c" }).unwrap();
    assert_eq!(all.as_doc().get("code"), Some(Value::Int32(50)));
    let gone = client.run("test", doc! { "getMore": id, "collection": "c" }).unwrap();
    assert_eq!(gone.as_doc().get("code"), Some(Value::Int32(43)));
}

#[test]
fn command_stops_when_its_client_disconnects() {
    let server = TestServer::in_memory();
    let other = &mut server.client();
    fill(other, 1000);
    let reply = other.run("test", doc! { "find": "c", "filter": slow(), "batchSize": 0 }).unwrap();
    let (id, _) = batch(&reply, "firstBatch");
    let running = |client: &mut TestClient, name: &str| {
        let current = doc! { "currentOp": 1, "command.collection": name };
        let reply = client.run("admin", current).unwrap();
        reply.as_doc().get_array("inprog").unwrap().count()
    };
    let mut client = server.client();
    client.send("test", doc! { "getMore": id, "collection": "c" }, 0).unwrap();
    while running(other, "c") == 0 {
        std::thread::yield_now();
    }
    drop(client);
    let begun = std::time::Instant::now();
    while running(other, "c") > 0 {
        assert!(begun.elapsed().as_secs() < 60, "the operation still runs");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn limit_reached_in_a_later_batch_closes_the_cursor() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    fill(client, 5);
    let first = client.run("test", doc! { "find": "c", "limit": 4, "batchSize": 3 }).unwrap();
    let (id, count) = batch(&first, "firstBatch");
    assert!(id > 0 && count == 3);
    let last = client.run("test", doc! { "getMore": id, "collection": "c", "batchSize": 1 }).unwrap();
    assert_eq!(batch(&last, "nextBatch"), (0, 1));
}

#[test]
fn tailable_cursor_reads_in_insertion_order_with_any_filter() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    client.run("test", doc! { "create": "c", "capped": true, "size": 10_000 }).unwrap();
    client
        .run("test", doc! { "createIndexes": "c", "indexes": [{ "key": { "x": 1 }, "name": "x" }] })
        .unwrap();
    let insert = |client: &mut TestClient, numbers: std::ops::Range<i32>| {
        let documents: Vec<DocBuf> = numbers.map(|n| doc! { "_id": n, "x": n }).collect();
        client.run("test", doc! { "insert": "c", "documents": documents }).unwrap();
    };
    insert(client, 0..5);
    let filters = [
        doc! { "_id": { "$gt": 4 } },
        doc! { "_id": 7 },
        doc! { "x": { "$gte": 6 } },
        doc! { "_id": { "$in": [1, 6] } },
        doc! { "$or": [{ "_id": 9 }, { "x": 8 }] },
    ];
    let mut cursors = Vec::new();
    for filter in filters {
        for hint in [doc! {}, doc! { "$natural": 1 }] {
            let find = doc! { "find": "c", "filter": filter.clone(), "tailable": true, "hint": hint };
            let reply = client.run("test", find).unwrap();
            cursors.push(batch(&reply, "firstBatch"));
        }
    }
    insert(client, 5..10);
    let counts = cursors.into_iter().map(|(id, first)| {
        assert!(id > 0);
        let more = client.run("test", doc! { "getMore": id, "collection": "c" }).unwrap();
        (first, batch(&more, "nextBatch").1)
    });
    let expected = [(0, 5), (0, 1), (0, 4), (1, 1), (0, 2)];
    assert!(counts.eq(expected.into_iter().flat_map(|one| [one, one])));
}

//! The errors that drivers see when the disk is full.

use diwan_kv::{FaultEngine, MemoryEngine};
use diwan_testkit::{TestClient, TestServer};
use diwan_value::{DocBuf, Value, doc};
use std::sync::Arc;

fn code(client: &mut TestClient, command: DocBuf) -> Option<i64> {
    let reply = client.run("test", command).unwrap();
    let doc = reply.as_doc();
    if let Some(code) = doc.get("code") {
        assert_eq!(doc.get("codeName"), Some(Value::String("OutOfDiskSpace")), "{reply:?}");
        return code.as_i64_exact();
    }
    let Some(Value::Array(errors)) = doc.get("writeErrors") else { return None };
    let Some(Value::Document(first)) = errors.iter().next() else { return None };
    first.get("code").and_then(Value::as_i64_exact)
}

#[test]
fn full_disk_refuses_growth_with_14031_and_allows_deletions() {
    let engine = Arc::new(FaultEngine::new(MemoryEngine::new()));
    let server = TestServer::on_engine(engine.clone());
    let client = &mut server.client();
    let insert = |id: i32| doc! { "insert": "c", "documents": [{ "_id": id, "a": 1 }] };
    assert_eq!(code(client, insert(1)), None);
    assert_eq!(code(client, doc! { "create": "other" }), None);
    engine.set_full(true);
    let update = || doc! { "q": {}, "u": { "$set": { "a": 2 } } };
    for command in [
        insert(2),
        doc! { "insert": "new", "documents": [{}] },
        doc! { "update": "c", "updates": [update()] },
        doc! { "findAndModify": "c", "query": {}, "update": { "$set": { "a": 2 } } },
        doc! { "create": "new" },
        doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a" }] },
        doc! { "aggregate": "c", "pipeline": [{ "$out": "new" }], "cursor": {} },
        doc! { "aggregate": "c", "pipeline": [{ "$set": { "a": 2 } }, { "$merge": "c" }], "cursor": {} },
    ] {
        assert_eq!(code(client, command.clone()), Some(14031), "{command:?}");
    }
    for command in [
        doc! { "find": "c" },
        doc! { "delete": "c", "deletes": [{ "q": { "_id": 1 }, "limit": 1 }] },
        doc! { "drop": "other" },
        doc! { "dropDatabase": 1 },
        doc! { "ping": 1 },
    ] {
        assert_eq!(code(client, command.clone()), None, "{command:?}");
    }
    engine.set_full(false);
    assert_eq!(code(client, insert(1)), None);
}

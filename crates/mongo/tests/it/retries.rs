//! Retryable writes: a write that is sent several times is done once.

use diwan_testkit::{TestClient, TestServer};
use diwan_value::{DocBuf, Value, doc};

/// A command with a session and a transaction number.
fn numbered(command: DocBuf, number: i64) -> DocBuf {
    let mut command = command.into_builder();
    command.append("lsid", doc! { "id": Value::Binary { subtype: 4, bytes: &[7; 16] } });
    command.append("txnNumber", number);
    command.finish()
}

fn n(reply: &DocBuf) -> Option<i64> {
    reply.as_doc().get("n").and_then(Value::as_i64_exact)
}

fn count(client: &mut TestClient) -> Option<i64> {
    n(&client.run("test", doc! { "count": "c" }).unwrap())
}

#[test]
fn retried_write_returns_the_first_result_and_writes_nothing() {
    let server = TestServer::on_disk();
    let insert = || numbered(doc! { "insert": "c", "documents": [{ "a": 1 }, { "a": 2 }] }, 1);
    let increment = || {
        let update = doc! { "update": "c", "updates": [{ "q": { "a": 2 }, "u": { "$inc": { "a": 10 } } }] };
        numbered(update, 2)
    };
    let remove = || {
        let modify = doc! { "findAndModify": "c", "query": { "a": 12 }, "remove": true };
        numbered(modify, 3)
    };
    let client = &mut server.client();
    for _ in 0..2 {
        assert_eq!(n(&client.run("test", insert()).unwrap()), Some(2));
    }
    assert_eq!(count(client), Some(2));
    for _ in 0..2 {
        let reply = client.run("test", increment()).unwrap();
        assert_eq!((n(&reply), reply.as_doc().get("nModified")), (Some(1), Some(Value::Int32(1))));
    }
    let first = client.run("test", remove()).unwrap();
    let server = server.restart();
    let client = &mut server.client();
    let again = client.run("test", remove()).unwrap();
    assert_eq!(first.as_doc().get_doc("value"), again.as_doc().get_doc("value"));
    assert!(again.as_doc().get_doc("value").is_some());
    assert_eq!(count(client), Some(1));
    let old = client.run("test", insert()).unwrap();
    assert_eq!(old.as_doc().get("code"), Some(Value::Int32(225)));
}

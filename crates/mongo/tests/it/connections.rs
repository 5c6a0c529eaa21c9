//! Connections: invalid messages, many idle clients, slow clients.

use diwan_testkit::TestServer;
use diwan_value::{ArrayBuilder, Value, doc};
use std::io::ErrorKind;

#[test]
fn invalid_message_closes_only_its_own_connection() {
    let server = TestServer::in_memory();
    let mut good = server.client();
    let bad: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        &[255; 64],
        &[15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xdd, 7, 0, 0],
        &[16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xd2, 7, 0, 0],
    ];
    for bytes in bad {
        let mut client = server.client();
        client.send_raw(bytes).unwrap();
        let error = client.receive().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset), "{error}");
    }
    assert!(good.run("test", doc! { "ping": 1 }).is_ok());
}

#[test]
fn invalid_bson_is_answered_and_the_connection_stays_open() {
    let server = TestServer::in_memory();
    let mut client = server.client();
    let body = [13, 0, 0, 0, 0x77, b'x', 0, 1, 0, 0, 0, 0, 0];
    let mut message = Vec::new();
    for field in [21 + body.len() as u32, 1, 0, 2013, 0] {
        message.extend_from_slice(&field.to_le_bytes());
    }
    message.push(0);
    message.extend_from_slice(&body);
    client.send_raw(&message).unwrap();
    assert_eq!(client.receive().unwrap().as_doc().get("code"), Some(Value::Int32(22)));
    assert!(client.run("test", doc! { "ping": 1 }).is_ok());
}

#[test]
fn more_to_come_message_gets_no_reply() {
    let server = TestServer::in_memory();
    let mut client = server.client();
    client
        .send("test", doc! { "insert": "c", "documents": [{ "_id": 1 }], "writeConcern": { "w": 0 } }, 2)
        .unwrap();
    let reply = client.run("test", doc! { "count": "c" }).unwrap();
    assert_eq!(reply.as_doc().get("n"), Some(Value::Int32(1)));
}

#[test]
fn idle_connections_do_not_block_new_ones() {
    let server = TestServer::in_memory();
    let silent: Vec<_> = (0..400).map(|_| server.client()).collect();
    let mut half: Vec<_> = (0..20).map(|_| server.client()).collect();
    for client in &mut half {
        client.send_raw(&[200, 0, 0]).unwrap();
    }
    assert!(server.client().run("test", doc! { "ping": 1 }).is_ok());
    assert!(server.connections() >= silent.len() + half.len());
}

#[test]
fn replies_that_wait_for_a_sync_keep_their_order() {
    let server = TestServer::on_disk();
    let mut client = server.client();
    for id in 0..100 {
        let insert = doc! { "insert": "c", "documents": [{ "_id": id }], "writeConcern": { "j": true } };
        client.send("test", insert, 0).unwrap();
        client.send("test", doc! { "count": "c" }, 0).unwrap();
    }
    for id in 0..100 {
        let inserted = client.receive().unwrap();
        assert_eq!(inserted.as_doc().get("ok"), Some(Value::Double(1.0)));
        assert_eq!(inserted.as_doc().get("n"), Some(Value::Int32(1)), "{id}");
        assert!(inserted.as_doc().get("writeErrors").is_none());
        assert_eq!(client.receive().unwrap().as_doc().get("n"), Some(Value::Int32(id + 1)));
    }
}

#[test]
fn client_that_does_not_read_does_not_block_others() {
    const MANY: i32 = 80_000;
    let server = TestServer::on_disk();
    let (mut slow, mut quick) = (server.client(), server.client());
    quick.run("test", doc! { "insert": "c", "documents": [{ "_id": 0 }] }).unwrap();
    let mut documents = ArrayBuilder::new();
    documents.push(doc! { "_id": 1 });
    for _ in 0..MANY {
        documents.push(doc! { "_id": 0 });
    }
    let insert = doc! {
        "insert": "c", "documents": documents, "ordered": false, "writeConcern": { "j": true },
    };
    slow.send("test", insert, 0).unwrap();
    for id in 2..50 {
        let insert = doc! { "insert": "c", "documents": [{ "_id": id }], "writeConcern": { "j": true } };
        let inserted = quick.run("test", insert).unwrap();
        assert_eq!(inserted.as_doc().get("n"), Some(Value::Int32(1)));
    }
    while quick.run("test", doc! { "count": "c", "query": { "_id": 1 } }).unwrap().as_doc().get("n")
        != Some(Value::Int32(1))
    {}
    let insert = doc! { "insert": "c", "documents": [{ "_id": 50 }], "writeConcern": { "j": true } };
    assert_eq!(quick.run("test", insert).unwrap().as_doc().get("n"), Some(Value::Int32(1)));
    let reply = slow.receive().unwrap();
    assert_eq!(reply.as_doc().get("n"), Some(Value::Int32(1)));
    let errors = reply.as_doc().get_array("writeErrors").unwrap();
    assert_eq!(errors.iter().count(), MANY as usize);
}

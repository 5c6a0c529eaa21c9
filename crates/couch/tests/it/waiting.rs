//! Writes beside an open transaction that has written their documents.

use crate::setup::{database, rev};
use diwan_store::{Edit, MAX_WAITING_WRITERS, Namespace, Transaction, WriteOptions, id_key};
use diwan_testkit::{HttpClient, TestCouch};
use diwan_value::{Value, doc};
use serde_json::json;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// A transaction that has written document `a`.
fn claim(server: &TestCouch) -> Transaction {
    let transaction = server.store().begin_transaction();
    let namespace = Namespace::new("test", "db").unwrap();
    let collection = transaction.store().collection(&namespace).unwrap().unwrap();
    let id = id_key(Value::String("a")).unwrap();
    let doc = doc! { "_id": "a", "by": "transaction" };
    collection.edit(&[id], WriteOptions::default(), |_, _| Ok(Edit::Put(doc.clone()))).unwrap();
    transaction
}

fn by(client: &mut HttpClient) -> serde_json::Value {
    client.get("/db/a").json()["by"].clone()
}

#[test]
fn waiting_writes_hold_up_no_other_request() {
    let (server, mut client) = database();
    let first = rev(&client.put("/db/a", &json!({})));
    let transaction = claim(&server);
    let (sender, answered) = channel();
    let mut answers = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|_| {
                let (mut client, body) = (server.client(), json!({ "_rev": first, "by": "writer" }));
                scope.spawn(move || client.put("/db/a", &body).status)
            })
            .collect();
        std::thread::sleep(Duration::from_millis(200));
        let mut other = server.client();
        scope.spawn(move || sender.send((other.get("/").status, other.put("/db/b", &json!({})).status)));
        let others = answered.recv_timeout(Duration::from_secs(5));
        let waiting = writers.iter().filter(|writer| !writer.is_finished()).count();
        // Without a result: the writers go on.
        drop(transaction);
        assert_eq!((others, waiting), (Ok((200, 201)), 8));
        writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
    });
    answers.sort_unstable();
    assert_eq!(answers, [201, 409, 409, 409, 409, 409, 409, 409]);
    assert_eq!(by(&mut client), "writer");
}

#[test]
fn a_write_whose_client_goes_away_while_it_waits_is_not_made() {
    let (server, mut client) = database();
    let rev = rev(&client.put("/db/a", &json!({})));
    let doc = json!({ "_id": "a", "_rev": rev, "by": "writer" });
    for (line, body) in [("PUT /db/a", doc.clone()), ("POST /db/_bulk_docs", json!({ "docs": [doc] }))] {
        let transaction = claim(&server);
        let body = body.to_string();
        let mut writer = TcpStream::connect(server.address()).unwrap();
        let head = "HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
        write!(writer, "{line} {head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        writer.shutdown(Shutdown::Both).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        drop(transaction);
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(by(&mut client), serde_json::Value::Null, "{line}");
    }
}

#[test]
fn transactions_over_http_wait_in_limited_number() {
    let (server, mut client) = database();
    let first = rev(&client.put("/db/a", &json!({})));
    let transaction = claim(&server);
    let body = json!({ "docs": [{ "db": "db", "doc": { "_id": "a", "_rev": first, "by": "writer" } }] });
    let answers = std::thread::scope(|scope| {
        let requests: Vec<_> = (0..MAX_WAITING_WRITERS + 1)
            .map(|_| {
                let (mut client, body) = (server.client(), &body);
                scope.spawn(move || client.post("/_transaction", body).status)
            })
            .collect();
        let refused = || requests.iter().filter(|request| request.is_finished()).count();
        let end = Instant::now() + Duration::from_secs(5);
        while refused() == 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(transaction);
        requests.into_iter().map(|request| request.join().unwrap()).collect::<Vec<_>>()
    });
    let count = |status| answers.iter().filter(|answer| **answer == status).count();
    assert_eq!((count(201), count(503), count(409)), (1, 1, MAX_WAITING_WRITERS - 1), "{answers:?}");
    assert_eq!(by(&mut client), "writer");
}

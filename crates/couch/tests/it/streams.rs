//! Answers longer than a chunk, clients that do not read, and slow uploads.

use crate::setup::database;
use diwan_couch::Config;
use diwan_store::{Collection, Namespace, WriteOptions};
use diwan_testkit::{HttpClient, TestCouch};
use diwan_value::{DocBuf, ObjectId, Value as Bson, doc};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpSocket;

/// More than the number of threads for requests.
const MANY: usize = 200;

/// Returns the collection of the database `db`.
fn collection(server: &TestCouch) -> Arc<Collection> {
    server.store().collection_or_create(&Namespace::new("test", "db").unwrap()).unwrap()
}

/// Inserts documents with ids of two types and a text of this length.
fn fill(server: &TestCouch, count: i32, bytes: usize) {
    let text = "x".repeat(bytes);
    let docs: Vec<DocBuf> = (0..count)
        .map(|n| {
            let mut id = [0xdd; 12];
            id[8..].copy_from_slice(&n.to_be_bytes());
            let name = format!("d{n:07}");
            let id = if n % 3 == 0 { Bson::ObjectId(ObjectId(id)) } else { Bson::String(&name) };
            doc! { "_id": id, "n": n, "group": n % 400, "text": text.as_str() }
        })
        .collect();
    let docs: Vec<_> = docs.iter().map(DocBuf::as_doc).collect();
    for batch in docs.chunks(1000) {
        collection(server).insert(batch, true, WriteOptions::default()).unwrap();
    }
}

fn put_design(client: &mut HttpClient) {
    let design = json!({
        "views": {
            "all": {"map": "function (doc) { emit(doc.n, doc.text); }"},
            "sum": {"map": "function (doc) { emit([doc.group, doc.n], 1); }", "reduce": "_sum"},
            "script": {
                "map": "function (doc) { emit([doc.group, doc.n], 1); }",
                "reduce": "function (keys, values) { return sum(values); }"
            }
        },
        "lists": {"rows": "function () { start({headers: {'X-List': 'yes'}}); var row; while (row = getRow()) send(toJSON(row) + '\\n'); return 'end'; }"}
    });
    let reply = client.put("/db/_design/d", &design);
    assert_eq!(reply.status, 201, "{}", reply.text());
}

fn rows(client: &mut HttpClient, path: &str) -> Vec<Value> {
    let reply = client.get(path);
    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    reply.json()["rows"].as_array().unwrap_or_else(|| panic!("{path}")).clone()
}

/// Returns the rows in pages, each of which fits into one chunk.
fn paged(client: &mut HttpClient, path: &str) -> Vec<Value> {
    let mut all = Vec::new();
    loop {
        let page = rows(client, &format!("{path}&skip={}&limit=100", all.len()));
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

#[test]
fn long_answers_are_complete() {
    let (server, mut client) = database();
    fill(&server, 3000, 100);
    put_design(&mut client);
    for path in [
        "/db/_all_docs?include_docs=true",
        "/db/_all_docs?descending=true",
        "/db/_all_docs?startkey=%22d0000100%22",
        "/db/_design/d/_view/all?include_docs=true",
        "/db/_design/d/_view/all?descending=true&startkey=2500",
        "/db/_design/d/_view/sum?reduce=false",
        "/db/_design/d/_view/sum?group=true",
        "/db/_design/d/_view/sum?group=true&descending=true",
        "/db/_design/d/_view/sum?group_level=1",
        "/db/_design/d/_view/sum?group_level=1&descending=true",
        "/db/_design/d/_view/script?group=true",
    ] {
        let expected = paged(&mut client, path);
        assert!(expected.len() >= 400, "{path}");
        assert!(rows(&mut client, path) == expected, "{path}");
    }
    let keys: Vec<i32> = (0..3000).rev().collect();
    for (path, count) in [("/db/_design/d/_view/all", 3000), ("/db/_design/d/_view/all?skip=1000", 2000)] {
        let reply = client.post(path, &json!({ "keys": keys })).json();
        let found: Vec<_> = reply["rows"].as_array().unwrap().iter().map(|row| row["key"].clone()).collect();
        let expected: Vec<Value> = keys[3000 - count..].iter().map(|key| json!(key)).collect();
        assert!(found == expected, "{path}");
    }
    let two = json!({"queries": [{"include_docs": true}, {"limit": 700, "descending": true}]});
    for path in ["/db/_all_docs/queries", "/db/_design/d/_view/all/queries"] {
        let results = client.post(path, &two).json()["results"].clone();
        let single = path.trim_end_matches("/queries");
        let first = rows(&mut client, &format!("{single}?include_docs=true"));
        assert!(results[0]["rows"] == Value::from(first), "{path}");
        let second = rows(&mut client, &format!("{single}?limit=700&descending=true"));
        assert!(results[1]["rows"] == Value::from(second), "{path}");
    }
    let ids: Vec<Value> = rows(&mut client, "/db/_all_docs").iter().map(|row| row["id"].clone()).collect();
    let by_keys = client.post("/db/_all_docs?include_docs=true", &json!({ "keys": ids })).json();
    assert!(by_keys["rows"] == Value::from(rows(&mut client, "/db/_all_docs?include_docs=true")));
    let found = client.post("/db/_find", &json!({"selector": {"n": {"$gte": 0}}, "limit": 5000})).json();
    assert_eq!(found["docs"].as_array().unwrap().len(), 3000);
    let asked: Vec<Value> = ids.iter().map(|id| json!({ "id": id })).collect();
    let got = client.post("/db/_bulk_get", &json!({ "docs": asked })).json();
    let got: Vec<_> =
        got["results"].as_array().unwrap().iter().map(|one| one["docs"][0]["ok"]["_id"].clone()).collect();
    assert!(got == ids, "{} documents", got.len());
    let piped =
        client.post("/db/_aggregate", &json!([{"$match": {"n": {"$gte": 0}}}, {"$sort": {"n": 1}}])).json();
    let numbers: Vec<_> = piped["docs"].as_array().unwrap().iter().map(|doc| doc["n"].as_i64()).collect();
    assert!(numbers.iter().copied().eq((0..3000).map(Some)), "{} documents", numbers.len());
    let list = client.get("/db/_design/d/_list/rows/all");
    assert_eq!((list.header("x-list"), list.text().lines().count()), (Some("yes"), 3001));
    assert!(list.text().ends_with("\nend"));
}

#[test]
fn long_changes_feeds_are_complete() {
    let (server, mut client) = database();
    fill(&server, 3000, 100);
    let seqs = |reply: &Value| -> Vec<String> {
        let results = reply["results"].as_array().unwrap();
        results.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    };
    let whole = client.get("/db/_changes?include_docs=true").json();
    let (mut paged, mut since) = (Vec::new(), "0".to_owned());
    loop {
        let page = client.get(&format!("/db/_changes?limit=100&since={since}")).json();
        since = page["last_seq"].as_str().unwrap().to_owned();
        if seqs(&page).is_empty() {
            break;
        }
        paged.extend(seqs(&page));
    }
    assert!(seqs(&whole) == paged);
    assert_eq!((&whole["pending"], whole["last_seq"].as_str()), (&json!(0), Some(since.as_str())));
    paged.reverse();
    let down = client.get("/db/_changes?descending=true").json();
    assert!(seqs(&down) == paged);
    let few = client.get("/db/_changes?limit=2000&include_docs=true").json();
    assert_eq!((seqs(&few).len(), &few["pending"]), (2000, &json!(1000)));
    let named = json!({ "doc_ids": paged });
    let by_ids = client.post("/db/_changes?filter=_doc_ids&include_docs=true", &named).json();
    assert_eq!(seqs(&by_ids).len(), 3000);
}

#[test]
fn long_attachments_are_complete_in_every_form() {
    let (_server, mut client) = database();
    let bytes: Vec<u8> = (0..300_001u32).map(|n| (n * 7 % 251) as u8).collect();
    let reply = client.send("PUT", "/db/doc/a", &[("Content-Type", "image/png")], &bytes);
    assert_eq!(reply.status, 201);
    assert!(client.get("/db/doc/a").body == bytes);
    let range = client.send("GET", "/db/doc/a", &[("Range", "bytes=1000-200000")], b"");
    assert!(range.body == bytes[1000..=200_000]);
    let encoded = base64(&bytes);
    let data = client.get("/db/doc?attachments=true").json();
    assert!(data["_attachments"]["a"]["data"] == encoded.as_str());
    let listed = client.get("/db/_all_docs?include_docs=true&attachments=true").json();
    assert!(listed["rows"][0]["doc"]["_attachments"]["a"]["data"] == encoded.as_str());
    let asked = json!({"docs": [{"id": "doc"}, {"id": "none"}]});
    let got = client.post("/db/_bulk_get?attachments=true", &asked).json();
    assert!(got["results"][0]["docs"][0]["ok"]["_attachments"]["a"]["data"] == encoded.as_str());
    assert_eq!(got["results"][1]["id"], "none");
    let related = client.send("GET", "/db/doc?attachments=true", &[("Accept", "multipart/related")], b"");
    assert!(related.body.windows(bytes.len()).any(|part| part == bytes));
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for part in bytes.chunks(3) {
        let number =
            part.iter().fold(0u32, |number, &byte| number << 8 | u32::from(byte)) << (8 * (3 - part.len()));
        for digit in 0..4 {
            let sign = DIGITS[(number >> (18 - 6 * digit)) as usize & 63];
            out.push(if digit <= part.len() { char::from(sign) } else { '=' });
        }
    }
    out
}

/// Sends a request through a socket with a small receive buffer and reads nothing.
fn ask(address: SocketAddr, request: &str) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket.connect(address).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    (&stream).write_all(request.as_bytes()).unwrap();
    stream
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

fn post(path: &str, body: &str) -> String {
    let head = "Host: localhost\r\nContent-Type: application/json";
    format!("POST {path} HTTP/1.1\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Checks that other clients are answered, on separate connections.
fn others_are_answered(server: &TestCouch, beside: &str) {
    for path in
        ["/_up", "/db/d0000001", "/db/_all_docs?limit=1", "/db/_design/d/_view/all?limit=1", "/_all_dbs"]
    {
        assert_eq!(server.client().get(path).status, 200, "{path} beside {beside}");
    }
    let saved = server.client().post("/db/_bulk_docs", &json!({"docs": [{}]}));
    assert_eq!(saved.status, 201, "beside {beside}");
}

#[test]
fn clients_that_do_not_read_do_not_block_others() {
    let (server, mut client) = database();
    fill(&server, 4000, 2000);
    put_design(&mut client);
    rows(&mut client, "/db/_design/d/_view/all?limit=1");
    let attachment = vec![7; 8 << 20];
    assert_eq!(client.send("PUT", "/db/file/a", &[("Content-Type", "image/png")], &attachment).status, 201);
    let ids: Vec<Value> = (0..4000).map(|n| json!({"id": format!("d{n:07}")})).collect();
    for request in [
        get("/db/_all_docs?include_docs=true"),
        get("/db/_design/d/_view/all"),
        get("/db/_changes?include_docs=true"),
        get("/db/_changes?include_docs=true&feed=continuous"),
        post("/db/_find", r#"{"selector":{},"limit":10000}"#),
        post("/db/_bulk_get", &json!({ "docs": ids }).to_string()),
        post("/db/_aggregate", "[]"),
        get("/db/file/a"),
        get("/db/file?attachments=true"),
        get("/db/_design/d/_list/rows/all"),
    ] {
        let stalled: Vec<TcpStream> = (0..MANY).map(|_| ask(server.address(), &request)).collect();
        let name = request.lines().next().unwrap();
        others_are_answered(&server, name);
        // A waiting list request gets its turn because lists for clients that do not read are aborted.
        if name.contains("_list") {
            let list = client.get("/db/_design/d/_list/rows/all?limit=1");
            assert!(list.text().ends_with("end"), "{}", list.text());
        }
        drop(stalled);
    }
}

// HTTP-27
#[test]
fn slow_readers_see_newer_rows() {
    let (server, mut client) = database();
    fill(&server, 4000, 2000);
    let mut slow = ask(server.address(), &get("/db/_all_docs?include_docs=true").replace("1.1", "1.0"));
    let mut begin = [0; 1000];
    slow.read_exact(&mut begin).unwrap();
    // Longer than a snapshot is kept.
    std::thread::sleep(Duration::from_millis(3000));
    let reply = client.get("/db/d0003998").json();
    let gone =
        client.send("DELETE", &format!("/db/d0003998?rev={}", reply["_rev"].as_str().unwrap()), &[], b"");
    assert_eq!(gone.status, 200);
    assert_eq!(client.put("/db/z", &json!({})).status, 201);
    let mut answer = begin.to_vec();
    slow.read_to_end(&mut answer).unwrap();
    let text = String::from_utf8(answer).unwrap();
    let body = text.split_once("\r\n\r\n").unwrap().1;
    let rows: Value = serde_json::from_str(body).unwrap();
    let ids: Vec<&str> =
        rows["rows"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    assert_eq!((ids.len(), ids.last(), ids.contains(&"d0003998")), (4000, Some(&"z"), false));
}

#[test]
fn a_client_that_reads_nothing_is_disconnected() {
    let server =
        TestCouch::with_config(Config { write_timeout: Duration::from_millis(300), ..Config::default() });
    assert_eq!(server.client().put("/db", &json!({})).status, 201);
    fill(&server, 4000, 2000);
    let mut slow = ask(server.address(), &get("/db/_all_docs?include_docs=true"));
    std::thread::sleep(Duration::from_millis(3000));
    let mut answer = Vec::new();
    let read = slow.read_to_end(&mut answer);
    assert!(read.is_err() || !answer.ends_with(b"\r\n0\r\n\r\n"), "{}", answer.len());
}

#[test]
fn slow_uploads_do_not_block_others() {
    let (server, mut client) = database();
    fill(&server, 10, 10);
    put_design(&mut client);
    let docs: Vec<Value> = (0..2000).map(|n| json!({"n": n, "text": "x".repeat(100)})).collect();
    let body = json!({ "docs": docs }).to_string();
    assert!(body.len() > 200_000);
    let whole = post("/db/_bulk_docs", &body);
    let (begin, rest) = whole.split_at(whole.len() - body.len() + 100_000);
    let mut slow: Vec<TcpStream> = (0..MANY).map(|_| ask(server.address(), begin)).collect();
    others_are_answered(&server, "slow bodies");
    let bytes = vec![1; 1 << 20];
    assert_eq!(client.send("PUT", "/db/file/a", &[("Content-Type", "image/png")], &bytes).status, 201);
    assert!(client.get("/db/file/a").body == bytes);
    // The handlers read the first uploads as they arrive; the last ones are buffered first.
    for stream in [slow.remove(0), slow.remove(MANY - 2)] {
        (&stream).write_all(rest.as_bytes()).unwrap();
        let mut head = [0; 12];
        (&stream).read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 201");
    }
}

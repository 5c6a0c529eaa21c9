//! A server with one database, and words for what tests ask of it.

use diwan_testkit::{HttpClient, HttpReply, TestCouch};
use serde_json::{Value, json};

/// A server in memory, a connection to it, and a database called `db`.
pub fn database() -> (TestCouch, HttpClient) {
    let server = TestCouch::in_memory();
    let mut client = server.client().with_header("Accept", "application/json");
    assert_eq!(client.put("/db", &json!({})).status, 201);
    (server, client)
}

/// The member `rev` of an answer to a write, which must have succeeded.
pub fn rev(reply: &HttpReply) -> String {
    assert!(reply.status < 300, "{} {}", reply.status, reply.text());
    reply.json()["rev"].as_str().expect("a revision").to_owned()
}

/// A revision of this generation whose hash is one digit 32 times.
pub fn made(generation: u32, digit: char) -> String {
    format!("{generation}-{}", hash(digit))
}

/// One digit 32 times.
pub fn hash(digit: char) -> String {
    digit.to_string().repeat(32)
}

/// Stores a revision that was made elsewhere, with the revisions before it.
pub fn graft(client: &mut HttpClient, id: &str, start: u32, digits: &str, mut fields: Value) {
    fields["_id"] = id.into();
    fields["_revisions"] = json!({"start": start, "ids": digits.chars().map(hash).collect::<Vec<_>>()});
    let reply = client.post("/db/_bulk_docs", &json!({"new_edits": false, "docs": [fields]}));
    assert_eq!((reply.status, reply.json()), (201, json!([])));
}

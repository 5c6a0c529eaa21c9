//! Servers with users, and clients that have signed in, for the tests of rights.

use diwan_testkit::{TestClient, TestServer};
use diwan_value::{DocBuf, Value, doc};

/// The password of every user.
pub(crate) const PASSWORD: &str = "open sesame 37";

/// The administrator `ada` of the servers here.
pub(crate) const ADA: &str = "ada";

/// A server with an administrator, and `shop.orders`, `shop.other` and `stock.items` with a document each.
pub(crate) fn guarded() -> TestServer {
    let server = TestServer::in_memory();
    server.add_user("admin", ADA, PASSWORD, &[("root", "admin")]);
    let client = &mut administrator(&server);
    for (database, collection) in [("shop", "orders"), ("shop", "other"), ("stock", "items")] {
        ok(client, database, doc! { "insert": collection, "documents": [{ "_id": 1, "n": 1 }] });
    }
    server
}

/// A client of `ada`.
pub(crate) fn administrator(server: &TestServer) -> TestClient {
    signed_in(server, "admin", ADA)
}

/// A client of a user.
pub(crate) fn signed_in(server: &TestServer, database: &str, user: &str) -> TestClient {
    let mut client = server.client();
    let reply = client.sign_in(database, user, PASSWORD).unwrap();
    assert!(is_ok(&reply), "{reply:?}");
    client
}

/// A client of a new user of the database `shop` with these roles.
pub(crate) fn with_roles(server: &TestServer, user: &str, roles: &[(&str, &str)]) -> TestClient {
    server.add_user("shop", user, PASSWORD, roles);
    signed_in(server, "shop", user)
}

/// Runs a command that must succeed.
pub(crate) fn ok(client: &mut TestClient, database: &str, command: DocBuf) -> DocBuf {
    let reply = client.run(database, command).unwrap();
    assert!(is_ok(&reply), "{reply:?}");
    reply
}

/// Runs a command that must fail, and returns its code and text.
pub(crate) fn refused(client: &mut TestClient, database: &str, command: DocBuf) -> (i64, String) {
    let reply = client.run(database, command.clone()).unwrap();
    assert!(!is_ok(&reply), "{command:?} is not refused: {reply:?}");
    let reply = reply.as_doc();
    let code = reply.get("code").and_then(Value::as_i64_exact).unwrap();
    (code, reply.get_str("errmsg").unwrap().to_owned())
}

/// Whether a command gets past the check of rights.
pub(crate) fn may(client: &mut TestClient, database: &str, command: DocBuf) -> bool {
    let reply = client.run(database, command).unwrap();
    reply.as_doc().get("code") != Some(Value::Int32(13))
}

pub(crate) fn is_ok(reply: &DocBuf) -> bool {
    reply.as_doc().get("ok") == Some(Value::Double(1.0))
}

/// The elements of an array that are documents.
pub(crate) fn documents(reply: &DocBuf, key: &str) -> Vec<DocBuf> {
    let array = reply.as_doc().get_array(key).unwrap_or_else(|| panic!("{reply:?}"));
    array.iter().map(|value| value.as_doc().unwrap().to_owned()).collect()
}

/// The documents of a first batch.
pub(crate) fn batch(reply: &DocBuf) -> Vec<DocBuf> {
    documents(&reply.as_doc().get_doc("cursor").unwrap().to_owned(), "firstBatch")
}

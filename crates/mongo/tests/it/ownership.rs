//! Cursors, sessions and operations belong to the user who made them.

use crate::callers::{administrator, batch, documents, guarded, may, ok, refused, with_roles};
use diwan_testkit::{TestClient, TestServer};
use diwan_value::{Doc, DocBuf, Value, doc};
use std::time::{Duration, Instant};

/// Two readers of `shop`, which has a few hundred orders.
fn two_readers(server: &TestServer) -> (TestClient, TestClient) {
    let many: Vec<DocBuf> = (10..300).map(|n| doc! { "_id": n }).collect();
    ok(&mut administrator(server), "shop", doc! { "insert": "orders", "documents": many });
    let reader = |user: &str| with_roles(server, user, &[("read", "shop")]);
    (reader("bob"), reader("eve"))
}

fn open_cursor(client: &mut TestClient) -> i64 {
    let first = ok(client, "shop", doc! { "find": "orders", "batchSize": 2 });
    first.as_doc().get_doc("cursor").unwrap().get("id").and_then(Value::as_i64_exact).unwrap()
}

#[test]
fn cursor_of_another_user_is_neither_read_nor_killed() {
    let server = guarded();
    let (mut bob, mut eve) = two_readers(&server);
    let root = &mut administrator(&server);
    let id = open_cursor(&mut bob);
    let more = || doc! { "getMore": id, "collection": "orders", "batchSize": 2 };
    let kill = || doc! { "killCursors": "orders", "cursors": [id] };
    for other in [&mut eve, root] {
        let text = format!("cursor id {id} was not created by the authenticated user");
        assert_eq!(refused(other, "shop", more()), (13, text));
    }
    assert_eq!(refused(&mut eve, "shop", kill()).0, 13);
    ok(&mut bob, "shop", more());
    let killed = ok(&mut bob, "shop", kill());
    assert_eq!(killed.as_doc().get_array("cursorsKilled").unwrap().count(), 1);
    let id = open_cursor(&mut bob);
    let killed = ok(&mut administrator(&server), "shop", doc! { "killCursors": "orders", "cursors": [id] });
    assert_eq!(killed.as_doc().get_array("cursorsKilled").unwrap().count(), 1, "with killAnyCursor");
    ok(&mut eve, "shop", doc! { "killCursors": "orders", "cursors": [id] });
}

fn lsid(byte: u8) -> DocBuf {
    doc! { "id": (Value::Binary { subtype: 4, bytes: &[byte; 16] }) }
}

/// The first bytes of the sessions that a stage lists.
fn listed(client: &mut TestClient, stage: &str, options: DocBuf) -> Vec<u8> {
    let command = match stage {
        "$listSessions" => {
            doc! { "aggregate": "system.sessions", "cursor": {}, "pipeline": [{ stage: options }] }
        }
        _ => doc! { "aggregate": 1, "cursor": {}, "pipeline": [{ stage: options }] },
    };
    let reply = ok(client, "config", command);
    let byte = |session: Doc<'_>| match session.get_doc("_id")?.get("id")? {
        Value::Binary { bytes, .. } => bytes.first().copied(),
        _ => None,
    };
    let mut found: Vec<u8> = batch(&reply).iter().filter_map(|session| byte(session.as_doc())).collect();
    found.sort_unstable();
    found
}

#[test]
fn sessions_are_listed_used_and_ended_by_their_user() {
    let server = guarded();
    let (mut bob, mut eve) = two_readers(&server);
    let root = &mut administrator(&server);
    ok(&mut bob, "shop", doc! { "ping": 1, "lsid": (lsid(1)) });
    ok(&mut eve, "shop", doc! { "ping": 1, "lsid": (lsid(2)) });
    assert_eq!(refused(&mut eve, "shop", doc! { "ping": 1, "lsid": (lsid(1)) }).0, 13);
    for stage in ["$listLocalSessions", "$listSessions"] {
        assert_eq!(listed(&mut bob, stage, doc! {}), [1], "{stage}");
        assert_eq!(listed(root, stage, doc! {}), [0; 0]);
        assert_eq!(listed(root, stage, doc! { "allUsers": true }), [1, 2]);
        let users = doc! { "users": [{ "user": "eve", "db": "shop" }] };
        assert_eq!(listed(root, stage, users.clone()), [2]);
        assert_eq!(listed(&mut eve, stage, users.clone()), [2]);
        let collection =
            if stage == "$listSessions" { Value::String("system.sessions") } else { Value::Int32(1) };
        for options in [users, doc! { "allUsers": true }] {
            let command = doc! { "aggregate": collection, "cursor": {}, "pipeline": [{ stage: options }] };
            assert_eq!(refused(&mut bob, "config", command).0, 13);
        }
    }
    assert_eq!(refused(&mut eve, "admin", doc! { "killSessions": [(lsid(1))] }).0, 13);
    assert_eq!(refused(&mut eve, "admin", doc! { "killAllSessions": [] }).0, 13);
    assert_eq!(refused(&mut eve, "admin", doc! { "killAllSessionsByPattern": [] }).0, 13);
    ok(&mut eve, "admin", doc! { "endSessions": [(lsid(1))] });
    ok(&mut eve, "admin", doc! { "refreshSessions": [(lsid(1))] });
    assert_eq!(listed(&mut bob, "$listLocalSessions", doc! {}), [1], "others cannot end it");
    ok(&mut eve, "admin", doc! { "killSessions": [] });
    assert_eq!(
        listed(root, "$listLocalSessions", doc! { "allUsers": true }),
        [1],
        "an empty list are one's own"
    );
    ok(root, "admin", doc! { "killAllSessions": [{ "user": "bob", "db": "shop" }] });
    assert!(listed(root, "$listLocalSessions", doc! { "allUsers": true }).is_empty());
}

#[test]
fn stranger_makes_no_sessions_and_a_session_passes_to_the_first_user() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    ok(client, "shop", doc! { "ping": 1, "lsid": (lsid(1)) });
    server.add_user("admin", "ada", crate::callers::PASSWORD, &[("root", "admin")]);
    ok(&mut server.client(), "shop", doc! { "ping": 1, "lsid": (lsid(2)) });
    let root = &mut administrator(&server);
    ok(root, "shop", doc! { "ping": 1, "lsid": (lsid(1)) });
    assert_eq!(listed(root, "$listLocalSessions", doc! { "allUsers": true }), [1]);
}

/// Waits until an operation of a kind runs, and returns its number.
fn running(client: &mut TestClient, filter: &DocBuf) -> i32 {
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        let reply = ok(client, "admin", filter.clone());
        if let Some(operation) = documents(&reply, "inprog").first() {
            return operation.as_doc().get("opid").and_then(Value::as_i64_exact).unwrap() as i32;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("nothing runs");
}

#[test]
fn operations_are_shown_to_their_user_and_killed_by_him() {
    let server = guarded();
    let (mut bob, mut eve) = two_readers(&server);
    let other_bob = &mut server.client();
    assert!(crate::callers::is_ok(&other_bob.sign_in("shop", "bob", crate::callers::PASSWORD).unwrap()));
    let root = &mut administrator(&server);
    ok(root, "shop", doc! { "create": "tail", "capped": true, "size": 4096 });
    ok(root, "shop", doc! { "insert": "tail", "documents": [{}] });
    for command in [doc! { "currentOp": 1 }, doc! { "currentOp": 1, "$all": true }] {
        assert_eq!(refused(&mut eve, "admin", command).0, 13);
    }
    let all = || doc! { "aggregate": 1, "cursor": {}, "pipeline": [{ "$currentOp": { "allUsers": true } }] };
    assert_eq!(refused(&mut eve, "admin", all()).0, 13);
    // A pipeline that takes long: a product of many documents with themselves.
    let join = doc! { "$lookup": { "from": "orders", "let": { "n": "$n" }, "pipeline": [], "as": "o" } };
    let unwind = doc! { "$unwind": "$o" };
    let product = vec![
        join.clone(),
        unwind.clone(),
        join.clone(),
        unwind.clone(),
        join,
        unwind,
        doc! { "$count": "n" },
    ];
    bob.send("shop", doc! { "aggregate": "orders", "cursor": {}, "pipeline": product }, 0).unwrap();
    let id = running(root, &doc! { "currentOp": 1, "command.aggregate": "orders" });
    assert_eq!(
        running(other_bob, &doc! { "currentOp": 1, "$ownOps": true, "command.aggregate": "orders" }),
        id
    );
    let own = ok(&mut eve, "admin", doc! { "currentOp": 1, "$ownOps": true, "command.aggregate": "orders" });
    assert!(documents(&own, "inprog").is_empty());
    let shown = |client: &mut TestClient, options: DocBuf| {
        let stages = doc! { "$match": { "opid": id } };
        let command = doc! { "aggregate": 1, "cursor": {}, "pipeline": [{ "$currentOp": options }, stages] };
        batch(&ok(client, "admin", command)).len()
    };
    assert_eq!(shown(other_bob, doc! {}), 1);
    assert_eq!(
        (shown(&mut eve, doc! {}), shown(root, doc! {}), shown(root, doc! { "allUsers": true })),
        (0, 0, 1)
    );
    assert!(!may(&mut eve, "admin", doc! { "killOp": 1, "op": id }));
    ok(other_bob, "admin", doc! { "killOp": 1, "op": id });
    let reply = bob.receive().unwrap();
    assert_eq!(reply.as_doc().get("code"), Some(Value::Int32(11601)), "{reply:?}");
}

//! The differences from MongoDB that COMPATIBILITY.md lists and that this crate makes. Each test names its entry.

use diwan_testkit::{TestClient, TestServer};
use diwan_value::{Array, Doc, DocBuf, DocBuilder, Timestamp, Value, doc};

/// Runs a command that must fail, and returns its code and text.
fn refused(client: &mut TestClient, database: &str, command: DocBuf) -> (i64, String) {
    let reply = client.run(database, command).unwrap();
    let reply = reply.as_doc();
    assert_eq!(reply.get("ok"), Some(Value::Double(0.0)), "{reply:?}");
    let code = reply.get("code").and_then(Value::as_i64_exact).unwrap();
    (code, reply.get_str("errmsg").unwrap().to_owned())
}

#[test]
fn compat_20_a_changed_index_fails_the_commit() {
    // COMPAT-20
    let server = TestServer::in_memory();
    let client = &mut server.client();
    client.run("test", doc! { "insert": "c", "documents": [{ "_id": 1 }] }).unwrap();
    let id = Value::Binary { subtype: 4, bytes: &[7; 16] };
    let inside = |command: DocBuf| {
        let mut command = command.into_builder();
        command.append("lsid", doc! { "id": id }).append("txnNumber", 1i64).append("autocommit", false);
        command
    };
    let mut insert = inside(doc! { "insert": "c", "documents": [{ "_id": 2 }] });
    insert.append("startTransaction", true);
    client.run("test", insert.finish()).unwrap();
    let index = doc! { "createIndexes": "c", "indexes": [{ "key": { "n": 1 }, "name": "n" }] };
    client.run("test", index).unwrap();
    assert_eq!(refused(client, "admin", inside(doc! { "commitTransaction": 1 }).finish()).0, 112);
    let reply = client.run("test", doc! { "count": "c" }).unwrap();
    assert_eq!(reply.as_doc().get("n").and_then(Value::as_i64_exact), Some(1));
}

#[test]
fn compat_27_snapshots_are_kept_for_a_minute() {
    // COMPAT-27
    let server = TestServer::in_memory();
    let client = &mut server.client();
    client.run("test", doc! { "insert": "c", "documents": [{ "_id": 1 }] }).unwrap();
    let read = |at: Option<Timestamp>| {
        let mut concern = doc! { "level": "snapshot" }.into_builder();
        if let Some(at) = at {
            concern.append("atClusterTime", at);
        }
        doc! { "find": "c", "readConcern": (concern.finish()) }
    };
    let reply = client.run("test", read(None)).unwrap();
    let cursor = reply.as_doc().get_doc("cursor").unwrap();
    let Some(Value::Timestamp(time)) = cursor.get("atClusterTime") else { panic!("{cursor:?}") };
    client.run("test", doc! { "insert": "c", "documents": [{ "_id": 2 }] }).unwrap();
    let reply = client.run("test", read(Some(time))).unwrap();
    let cursor = reply.as_doc().get_doc("cursor").unwrap();
    assert_eq!(cursor.get_array("firstBatch").unwrap().iter().count(), 1);
    // A time of which nobody has read is not kept.
    let earlier = Timestamp { seconds: time.seconds - 1, ..time };
    assert_eq!(refused(client, "test", read(Some(earlier))).0, 239);
}

#[test]
fn compat_21_history_begins_with_the_first_stream() {
    // COMPAT-21
    let server = TestServer::in_memory();
    let client = &mut server.client();
    let insert = client.run("test", doc! { "insert": "c", "documents": [{ "_id": 1 }] }).unwrap();
    let before = insert.as_doc().get("operationTime").unwrap();
    let open =
        |stage: DocBuf| doc! { "aggregate": "c", "pipeline": [{ "$changeStream": stage }], "cursor": {} };
    let (code, text) = refused(client, "test", open(doc! { "startAtOperationTime": before }));
    assert_eq!(code, 286, "{text}");
    let opened = client.run("test", open(doc! {})).unwrap();
    assert_eq!(opened.as_doc().get("ok"), Some(Value::Double(1.0)), "{opened:?}");
    let insert = client.run("test", doc! { "insert": "c", "documents": [{ "_id": 2 }] }).unwrap();
    let after = insert.as_doc().get("operationTime").unwrap();
    let opened = client.run("test", open(doc! { "startAtOperationTime": after })).unwrap();
    let batch = opened.as_doc().get_doc("cursor").unwrap().get_array("firstBatch").unwrap();
    let ids: Vec<DocBuf> = batch
        .iter()
        .map(|event| event.as_doc().unwrap().get_doc("documentKey").unwrap().to_owned())
        .collect();
    assert_eq!(ids, [doc! { "_id": 2 }]);
}

#[test]
fn compat_22_missing_commands_answer_not_implemented() {
    // COMPAT-22
    let server = TestServer::in_memory();
    let client = &mut server.client();
    for command in ["applyOps", "planCacheClear", "mapReduce", "replSetInitiate", "shutdown"] {
        let mut out = DocBuilder::new();
        out.append(command, 1);
        let (code, text) = refused(client, "admin", out.finish());
        assert_eq!((code, text), (238, format!("command {command} is not implemented")));
    }
}

#[test]
fn compat_23_missing_options_of_find_answer_not_implemented() {
    // COMPAT-23
    let server = TestServer::in_memory();
    let client = &mut server.client();
    for (option, value) in [
        ("showRecordId", Value::Boolean(true)),
        ("$_requestResumeToken", Value::Boolean(true)),
        ("$_resumeAfter", Value::Document(doc! { "$recordId": 1 }.as_doc())),
    ] {
        let mut command = doc! { "find": "c" }.into_builder();
        command.append(option, value);
        let (code, text) = refused(client, "test", command.finish());
        assert_eq!((code, text), (238, format!("find.{option} is not implemented")));
    }
    let index = doc! { "key": { "a": 1 }, "name": "a_1", "collation": { "locale": "en" } };
    client.run("test", doc! { "createIndexes": "c", "indexes": [index] }).unwrap();
    let (code, _) = refused(client, "test", doc! { "find": "c", "hint": "a_1", "returnKey": true });
    assert_eq!(code, 238);
}

#[test]
fn compat_24_replica_set_has_one_member() {
    // COMPAT-24
    let server = TestServer::in_memory();
    let client = &mut server.client();
    let hello = client.run("admin", doc! { "hello": 1 }).unwrap();
    let hosts: Vec<_> = hello.as_doc().get_array("hosts").unwrap_or(Array::EMPTY).iter().collect();
    assert_eq!(hosts, [Value::String(&server.address().to_string())]);
    let command = doc! { "insert": "c", "documents": [{ "_id": 1 }], "writeConcern": { "w": 2 } };
    let reply = client.run("test", command).unwrap();
    let error = reply.as_doc().get_doc("writeConcernError").unwrap_or(Doc::EMPTY);
    assert_eq!(error.get("code").and_then(Value::as_i64_exact), Some(100));
    assert_eq!(reply.as_doc().get("n").and_then(Value::as_i64_exact), Some(1));
}

#[test]
fn compat_26_fresh_server_lists_no_databases() {
    // COMPAT-26
    let server = TestServer::in_memory();
    let reply = server.client().run("admin", doc! { "listDatabases": 1 }).unwrap();
    assert_eq!(reply.as_doc().get_array("databases").map(|databases| databases.count()), Some(0));
}

#[test]
fn compat_28_list_sessions_shows_sessions_that_are_not_stored() {
    // COMPAT-28
    let server = TestServer::in_memory();
    let client = &mut server.client();
    let session = doc! { "id": (Value::Binary { subtype: 4, bytes: &[7; 16] }) };
    client.run("test", doc! { "ping": 1, "lsid": (session.clone()) }).unwrap();
    let shown = |client: &mut TestClient, database: &str, target: Value<'_>, stage: DocBuf| {
        let reply =
            client.run(database, doc! { "aggregate": target, "pipeline": [(stage)], "cursor": {} }).unwrap();
        let batch = reply.as_doc().get_doc("cursor").unwrap().get_array("firstBatch").unwrap();
        batch.iter().map(|found| found.as_doc().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let local = shown(client, "test", Value::Int32(1), doc! { "$listLocalSessions": {} });
    assert_eq!(local.len(), 1);
    let id = local[0].as_doc().get_doc("_id").unwrap();
    assert_eq!(id.get("id"), session.as_doc().get("id"));
    assert!(matches!(local[0].as_doc().get("lastUse"), Some(Value::DateTime(_))));
    let stored = Value::String("system.sessions");
    let all = shown(client, "config", stored, doc! { "$listSessions": { "allUsers": true } });
    assert_eq!(all.len(), 1);
    let count = client.run("config", doc! { "count": "system.sessions" }).unwrap();
    assert_eq!(count.as_doc().get("n"), Some(Value::Int32(0)));
    let elsewhere = doc! { "aggregate": "c", "pipeline": [{ "$listSessions": {} }], "cursor": {} };
    assert_eq!(refused(client, "test", elsewhere).0, 73);
    let both = doc! { "$listLocalSessions": { "allUsers": true, "users": [{ "user": "a", "db": "b" }] } };
    assert_eq!(refused(client, "test", doc! { "aggregate": 1, "pipeline": [(both)], "cursor": {} }).0, 12);
}

#[test]
fn commit_quorum_of_several_members_is_refused() {
    let server = TestServer::in_memory();
    let index = doc! { "key": { "a": 1 }, "name": "a_1" };
    let command = doc! { "createIndexes": "c", "indexes": [(index)], "commitQuorum": 2 };
    assert_eq!(refused(&mut server.client(), "test", command).0, 278);
}

#[test]
fn compat_30_registers_of_users_are_not_changed_by_ordinary_commands() {
    // COMPAT-30
    let server = TestServer::in_memory();
    let client = &mut server.client();
    for collection in ["_users", "system.roles"] {
        let command = doc! { "insert": collection, "documents": [{ "_id": 1 }] };
        let (code, text) = refused(client, "admin", command);
        assert!(code == 13 && text.contains("their own commands"), "{code} {text}");
    }
    let roles = doc! { "rolesInfo": "enableSharding" };
    let reply = client.run("admin", roles).unwrap();
    assert_eq!(reply.as_doc().get_array("roles").map(|roles| roles.count()), Some(0));
}

//! What users may do: by built-in roles, by roles of their own, by `_security`, and by no one.

use crate::callers::{administrator, batch, documents, guarded, may, ok, refused, signed_in, with_roles};
use diwan_store::Namespace;
use diwan_testkit::{TestClient, TestServer};
use diwan_value::{DocBuf, DocBuilder, Value, array, doc};

/// Commands that need different rights: a label, the database and the command.
fn commands() -> Vec<(&'static str, &'static str, DocBuf)> {
    let privileges = array![{ "resource": { "db": "shop", "collection": "" }, "actions": ["find"] }];
    vec![
        ("find", "shop", doc! { "find": "orders" }),
        ("count", "shop", doc! { "count": "orders" }),
        ("insert", "shop", doc! { "insert": "orders", "documents": [{ "n": 2 }] }),
        (
            "update",
            "shop",
            doc! { "update": "orders", "updates": [{ "q": { "_id": 0 }, "u": { "$set": { "n": 1 } } }] },
        ),
        ("delete", "shop", doc! { "delete": "orders", "deletes": [{ "q": { "_id": 0 }, "limit": 1 }] }),
        ("create", "shop", doc! { "create": "more" }),
        (
            "index",
            "shop",
            doc! { "createIndexes": "orders", "indexes": [{ "key": { "n": 1 }, "name": "n_1" }] },
        ),
        ("drop", "shop", doc! { "drop": "nothing" }),
        ("collMod", "shop", doc! { "collMod": "orders", "validationLevel": "off" }),
        ("validate", "shop", doc! { "validate": "orders" }),
        ("collStats", "shop", doc! { "collStats": "orders" }),
        ("dbStats", "shop", doc! { "dbStats": 1 }),
        ("list", "shop", doc! { "listCollections": 1 }),
        ("profile", "shop", doc! { "profile": 0 }),
        ("users", "shop", doc! { "usersInfo": 1 }),
        ("createRole", "shop", doc! { "createRole": "probe", "privileges": privileges, "roles": [] }),
        ("dropRole", "shop", doc! { "dropRole": "probe" }),
        ("stock", "stock", doc! { "find": "items" }),
        ("register", "admin", doc! { "find": "_users" }),
        ("status", "admin", doc! { "serverStatus": 1 }),
        ("databases", "admin", doc! { "listDatabases": 1, "authorizedDatabases": false }),
        ("ops", "admin", doc! { "currentOp": 1 }),
        ("killOp", "admin", doc! { "killOp": 1, "op": 77 }),
        ("set", "admin", doc! { "setParameter": 1, "cursorTimeoutMillis": 600_000 }),
        ("concern", "admin", doc! { "setDefaultRWConcern": 1, "defaultWriteConcern": { "w": 1 } }),
        ("fsync", "admin", doc! { "fsync": 1 }),
    ]
}

/// The labels of the commands that a client may run.
fn allowed(client: &mut TestClient) -> String {
    let labels = commands()
        .into_iter()
        .filter_map(|(label, database, command)| may(client, database, command).then_some(label));
    labels.collect::<Vec<_>>().join(" ")
}

#[test]
fn built_in_roles_allow_what_mongodb_documents() {
    let server = guarded();
    const READ: &str = "find count collStats dbStats list";
    const WRITE: &str = "find count insert update delete create index drop collStats dbStats list";
    const KEEP: &str = "create index drop collMod validate collStats dbStats list profile";
    let table = [
        ("nothing", "", String::new()),
        ("read", "shop", READ.to_owned()),
        ("readWrite", "shop", WRITE.to_owned()),
        ("dbAdmin", "shop", KEEP.to_owned()),
        ("userAdmin", "shop", "users createRole dropRole".to_owned()),
        ("dbOwner", "shop", "find count insert update delete create index drop collMod validate collStats dbStats list profile users createRole dropRole".to_owned()),
        ("read", "stock", "stock".to_owned()),
        ("readAnyDatabase", "admin", format!("{READ} stock databases")),
        ("readWriteAnyDatabase", "admin", format!("{WRITE} stock databases")),
        ("dbAdminAnyDatabase", "admin", format!("{KEEP} databases")),
        ("userAdminAnyDatabase", "admin", "users createRole dropRole register databases".to_owned()),
        ("clusterMonitor", "admin", "collStats dbStats status databases ops".to_owned()),
        ("clusterManager", "admin", "concern".to_owned()),
        ("hostManager", "admin", "killOp set fsync".to_owned()),
        ("clusterAdmin", "admin", "collStats dbStats status databases ops killOp set concern fsync".to_owned()),
        ("backup", "admin", "find count collStats list stock register status databases".to_owned()),
        ("restore", "admin", "insert create index drop collMod list users createRole dropRole register databases".to_owned()),
    ];
    for (at, (role, database, expected)) in table.iter().enumerate() {
        let roles: &[(&str, &str)] = if database.is_empty() { &[] } else { &[(role, database)] };
        let client = &mut with_roles(&server, &format!("user{at}"), roles);
        assert_eq!(allowed(client), *expected, "{role} of {database}");
    }
    let all: Vec<&str> = commands().iter().map(|(label, ..)| *label).collect();
    assert_eq!(allowed(&mut administrator(&server)), all.join(" "));
}

#[test]
fn stranger_is_refused_every_command_that_needs_a_sign_in() {
    let server = guarded();
    let listed = ok(&mut administrator(&server), "admin", doc! { "listCommands": 1 });
    let client = &mut server.client();
    let listed = listed.as_doc().get_doc("commands").unwrap();
    let mut open = Vec::new();
    for name in listed.iter().map(|command| command.key_str()) {
        match client.run("admin", doc! { name: 1 }).unwrap().as_doc() {
            reply if reply.get("code") == Some(Value::Int32(13)) => {
                let text = format!("Command {name} requires authentication");
                assert_eq!(reply.get_str("errmsg"), Some(text.as_str()));
            }
            _ => open.push(name.to_owned()),
        }
    }
    assert_eq!(
        open.join(" "),
        "authenticate buildInfo buildinfo connectionStatus endSessions hello isMaster ismaster logout ping saslContinue \
         saslStart whatsmyuri"
    );
}

#[test]
fn refusal_has_the_text_of_mongodb() {
    let server = guarded();
    let client = &mut with_roles(&server, "bob", &[("read", "stock")]);
    let (code, text) = refused(client, "shop", doc! { "find": "orders", "filter": { "n": 1 } });
    assert_eq!(code, 13);
    assert_eq!(
        text,
        "not authorized on shop to execute command { find: \"orders\", filter: { n: 1 }, $db: \"shop\" }"
    );
}

#[test]
fn options_of_writes_need_their_own_rights() {
    let server = guarded();
    let root = &mut administrator(&server);
    let privilege = |actions: DocBuf| {
        let actions: Vec<String> =
            actions.as_doc().iter().map(|action| action.key_str().to_owned()).collect();
        doc! { "resource": { "db": "shop", "collection": "orders" }, "actions": actions }
    };
    let updater = array![(privilege(doc! { "update": 1, "find": 1 }))];
    ok(root, "shop", doc! { "createRole": "updater", "privileges": updater, "roles": [] });
    let client = &mut with_roles(&server, "bob", &[("updater", "shop")]);
    let update = |upsert: bool| {
        doc! { "update": "orders", "updates": [{ "q": { "_id": 9 }, "u": { "$set": { "n": 1 } }, "upsert": upsert }] }
    };
    assert!(may(client, "shop", update(false)) && !may(client, "shop", update(true)));
    let modify = |extra: &str, value: bool| {
        let mut command = doc! { "findAndModify": "orders", "query": { "_id": 9 } }.into_builder();
        match extra {
            "remove" => command.append(extra, value),
            _ => command.append("update", doc! { "$set": { "n": 1 } }).append(extra, value),
        };
        command.finish()
    };
    assert!(may(client, "shop", modify("upsert", false)));
    assert!(!may(client, "shop", modify("upsert", true)) && !may(client, "shop", modify("remove", true)));
    assert!(!may(client, "shop", modify("bypassDocumentValidation", true)));
    let bulk = |operation: DocBuf| {
        doc! { "bulkWrite": 1, "ops": [operation], "nsInfo": [{ "ns": "shop.orders" }, { "ns": "stock.items" }] }
    };
    let only =
        |operation: DocBuf| doc! { "bulkWrite": 1, "ops": [operation], "nsInfo": [{ "ns": "shop.orders" }] };
    let change = |at: i32, upsert: bool| {
        doc! { "update": at, "filter": { "_id": 9 }, "updateMods": { "$set": { "n": 1 } }, "upsert": upsert }
    };
    assert!(may(client, "admin", only(change(0, false))));
    assert!(!may(client, "admin", bulk(change(0, false))), "every namespace needs a right");
    assert!(!may(client, "admin", only(change(0, true))));
    assert!(!may(client, "admin", only(doc! { "delete": 0, "filter": {} })));
    for at in [Value::Int32(0), Value::Double(0.0), Value::Double(0.5)] {
        assert!(!may(client, "admin", only(doc! { "insert": at, "document": {} })), "{at:?}");
    }
}

#[test]
fn field_that_stands_twice_does_not_hide_what_a_command_does() {
    let server = guarded();
    let client = &mut with_roles(&server, "bob", &[("read", "shop")]);
    let out = array![{ "$out": { "db": "stock", "coll": "items" } }];
    let mut twice = doc! { "aggregate": "orders", "cursor": {}, "pipeline": [] }.into_builder();
    twice.append("pipeline", out);
    assert_eq!(refused(client, "shop", twice.finish()).0, 40413);
    let mut lookup = DocBuilder::new();
    lookup.append("from", "orders").append("as", "all").append("pipeline", array![]);
    lookup.append("pipeline", array![{ "$unionWith": "_users" }]);
    let lookup = array![{ "$lookup": (lookup.finish()) }];
    assert_eq!(
        refused(client, "admin", doc! { "aggregate": "orders", "cursor": {}, "pipeline": lookup }).0,
        13
    );
    let mut union = DocBuilder::new();
    union.append("coll", "orders").append("coll", "other");
    let union = array![{ "$unionWith": (union.finish()) }];
    assert_eq!(
        refused(client, "shop", doc! { "aggregate": "orders", "cursor": {}, "pipeline": union }).0,
        40413
    );
    let mut statement = doc! { "q": { "_id": 9 }, "u": { "n": 1 }, "upsert": false }.into_builder();
    statement.append("upsert", true);
    let writer = &mut with_roles(&server, "eve", &[]);
    let root = &mut administrator(&server);
    let privileges = array![{ "resource": { "db": "shop", "collection": "orders" }, "actions": ["update"] }];
    ok(root, "shop", doc! { "createRole": "updater", "privileges": privileges, "roles": [] });
    ok(root, "shop", doc! { "grantRolesToUser": "eve", "roles": ["updater"] });
    assert!(!may(writer, "shop", doc! { "update": "orders", "updates": [(statement.finish())] }));
    let mut space = doc! { "ns": "shop.orders" }.into_builder();
    space.append("ns", "stock.items");
    let update = doc! { "update": 0, "filter": {}, "updateMods": { "$set": { "n": 7 } } };
    let bulk = doc! { "bulkWrite": 1, "ops": [update], "nsInfo": [(space.finish())] };
    assert_eq!(refused(writer, "admin", bulk).0, 40413);
}

#[test]
fn pipeline_needs_rights_on_everything_that_it_touches() {
    let server = guarded();
    let root = &mut administrator(&server);
    let one = |collection: &str, actions: Vec<&str>| {
        doc! { "resource": { "db": "shop", "collection": collection }, "actions": actions }
    };
    let privileges = vec![
        one("orders", vec!["find"]),
        one("copy", vec!["insert", "remove"]),
        one("added", vec!["insert"]),
        one("merged", vec!["insert", "update"]),
        one("stats", vec!["collStats", "indexStats"]),
    ];
    ok(root, "shop", doc! { "createRole": "some", "privileges": privileges, "roles": [] });
    let client = &mut with_roles(&server, "bob", &[("some", "shop")]);
    let mut runs = |stages: Vec<DocBuf>| {
        may(client, "shop", doc! { "aggregate": "orders", "cursor": {}, "pipeline": stages })
    };
    assert!(runs(vec![doc! { "$match": { "n": 1 } }]));
    let lookup =
        |from: &str| doc! { "$lookup": { "from": from, "localField": "n", "foreignField": "n", "as": "o" } };
    assert!(runs(vec![lookup("orders")]) && !runs(vec![lookup("other")]));
    let deep = doc! { "$lookup": { "from": "orders", "pipeline": [(lookup("other"))], "as": "o" } };
    assert!(!runs(vec![deep.clone()]));
    assert!(!runs(vec![doc! { "$facet": { "a": [], "b": [deep] } }]));
    assert!(runs(vec![doc! { "$unionWith": "orders" }]) && !runs(vec![doc! { "$unionWith": "other" }]));
    assert!(!runs(vec![
        doc! { "$unionWith": { "coll": "orders", "pipeline": [{ "$unionWith": { "coll": "other" } }] } }
    ]));
    assert!(!runs(vec![
        doc! { "$graphLookup": { "from": "other", "startWith": "$n", "connectFromField": "n", "connectToField": "n", "as": "g" } }
    ]));
    assert!(runs(vec![doc! { "$out": "copy" }]));
    assert!(
        !runs(vec![doc! { "$out": "added" }])
            && !runs(vec![doc! { "$out": { "db": "stock", "coll": "copy" } }])
    );
    let merge = |into: &str, matched: &str, not_matched: &str| {
        doc! { "$merge": { "into": into, "whenMatched": matched, "whenNotMatched": not_matched } }
    };
    assert!(
        runs(vec![merge("added", "keepExisting", "insert")])
            && !runs(vec![merge("added", "merge", "insert")])
    );
    assert!(
        runs(vec![merge("merged", "merge", "insert")]) && runs(vec![merge("merged", "replace", "discard")])
    );
    assert!(!runs(vec![merge("other", "replace", "discard")]) && !runs(vec![doc! { "$merge": "other" }]));
    assert!(!runs(vec![doc! { "$collStats": { "count": {} } }]));
    for (stage, argument) in [("$collStats", doc! { "count": {} }), ("$indexStats", doc! {})] {
        let pipeline = array![{ stage: argument }];
        assert!(
            may(client, "shop", doc! { "aggregate": "stats", "cursor": {}, "pipeline": pipeline }),
            "{stage}"
        );
    }
    let bypass = doc! {
        "aggregate": "orders", "cursor": {}, "pipeline": [{ "$out": "copy" }], "bypassDocumentValidation": true
    };
    assert!(!may(client, "shop", bypass));
    let explained = |stage: DocBuf| {
        doc! { "explain": { "aggregate": "orders", "cursor": {}, "pipeline": [stage] } }
    };
    assert!(
        may(client, "shop", explained(lookup("orders"))) && !may(client, "shop", explained(lookup("other")))
    );
    assert!(!may(client, "shop", doc! { "explain": { "find": "other" } }));
    assert!(!may(
        client,
        "shop",
        doc! { "explain": { "update": "orders", "updates": [{ "q": {}, "u": { "n": 1 } }] } }
    ));
}

#[test]
fn view_is_read_with_the_right_on_the_view_and_made_with_those_on_its_source() {
    let server = guarded();
    let root = &mut administrator(&server);
    ok(root, "shop", doc! { "create": "open", "viewOn": "orders", "pipeline": [{ "$project": { "n": 1 } }] });
    let privileges = array![
        { "resource": { "db": "shop", "collection": "open" }, "actions": ["find"] },
        { "resource": { "db": "shop", "collection": "mine" }, "actions": ["createCollection", "collMod", "find"] },
    ];
    ok(root, "shop", doc! { "createRole": "viewer", "privileges": privileges, "roles": [] });
    let client = &mut with_roles(&server, "bob", &[("viewer", "shop")]);
    assert_eq!(batch(&ok(client, "shop", doc! { "find": "open" })).len(), 1);
    assert!(!may(client, "shop", doc! { "find": "orders" }));
    assert!(!may(client, "shop", doc! { "create": "mine", "viewOn": "orders" }));
    ok(client, "shop", doc! { "create": "mine", "viewOn": "open" });
    let union = || array![{ "$unionWith": "orders" }];
    assert!(!may(client, "shop", doc! { "collMod": "mine", "viewOn": "orders", "pipeline": [] }));
    assert!(!may(client, "shop", doc! { "collMod": "mine", "viewOn": "open", "pipeline": (union()) }));
    assert!(!may(client, "shop", doc! { "collMod": "mine", "pipeline": (union()) }));
    assert!(may(client, "shop", doc! { "collMod": "mine", "pipeline": [{ "$limit": 1 }] }));
}

#[test]
fn rename_and_copies_open_nothing() {
    let server = guarded();
    let root = &mut administrator(&server);
    let on = |collection: &str, actions: Vec<&str>| {
        doc! { "resource": { "db": "shop", "collection": collection }, "actions": actions }
    };
    let privileges = vec![
        on("other", vec!["renameCollectionSameDB", "convertToCapped"]),
        on("mine", vec!["renameCollectionSameDB", "find", "insert", "createIndex", "convertToCapped"]),
        on("hidden", vec!["renameCollectionSameDB"]),
    ];
    ok(root, "shop", doc! { "createRole": "renamer", "privileges": privileges, "roles": [] });
    let client = &mut with_roles(&server, "bob", &[("renamer", "shop")]);
    let rename = |from: &str, to: &str| doc! { "renameCollection": from, "to": to };
    assert!(
        !may(client, "admin", rename("shop.other", "shop.mine")),
        "it would make the collection readable"
    );
    assert!(!may(client, "admin", rename("shop.other", "stock.other")));
    assert!(!may(client, "admin", rename("shop.other", "shop.orders")));
    assert!(may(client, "admin", rename("shop.other", "shop.hidden")));
    assert!(!may(
        client,
        "shop",
        doc! { "cloneCollectionAsCapped": "other", "toCollection": "mine", "size": 4096 }
    ));
    assert!(!may(
        client,
        "shop",
        doc! { "cloneCollectionAsCapped": "mine", "toCollection": "orders", "size": 4096 }
    ));
    assert!(!may(client, "shop", doc! { "profile": -1, "slowms": 0 }));
}

#[test]
fn registers_are_changed_by_nobody_directly() {
    let guarded = guarded();
    let open = TestServer::in_memory();
    for client in [&mut administrator(&guarded), &mut open.client()] {
        let writes = [
            doc! { "insert": "_users", "documents": [{ "_id": "org.couchdb.user:eve" }] },
            doc! { "update": "_users", "updates": [{ "q": {}, "u": { "$set": { "grants": [] } } }] },
            doc! { "delete": "system.roles", "deletes": [{ "q": {}, "limit": 0 }] },
            doc! { "findAndModify": "_users", "query": {}, "remove": true },
            doc! { "bulkWrite": 1, "ops": [{ "delete": 0, "filter": {} }], "nsInfo": [{ "ns": "admin._users" }] },
            doc! { "drop": "_users" },
            doc! { "create": "system.roles" },
            doc! { "renameCollection": "admin._users", "to": "shop.users" },
            doc! { "renameCollection": "shop.orders", "to": "admin.system.roles" },
            doc! { "collMod": "_users", "validator": {} },
            doc! { "createIndexes": "system.settings", "indexes": [{ "key": { "n": 1 }, "name": "n_1" }] },
            doc! { "dropIndexes": "_users", "index": "*" },
            doc! { "convertToCapped": "_users", "size": 4096 },
            doc! { "aggregate": "x", "cursor": {}, "pipeline": [{ "$out": "_users" }] },
            doc! { "aggregate": "x", "cursor": {}, "pipeline": [{ "$merge": { "into": { "db": "admin", "coll": "system.roles" } } }] },
        ];
        for command in writes {
            let (code, text) = refused(client, "admin", command.clone());
            assert!(code == 13 && text.contains("their own commands"), "{command:?}: {code} {text}");
        }
        let dropped = (20, "Dropping the 'admin' database is prohibited.".to_owned());
        assert_eq!(refused(client, "admin", doc! { "dropDatabase": 1 }), dropped);
    }
}

/// Sets the `_security` of `shop.orders`.
fn secure(server: &TestServer, object: &DocBuf) {
    let orders = Namespace::new("shop", "orders").unwrap();
    let collection = server.store().collection(&orders).unwrap().unwrap();
    collection.set_setting(diwan_access::security::SETTING, Some(Value::Document(object.as_doc()))).unwrap();
}

#[test]
fn security_object_gives_members_and_administrators_their_rights() {
    let server = guarded();
    let names = |client: &mut TestClient| {
        let command = doc! { "listCollections": 1, "nameOnly": true, "authorizedCollections": true };
        let listed = batch(&ok(client, "shop", command));
        listed.iter().map(|entry| entry.as_doc().get_str("name").unwrap().to_owned()).collect::<Vec<_>>()
    };
    let [member, chief, other] = &mut ["mia", "cleo", "otto"].map(|user| {
        server.add_user("admin", user, crate::callers::PASSWORD, &[]);
        signed_in(&server, "admin", user)
    });
    assert!(!may(member, "shop", doc! { "find": "orders" }));
    secure(&server, &doc! { "admins": { "names": ["cleo"] }, "members": { "names": ["mia"] } });
    const MEMBER: &str = "find count insert update delete collStats";
    assert_eq!(allowed(member), MEMBER, "of an open connection");
    assert_eq!(allowed(chief), "find count insert update delete index collMod validate collStats");
    assert_eq!(allowed(other), "");
    assert_eq!(names(member), ["orders"]);
    assert!(names(other).is_empty());
    let databases = |client: &mut TestClient| {
        let reply = ok(client, "admin", doc! { "listDatabases": 1, "nameOnly": true });
        documents(&reply, "databases").len()
    };
    assert_eq!((databases(member), databases(other)), (1, 0));
    secure(&server, &doc! { "admins": { "names": ["cleo"] } });
    assert_eq!(allowed(other), MEMBER, "without members the collection is open to all users");
    let nobody = &mut server.client();
    assert!(!may(nobody, "shop", doc! { "find": "orders" }), "but not to those who have not signed in");
}

#[test]
fn listings_show_what_the_caller_has_a_right_on() {
    let server = guarded();
    let root = &mut administrator(&server);
    let privileges = array![{ "resource": { "db": "shop", "collection": "other" }, "actions": ["insert"] }];
    ok(root, "shop", doc! { "createRole": "writer", "privileges": privileges, "roles": [] });
    let client = &mut with_roles(&server, "bob", &[("writer", "shop")]);
    let listed =
        ok(client, "shop", doc! { "listCollections": 1, "nameOnly": true, "authorizedCollections": true });
    assert_eq!(batch(&listed), [doc! { "name": "other", "type": "collection" }]);
    for command in
        [doc! { "listCollections": 1 }, doc! { "listCollections": 1, "authorizedCollections": true }]
    {
        assert!(!may(client, "shop", command));
    }
    for all in [None, Some(true)] {
        let mut command = doc! { "listDatabases": 1, "nameOnly": true }.into_builder();
        all.map(|all| command.append("authorizedDatabases", all).len());
        let listed = ok(client, "admin", command.finish());
        assert_eq!(documents(&listed, "databases"), [doc! { "name": "shop" }]);
    }
    assert!(!may(client, "admin", doc! { "listDatabases": 1, "authorizedDatabases": false }));
}

#[test]
fn change_of_rights_holds_for_open_connections_and_cursors() {
    let server = guarded();
    let root = &mut administrator(&server);
    let many: Vec<DocBuf> = (10..300).map(|n| doc! { "_id": n }).collect();
    ok(root, "shop", doc! { "insert": "orders", "documents": many });
    let client = &mut with_roles(&server, "bob", &[("read", "shop")]);
    let first = ok(client, "shop", doc! { "find": "orders", "batchSize": 2 });
    let id = first.as_doc().get_doc("cursor").unwrap().get("id").and_then(Value::as_i64_exact).unwrap();
    let more = || doc! { "getMore": id, "collection": "orders", "batchSize": 2 };
    ok(client, "shop", more());
    ok(root, "shop", doc! { "revokeRolesFromUser": "bob", "roles": ["read"] });
    assert_eq!(
        refused(client, "shop", more()),
        (13, format!("not authorized for getMore with cursor id {id}"))
    );
    assert!(!may(client, "shop", doc! { "find": "orders" }));
    ok(root, "shop", doc! { "grantRolesToUser": "bob", "roles": ["readWrite"] });
    ok(client, "shop", more());
    assert!(may(client, "shop", doc! { "insert": "orders", "documents": [{}] }));
    ok(root, "shop", doc! { "dropUser": "bob" });
    ok(client, "shop", doc! { "ping": 1 });
    assert_eq!(refused(client, "shop", more()), (13, "Command getMore requires authentication".to_owned()));
}

#[test]
fn replications_are_for_administrators_of_the_server() {
    let server = guarded();
    let root = &mut administrator(&server);
    let on = |collection: &str| {
        let actions = vec![
            "find",
            "insert",
            "update",
            "remove",
            "createIndex",
            "renameCollectionSameDB",
            "dropCollection",
        ];
        doc! { "resource": { "db": "shop", "collection": collection }, "actions": actions }
    };
    let privileges = vec![on("rr"), on("_replicator")];
    ok(root, "shop", doc! { "createRole": "replicates", "privileges": privileges, "roles": [] });
    let client = &mut with_roles(&server, "bob", &[("replicates", "shop")]);
    ok(client, "shop", doc! { "insert": "rr", "documents": [{ "_id": "r", "owner": "root" }] });
    ok(root, "shop", doc! { "insert": "_replicator", "documents": [{ "_id": "s" }] });
    for (from, to) in [("shop.rr", "shop._replicator"), ("shop._replicator", "shop.rr")] {
        assert!(!may(client, "admin", doc! { "renameCollection": from, "to": to, "dropTarget": true }));
    }
    // A member by `_security` would read the passwords of others here; over HTTP they are left out.
    let replications = Namespace::new("admin", "_replicator").unwrap();
    let collection = server.store().collection_or_create(&replications).unwrap();
    let object = doc! { "members": { "names": ["mia"] } };
    collection.set_setting(diwan_access::security::SETTING, Some(Value::Document(object.as_doc()))).unwrap();
    server.add_user("admin", "mia", crate::callers::PASSWORD, &[]);
    let mia = &mut signed_in(&server, "admin", "mia");
    assert!(!may(mia, "admin", doc! { "find": "_replicator" }));
}

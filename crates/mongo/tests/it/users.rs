//! Commands for users and roles: what they change, show and refuse.

use crate::callers::{
    ADA, PASSWORD, administrator, documents, guarded, is_ok, may, ok, refused, signed_in, with_roles,
};
use diwan_access::{Access, Audit, Settings};
use diwan_kv::MemoryEngine;
use diwan_store::Store;
use diwan_testkit::{TestClient, TestServer};
use diwan_value::{Doc, DocBuf, Value, array, doc};
use std::sync::Arc;

fn create(user: &str, roles: &[DocBuf]) -> DocBuf {
    doc! { "createUser": user, "pwd": PASSWORD, "roles": (roles.to_vec()), "mechanisms": ["SCRAM-SHA-256"] }
}

/// The description of one user of `shop`.
fn described(client: &mut TestClient, user: &str, option: &str) -> DocBuf {
    let mut command = doc! { "usersInfo": user }.into_builder();
    if !option.is_empty() {
        command.append(option, true);
    }
    let reply = ok(client, "shop", command.finish());
    documents(&reply, "users").pop().unwrap()
}

/// The roles in a list, as `role@db`.
fn names(doc: Doc<'_>, key: &str) -> Vec<String> {
    let list = doc.get_array(key).unwrap_or_else(|| panic!("{key} in {doc:?}"));
    let name = |role: Value<'_>| {
        let role = role.as_doc().unwrap();
        format!("{}@{}", role.get_str("role").unwrap(), role.get_str("db").unwrap())
    };
    list.iter().map(name).collect()
}

#[test]
fn user_is_created_described_changed_and_dropped() {
    let server = guarded();
    let root = &mut administrator(&server);
    let restrictions = array![{ "clientSource": ["127.0.0.1"] }];
    let command = doc! {
        "createUser": "bob", "pwd": PASSWORD, "roles": ["read", { "role": "readWrite", "db": "stock" }],
        "customData": { "desk": 7 }, "authenticationRestrictions": restrictions,
        "mechanisms": ["SCRAM-SHA-256"], "digestPassword": true, "comment": "x", "writeConcern": { "w": "majority" }
    };
    ok(root, "shop", command);
    let bob = described(root, "bob", "");
    let bob = bob.as_doc();
    let keys: Vec<&str> = bob.iter().map(|element| element.key_str()).collect();
    assert_eq!(keys, ["_id", "userId", "user", "db", "customData", "roles", "mechanisms"]);
    assert_eq!(bob.get_str("_id"), Some("shop.bob"));
    assert_eq!(names(bob, "roles"), ["read@shop", "readWrite@stock"]);
    assert!(!format!("{bob:?}").contains("storedKey"));
    let full = described(root, "bob", "showCredentials");
    let credentials = full.as_doc().get_doc("credentials").unwrap();
    assert!(credentials.get_doc("SCRAM-SHA-256").is_some_and(|scram| scram.contains_key("storedKey")));
    let full = described(root, "bob", "showAuthenticationRestrictions");
    assert_eq!(full.as_doc().get_array("authenticationRestrictions").unwrap().count(), 1);
    let full = described(root, "bob", "showPrivileges");
    assert_eq!(names(full.as_doc(), "inheritedRoles"), ["read@shop", "readWrite@stock"]);
    assert!(full.as_doc().get_array("inheritedPrivileges").is_some_and(|list| !list.is_empty()));
    ok(
        root,
        "shop",
        doc! { "updateUser": "bob", "customData": {}, "roles": ["dbAdmin"], "pwd": "another one" },
    );
    let bob = described(root, "bob", "");
    assert_eq!(names(bob.as_doc(), "roles"), ["dbAdmin@shop"]);
    assert_eq!(bob.as_doc().get_doc("customData").map(|data| data.is_empty()), Some(true));
    assert!(!is_ok(&server.client().sign_in("shop", "bob", PASSWORD).unwrap()));
    assert!(is_ok(&server.client().sign_in("shop", "bob", "another one").unwrap()));
    ok(root, "shop", doc! { "dropUser": "bob" });
    let gone = (11, "User 'bob@shop' not found".to_owned());
    assert_eq!(refused(root, "shop", doc! { "dropUser": "bob" }), gone);
    assert_eq!(refused(root, "shop", doc! { "updateUser": "bob", "roles": [] }), gone);
    assert!(documents(&ok(root, "shop", doc! { "usersInfo": "bob" }), "users").is_empty());
}

#[test]
fn users_info_has_all_its_forms() {
    let server = guarded();
    let root = &mut administrator(&server);
    for (database, user) in [("shop", "bob"), ("shop", "eve"), ("stock", "bob")] {
        ok(root, database, create(user, &[]));
    }
    let mut found = |command: DocBuf| {
        let users = documents(&ok(root, "shop", command), "users");
        users.iter().map(|user| user.as_doc().get_str("_id").unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found(doc! { "usersInfo": 1 }), ["shop.bob", "shop.eve"]);
    assert_eq!(found(doc! { "usersInfo": "eve" }), ["shop.eve"]);
    assert_eq!(found(doc! { "usersInfo": { "user": "bob", "db": "stock" } }), ["stock.bob"]);
    assert_eq!(
        found(doc! { "usersInfo": ["eve", { "user": "ada", "db": "admin" }] }),
        ["shop.eve", "admin.ada"]
    );
    let mut all = found(doc! { "usersInfo": { "forAllDBs": true } });
    all.sort();
    assert_eq!(all, ["admin.ada", "shop.bob", "shop.eve", "stock.bob"]);
    assert_eq!(found(doc! { "usersInfo": 1, "filter": { "user": "eve" } }), ["shop.eve"]);
    assert_eq!(refused(root, "shop", doc! { "usersInfo": true }).0, 2);
    let exact = (20, "Privilege or restriction details require exact-match usersInfo queries".to_owned());
    assert_eq!(refused(root, "shop", doc! { "usersInfo": 1, "showPrivileges": true }), exact);
    assert_eq!(refused(root, "shop", doc! { "usersInfo": 1, "showEverything": true }).0, 40415);
}

#[test]
fn arguments_of_create_user_are_checked() {
    let server = guarded();
    let root = &mut administrator(&server);
    let base = || doc! { "createUser": "bob", "pwd": PASSWORD, "roles": [] };
    let with = |change: DocBuf| {
        let mut command = doc! { "createUser": "bob" }.into_builder();
        for element in base().as_doc().iter().skip(1) {
            if !change.as_doc().contains_key(element.key_str()) {
                command.append_element(element);
            }
        }
        command.append_all(change.as_doc());
        command.finish()
    };
    assert_eq!(refused(root, "shop", doc! { "createUser": "bob", "roles": [] }).0, 2);
    assert_eq!(refused(root, "shop", doc! { "createUser": "bob", "pwd": PASSWORD }).0, 40414);
    assert_eq!(refused(root, "shop", doc! { "createUser": 1, "pwd": PASSWORD, "roles": [] }).0, 14);
    assert_eq!(refused(root, "shop", doc! { "createUser": "", "pwd": PASSWORD, "roles": [] }).0, 2);
    assert_eq!(refused(root, "shop", with(doc! { "pwd": "" })).0, 2);
    assert_eq!(refused(root, "shop", with(doc! { "pwd": 1 })).0, 14);
    assert_eq!(refused(root, "shop", with(doc! { "roles": ["no such role"] })).0, 31);
    assert_eq!(refused(root, "shop", with(doc! { "mechanisms": ["PLAIN"] })).0, 2);
    assert_eq!(refused(root, "shop", with(doc! { "mechanisms": [] })).0, 2);
    assert_eq!(refused(root, "shop", with(doc! { "digestPassword": false })).0, 2, "not a digest");
    assert_eq!(refused(root, "shop", with(doc! { "colour": 1 })).0, 40415);
    assert_eq!(refused(root, "$external", base()).0, 2);
    assert_eq!(refused(root, "local", base()).0, 2);
    ok(root, "$external", doc! { "createUser": "CN=bob", "roles": [{ "role": "read", "db": "shop" }] });
    ok(root, "shop", base());
    assert_eq!(refused(root, "shop", base()), (51003, "User \"bob@shop\" already exists".to_owned()));
}

#[test]
fn roles_are_defined_inherited_changed_and_dropped() {
    let server = guarded();
    let root = &mut administrator(&server);
    let find = || array![{ "resource": { "db": "shop", "collection": "orders" }, "actions": ["find"] }];
    ok(root, "shop", doc! { "createRole": "inner", "privileges": (find()), "roles": [] });
    ok(root, "shop", doc! { "createRole": "outer", "privileges": [], "roles": ["inner"] });
    let client = &mut with_roles(&server, "bob", &[("outer", "shop")]);
    assert!(may(client, "shop", doc! { "find": "orders" }));
    let info = ok(root, "shop", doc! { "rolesInfo": "outer", "showPrivileges": true });
    let outer = documents(&info, "roles").pop().unwrap();
    let outer = outer.as_doc();
    assert_eq!(
        (outer.get_str("_id"), outer.get("isBuiltin")),
        (Some("shop.outer"), Some(Value::Boolean(false)))
    );
    assert_eq!(
        (names(outer, "roles"), names(outer, "inheritedRoles")),
        (vec!["inner@shop".to_owned()], vec!["inner@shop".to_owned()])
    );
    assert_eq!(outer.get_array("privileges").unwrap().count(), 0);
    assert_eq!(outer.get_array("inheritedPrivileges").unwrap().count(), 1);
    let more = array![{ "resource": { "db": "shop", "collection": "" }, "actions": ["insert", "update"] }];
    ok(root, "shop", doc! { "grantPrivilegesToRole": "inner", "privileges": more });
    assert!(may(client, "shop", doc! { "insert": "new", "documents": [{}] }));
    let less = array![{ "resource": { "db": "shop", "collection": "" }, "actions": ["insert"] }];
    ok(root, "shop", doc! { "revokePrivilegesFromRole": "inner", "privileges": less });
    assert!(!may(client, "shop", doc! { "insert": "new", "documents": [{}] }));
    ok(root, "shop", doc! { "revokeRolesFromRole": "outer", "roles": ["inner"] });
    assert!(!may(client, "shop", doc! { "find": "orders" }));
    ok(root, "shop", doc! { "grantRolesToRole": "outer", "roles": ["inner"] });
    assert!(may(client, "shop", doc! { "find": "orders" }));
    let itself = refused(root, "shop", doc! { "grantRolesToRole": "inner", "roles": ["inner"] });
    assert_eq!(itself, (128, "Cannot grant role inner@shop to itself.".to_owned()));
    let cycle = refused(root, "shop", doc! { "grantRolesToRole": "inner", "roles": ["outer"] });
    assert_eq!(
        cycle,
        (128, "Granting outer@shop to inner@shop would introduce a cycle in the role graph.".to_owned())
    );
    ok(root, "shop", doc! { "updateRole": "inner", "privileges": [] });
    assert!(!may(client, "shop", doc! { "find": "orders" }));
    ok(root, "shop", doc! { "dropRole": "inner" });
    let info = ok(root, "shop", doc! { "rolesInfo": "outer" });
    assert!(names(documents(&info, "roles")[0].as_doc(), "roles").is_empty());
    let dropped = ok(root, "shop", doc! { "dropAllRolesFromDatabase": 1 });
    assert_eq!(dropped.as_doc().get("n"), Some(Value::Int32(1)));
    assert!(names(described(root, "bob", "").as_doc(), "roles").is_empty());
}

#[test]
fn arguments_of_role_commands_are_checked() {
    let server = guarded();
    let root = &mut administrator(&server);
    let role = |privileges: DocBuf| doc! { "createRole": "odd", "privileges": [privileges], "roles": [] };
    let on = |db: &str, action: &str| {
        doc! { "resource": { "db": db, "collection": "" }, "actions": [action] }
    };
    assert_eq!(refused(root, "shop", doc! { "createRole": "odd", "roles": [] }).0, 40414);
    assert_eq!(refused(root, "shop", doc! { "createRole": "read", "privileges": [], "roles": [] }).0, 2);
    assert_eq!(refused(root, "shop", role(on("shop", "fly"))).0, 9);
    assert_eq!(refused(root, "shop", role(on("stock", "find"))).0, 128, "a right on another database");
    assert_eq!(
        refused(root, "shop", role(doc! { "resource": { "cluster": true }, "actions": ["top"] })).0,
        128
    );
    let foreign =
        doc! { "createRole": "odd", "privileges": [], "roles": [{ "role": "read", "db": "stock" }] };
    assert_eq!(refused(root, "shop", foreign).0, 128);
    for command in ["dropRole", "grantRolesToRole", "updateRole"] {
        let mut change = doc! { command: "read" }.into_builder();
        if command != "dropRole" {
            change.append("roles", array!["dbAdmin"]);
        }
        assert_eq!(refused(root, "shop", change.finish()).0, 128, "{command} of a built-in role");
        let mut change = doc! { command: "none" }.into_builder();
        if command != "dropRole" {
            change.append("roles", array!["dbAdmin"]);
        }
        assert_eq!(refused(root, "shop", change.finish()).0, 31, "{command} of no role");
    }
    assert_eq!(refused(root, "shop", doc! { "updateRole": "none" }).0, 2);
    ok(root, "admin", role(doc! { "resource": { "cluster": true }, "actions": ["top"] }));
    assert_eq!(refused(root, "admin", doc! { "createRole": "odd", "privileges": [], "roles": [] }).0, 51002);
}

#[test]
fn roles_info_has_all_its_forms() {
    let server = guarded();
    let root = &mut administrator(&server);
    ok(root, "shop", doc! { "createRole": "own", "privileges": [], "roles": ["read"] });
    let mut found = |command: DocBuf| {
        let roles = documents(&ok(root, "shop", command), "roles");
        let name = |role: &DocBuf| {
            format!("{}.{}", role.as_doc().get_str("db").unwrap(), role.as_doc().get_str("role").unwrap())
        };
        roles.iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(found(doc! { "rolesInfo": 1 }), ["shop.own"]);
    assert_eq!(found(doc! { "rolesInfo": 1, "showBuiltinRoles": true }).len(), 6);
    assert_eq!(found(doc! { "rolesInfo": { "role": "root", "db": "admin" } }), ["admin.root"]);
    assert_eq!(found(doc! { "rolesInfo": ["own", "read", "none"] }), ["shop.own", "shop.read"]);
    let fragment = ok(root, "shop", doc! { "rolesInfo": ["own"], "showPrivileges": "asUserFragment" });
    let fragment = fragment.as_doc().get_doc("userFragment").unwrap();
    assert_eq!(names(fragment, "inheritedRoles"), ["own@shop", "read@shop"]);
    assert_eq!(refused(root, "shop", doc! { "rolesInfo": true }).0, 2);
}

#[test]
fn who_may_not_give_a_role_cannot_make_a_user_with_it() {
    let server = guarded();
    let keeper = &mut with_roles(&server, "keeper", &[("userAdmin", "shop")]);
    ok(keeper, "shop", create("reader", &[doc! { "role": "read", "db": "shop" }]));
    let root = [doc! { "role": "root", "db": "admin" }];
    assert_eq!(refused(keeper, "shop", create("chief", &root)).0, 13);
    assert_eq!(refused(keeper, "stock", create("other", &[])).0, 13);
    assert_eq!(
        refused(keeper, "shop", doc! { "grantRolesToUser": "keeper", "roles": (root.to_vec()) }).0,
        13
    );
    assert_eq!(refused(keeper, "shop", doc! { "updateUser": "keeper", "roles": (root.to_vec()) }).0, 13);
    let anything = array![{ "resource": { "anyResource": true }, "actions": ["anyAction"] }];
    assert_eq!(
        refused(keeper, "shop", doc! { "createRole": "all", "privileges": anything, "roles": [] }).0,
        13
    );
    let elsewhere = array![{ "resource": { "db": "stock", "collection": "" }, "actions": ["find"] }];
    assert_eq!(
        refused(keeper, "shop", doc! { "createRole": "all", "privileges": elsewhere, "roles": [] }).0,
        13
    );
    let ada = &mut administrator(&server);
    ok(ada, "shop", doc! { "grantRolesToUser": "reader", "roles": [{ "role": "read", "db": "stock" }] });
    assert_eq!(
        refused(keeper, "shop", doc! { "updateUser": "reader", "roles": [] }).0,
        13,
        "it would take a role of stock"
    );
    assert_eq!(refused(keeper, "admin", doc! { "usersInfo": ADA }).0, 13);
    assert_eq!(refused(keeper, "shop", doc! { "usersInfo": { "forAllDBs": true } }).0, 13);
    assert_eq!(refused(keeper, "shop", doc! { "usersInfo": "reader", "showCredentials": true }).0, 13);
}

#[test]
fn user_sees_himself_and_changes_what_he_may_of_himself() {
    let server = guarded();
    let root = &mut administrator(&server);
    let client = &mut with_roles(&server, "bob", &[("read", "shop")]);
    server.add_user("shop", "eve", PASSWORD, &[]);
    assert_eq!(documents(&ok(client, "shop", doc! { "usersInfo": "bob" }), "users").len(), 1);
    assert!(!may(client, "shop", doc! { "usersInfo": "eve" }));
    assert!(
        may(client, "shop", doc! { "rolesInfo": "read" })
            && !may(client, "shop", doc! { "rolesInfo": "dbAdmin" })
    );
    let change = || doc! { "updateUser": "bob", "pwd": "new one", "customData": { "a": 1 } };
    assert!(!may(client, "shop", change()));
    let own = array![{ "resource": { "db": "shop", "collection": "" }, "actions": ["changeOwnPassword", "changeOwnCustomData"] }];
    ok(root, "shop", doc! { "createRole": "self", "privileges": own, "roles": [] });
    ok(root, "shop", doc! { "grantRolesToUser": "bob", "roles": ["self"] });
    ok(client, "shop", change());
    assert!(!may(client, "shop", doc! { "updateUser": "eve", "pwd": "new one" }));
    assert!(!may(client, "shop", doc! { "updateUser": "bob", "roles": ["dbOwner"] }));
    let status = ok(client, "shop", doc! { "connectionStatus": 1, "showPrivileges": true });
    let info = status.as_doc().get_doc("authInfo").unwrap();
    assert_eq!(names(info, "authenticatedUserRoles"), ["read@shop", "self@shop"]);
    assert!(!info.get_array("authenticatedUserPrivileges").unwrap().is_empty());
}

#[test]
fn administrator_who_is_the_last_one_stays() {
    let server = guarded();
    let root = &mut administrator(&server);
    server.add_user("shop", "bob", PASSWORD, &[]);
    for (database, command) in [
        ("admin", doc! { "dropUser": ADA }),
        ("admin", doc! { "updateUser": ADA, "roles": [] }),
        ("admin", doc! { "revokeRolesFromUser": ADA, "roles": ["root"] }),
        ("admin", doc! { "dropAllUsersFromDatabase": 1 }),
    ] {
        let (code, text) = refused(root, database, command);
        assert!(code == 13 && text.contains("give another user the role root"), "{code} {text}");
    }
    let dropped = ok(root, "shop", doc! { "dropAllUsersFromDatabase": 1 });
    assert_eq!(dropped.as_doc().get("n"), Some(Value::Int32(1)));
    server.add_user("admin", "eve", PASSWORD, &[("userAdminAnyDatabase", "admin")]);
    ok(root, "admin", doc! { "dropUser": ADA });
    assert!(!may(root, "admin", doc! { "usersInfo": 1 }), "the connection of a user who is gone");
    assert!(may(&mut signed_in(&server, "admin", "eve"), "admin", doc! { "usersInfo": 1 }));
}

#[test]
fn first_user_must_be_an_administrator() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    let (code, text) =
        refused(client, "shop", doc! { "createUser": "bob", "pwd": PASSWORD, "roles": ["read"] });
    assert!(code == 13 && text.starts_with("The first user must be able to administer users"), "{text}");
    ok(client, "shop", doc! { "insert": "orders", "documents": [{}] });
    ok(client, "admin", doc! { "createUser": ADA, "pwd": PASSWORD, "roles": ["userAdminAnyDatabase"] });
    assert!(!may(client, "shop", doc! { "find": "orders" }));
}

#[test]
fn passwords_and_proofs_are_shown_nowhere() {
    let server = guarded();
    let root = &mut administrator(&server);
    ok(root, "shop", doc! { "profile": 2, "slowms": -1 });
    ok(root, "shop", create("bob", &[]));
    ok(root, "shop", doc! { "updateUser": "bob", "pwd": PASSWORD });
    signed_in(&server, "shop", "bob");
    let explained = doc! { "explain": { "createUser": "eve", "pwd": PASSWORD, "roles": [] } };
    let mut texts = vec![format!("{:?}", root.run("shop", explained).unwrap())];
    let weak = &mut with_roles(&server, "eve", &[]);
    for command in [create("zoe", &[]), doc! { "updateUser": "bob", "pwd": PASSWORD }] {
        let (code, text) = refused(weak, "shop", command);
        assert!(code == 13 && text.contains("not authorized on shop to execute command"), "{text}");
        texts.push(text);
    }
    texts.push(format!("{:?}", ok(root, "shop", doc! { "find": "system.profile" })));
    texts.push(format!("{:?}", ok(root, "admin", doc! { "currentOp": 1, "$all": true })));
    texts.push(format!("{:?}", ok(root, "admin", doc! { "getLog": "global" })));
    texts.push(format!("{:?}", ok(root, "admin", doc! { "usersInfo": { "forAllDBs": true } })));
    assert!(texts[3].contains("createUser"), "{}", texts[3]);
    for text in texts {
        assert!(!text.contains(PASSWORD) && !text.contains("storedKey"), "{text}");
    }
}

#[test]
fn audit_log_has_sign_ins_refusals_and_changes_without_passwords() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("audit.jsonl");
    let store = Store::open(Arc::new(MemoryEngine::new())).unwrap();
    let settings = Settings::open(store.clone(), Default::default(), Default::default()).unwrap();
    let access = Access::open(store, settings, Audit::open(&file).unwrap()).unwrap();
    let server = TestServer::with_access(access);
    server.add_user("admin", ADA, PASSWORD, &[("root", "admin")]);
    assert!(!is_ok(&server.client().sign_in("admin", ADA, "wrong guess").unwrap()));
    let root = &mut administrator(&server);
    ok(root, "shop", create("bob", &[]));
    ok(root, "shop", doc! { "createRole": "odd", "privileges": [], "roles": [] });
    ok(root, "shop", doc! { "grantRolesToUser": "bob", "roles": ["odd"] });
    refused(&mut signed_in(&server, "shop", "bob"), "shop", doc! { "find": "orders" });
    ok(root, "admin", doc! { "logout": 1 });
    let log = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<&str> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    let expected = [
        "signInFailed",
        "signIn",
        "createUser",
        "createRole",
        "grantRolesToUser",
        "signIn",
        "refused",
        "signOut",
    ];
    assert_eq!(events, expected);
    assert!(lines.iter().all(|line| line["address"] == "127.0.0.1" && line["interface"] == "mongodb"));
    assert_eq!((&lines[2]["user"]["user"], &lines[2]["name"]), (&ADA.into(), &"bob".into()));
    assert_eq!((&lines[6]["user"]["user"], &lines[6]["command"]), (&"bob".into(), &"find".into()));
    assert!(!log.contains(PASSWORD) && !log.contains("wrong guess"));
}

#[test]
fn an_administrator_of_one_databases_users_makes_no_short_http_names() {
    let server = guarded();
    let keeper = &mut with_roles(&server, "keeper", &[("userAdmin", "shop")]);
    ok(keeper, "shop", doc! { "createUser": "carla", "pwd": "x", "roles": [] });
    ok(&mut administrator(&server), "shop", doc! { "createUser": "dora", "pwd": "x", "roles": [] });
    for (user, expected) in [("carla", "carla@shop"), ("dora", "dora")] {
        let name = diwan_access::UserName::new(user, "shop");
        let found = server.access().user(&name).unwrap().unwrap();
        assert_eq!(found.http_name, expected);
    }
}

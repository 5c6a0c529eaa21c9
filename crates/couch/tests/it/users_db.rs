//! `_users`: who sees and edits which document, and the rules for all of them.

use crate::setup::{add_user, client_of, rev, secured};
use diwan_testkit::{HttpClient, TestCouch};
use serde_json::{Value, json};

fn user(name: &str) -> Value {
    json!({ "type": "user", "name": name, "roles": [], "password": "p" })
}

fn path(name: &str) -> String {
    format!("/_users/org.couchdb.user:{name}")
}

#[test]
fn user_documents_are_checked_as_couchdb_does() {
    let (_server, mut root) = secured();
    for (id, change, reason) in [
        ("a", json!({ "type": "person" }), "doc.type must be user"),
        ("a", json!({ "name": null }), "doc.name is required"),
        ("a", json!({ "name": "" }), "doc.name is required"),
        ("a", json!({ "roles": null }), "doc.roles must exist"),
        ("a", json!({ "roles": {} }), "doc.roles must be an array"),
        ("a", json!({ "roles": [1] }), "doc.roles can only contain strings"),
        ("b", json!({}), "Doc ID must be of the form org.couchdb.user:name"),
        ("a", json!({ "roles": ["_admin"] }), "No system roles (starting with underscore) in users db."),
        ("_a", json!({ "name": "_a" }), "Username may not start with underscore."),
        ("a:b", json!({ "name": "a:b" }), "Character `:` is not allowed in usernames."),
        ("a", json!({ "password_scheme": "md5", "password": null }), "Password scheme `md5` not supported."),
        ("a", json!({ "password_scheme": "pbkdf2", "password": null }), "iterations must be a number."),
        (
            "a",
            json!({ "password_scheme": "pbkdf2", "iterations": 1, "password": null }),
            "derived_key must be a string.",
        ),
    ] {
        let mut doc = user("a");
        doc.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let refused = root.put(&path(id), &doc).refusal();
        assert_eq!((refused.0, refused.1.as_str(), refused.2.as_str()), (403, "forbidden", reason), "{doc}");
    }
    assert_eq!(root.put("/_users/other", &user("a")).status, 403);
    let metrics = json!({ "type": "user", "name": "m", "roles": ["_metrics"], "password": "p" });
    assert_eq!(root.put(&path("m"), &metrics).status, 201);
    let numbers = json!({ "type": "user", "name": "n", "roles": [], "password": 7 });
    assert_eq!(root.put(&path("n"), &numbers).status, 400);
}

#[test]
fn passwords_are_hashed_on_every_way_in() {
    let (server, mut root) = secured();
    assert_eq!(root.put(&path("put"), &user("put")).status, 201);
    let mut doc = user("post");
    doc["_id"] = json!("org.couchdb.user:post");
    assert_eq!(root.post("/_users", &doc).status, 201);
    let mut docs = [user("bulk"), user("graft")];
    for doc in &mut docs {
        doc["_id"] = json!(format!("org.couchdb.user:{}", doc["name"].as_str().unwrap()));
    }
    docs[1]["_rev"] = json!("1-abc");
    assert_eq!(root.post("/_users/_bulk_docs", &json!({ "docs": [docs[0]] })).json()[0]["ok"], true);
    let graft = json!({ "new_edits": false, "docs": [docs[1]] });
    assert_eq!(root.post("/_users/_bulk_docs", &graft).json(), json!([]));
    let set = json!({ "$set": { "password": "q" } });
    assert_eq!(root.json("PATCH", &path("put"), &set).status, 201);
    for (name, password) in [("put", "q"), ("post", "p"), ("bulk", "p"), ("graft", "p")] {
        let stored = root.get(&path(name)).json();
        assert!(stored.get("password").is_none(), "{stored}");
        assert_eq!(stored["password_scheme"], "pbkdf2");
        assert_eq!((&stored["iterations"], &stored["pbkdf2_prf"]), (&json!(10), &json!("sha256")));
        assert!(stored["salt"].is_string() && stored["derived_key"].as_str().unwrap().len() == 64);
        assert_eq!(client_of(&server, name, password).get("/_session").status, 200, "{name}");
    }
}

#[test]
fn weak_passwords_are_refused_by_the_rules_of_the_settings() {
    let (_server, mut root) = secured();
    let rules = json!(r#"[{"[0-9]", "It needs a digit."}, ".{3}"]"#);
    assert_eq!(root.put("/_node/_local/_config/chttpd_auth/password_regexp", &rules).status, 200);
    let mut set = |password: &str| {
        let mut doc = user("a");
        doc["password"] = json!(password);
        root.put(&path("a"), &doc).refusal()
    };
    let refused = set("abc");
    assert_eq!(
        (refused.0, refused.2.as_str()),
        (400, "Password does not conform to requirements. It needs a digit.")
    );
    assert_eq!(set("1").2, "Password does not conform to requirements.");
    assert_eq!(set("ab1").0, 201);
}

#[test]
fn a_user_sees_his_own_document_alone() {
    let (server, mut root) = secured();
    add_user(&mut root, "ada", &["staff"]);
    add_user(&mut root, "bob", &[]);
    let mut ada = client_of(&server, "ada", "ada");
    assert_eq!(ada.get(&path("ada")).json()["name"], "ada");
    for other in [path("bob"), path("none"), "/_users/_local/x".to_owned()] {
        let refused = ada.get(&other).refusal();
        assert_eq!(
            (refused.0, refused.1.as_str(), refused.2.as_str()),
            (404, "not_found", "missing"),
            "{other}"
        );
    }
    let refused = ada.get("/_users/_design/_auth").refusal();
    assert_eq!(
        (refused.0, refused.2.as_str()),
        (403, "Only administrators can view design docs in the users database.")
    );
    let asked = json!({ "docs": [{ "id": "org.couchdb.user:ada" }, { "id": "org.couchdb.user:bob" }] });
    let got = ada.post("/_users/_bulk_get", &asked).json();
    assert_eq!(got["results"][0]["docs"][0]["ok"]["name"], "ada");
    assert_eq!(got["results"][1]["docs"][0]["error"]["error"], "not_found");
    for (method, path) in [
        ("GET", "/_users/_all_docs"),
        ("GET", "/_users/_changes"),
        ("GET", "/_users/_design_docs"),
        ("GET", "/_users/_local_docs"),
        ("POST", "/_users/_find"),
        ("POST", "/_users/_aggregate"),
        ("POST", "/_users/_revs_diff"),
        ("POST", "/_users/_index"),
        ("GET", "/_users/_design/_auth/_view/x"),
        ("PUT", "/_users/_design/x"),
        ("PUT", "/_users/_security"),
        ("POST", "/_users/_purge"),
        ("POST", "/admin%2F_users/_find"),
        ("GET", "/admin%2F_users/_all_docs"),
    ] {
        let refused = ada.send(method, path, &[("Content-Type", "application/json")], b"{}").refusal();
        assert_eq!((refused.0, refused.2.as_str()), (401, "You are not a server admin."), "{method} {path}");
    }
    assert_eq!(root.get("/_users/_all_docs").json()["total_rows"], 4);
    assert!(root.get("/_users/_design/_auth").json()["validate_doc_update"].is_string());
}

#[test]
fn public_fields_are_shown_to_all_users() {
    let (server, mut root) = secured();
    let bob = json!({ "type": "user", "name": "bob", "roles": [], "password": "p", "city": "Ulm" });
    root.put(&path("bob"), &bob);
    add_user(&mut root, "ada", &[]);
    root.put("/_node/_local/_config/chttpd_auth/public_fields", &json!("name, city"));
    let mut ada = client_of(&server, "ada", "ada");
    let mut seen = ada.get(&path("bob")).json();
    assert!(seen.as_object_mut().unwrap().remove("_rev").is_some());
    assert_eq!(seen, json!({ "_id": "org.couchdb.user:bob", "name": "bob", "city": "Ulm" }));
    assert_eq!(ada.get(&format!("{}?open_revs=all", path("bob"))).json().as_array(), None);
    assert_eq!(ada.get("/_users/org.couchdb.user:bob/file").status, 404);
}

#[test]
fn two_settings_open_the_list_of_users() {
    let (server, mut root) = secured();
    let bob = json!({ "type": "user", "name": "bob", "roles": [], "password": "p", "city": "Ulm" });
    root.put(&path("bob"), &bob);
    add_user(&mut root, "ada", &[]);
    root.put("/_users/_local/secret", &json!({ "x": 1 }));
    let mut ada = client_of(&server, "ada", "ada");
    let set = |root: &mut HttpClient, key: &str, value: &str| {
        root.put(&format!("/_node/_local/_config/chttpd_auth/{key}"), &json!(value));
    };
    let list = "/_users/_all_docs?include_docs=true&attachments=true&conflicts=true";
    set(&mut root, "users_db_public", "true");
    assert_eq!(ada.get(list).status, 401);
    set(&mut root, "public_fields", "name, city");
    let rows = ada.get(list).json()["rows"].clone();
    let of_bob = rows.as_array().unwrap().iter().find(|row| row["id"] == path("bob")[8..]).unwrap();
    assert_eq!(of_bob["doc"], json!({ "name": "bob", "city": "Ulm" }));
    assert!(of_bob["value"]["rev"].is_string());
    let text = rows.to_string();
    for hidden in ["derived_key", "salt", "roles", "credentials", "validate_doc_update"] {
        assert!(!text.contains(hidden), "{hidden} {text}");
    }
    // His own document too: lists show everybody the same.
    assert!(rows.as_array().unwrap().iter().any(|row| row["doc"] == json!({ "name": "ada" })));
    let keys = json!({ "keys": [&path("bob")[8..], "_local/secret", "_design/_auth"] });
    let named = ada.post("/_users/_all_docs?include_docs=true", &keys).json();
    assert_eq!(named["rows"][0]["doc"], json!({ "name": "bob", "city": "Ulm" }));
    assert_eq!(named["rows"][1]["error"], "not_found");
    assert_eq!(named["rows"][2]["doc"], json!({}));
    // Nothing else is open, and strangers still see nothing.
    for (method, path) in [
        ("GET", "/_users/_changes"),
        ("POST", "/_users/_find"),
        ("POST", "/_users/_all_docs/queries"),
        ("GET", "/_users/_design_docs"),
        ("GET", "/_users/_local_docs"),
        ("GET", "/_users/_design/_auth/_view/x"),
    ] {
        let kind = [("Content-Type", "application/json")];
        assert_eq!(ada.send(method, path, &kind, b"{}").status, 401, "{path}");
    }
    assert_eq!(server.client().get("/_users/_all_docs").status, 401);
    assert!(root.get(list).text().contains("derived_key"));
    set(&mut root, "users_db_public", "false");
    assert_eq!(ada.get(list).status, 401);
}

#[test]
fn a_user_edits_what_is_his() {
    let (server, mut root) = secured();
    add_user(&mut root, "ada", &["staff"]);
    add_user(&mut root, "bob", &[]);
    let mut ada = client_of(&server, "ada", "ada");
    let own = ada.get(&path("ada")).json();
    let mut edited = own.clone();
    edited["city"] = json!("Ulm");
    let reply = ada.put(&path("ada"), &edited);
    edited["_rev"] = json!(rev(&reply));
    for (field, value, reason) in [
        ("roles", json!(["boss"]), "Only _admin may edit roles"),
        ("roles", json!([]), "Only _admin may edit roles"),
        ("name", json!("bob"), "Doc ID must be of the form org.couchdb.user:name"),
        (
            "grants",
            json!([{ "role": "root", "db": "admin" }]),
            "Only administrators of users may edit `grants`",
        ),
        ("db", json!("shop"), "Only administrators of users may edit `db`"),
        ("credentials", json!({}), "Only administrators of users may edit `credentials`"),
        ("customData", json!({}), "Only administrators of users may edit `customData`"),
    ] {
        let mut doc = edited.clone();
        doc[field] = value;
        let refused = ada.put(&path("ada"), &doc).refusal();
        assert_eq!((refused.0, refused.2.as_str()), (403, reason), "{field}");
        let graft = json!({ "new_edits": false, "docs": [doc] });
        let rows = ada.post("/_users/_bulk_docs", &graft).json();
        // An edit of the same revision is known already, but it is checked before.
        assert_eq!(rows[0]["reason"], reason, "{field}: {rows}");
    }
    // Another user's document is not there.
    for (method, path) in [("PUT", path("bob")), ("DELETE", path("bob")), ("PUT", path("new"))] {
        let reply = ada.json(method, &path, &user("bob"));
        assert!(reply.status == 404 || reply.status == 403, "{method} {path} {}", reply.text());
    }
    let copy = [("Destination", "org.couchdb.user:eve")];
    assert_eq!(ada.send("COPY", &path("ada"), &copy, b"").status, 404);
    assert_eq!(ada.send("COPY", &path("bob"), &copy, b"").status, 404);
    // A new password of one's own.
    let mut doc = ada.get(&path("ada")).json();
    doc["password"] = json!("new");
    assert_eq!(ada.put(&path("ada"), &doc).status, 201);
    let mut ada = client_of(&server, "ada", "new");
    let own = ada.get(&path("ada")).json();
    assert_eq!(own["roles"], json!(["staff"]));
    let gone =
        ada.send("DELETE", &format!("{}?rev={}", path("ada"), own["_rev"].as_str().unwrap()), &[], b"");
    assert_eq!(gone.status, 200);
    assert_eq!(ada.get("/_session").status, 401);
}

#[test]
fn administrators_of_users_need_not_administer_the_server() {
    let (server, mut root) = secured();
    server.add_user("keeper", "keeper", &[("userAdminAnyDatabase", "admin")]);
    add_user(&mut root, "ada", &[]);
    let mut keeper = client_of(&server, "keeper", "keeper");
    assert_eq!(keeper.get("/_users/_all_docs").status, 200);
    let mut ada = keeper.get(&path("ada")).json();
    ada["roles"] = json!(["staff"]);
    ada["grants"] = json!([{ "role": "read", "db": "shop" }]);
    assert_eq!(keeper.put(&path("ada"), &ada).status, 201);
    assert_eq!(keeper.put(&path("bob"), &user("bob")).status, 201);
    assert_eq!(
        client_of(&server, "ada", "ada").get("/_session").json()["userCtx"]["roles"],
        json!(["staff"])
    );
    // The design documents and the server are not his.
    assert_eq!(keeper.put("/_users/_design/x", &json!({})).status, 401);
    assert_eq!(keeper.get("/_node/_local/_config").status, 401);
}

#[test]
fn strangers_may_register_where_the_server_lets_them_in() {
    let (server, mut root) = secured();
    let mut http = server.client();
    assert_eq!(http.put(&path("ada"), &user("ada")).status, 401);
    assert_eq!(root.put("/_node/_local/_config/chttpd/require_valid_user", &json!("false")).status, 200);
    assert_eq!(http.put(&path("ada"), &user("ada")).status, 201);
    let mut boss = user("eve");
    boss["roles"] = json!(["boss"]);
    assert_eq!(http.put(&path("eve"), &boss).refusal().2, "Only _admin may set roles");
    let mut root_user = user("eve");
    root_user["grants"] = json!([{ "role": "root", "db": "admin" }]);
    assert_eq!(http.put(&path("eve"), &root_user).status, 403);
    // Another's document conflicts.
    assert_eq!(http.put(&path("ada"), &user("ada")).status, 409);
    assert_eq!(http.get(&path("ada")).status, 404);
    assert_eq!(client_of(&server, "ada", "p").get("/_session").status, 200);
}

fn admin(name: &str) -> Value {
    json!({
        "_id": format!("org.couchdb.user:{name}"), "type": "user", "name": name, "roles": [], "password": "p",
        "grants": [{ "role": "root", "db": "admin" }]
    })
}

#[test]
fn the_first_user_is_an_administrator() {
    let server = TestCouch::in_memory();
    let mut http = server.client();
    server.couch().access().settings.set("chttpd_auth", "iterations", Some("10")).unwrap();
    let refused = http.put(&path("ada"), &user("ada")).refusal();
    assert_eq!((refused.0, refused.1.as_str()), (403, "forbidden"));
    assert!(refused.2.starts_with("The first user must be able to administer users"), "{}", refused.2);
    assert_eq!(http.put(&path("ada"), &admin("ada")).status, 201);
    assert_eq!(http.get("/_all_dbs").status, 401);
    assert_eq!(client_of(&server, "ada", "p").get("/_all_dbs").status, 200);
}

fn is_last(http: &mut HttpClient, method: &str, path: &str, body: &Value) {
    let reply = http.json(method, path, body);
    assert!(
        reply.text().contains("leave nobody who may administer users"),
        "{method} {path} {}",
        reply.text()
    );
}

#[test]
fn the_last_administrator_stays() {
    let (server, mut root) = secured();
    let own = root.get(&path("root")).json();
    let rev = own["_rev"].as_str().unwrap().to_owned();
    is_last(&mut root, "DELETE", &format!("{}?rev={rev}", path("root")), &json!({}));
    let mut deleted = own.clone();
    deleted["_deleted"] = json!(true);
    is_last(&mut root, "PUT", &path("root"), &deleted);
    is_last(&mut root, "POST", "/_users/_bulk_docs", &json!({ "docs": [deleted] }));
    is_last(&mut root, "POST", "/_users/_bulk_docs", &json!({ "new_edits": false, "docs": [deleted] }));
    is_last(&mut root, "POST", "/_users/_purge", &json!({ "org.couchdb.user:root": [rev] }));
    let mut plain = own.clone();
    plain.as_object_mut().unwrap().remove("grants");
    is_last(&mut root, "PUT", &path("root"), &plain);
    is_last(&mut root, "PATCH", &path("root"), &json!({ "$unset": { "grants": 1 } }));
    is_last(&mut root, "DELETE", "/_node/_local/_config/admins/root", &json!({}));
    let refused = root.send("DELETE", "/_users", &[], b"").refusal();
    assert_eq!((refused.0, refused.1.as_str()), (403, "forbidden"));
    // Of two, not both in one request.
    assert_eq!(root.put(&path("ada"), &admin("ada")).status, 201);
    let mut other = root.get(&path("ada")).json();
    other["_deleted"] = json!(true);
    let rows = root.post("/_users/_bulk_docs", &json!({ "docs": [deleted, other] })).json();
    assert_eq!(rows[0]["ok"], true);
    // The first deletion took effect at once: the second one has no author any more, or is the last administrator's.
    assert!(rows[1]["error"].is_string(), "{rows}");
    assert_eq!(client_of(&server, "ada", "p").get("/_all_dbs").status, 200);
}

#[test]
fn the_security_object_of_users_is_closed_by_default() {
    let (server, mut root) = secured();
    let object = json!({ "admins": { "names": ["ada"], "roles": [] } });
    let refused = root.put("/_users/_security", &object).refusal();
    assert_eq!(
        (refused.0, refused.2.as_str()),
        (403, "You can't edit the security object of the user database.")
    );
    root.put("/_node/_local/_config/couchdb/users_db_security_editable", &json!("true"));
    assert_eq!(root.put("/_users/_security", &object).status, 200);
    add_user(&mut root, "ada", &[]);
    let mut ada = client_of(&server, "ada", "ada");
    assert_eq!(ada.get("/_users/_all_docs").status, 200);
    let mut bob = user("bob");
    bob["roles"] = json!(["staff"]);
    assert_eq!(ada.put(&path("bob"), &bob).status, 201);
    // Rights on the server are not hers to give.
    assert_eq!(ada.put(&path("eve"), &admin("eve")).status, 403);
}

#[test]
fn administrators_of_the_users_database_do_not_take_over_users_with_privileges() {
    let (server, mut root) = secured();
    server.add_user("anna", "anna", &[("root", "admin")]);
    add_user(&mut root, "ada", &[]);
    add_user(&mut root, "bob", &[]);
    root.put("/_node/_local/_config/couchdb/users_db_security_editable", &json!("true"));
    root.put("/_users/_security", &json!({ "admins": { "names": ["ada"], "roles": [] } }));
    let mut ada = client_of(&server, "ada", "ada");
    let mut anna = ada.get(&path("anna")).json();
    anna["password"] = json!("taken");
    assert_eq!(ada.put(&path("anna"), &anna).status, 403);
    let rev = anna["_rev"].as_str().unwrap();
    assert_eq!(ada.send("DELETE", &format!("{}?rev={rev}", path("anna")), &[], b"").status, 403);
    let mut bob = ada.get(&path("bob")).json();
    bob["password"] = json!("new");
    assert_eq!(ada.put(&path("bob"), &bob).status, 201);
    assert_eq!(client_of(&server, "anna", "anna").get("/_session").status, 200);
}

#[test]
fn a_user_does_not_make_sign_ins_expensive() {
    let (server, mut root) = secured();
    add_user(&mut root, "ada", &[]);
    let mut ada = client_of(&server, "ada", "ada");
    let own = ada.get(&path("ada")).json();
    for iterations in [0, 1_000_001, 10_000_000] {
        let mut doc = own.clone();
        doc["iterations"] = json!(iterations);
        let refused = ada.put(&path("ada"), &doc).refusal();
        assert_eq!((refused.0, refused.2.as_str()), (403, "iterations must be between 1 and 1000000."));
    }
    root.put("/_node/_local/_config/chttpd_auth/max_iterations", &json!("2000000"));
    let mut doc = own.clone();
    doc["iterations"] = json!(1_500_000);
    assert_eq!(ada.put(&path("ada"), &doc).status, 201);
}

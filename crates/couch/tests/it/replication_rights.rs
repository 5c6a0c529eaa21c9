//! Replications on servers with users: passwords for remote databases, the owner's rights on local ones.

use crate::setup::{add_user, client_of, secured};
use diwan_couch::Config;
use diwan_testkit::{HttpClient, TestCouch};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A server with the database `db`, whose member is `mia`, and one document in it.
fn source() -> (TestCouch, HttpClient) {
    let (server, mut root) = secured();
    assert_eq!(root.put("/db", &json!({})).status, 201);
    add_user(&mut root, "mia", &[]);
    add_user(&mut root, "sam", &[]);
    let object = json!({ "members": { "names": ["mia"], "roles": [] }, "admins": { "names": ["nobody"], "roles": [] } });
    assert_eq!(root.put("/db/_security", &object).status, 200);
    assert_eq!(root.put("/db/doc", &json!({ "n": 1 })).status, 201);
    (server, root)
}

fn url(server: &TestCouch, login: &str) -> String {
    format!("http://{login}{}/db", server.address())
}

/// A server for `localhost` that speaks TLS alone, and its certificate.
fn encrypted(directory: &Path) -> (TestCouch, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let file = directory.join("certificate.pem");
    std::fs::write(&file, made.cert.pem()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let (_, tls) = tokio::sync::watch::channel(Arc::new(config));
    (TestCouch::with_config(Config { tls: Some(tls), ..Config::default() }), file)
}

#[test]
fn servers_with_certificates_of_ones_own_are_trusted_by_a_setting() {
    let directory = tempfile::tempdir().unwrap();
    let (far, file) = encrypted(directory.path());
    far.add_user("root", "secret", &[("root", "admin")]);
    let (_near, mut root) = source();
    let target = |name: &str| json!(format!("https://root:secret@localhost:{}/{name}", far.address().port()));
    let copy = |root: &mut HttpClient, name: &str| {
        let body = json!({ "source": "db", "target": target(name), "create_target": true, "retries_per_request": 0 });
        root.post("/_replicate", &body).status
    };
    assert!(copy(&mut root, "unknown") >= 400);
    let setting = "/_node/_local/_config/replicator/ssl_trusted_certificates_file";
    assert_eq!(root.put(setting, &json!(file.to_str().unwrap())).status, 200);
    assert_eq!(copy(&mut root, "trusted"), 200);
    root.put(setting, &json!("/nowhere"));
    assert!(copy(&mut root, "unreadable") >= 400);
    root.send("DELETE", setting, &[], b"");
    assert!(copy(&mut root, "again") >= 400);
    root.put("/_node/_local/_config/replicator/verify_ssl_certificates", &json!("false"));
    assert_eq!(copy(&mut root, "unverified"), 200);
}

fn replicate(http: &mut HttpClient, source: &Value, target: &Value) -> (u16, Value) {
    let reply = http.post("/_replicate", &json!({ "source": source, "target": target }));
    (reply.status, reply.json())
}

fn until(what: &str, mut is_done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn remote_databases_get_the_password_in_each_form() {
    let (far, _) = source();
    let (_near, mut root) = source();
    let header = json!({ "Authorization": "Basic bWlhOm1pYQ==" });
    let session = "\"couch_replicator_auth_session\"";
    for (name, plugins) in [("one", session), ("two", "\"couch_replicator_auth_noop\"")] {
        let plugins: Value = serde_json::from_str(plugins).unwrap();
        assert_eq!(root.put("/_node/_local/_config/replicator/auth_plugins", &plugins).status, 200);
        for (at, endpoint) in [
            json!(url(&far, "mia:mia@")),
            json!({ "url": url(&far, ""), "auth": { "basic": { "username": "mia", "password": "mia" } } }),
            json!({ "url": url(&far, ""), "headers": header }),
        ]
        .iter()
        .enumerate()
        {
            let target = format!("{name}{at}");
            assert_eq!(root.put(&format!("/{target}"), &json!({})).status, 201);
            let (status, answer) = replicate(&mut root, endpoint, &json!(target));
            assert_eq!((status, &answer["ok"]), (200, &json!(true)), "{endpoint} {answer}");
            assert_eq!(root.get(&format!("/{target}/doc")).status, 200, "{endpoint}");
        }
    }
    for login in ["", "mia:wrong@", "sam:sam@"] {
        let (status, answer) = replicate(&mut root, &json!(url(&far, login)), &json!("db"));
        assert!(status >= 400, "{login} {answer}");
        assert!(!answer.to_string().contains("wrong"), "{answer}");
    }
    let log = root.get("/_scheduler/jobs").text() + &root.get("/_active_tasks").text();
    assert!(!log.contains(":mia@"), "{log}");
}

#[test]
fn a_server_that_ends_sessions_is_signed_in_to_again() {
    let (far, mut far_root) = source();
    let (_near, mut root) = source();
    root.put("/copy", &json!({}));
    far_root.put("/_node/_local/_config/chttpd_auth/timeout", &json!("2"));
    let body = json!({ "source": url(&far, "mia:mia@"), "target": "copy", "continuous": true });
    assert_eq!(root.post("/_replicate", &body).status, 202);
    until("the first document", || root.get("/copy/doc").status == 200);
    std::thread::sleep(Duration::from_millis(2500));
    far_root.put("/_node/_local/_config/chttpd_auth/secret", &json!("another"));
    far_root.put("/db/later", &json!({}));
    until("a document after the session", || root.get("/copy/later").status == 200);
}

#[test]
fn local_databases_are_reached_with_the_callers_rights() {
    let (server, mut root) = source();
    root.put("/hers", &json!({}));
    root.put("/hers/_security", &json!({ "members": { "names": ["mia", "sam"] } }));
    let mut mia = client_of(&server, "mia", "mia");
    assert_eq!(replicate(&mut mia, &json!("db"), &json!("hers")).0, 200);
    assert_eq!(mia.get("/hers/doc").status, 200);
    let mut sam = client_of(&server, "sam", "sam");
    let (status, answer) = replicate(&mut sam, &json!("db"), &json!("hers"));
    assert!(status >= 400, "{answer}");
    let body = json!({ "source": "hers", "target": "new", "create_target": true });
    assert!(sam.post("/_replicate", &body).status >= 400);
    assert_eq!(root.get("/new").status, 404);
    // Documents of users come as edits of the caller.
    let users = json!({ "_id": "org.couchdb.user:eve", "type": "user", "name": "eve", "roles": [], "grants": [{ "role": "root", "db": "admin" }], "password": "p" });
    assert_eq!(sam.put("/hers/org.couchdb.user:eve", &users).status, 201);
    replicate(&mut sam, &json!("hers"), &json!("_users"));
    assert_eq!(root.get("/_users/org.couchdb.user:eve").status, 404);
}

#[test]
fn replications_are_cancelled_by_their_owner() {
    let (server, mut root) = source();
    root.put("/hers", &json!({}));
    root.put("/hers/_security", &json!({ "members": { "names": ["mia", "sam"] } }));
    let mut mia = client_of(&server, "mia", "mia");
    let body = json!({ "source": "db", "target": "hers", "continuous": true });
    let started = mia.post("/_replicate", &body);
    assert_eq!(started.status, 202);
    let cancel = json!({ "replication_id": started.json()["_local_id"], "cancel": true });
    let mut sam = client_of(&server, "sam", "sam");
    assert_eq!(sam.post("/_replicate", &cancel).status, 401);
    let job = &root.get("/_scheduler/jobs").json()["jobs"][0];
    assert_eq!(job["user"], "mia");
    assert_eq!(mia.post("/_replicate", &cancel).status, 200);
}

#[test]
fn replication_documents_belong_to_their_authors() {
    let (server, mut root) = source();
    root.put("/hers", &json!({}));
    root.put("/hers/_security", &json!({ "members": { "names": ["mia", "sam"] } }));
    let members = json!({ "members": { "names": ["mia", "sam"], "roles": [] } });
    assert_eq!(root.put("/_replicator/_security", &members).status, 200);
    let (mut mia, mut sam) = (client_of(&server, "mia", "mia"), client_of(&server, "sam", "sam"));
    let far = "http://far:secret@127.0.0.1:9/db";
    let remote = json!({
        "source": { "url": far, "headers": { "X": "token" }, "auth": { "basic": { "username": "a", "password": "b" } } },
        "target": "hers", "continuous": true
    });
    assert_eq!(mia.put("/_replicator/remote", &remote).status, 201);
    let own = mia.get("/_replicator/remote").json();
    assert_eq!((&own["owner"], &own["source"]["url"]), (&json!("mia"), &json!(far)));
    // Others see no passwords, and change nothing.
    let seen = sam.get("/_replicator/remote").json();
    assert_eq!(seen["source"], json!({ "url": "http://127.0.0.1:9/db" }));
    assert_eq!(root.get("/_replicator/remote").json()["source"]["url"], far);
    for (method, path) in
        [("GET", "/_replicator/_all_docs"), ("GET", "/_replicator/_changes"), ("POST", "/_replicator/_find")]
    {
        let reply = sam.send(method, path, &[("Content-Type", "application/json")], b"{}");
        assert_eq!(reply.status, 401, "{path}");
    }
    let asked = json!({ "docs": [{ "id": "remote" }] });
    assert!(!sam.post("/_replicator/_bulk_get", &asked).text().contains("secret"));
    assert!(!sam.get("/_replicator/remote?open_revs=all").text().contains("secret"));
    assert_eq!(sam.send("COPY", "/_replicator/remote", &[("Destination", "copy")], b"").status, 404);
    let rev = own["_rev"].as_str().unwrap();
    let mut taken = remote.clone();
    taken["_rev"] = json!(rev);
    let refused = sam.put("/_replicator/remote", &taken).refusal();
    assert_eq!(
        (refused.0, refused.2.as_str()),
        (403, "Can't update replication documents from other users.")
    );
    taken["_id"] = json!("remote");
    assert_eq!(
        sam.post("/_replicator/_bulk_docs", &json!({ "docs": [taken] })).json()[0]["error"],
        "forbidden"
    );
    assert_eq!(sam.send("DELETE", &format!("/_replicator/remote?rev={rev}"), &[], b"").status, 404);
    // Nobody gives a replication to somebody else, except administrators.
    let mut given = json!({ "source": "db", "target": "hers", "owner": "mia" });
    assert_eq!(sam.put("/_replicator/given", &given).status, 403);
    // A replication has the rights of its owner: sam may not read `db`, mia may.
    assert_eq!(sam.put("/_replicator/denied", &json!({ "source": "db", "target": "hers" })).status, 201);
    until("the refusal", || {
        let state = root.get("/_scheduler/docs/_replicator/denied").json();
        state["state"] == "crashing" || state["state"] == "failed"
    });
    assert_eq!(mia.get("/hers/doc").status, 404);
    // The same replication with another owner has the same id.
    let denied = sam.get("/_replicator/denied").json();
    let path = format!("/_replicator/denied?rev={}", denied["_rev"].as_str().unwrap());
    assert_eq!(sam.send("DELETE", &path, &[], b"").status, 200);
    until("the end of the other replication", || {
        root.get("/_scheduler/docs/_replicator/denied").status == 404
    });
    given["owner"] = json!("mia");
    assert_eq!(root.put("/_replicator/given", &given).status, 201);
    until("the document", || mia.get("/hers/doc").status == 200);
    assert_eq!(root.get("/_replicator/given").json()["owner"], "mia");
}

#[test]
fn administrators_of_a_replicator_database_lend_no_rights() {
    let (server, mut root) = source();
    root.put("/shop%2F_replicator", &json!({}));
    let object =
        json!({ "admins": { "names": ["sam"], "roles": [] }, "members": { "names": ["sam"], "roles": [] } });
    for database in ["/shop%2F_replicator", "/_replicator"] {
        assert_eq!(root.put(&format!("{database}/_security"), &object).status, 200);
        let theirs = json!({ "source": "http://127.0.0.1:9/x", "target": "hers", "owner": "mia" });
        assert_eq!(root.put(&format!("{database}/theirs"), &theirs).status, 201);
        let mut sam = client_of(&server, "sam", "sam");
        for owner in [json!("mia"), json!("root"), json!(null)] {
            let forged = json!({ "source": "db", "target": "mine", "create_target": true, "owner": owner });
            assert_eq!(sam.put(&format!("{database}/forged"), &forged).status, 403, "{owner}");
            let graft = json!({ "new_edits": false, "docs": [
                { "_id": "forged", "_rev": "1-abc", "source": "db", "target": "mine", "owner": owner }
            ] });
            let rows = sam.post(&format!("{database}/_bulk_docs"), &graft).json();
            assert_eq!(rows[0]["error"], "forbidden", "{rows}");
        }
        // With an edit of somebody else's document he would get that owner's rights, too.
        let mut edited = sam.get(&format!("{database}/theirs")).json();
        edited["source"] = json!("db");
        assert_eq!(sam.put(&format!("{database}/theirs"), &edited).status, 403);
        let rev = edited["_rev"].as_str().unwrap();
        let gone = sam.send("DELETE", &format!("{database}/theirs?rev={rev}"), &[], b"");
        assert_eq!(gone.status, 200, "{}", gone.text());
    }
}

#[test]
fn administrators_lend_replications_a_name_and_roles() {
    let (server, mut root) = source();
    let members = json!({ "members": { "names": ["mia"], "roles": ["staff"] } });
    for database in ["hers", "by_role"] {
        root.put(&format!("/{database}"), &json!({}));
        root.put(&format!("/{database}/_security"), &members);
    }
    let validate = "function (doc, old, user) { if (!doc._id.startsWith('_')) { throw { forbidden: JSON.stringify(user) }; } }";
    root.put("/told", &json!({}));
    root.put("/told/_security", &members);
    root.put("/told/_design/d", &json!({ "validate_doc_update": validate }));
    let ask = |http: &mut HttpClient, target: &str, context: &Value| {
        let body = json!({ "source": "db", "target": target, "user_ctx": context });
        let reply = http.post("/_replicate", &body);
        (reply.status, reply.json())
    };
    // As mia, who may read `db` and write `hers`; as sam, who may neither; with a role that may not read `db`.
    assert_eq!(ask(&mut root, "hers", &json!({ "name": "mia", "roles": [] })).0, 200);
    assert_eq!(root.get("/hers/doc").status, 200);
    assert!(ask(&mut root, "hers", &json!({ "name": "sam", "roles": [] })).0 >= 400);
    assert!(ask(&mut root, "by_role", &json!({ "name": null, "roles": ["staff"] })).0 >= 400);
    assert!(ask(&mut root, "by_role", &json!({})).0 >= 400);
    assert_eq!(ask(&mut root, "by_role", &json!({ "roles": ["_admin"] })).0, 200);
    // What functions see of the author.
    let (_, answer) = ask(&mut root, "told", &json!({ "name": "mia", "roles": ["x"] }));
    assert_eq!(answer["history"][0]["doc_write_failures"], 1, "{answer}");
    // Others only give what is theirs.
    let mut mia = client_of(&server, "mia", "mia");
    for (context, reason) in [
        (json!({ "name": "root" }), "The given `user_ctx.name' is not valid"),
        (json!({ "name": "mia", "roles": ["_admin"] }), "Invalid role (`_admin') in the `user_ctx'"),
        (json!({ "roles": ["staff"] }), "Invalid role (`staff') in the `user_ctx'"),
    ] {
        let (status, answer) = ask(&mut mia, "hers", &context);
        assert_eq!((status, &answer["reason"]), (403, &json!(reason)), "{context}");
    }
    assert_eq!(ask(&mut mia, "hers", &json!({ "name": "mia", "roles": [] })).0, 200);
    assert_eq!(ask(&mut mia, "hers", &json!("root")).0, 400);
}

#[test]
fn documents_of_replications_hold_a_name_and_roles() {
    let (server, mut root) = source();
    root.put("/hers", &json!({}));
    root.put("/hers/_security", &json!({ "members": { "names": ["mia"], "roles": [] } }));
    let members = json!({ "members": { "names": ["mia", "sam"], "roles": [] } });
    root.put("/_replicator/_security", &members);
    let doc = |context: Value| json!({ "source": "db", "target": "hers", "user_ctx": context });
    let mut sam = client_of(&server, "sam", "sam");
    for context in [
        json!({ "name": "root", "roles": ["_admin"] }),
        json!({ "roles": ["_admin"] }),
        json!({ "name": "mia" }),
    ] {
        let refused = sam.put("/_replicator/r", &doc(context.clone())).refusal();
        assert_eq!((refused.0, refused.1.as_str()), (403, "forbidden"), "{context}");
        // Also where a document is stored as another server's, or as one that has failed.
        let mut failed = doc(context.clone());
        failed["_replication_state"] = json!("failed");
        assert_eq!(sam.put("/_replicator/r", &failed).status, 403, "{context}");
        let mut grafted = doc(context);
        grafted["_id"] = json!("r");
        grafted["_rev"] = json!("1-00000000000000000000000000000001");
        let bulk = json!({ "new_edits": false, "docs": [grafted] });
        assert_eq!(sam.post("/_replicator/_bulk_docs", &bulk).json()[0]["error"], "forbidden");
    }
    for bad in [json!(1), json!({ "name": "" }), json!({ "name": "mia", "roles": "x" })] {
        assert_eq!(root.put("/_replicator/r", &doc(bad)).status, 403);
    }
    // With a name that may do nothing; then with one that may.
    assert_eq!(root.put("/_replicator/r", &doc(json!({ "name": "sam", "roles": [] }))).status, 201);
    let state =
        |root: &mut HttpClient, id: &str| root.get(&format!("/_scheduler/docs/_replicator/{id}")).json();
    until("the refusal", || matches!(state(&mut root, "r")["state"].as_str(), Some("crashing" | "failed")));
    assert_eq!(root.get("/hers/doc").status, 404);
    assert_eq!(root.get("/_scheduler/jobs").json()["jobs"][0]["user"], "sam");
    let mut edited = root.get("/_replicator/r").json();
    edited["user_ctx"] = json!({ "name": "mia" });
    assert_eq!(root.put("/_replicator/r", &edited).status, 201);
    until("the document", || root.get("/hers/doc").status == 200);
    // Whoever is no administrator any more lends nothing.
    assert_eq!(root.put("/_node/_local/_config/admins/ada", &json!("ada")).status, 200);
    let mut ada = client_of(&server, "ada", "ada");
    let mut continuous = doc(json!({ "name": "mia", "roles": [] }));
    continuous["continuous"] = json!(true);
    assert_eq!(ada.put("/_replicator/c", &continuous).status, 201);
    until("its start", || state(&mut root, "c")["state"] == "running");
    assert_eq!(root.send("DELETE", "/_node/_local/_config/admins/ada", &[], b"").status, 200);
    root.put("/db/later", &json!({}));
    until("its end", || state(&mut root, "c")["state"] == "crashing");
    assert_eq!(root.get("/hers/later").status, 404);
}

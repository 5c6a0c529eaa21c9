//! Who calls: passwords, sessions, tokens, proxies.

use crate::setup::{add_user, client_of, secured};
use diwan_access::{Access, Audit, Settings};
use diwan_couch::Config;
use diwan_kv::MemoryEngine;
use diwan_store::Store;
use diwan_testkit::{HttpClient, HttpReply, TestCouch};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn set(root: &mut HttpClient, section: &str, key: &str, value: &str) {
    let reply = root.put(&format!("/_node/_local/_config/{section}/{key}"), &json!(value));
    assert_eq!(reply.status, 200, "{}", reply.text());
}

fn sign_in(http: &mut HttpClient, name: &str, password: &str) -> HttpReply {
    http.post("/_session", &json!({ "name": name, "password": password }))
}

/// The cookie of a reply, as a client sends it back.
fn cookie(reply: &HttpReply) -> String {
    let header = reply.header("set-cookie").expect("a cookie");
    header.split(';').next().unwrap().to_owned()
}

fn who(http: &mut HttpClient, headers: &[(&str, &str)]) -> Value {
    http.send("GET", "/_session", headers, b"").json()["userCtx"]["name"].clone()
}

#[test]
fn strangers_reach_the_session_and_little_else() {
    let (server, mut root) = secured();
    root.put("/db", &json!({}));
    let mut http = server.client();
    for path in ["/", "/_up", "/_session", "/favicon.ico", "/_utils/"] {
        assert_eq!(http.get(path).status, 200, "{path}");
    }
    for (method, path) in [
        ("GET", "/_all_dbs"),
        ("GET", "/_uuids"),
        ("GET", "/db"),
        ("GET", "/none"),
        ("GET", "/db/doc"),
        ("PUT", "/db"),
        ("PUT", "/new"),
        ("DELETE", "/db"),
        ("GET", "/_users"),
        ("PUT", "/_users/org.couchdb.user:x"),
        ("GET", "/_node/_local/_config"),
        ("PATCH", "/_all_dbs"),
        ("GET", "/db/_changes?feed=continuous"),
        ("POST", "/_replicate"),
        ("GET", "/%ff"),
    ] {
        let reply = http.send(method, path, &[("Content-Type", "application/json")], b"{}");
        let expected = (401, "unauthorized".to_owned(), "Authentication required.".to_owned());
        assert_eq!(reply.refusal(), expected, "{method} {path}");
        assert_eq!(reply.header("www-authenticate"), Some("Basic realm=\"server\""), "{method} {path}");
    }
    let asked = http.send("GET", "/db", &[("X-CouchDB-WWW-Authenticate", "Cookie")], b"");
    assert_eq!(asked.header("www-authenticate"), Some("Cookie"));
}

#[test]
fn basic_sign_ins_are_checked() {
    let (server, mut root) = secured();
    add_user(&mut root, "ada", &["staff"]);
    let session = client_of(&server, "ada", "ada").get("/_session").json();
    assert_eq!(session["userCtx"], json!({ "name": "ada", "roles": ["staff"] }));
    assert_eq!(session["info"]["authenticated"], "default");
    assert_eq!(session["info"]["authentication_handlers"], json!(["cookie", "default"]));
    let roles = root.get("/_session").json()["userCtx"]["roles"].clone();
    assert_eq!(roles, json!(["_admin"]));
    for (name, password) in [("ada", "eve"), ("eve", "ada"), ("", ""), ("ada", "")] {
        let reply = client_of(&server, name, password).get("/_session");
        let expected = (401, "unauthorized".to_owned(), "Name or password is incorrect.".to_owned());
        assert_eq!(reply.refusal(), expected, "{name}:{password}");
    }
    let mut http = server.client();
    for (header, reason) in [
        ("Bearer x", "Authorization header is invalid"),
        ("Basic %", "Authorization header has invalid base64 value"),
    ] {
        let refused = http.send("GET", "/_session", &[("Authorization", header)], b"").refusal();
        assert_eq!((refused.0, refused.2.as_str()), (400, reason));
    }
    // The password by which browsers sign out.
    assert_eq!(who(&mut http, &[("Authorization", "Basic Xzpf")]), Value::Null);
}

#[test]
fn repeated_failures_are_slowed_but_not_for_others() {
    let (server, mut root) = secured();
    add_user(&mut root, "ada", &[]);
    let began = Instant::now();
    for _ in 0..7 {
        assert_eq!(client_of(&server, "ada", "wrong").get("/").status, 401);
    }
    assert!(began.elapsed() >= Duration::from_millis(250), "{:?}", began.elapsed());
    // A password that was right before needs no new check.
    let began = Instant::now();
    assert_eq!(root.get("/_all_dbs").status, 200);
    assert!(began.elapsed() < Duration::from_millis(250), "{:?}", began.elapsed());
}

#[test]
fn sessions_begin_go_on_and_end() {
    let (server, mut root) = secured();
    add_user(&mut root, "ada", &["staff"]);
    let mut http = server.client();
    let reply = sign_in(&mut http, "ada", "ada");
    assert_eq!(reply.json(), json!({ "ok": true, "name": "ada", "roles": ["staff"] }));
    let header = reply.header("set-cookie").unwrap().to_owned();
    assert!(header.starts_with("AuthSession="), "{header}");
    for attribute in ["; Version=1", "; Max-Age=600", "; Path=/", "; HttpOnly", "; Expires="] {
        assert!(header.contains(attribute), "{header}");
    }
    assert!(!header.contains("Secure") && !header.contains("SameSite"), "{header}");
    let cookie = cookie(&reply);
    let session = http.send("GET", "/_session", &[("Cookie", &cookie)], b"").json();
    assert_eq!(session["userCtx"]["name"], "ada");
    assert_eq!(session["info"]["authenticated"], "cookie");
    let form = b"name=ada&password=ada";
    let kind = [("Content-Type", "application/x-www-form-urlencoded")];
    assert_eq!(http.send("POST", "/_session", &kind, form).status, 200);
    let reply = sign_in(&mut http, "ada", "wrong");
    assert_eq!(reply.refusal().2, "Name or password is incorrect.");
    assert!(reply.header("set-cookie").unwrap().starts_with("AuthSession=;"));
    assert_eq!(reply.header("www-authenticate"), None);
    assert_eq!(http.post("/_session", &json!({ "password": "x" })).status, 400);
    let both = json!({ "name": "a", "username": "b", "password": "x" });
    assert_eq!(http.post("/_session", &both).refusal().2, "request body contains different usernames");
    let gone = http.send("DELETE", "/_session", &[("Cookie", &cookie)], b"");
    assert_eq!(gone.json(), json!({ "ok": true }));
    assert!(gone.header("set-cookie").unwrap().starts_with("AuthSession=;"));
}

#[test]
fn session_redirects_stay_on_the_server() {
    let (server, mut root) = secured();
    add_user(&mut root, "ada", &[]);
    let mut http = server.client();
    let login = json!({ "name": "ada", "password": "ada" });
    let reply = http.post("/_session?next=/db/_design/app/index.html", &login);
    assert_eq!(
        (reply.status, reply.header("location")),
        (302, Some("http://localhost/db/_design/app/index.html"))
    );
    for next in ["http://evil.example/", "//evil.example", "/%5Cevil.example", "evil"] {
        let reply = http.post(&format!("/_session?next={next}"), &login);
        assert_eq!((reply.status, reply.header("location")), (200, None), "{next}");
    }
    let failed = http.post("/_session?fail=/sorry", &json!({ "name": "ada", "password": "x" }));
    assert_eq!((failed.status, failed.header("location")), (302, Some("http://localhost/sorry")));
}

#[test]
fn cookies_expire_and_are_renewed() {
    let (server, mut root) = secured();
    add_user(&mut root, "ada", &[]);
    set(&mut root, "chttpd_auth", "timeout", "3");
    let mut http = server.client();
    let cookie = cookie(&sign_in(&mut http, "ada", "ada"));
    let headers = [("Cookie", cookie.as_str())];
    assert_eq!(http.send("GET", "/_session", &headers, b"").header("set-cookie"), None);
    std::thread::sleep(Duration::from_millis(1100));
    let renewed = http.send("GET", "/_session", &headers, b"");
    assert!(renewed.header("set-cookie").is_some_and(|header| header.starts_with("AuthSession=")));
    std::thread::sleep(Duration::from_millis(2900));
    assert_eq!(who(&mut http, &headers), Value::Null);
}

#[test]
fn foreign_and_damaged_cookies_are_refused() {
    let (server, mut root) = secured();
    add_user(&mut root, "ada", &[]);
    let mut http = server.client();
    let cookie = cookie(&sign_in(&mut http, "ada", "ada"));
    let refused = http.send("GET", "/_session", &[("Cookie", "AuthSession=%%%")], b"").refusal();
    assert_eq!(
        (refused.0, refused.2.as_str()),
        (400, "Malformed AuthSession cookie. Please clear your cookies.")
    );
    let mut damaged = cookie.clone();
    let last = if damaged.pop() == Some('A') { 'B' } else { 'A' };
    damaged.push(last);
    let at = damaged.len() - 6;
    let middle = if damaged.as_bytes()[at] == b'x' { "y" } else { "x" };
    damaged.replace_range(at..=at, middle);
    assert_eq!(who(&mut http, &[("Cookie", &damaged)]), Value::Null);
    assert_eq!(who(&mut http, &[("Cookie", &cookie)]), "ada");
    // A new secret ends all sessions.
    set(&mut root, "chttpd_auth", "secret", "another");
    assert_eq!(who(&mut http, &[("Cookie", &cookie)]), Value::Null);
}

#[test]
fn a_new_password_ends_sessions() {
    let (server, mut root) = secured();
    add_user(&mut root, "ada", &[]);
    let mut http = server.client();
    let cookie = cookie(&sign_in(&mut http, "ada", "ada"));
    let headers = [("Cookie", cookie.as_str())];
    assert_eq!(who(&mut http, &headers), "ada");
    let mut user = root.get("/_users/org.couchdb.user:ada").json();
    user["password"] = json!("new");
    assert_eq!(root.put("/_users/org.couchdb.user:ada", &user).status, 201);
    assert_eq!(who(&mut http, &headers), Value::Null);
    assert_eq!(client_of(&server, "ada", "ada").get("/_session").status, 401);
    assert_eq!(client_of(&server, "ada", "new").get("/_session").status, 200);
}

#[test]
fn cookie_attributes_follow_the_settings() {
    let (server, mut root) = secured();
    set(&mut root, "couch_httpd_auth", "allow_persistent_cookies", "false");
    set(&mut root, "chttpd_auth", "same_site", "strict");
    set(&mut root, "chttpd_auth", "cookie_domain", "example.org");
    let reply = sign_in(&mut server.client(), "root", "secret");
    let header = reply.header("set-cookie").unwrap();
    assert!(
        header.ends_with("; Version=1; Domain=example.org; Path=/; HttpOnly; SameSite=Strict"),
        "{header}"
    );
}

#[test]
fn proxies_name_users_if_they_know_the_secret() {
    let (server, mut root) = secured();
    let handlers =
        "{chttpd_auth, proxy_authentication_handler}, {chttpd_auth, default_authentication_handler}";
    set(&mut root, "chttpd_auth", "secret", "the_secret");
    let mut http = server.client();
    let token = "22047ebd7c4ec67dfbcbad7213a693249dbfbf86";
    let named = [
        ("X-Auth-CouchDB-UserName", "foo"),
        ("X-Auth-CouchDB-Roles", "staff,boss"),
        ("X-Auth-CouchDB-Token", token),
    ];
    assert_eq!(who(&mut http, &named), Value::Null, "the handler is off");
    set(&mut root, "chttpd", "authentication_handlers", handlers);
    let session = http.send("GET", "/_session", &named, b"").json();
    assert_eq!(session["userCtx"], json!({ "name": "foo", "roles": ["staff", "boss"] }));
    assert_eq!(session["info"]["authenticated"], "proxy");
    assert_eq!(who(&mut http, &named[..2]), Value::Null);
    let forged = [("X-Auth-CouchDB-UserName", "root"), ("X-Auth-CouchDB-Token", token)];
    assert_eq!(who(&mut http, &forged), Value::Null);
}

#[test]
fn tokens_name_users_by_the_configured_keys() {
    let (server, mut root) = secured();
    let mut http = server.client();
    let token = jwt();
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", bearer.as_str())];
    assert_eq!(http.send("GET", "/_session", &headers, b"").status, 400, "the handler is off");
    let handlers = "{chttpd_auth, jwt_authentication_handler}, {chttpd_auth, default_authentication_handler}";
    set(&mut root, "chttpd", "authentication_handlers", handlers);
    let refused = http.send("GET", "/_session", &headers, b"");
    assert_eq!(refused.refusal().2, "Unknown kid");
    set(&mut root, "jwt_keys", "hmac:_default", "c2VjcmV0");
    let session = http.send("GET", "/_session", &headers, b"").json();
    assert_eq!(session["userCtx"], json!({ "name": "ada", "roles": ["staff"] }));
    assert_eq!(session["info"]["authenticated"], "jwt");
    set(&mut root, "jwt_keys", "hmac:_default", "b3RoZXI=");
    assert_eq!(http.send("GET", "/_session", &headers, b"").refusal().2, "Bad HMAC");
    // Passwords still work.
    assert_eq!(client_of(&server, "root", "secret").get("/_all_dbs").status, 200);
}

/// `{"alg":"HS256","typ":"JWT"}` and `{"sub":"ada","exp":4102444800,"_couchdb.roles":["staff"]}`, signed with `secret`.
fn jwt() -> &'static str {
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.\
     eyJzdWIiOiJhZGEiLCJleHAiOjQxMDI0NDQ4MDAsIl9jb3VjaGRiLnJvbGVzIjpbInN0YWZmIl19.\
     aqLvNoxS6RE1DIPUlGXQvb6NPmKEEaPcOd_8LjarhmM"
}

#[test]
fn users_of_a_couchdb_sign_in_and_get_scram_verifiers() {
    let (server, mut root) = secured();
    // The document of CouchDB's documentation, whose password is `apple`.
    let user = json!({
        "_id": "org.couchdb.user:jan",
        "_rev": "1-227bbe6ddc1db6826fb6f8a250ef6264",
        "type": "user", "name": "jan", "roles": [],
        "password_scheme": "pbkdf2", "iterations": 10,
        "derived_key": "e579375db0e0c6a6fc79cd9e36a36859f71575c3",
        "salt": "1112283cf988a34f124200a050d308a1"
    });
    let reply = root.post("/_users/_bulk_docs", &json!({ "new_edits": false, "docs": [user] }));
    assert_eq!(reply.json(), json!([]));
    let stored = root.get("/_users/org.couchdb.user:jan").json();
    assert_eq!(stored, user, "kept as it is");
    assert_eq!(client_of(&server, "jan", "orange").get("/_session").status, 401);
    let mut jan = client_of(&server, "jan", "apple");
    assert_eq!(jan.get("/_session").json()["userCtx"]["name"], "jan");
    let stored = root.get("/_users/org.couchdb.user:jan").json();
    assert!(stored["credentials"]["SCRAM-SHA-256"].is_object(), "{stored}");
    assert_eq!(stored["derived_key"], user["derived_key"]);
    assert_eq!(jan.get("/_session").json()["userCtx"]["name"], "jan");
}

#[test]
fn restricted_users_sign_in_from_their_addresses_alone() {
    let (server, mut root) = secured();
    for (name, source) in [("near", "127.0.0.1"), ("far", "10.0.0.0/8")] {
        let user = json!({
            "type": "user", "name": name, "roles": [], "password": name,
            "authenticationRestrictions": [{ "clientSource": [source] }]
        });
        assert_eq!(root.put(&format!("/_users/org.couchdb.user:{name}"), &user).status, 201);
    }
    assert_eq!(client_of(&server, "near", "near").get("/_session").status, 200);
    assert_eq!(client_of(&server, "far", "far").get("/_session").status, 401);
    assert_eq!(sign_in(&mut server.client(), "far", "far").status, 401);
}

#[test]
fn a_server_without_users_asks_nobody() {
    let server = TestCouch::in_memory();
    let mut http = server.client();
    assert_eq!(http.get("/_session").json()["userCtx"], json!({ "name": null, "roles": ["_admin"] }));
    assert_eq!(http.get("/_all_dbs").status, 200);
    // As soon as there is a user, everybody must sign in, also over connections that are open.
    server.add_user("root", "secret", &[("root", "admin")]);
    assert_eq!(http.get("/_all_dbs").status, 401);
}

#[test]
fn probes_are_open_and_metrics_are_not() {
    let extra = |path: &str| match path {
        "/healthz" | "/readyz" => Some((200, "ok\n".to_owned())),
        "/metrics" => Some((200, "diwan_up 1\n".to_owned())),
        _ => None,
    };
    let server = TestCouch::with_config(Config { extra: Box::new(extra), ..Config::default() });
    let mut http = server.client();
    assert_eq!(http.get("/metrics").status, 200);
    server.add_user("root", "secret", &[("root", "admin")]);
    server.add_user("meter", "meter", &[("clusterMonitor", "admin")]);
    server.add_user("ada", "ada", &[]);
    for path in ["/healthz", "/readyz"] {
        assert_eq!(http.get(path).text(), "ok\n", "{path}");
    }
    assert_eq!(http.get("/metrics").status, 401);
    assert_eq!(client_of(&server, "ada", "ada").get("/metrics").status, 401);
    for (name, password) in [("root", "secret"), ("meter", "meter")] {
        let mut http = client_of(&server, name, password);
        assert_eq!(http.get("/metrics").text(), "diwan_up 1\n", "{name}");
        assert_eq!(http.get("/_node/_local/_prometheus").status, 200, "{name}");
    }
}

/// A server with an audit log in this directory, and the lines of the log.
fn audited(directory: &std::path::Path) -> (TestCouch, impl Fn() -> Vec<Value>) {
    let path = directory.join("audit");
    let store = Store::open(Arc::new(MemoryEngine::new())).unwrap();
    let settings = Settings::open(store.clone(), Default::default(), Default::default()).unwrap();
    let access = Access::open(store, settings, Audit::open(&path).unwrap()).unwrap();
    let server = TestCouch::with_access(access);
    server.add_user("root", "secret-1", &[("root", "admin")]);
    let lines = move || {
        let log = std::fs::read_to_string(&path).unwrap();
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    (server, lines)
}

#[test]
fn audit_log_has_refusals_of_handlers_once() {
    let directory = tempfile::tempdir().unwrap();
    let (server, lines) = audited(directory.path());
    let mut root = client_of(&server, "root", "secret-1");
    add_user(&mut root, "ada", &[]);
    root.put("/db", &json!({}));
    root.put("/db/_security", &json!({ "members": { "names": ["ada"], "roles": [] } }));
    let validate = "function (doc) { if (doc.bad) { throw { forbidden: 'bad' }; } }";
    root.put("/db/_design/d", &json!({ "validate_doc_update": validate }));
    let mut ada = client_of(&server, "ada", "ada");
    ada.get("/db");
    let mut seen = lines().len();
    let mut added = |what: &str| -> Vec<Value> {
        let all = lines();
        let new: Vec<Value> = all[seen..].iter().map(|line| line["reason"].clone()).collect();
        for line in &all[seen..] {
            assert_eq!(
                (&line["user"]["user"], &line["address"]),
                (&json!("ada"), &json!("127.0.0.1")),
                "{what}"
            );
        }
        seen = all.len();
        new
    };
    // By the route; by a validation function; by rights that a handler compares; by a rule of a system database.
    assert_eq!(ada.put("/new", &json!({})).status, 401);
    assert_eq!(added("a route"), ["You are not a server admin."]);
    assert_eq!(ada.put("/db/x", &json!({ "bad": true })).status, 403);
    assert_eq!(added("a function"), ["bad"]);
    assert_eq!(ada.post("/db", &json!({ "_id": "_design/e" })).status, 403);
    assert_eq!(added("a design document"), ["You are not a db or server admin."]);
    let body = json!({ "source": "db", "target": "other", "create_target": true });
    assert!(ada.post("/_replicate", &body).status == 401);
    assert_eq!(added("a replication").len(), 1);
    let pipeline = json!({ "pipeline": [{ "$currentOp": {} }] });
    assert_eq!(ada.post("/db/_aggregate", &pipeline).status, 403);
    assert_eq!(added("a pipeline").len(), 1);
    // An edit of a user has a line of its own.
    let own = json!({ "type": "user", "name": "ada", "roles": ["boss"] });
    assert_eq!(ada.put("/_users/org.couchdb.user:ada?new_edits=true", &own).status, 403);
    assert_eq!(added("a user"), ["Only _admin may edit roles"]);
    ada.post("/_users/_bulk_docs", &json!({ "docs": [{ "_id": "org.couchdb.user:ada", "type": "user", "name": "ada", "roles": ["boss"] }] }));
    assert_eq!(added("users"), ["Only _admin may edit roles"]);
    // Each refused document of a bulk request.
    ada.post(
        "/db/_bulk_docs",
        &json!({ "docs": [{ "_id": "a", "bad": 1 }, { "_id": "b" }, { "_id": "_design/x" }] }),
    );
    assert_eq!(added("documents"), ["bad", "You are not a db or server admin."]);
    let line = lines().pop().unwrap();
    assert_eq!(
        (&line["event"], &line["document"], &line["path"], &line["method"]),
        (&json!("refused"), &json!("_design/x"), &json!("/db/_bulk_docs"), &json!("POST"))
    );
    // What is no refusal.
    assert_eq!(ada.get("/db/none").status, 404);
    assert_eq!(ada.put("/db/b", &json!({})).status, 409);
    assert_eq!(ada.get("/db/b").status, 200);
    assert!(added("nothing").is_empty());
    // A wrong password is a failed sign-in, however it comes.
    assert_eq!(sign_in(&mut server.client(), "ada", "wrong").status, 401);
    client_of(&server, "ada", "wrong").get("/db");
    let events: Vec<Value> = lines()[seen..].iter().map(|line| line["event"].clone()).collect();
    assert_eq!(events, ["signInFailed", "signInFailed"]);
}

#[test]
fn audit_log_has_sign_ins_refusals_and_changes_but_no_passwords() {
    let directory = tempfile::tempdir().unwrap();
    let (server, lines) = audited(directory.path());
    let mut root = client_of(&server, "root", "secret-1");
    root.put("/db", &json!({}));
    root.put("/db/_security", &json!({}));
    set(&mut root, "chttpd_auth", "secret", "secret-2");
    let user = json!({ "type": "user", "name": "ada", "roles": [], "password": "secret-3" });
    assert_eq!(root.put("/_users/org.couchdb.user:ada", &user).status, 201);
    client_of(&server, "ada", "secret-4").get("/");
    client_of(&server, "ada", "secret-3").put("/other", &json!({}));
    let lines = lines();
    let log = json!(lines).to_string();
    let has = |event: &str, name: &Value| {
        lines.iter().any(|line| line["event"] == event && line["user"]["user"] == *name)
    };
    for (event, name) in [
        ("signIn", json!("root")),
        ("setSecurity", json!("root")),
        ("setSetting", json!("root")),
        ("editUser", json!("root")),
        ("signInFailed", Value::Null),
        ("refused", json!("ada")),
    ] {
        assert!(has(event, &name), "{event} {log}");
    }
    assert!(!log.contains("secret-"), "{log}");
    assert!(lines.iter().all(|line| line["address"] == "127.0.0.1"), "{log}");
}

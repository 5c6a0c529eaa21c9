//! Signing in with SCRAM and with a certificate, and what a failure tells.

use crate::callers::{ADA, PASSWORD, administrator, guarded, is_ok, ok, refused, signed_in};
use diwan_testkit::{ScramClient, TestClient, TestServer, digest};
use diwan_value::{DocBuf, Value, doc};

const SHA_1: &str = "SCRAM-SHA-1";
const SHA_256: &str = "SCRAM-SHA-256";

fn binary(bytes: &[u8]) -> Value<'_> {
    Value::Binary { subtype: 0, bytes }
}

fn start(mechanism: &str, payload: &[u8]) -> DocBuf {
    doc! { "saslStart": 1, "mechanism": mechanism, "payload": binary(payload) }
}

fn proceed(payload: &[u8]) -> DocBuf {
    doc! { "saslContinue": 1, "conversationId": 1, "payload": binary(payload) }
}

fn payload(reply: &DocBuf) -> Vec<u8> {
    match reply.as_doc().get("payload") {
        Some(Value::Binary { bytes, .. }) => bytes.to_vec(),
        _ => panic!("{reply:?}"),
    }
}

/// The users of the connection.
fn users(client: &mut TestClient) -> Vec<String> {
    let status = ok(client, "admin", doc! { "connectionStatus": 1 });
    let users = status.as_doc().get_doc("authInfo").unwrap().get_array("authenticatedUsers").unwrap();
    users.iter().map(|user| user.as_doc().unwrap().get_str("user").unwrap().to_owned()).collect()
}

#[test]
fn each_mechanism_signs_in_and_logout_ends_it() {
    let server = guarded();
    for mechanism in [SHA_1, SHA_256] {
        let client = &mut server.client();
        assert_eq!(
            refused(client, "shop", doc! { "find": "orders" }),
            (13, "Command find requires authentication".to_owned())
        );
        let reply = client.sign_in_with(mechanism, "admin", ADA, PASSWORD).unwrap();
        assert!(is_ok(&reply), "{reply:?}");
        assert_eq!(users(client), [ADA]);
        ok(client, "shop", doc! { "find": "orders" });
        ok(client, "shop", doc! { "logout": 1 });
        assert_eq!(users(client), [ADA], "a logout from another database has no effect");
        ok(client, "admin", doc! { "logout": 1 });
        assert!(users(client).is_empty());
        assert_eq!(refused(client, "shop", doc! { "find": "orders" }).0, 13);
    }
}

#[test]
fn conversation_without_the_short_end_has_an_empty_exchange() {
    let server = guarded();
    let client = &mut server.client();
    let scram = ScramClient::new(SHA_256, ADA, PASSWORD);
    let first = ok(client, "admin", start(SHA_256, &scram.first()));
    assert_eq!(first.as_doc().get("conversationId"), Some(Value::Int32(1)));
    let second = ok(client, "admin", proceed(&scram.last(&payload(&first))));
    assert_eq!(second.as_doc().get("done"), Some(Value::Boolean(false)));
    assert!(payload(&second).starts_with(b"v="));
    assert!(users(client).is_empty(), "the conversation has not ended");
    let last = ok(client, "admin", proceed(b""));
    assert_eq!(last.as_doc().get("done"), Some(Value::Boolean(true)));
    assert_eq!(users(client), [ADA]);
}

#[test]
fn hello_begins_a_sign_in_and_names_the_mechanisms() {
    let server = guarded();
    let client = &mut server.client();
    let scram = ScramClient::new(SHA_256, ADA, PASSWORD);
    let first = doc! {
        "saslStart": 1, "mechanism": SHA_256, "payload": binary(&scram.first()), "db": "admin",
        "options": { "skipEmptyExchange": true }
    };
    let hello = ok(
        client,
        "admin",
        doc! { "hello": 1, "saslSupportedMechs": "admin.ada", "speculativeAuthenticate": first },
    );
    let names = hello.as_doc().get_array("saslSupportedMechs").unwrap();
    assert_eq!(names.iter().filter_map(Value::as_str).collect::<Vec<_>>(), [SHA_1, SHA_256]);
    let begun = hello.as_doc().get_doc("speculativeAuthenticate").unwrap().to_owned();
    let last = ok(client, "admin", proceed(&scram.last(&payload(&begun))));
    assert_eq!(last.as_doc().get("done"), Some(Value::Boolean(true)));
    assert_eq!(users(client), [ADA]);
    // A first message that is wrong leaves the answer without one.
    let first = doc! { "saslStart": 1, "mechanism": SHA_256, "payload": binary(b"n,,"), "db": "admin" };
    let hello = ok(client, "admin", doc! { "hello": 1, "speculativeAuthenticate": first });
    assert!(!hello.as_doc().contains_key("speculativeAuthenticate"));
}

#[test]
fn failures_do_not_tell_which_part_was_wrong() {
    let server = guarded();
    let failed = |database: &str, user: &str, password: &str| {
        let client = &mut server.client();
        let scram = ScramClient::new(SHA_256, user, password);
        let first = ok(client, database, start(SHA_256, &scram.first()));
        let challenge = String::from_utf8(payload(&first)).unwrap();
        let shape: Vec<(String, usize)> =
            challenge.split(',').map(|part| (part[..2].to_owned(), part.len())).collect();
        let iterations = challenge.split(',').next_back().unwrap().to_owned();
        let salt = challenge.split(',').nth(1).unwrap().to_owned();
        let error = refused(client, database, proceed(&scram.last(challenge.as_bytes())));
        (shape, iterations, error, salt)
    };
    let wrong = failed("admin", ADA, "guess");
    assert_eq!(wrong.2, (18, "Authentication failed.".to_owned()));
    let unknown = failed("admin", "eve", PASSWORD);
    assert_eq!((&wrong.0, &wrong.1, &wrong.2), (&unknown.0, &unknown.1, &unknown.2));
    let elsewhere = failed("shop", ADA, PASSWORD);
    assert_eq!((&wrong.0, &wrong.1, &wrong.2), (&elsewhere.0, &elsewhere.1, &elsewhere.2));
    assert_eq!(unknown.3, failed("admin", "eve", PASSWORD).3, "the salt of an unknown user stays the same");
    let mechanisms = |user: &str| {
        let hello = ok(&mut server.client(), "admin", doc! { "hello": 1, "saslSupportedMechs": user });
        format!("{:?}", hello.as_doc().get("saslSupportedMechs"))
    };
    assert_eq!(mechanisms("admin.ada"), mechanisms("admin.eve"));
}

#[test]
fn messages_out_of_order_or_damaged_fail() {
    let server = guarded();
    let client = &mut server.client();
    assert_eq!(refused(client, "admin", proceed(b"c=biws")).0, 17, "nothing has begun");
    assert_eq!(refused(client, "admin", doc! { "saslStart": 1, "mechanism": SHA_256 }).0, 40414);
    for first in [
        &b""[..],
        b"n,,",
        b"n,,n=ada",
        b"n,,n=ada,r=",
        b"p=tls-unique,,n=ada,r=abcdefghijklmnopqrst",
        b"\xff\xfe",
    ] {
        assert_eq!(refused(client, "admin", start(SHA_256, first)).0, 18, "{first:?}");
    }
    let long = [b"n,,n=".as_slice(), &[b'x'; 10_000], b",r=abcdefghijklmnopqrst"].concat();
    assert_eq!(refused(client, "admin", start(SHA_256, &long)).0, 18);
    let scram = ScramClient::new(SHA_256, ADA, PASSWORD);
    let attempt = |client: &mut TestClient, damage: &dyn Fn(String) -> String| {
        let first = ok(client, "admin", start(SHA_256, &scram.first()));
        let last = String::from_utf8(scram.last(&payload(&first))).unwrap();
        let outcome = client.run("admin", proceed(damage(last).as_bytes())).unwrap();
        let code = outcome.as_doc().get("code").and_then(Value::as_i64_exact);
        // A failure ends the conversation.
        if code.is_some() {
            assert_eq!(refused(client, "admin", proceed(b"")).0, 17);
        }
        code
    };
    let other_nonce = |last: String| last.replacen("r=a", "r=b", 1);
    let truncated = |last: String| last[..last.len() - 10].to_owned();
    let no_proof = |last: String| last.split(",p=").next().unwrap().to_owned();
    assert_eq!(attempt(client, &other_nonce), Some(18));
    assert_eq!(attempt(client, &truncated), Some(18));
    assert_eq!(attempt(client, &no_proof), Some(18));
    assert_eq!(attempt(client, &|_| String::new()), Some(18));
    assert_eq!(attempt(&mut server.client(), &|last| last), None);
}

#[test]
fn conversation_of_another_number_or_connection_fails() {
    let server = guarded();
    let (client, other) = (&mut server.client(), &mut server.client());
    let scram = ScramClient::new(SHA_256, ADA, PASSWORD);
    let first = ok(client, "admin", start(SHA_256, &scram.first()));
    let last = scram.last(&payload(&first));
    assert_eq!(refused(other, "admin", proceed(&last)).0, 17);
    let wrong = doc! { "saslContinue": 1, "conversationId": 7, "payload": binary(&last) };
    assert_eq!(refused(client, "admin", wrong).0, 17);
    assert_eq!(refused(client, "admin", proceed(&last)).0, 17, "the conversation has ended");
}

#[test]
fn other_mechanisms_are_refused() {
    let server = guarded();
    let client = &mut server.client();
    for mechanism in ["PLAIN", "GSSAPI", "MONGODB-CR", "scram-sha-256"] {
        assert_eq!(refused(client, "admin", start(mechanism, b"x")).0, 334, "{mechanism}");
    }
    let certificate = doc! { "authenticate": 1, "mechanism": "MONGODB-X509" };
    let without_tls = (17, "SSL support is required for the MONGODB-X509 mechanism.".to_owned());
    assert_eq!(refused(client, "$external", certificate), without_tls);
    assert_eq!(refused(client, "$external", start("MONGODB-X509", b"CN=ada")), without_tls);
}

#[test]
fn connection_belongs_to_one_user() {
    let server = guarded();
    server.add_user("admin", "bob", PASSWORD, &[]);
    server.add_user("shop", "eve", PASSWORD, &[]);
    let client = &mut administrator(&server);
    assert!(is_ok(&client.sign_in("admin", ADA, PASSWORD).unwrap()), "the same user may sign in again");
    for (database, user, code) in [("admin", "bob", 5_626_701), ("shop", "eve", 5_626_702)] {
        let reply = client.sign_in(database, user, PASSWORD).unwrap();
        assert_eq!(reply.as_doc().get("code"), Some(Value::Int32(code)));
    }
    assert_eq!(users(client), [ADA]);
}

#[test]
fn user_with_one_mechanism_signs_in_with_that_one_alone() {
    let server = guarded();
    let root = &mut administrator(&server);
    ok(root, "shop", doc! { "createUser": "one", "pwd": PASSWORD, "roles": [], "mechanisms": [SHA_1] });
    let hashed = digest("two", PASSWORD);
    ok(
        root,
        "shop",
        doc! { "createUser": "two", "pwd": hashed, "digestPassword": false, "roles": [], "mechanisms": [SHA_1] },
    );
    for user in ["one", "two"] {
        assert!(is_ok(&server.client().sign_in_with(SHA_1, "shop", user, PASSWORD).unwrap()), "{user}");
        let reply = server.client().sign_in_with(SHA_256, "shop", user, PASSWORD).unwrap();
        assert_eq!(reply.as_doc().get("code"), Some(Value::Int32(18)));
    }
}

#[test]
fn restrictions_of_users_and_roles_hold_at_the_sign_in() {
    let server = guarded();
    let root = &mut administrator(&server);
    let [near, far] = ["127.0.0.0/8", "10.0.0.0/8"].map(|range| doc! { "clientSource": [range] });
    for (user, restriction) in [("near", &near), ("far", &far)] {
        ok(
            root,
            "shop",
            doc! { "createUser": user, "pwd": PASSWORD, "roles": [], "authenticationRestrictions": [restriction] },
        );
    }
    ok(
        root,
        "admin",
        doc! { "createRole": "remote", "privileges": [], "roles": [], "authenticationRestrictions": [&far] },
    );
    ok(
        root,
        "shop",
        doc! { "createUser": "role", "pwd": PASSWORD, "roles": [{ "role": "remote", "db": "admin" }] },
    );
    signed_in(&server, "shop", "near");
    for user in ["far", "role"] {
        let reply = server.client().sign_in("shop", user, PASSWORD).unwrap();
        assert_eq!(reply.as_doc().get("code"), Some(Value::Int32(18)), "{user}");
    }
}

#[test]
fn guessing_is_slowed_and_a_hello_that_waits_does_not_help() {
    let server = guarded();
    let client = &mut server.client();
    let begun = std::time::Instant::now();
    for _ in 0..8 {
        let reply = client.sign_in("admin", ADA, "guess").unwrap();
        assert_eq!(reply.as_doc().get("code"), Some(Value::Int32(18)));
    }
    assert!(begun.elapsed().as_millis() >= 100 + 200, "{:?}", begun.elapsed());
    let hello = ok(client, "admin", doc! { "hello": 1 });
    let scram = ScramClient::new(SHA_256, ADA, "guess");
    let first =
        doc! { "saslStart": 1, "mechanism": SHA_256, "payload": binary(&scram.first()), "db": "admin" };
    let version = hello.as_doc().get_doc("topologyVersion").unwrap().to_owned();
    let waiting = doc! { "hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 1, "speculativeAuthenticate": first };
    let reply = ok(client, "admin", waiting);
    assert!(!reply.as_doc().contains_key("speculativeAuthenticate"), "{reply:?}");
}

#[test]
fn change_of_the_user_during_a_sign_in_ends_it() {
    let server = guarded();
    server.add_user("shop", "bob", PASSWORD, &[]);
    let (root, client) = (&mut administrator(&server), &mut server.client());
    let scram = ScramClient::new(SHA_256, "bob", PASSWORD);
    let first = ok(client, "shop", start(SHA_256, &scram.first()));
    ok(root, "shop", doc! { "updateUser": "bob", "pwd": "another one" });
    let reply = ok(client, "shop", proceed(&scram.last(&payload(&first))));
    assert!(!payload(&reply).is_empty());
    assert_eq!(refused(client, "shop", proceed(b"")).0, 18);
    assert!(users(client).is_empty());
}

#[test]
fn store_without_users_needs_no_sign_in() {
    let server = TestServer::in_memory();
    let client = &mut server.client();
    ok(client, "shop", doc! { "insert": "orders", "documents": [{ "_id": 1 }] });
    let reply = client.sign_in("admin", ADA, PASSWORD).unwrap();
    assert_eq!(reply.as_doc().get("code"), Some(Value::Int32(18)));
    ok(client, "admin", doc! { "createUser": ADA, "pwd": PASSWORD, "roles": ["root"] });
    assert_eq!(refused(client, "shop", doc! { "find": "orders" }).0, 13, "the connection is open");
    assert!(is_ok(&client.sign_in("admin", ADA, PASSWORD).unwrap()));
    ok(client, "shop", doc! { "find": "orders" });
}

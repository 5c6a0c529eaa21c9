//! Requests of web pages of other origins, under the settings `cors/*`.

use crate::setup::{database, secured};
use diwan_couch::Config;
use diwan_testkit::{HttpClient, HttpReply, TestCouch};
use serde_json::json;

const APP: &str = "https://app.example";

fn set(http: &mut HttpClient, setting: &str, value: &str) {
    let reply = http.put(&format!("/_node/_local/_config/{setting}"), &json!(value));
    assert_eq!(reply.status, 200, "{}", reply.text());
}

fn read(http: &mut HttpClient, origin: &str) -> HttpReply {
    http.send("GET", "/db", &[("Origin", origin)], b"")
}

fn preflight(http: &mut HttpClient, origin: &str, method: &str, headers: &str) -> HttpReply {
    let asked = [
        ("Origin", origin),
        ("Access-Control-Request-Method", method),
        ("Access-Control-Request-Headers", headers),
    ];
    http.send("OPTIONS", "/db/doc", &asked, b"")
}

#[test]
fn simple_requests_get_the_headers_of_the_settings() {
    let (_server, mut http) = database();
    set(&mut http, "cors/origins", "https://other.example, https://app.example");
    assert_eq!(read(&mut http, APP).status, 403, "not without enable_cors");
    set(&mut http, "chttpd/enable_cors", "true");
    let reply = read(&mut http, APP);
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, Some(APP)));
    assert_eq!(reply.header("access-control-allow-credentials"), None);
    assert_eq!(reply.header("vary"), Some("Origin"));
    assert_eq!(
        reply.header("access-control-expose-headers"),
        Some(
            "content-type, cache-control, accept-ranges, etag, server, x-couch-request-id, x-couch-update-newrev, \
             x-couchdb-body-time"
        )
    );
    set(&mut http, "cors/credentials", "true");
    set(&mut http, "cors/exposed_headers", "X-Mine, etag");
    let reply = http.send("GET", "/none", &[("Origin", APP)], b"");
    assert_eq!(reply.status, 404);
    assert_eq!(reply.header("access-control-allow-credentials"), Some("true"));
    assert_eq!(
        reply.header("access-control-expose-headers"),
        Some("content-type, cache-control, x-mine, etag")
    );
    for other in ["https://app.example.evil", "http://app.example", "null", "HTTPS://APP.EXAMPLE", "*"] {
        let refused = read(&mut http, other);
        assert_eq!((refused.status, refused.header("access-control-allow-origin")), (403, None), "{other}");
    }
    // A page of this server itself needs no permission, and no headers.
    let own = read(&mut http, "http://localhost:5984");
    assert_eq!((own.status, own.header("access-control-allow-origin")), (200, None));
}

#[test]
fn a_star_allows_every_origin_by_its_name() {
    let (_server, mut http) = database();
    set(&mut http, "chttpd/enable_cors", "true");
    set(&mut http, "cors/origins", "*");
    for origin in [APP, "null", "https://evil.example"] {
        let reply = read(&mut http, origin);
        assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, Some(origin)));
        assert_eq!(reply.header("access-control-allow-credentials"), None);
    }
    set(&mut http, "cors/credentials", "true");
    assert_eq!(read(&mut http, APP).header("access-control-allow-credentials"), Some("true"));
    let literal = read(&mut http, "*");
    assert_eq!(literal.header("access-control-allow-origin"), Some("*"));
    assert_eq!(literal.header("access-control-allow-credentials"), None);
}

#[test]
fn preflight_requests_compare_method_and_headers_with_the_settings() {
    // Before a sign-in: browsers send preflight requests without credentials.
    let (server, mut root) = secured();
    let mut http = server.client();
    set(&mut root, "chttpd/enable_cors", "true");
    set(&mut root, "cors/origins", APP);
    let reply = preflight(&mut http, APP, "PUT", "Content-Type,authorization, x-couch-id");
    let header = |name: &str| reply.header(name);
    assert_eq!((reply.status, header("access-control-allow-origin")), (204, Some(APP)));
    assert_eq!(header("access-control-max-age"), Some("600"));
    assert_eq!(
        header("access-control-allow-methods"),
        Some("CONNECT, COPY, DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT, TRACE")
    );
    assert_eq!(header("access-control-allow-headers"), Some("Content-Type,authorization, x-couch-id"));
    assert_eq!(header("access-control-allow-credentials"), None);
    assert_eq!(header("access-control-expose-headers"), None);
    for (method, headers) in [("put", ""), ("MOVE", ""), ("GET", "x-other"), ("GET", "accept, x-other")] {
        let refused = preflight(&mut http, APP, method, headers);
        assert_eq!(refused.status, 401, "{method} {headers}");
        assert_eq!(refused.header("access-control-allow-methods"), None, "{method} {headers}");
        assert_eq!(refused.header("access-control-allow-headers"), None, "{method} {headers}");
    }
    assert_eq!(preflight(&mut http, "https://evil.example", "GET", "").status, 403);
    set(&mut root, "cors/methods", "GET,PUT");
    set(&mut root, "cors/headers", "X-Other");
    set(&mut root, "cors/max_age", "12");
    set(&mut root, "cors/credentials", "true");
    let reply = preflight(&mut http, APP, "PUT", "x-other");
    let header = |name: &str| reply.header(name);
    assert_eq!((reply.status, header("access-control-max-age")), (204, Some("12")));
    assert_eq!(header("access-control-allow-methods"), Some("GET, PUT"));
    assert_eq!(header("access-control-allow-credentials"), Some("true"));
    assert_eq!(preflight(&mut http, APP, "DELETE", "").status, 401);
    assert_eq!(preflight(&mut http, APP, "PUT", "accept").status, 401);
    // `OPTIONS` without a wanted method is no preflight request.
    assert_eq!(http.send("OPTIONS", "/db", &[("Origin", APP)], b"").status, 401);
}

#[test]
fn hosts_have_settings_of_their_own() {
    let (_server, mut root) = secured();
    root.put("/db", &json!({}));
    set(&mut root, "chttpd/enable_cors", "true");
    set(&mut root, "cors/origins", "https://other.example");
    set(&mut root, "cors:db.example/origins", APP);
    set(&mut root, "cors:db.example/credentials", "true");
    let at =
        |http: &mut HttpClient, host: &str| http.send("GET", "/db", &[("Host", host), ("Origin", APP)], b"");
    let reply = at(&mut root, "db.example:5984");
    assert_eq!((reply.status, reply.header("access-control-allow-credentials")), (200, Some("true")));
    assert_eq!(at(&mut root, "second.example").status, 403);
    let refused = root.put("/_node/_local/_config/cors:db.example/max_age", &json!("soon"));
    assert_eq!(refused.status, 400);
}

#[test]
fn the_origins_of_the_flag_may_send_credentials() {
    let start = |origin: &str| {
        TestCouch::with_config(Config { cors_origins: vec![origin.to_owned()], ..Config::default() })
    };
    for (allowed, credentials) in [(APP, Some("true")), ("*", None)] {
        let server = start(allowed);
        let reply = server.client().send("GET", "/", &[("Origin", APP)], b"");
        assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, Some(APP)));
        assert_eq!(reply.header("access-control-allow-credentials"), credentials, "{allowed}");
    }
}

#[test]
fn values_that_would_break_headers_are_refused() {
    let (_server, mut http) = database();
    for (setting, value) in [
        ("cors/methods", "GET, P\u{e4}T"),
        ("cors/methods", ""),
        ("cors/headers", "x y"),
        ("cors/exposed_headers", "a,,b"),
        ("cors/max_age", "-1"),
        ("cors/credentials", "yes"),
    ] {
        let reply = http.put(&format!("/_node/_local/_config/{setting}"), &json!(value));
        assert_eq!(reply.status, 400, "{setting} {value}");
    }
}

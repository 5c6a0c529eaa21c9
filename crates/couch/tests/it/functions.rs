//! Functions of design documents over HTTP: show, list, update, rewrite, validation.

use crate::setup::{database, rev};
use diwan_testkit::HttpClient;
use serde_json::{Value, json};

fn design(client: &mut HttpClient, name: &str, fields: &Value) {
    let reply = client.put(&format!("/db/_design/{name}"), fields);
    assert_eq!(reply.status, 201, "{}", reply.text());
}

#[test]
fn show_functions_build_responses() {
    let (server, mut client) = database();
    let shows = json!({"shows": {
        "name": "function (doc, req) { return doc ? 'Just ' + doc.name : {code: 404, body: 'No ' + req.id}; }",
        "request": "function (doc, req) { return {json: req}; }",
        "binary": "function () { return {base64: 'aGk=', headers: {ETag: 'mine'}}; }",
        "pieces": "function () { start({'X-A': 'b'}); send('1'); return {body: '2', headers: {'X-C': 'd'}}; }",
        "types": "function () { provides('html', function () { return '<p>'; }); provides('text', function () { return 'p'; }); }",
        "field": "function (doc) { return doc._id; }",
        "wrong": "function () { return nothing.at.all; }",
        "number": "function () { return 5; }",
        "empty": "function () {}"
    }});
    design(&mut client, "d", &shows);
    client.put("/db/a", &json!({"name": "Rusty"}));
    client.put("/db/b%2Fc", &json!({"name": "slash"}));
    let show = "/db/_design/d/_show";
    let shown = client.get(&format!("{show}/name/a"));
    assert_eq!((shown.status, shown.text()), (200, "Just Rusty".to_owned()));
    assert_eq!(shown.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(shown.header("vary"), Some("Accept"));
    let tag = shown.header("etag").unwrap().to_owned();
    let path = format!("{show}/name/a");
    assert_eq!(client.send("GET", &path, &[("If-None-Match", &tag)], b"").status, 304);
    let old = client.get("/db/a").json()["_rev"].as_str().unwrap().to_owned();
    client.put("/db/a", &json!({"name": "Crusty", "_rev": old}));
    assert_eq!(client.send("GET", &path, &[("If-None-Match", &tag)], b"").text(), "Just Crusty");
    assert_eq!(client.get(&format!("{show}/name/b/c")).text(), "Just slash");
    let missing = client.get(&format!("{show}/name/x"));
    assert_eq!((missing.status, missing.text()), (404, "No x".to_owned()));
    let headers = [("Cookie", "a=b; c=\"d\""), ("X-Foo", "bar")];
    let request =
        client.send("GET", &format!("{show}/request/a?x=1&key=[2]&descending=true"), &headers, b"").json();
    assert_eq!(request["query"], json!({"x": "1", "key": [2], "descending": true}));
    assert_eq!(request["cookie"], json!({"a": "b", "c": "d"}));
    assert_eq!((&request["headers"]["X-Foo"], &request["id"]), (&json!("bar"), &json!("a")));
    assert_eq!(request["path"], json!(["db", "_design", "d", "_show", "request", "a"]));
    let binary = client.get(&format!("{show}/binary"));
    assert_eq!((binary.text().as_str(), binary.header("content-type")), ("hi", Some("application/binary")));
    assert_ne!(binary.header("etag"), Some("mine"));
    let pieces = client.get(&format!("{show}/pieces"));
    assert_eq!(
        (pieces.text().as_str(), pieces.header("x-a"), pieces.header("x-c")),
        ("12", Some("b"), Some("d"))
    );
    let accept = |kind: &str| server.client().with_header("Accept", kind).get(&format!("{show}/types"));
    assert_eq!((accept("text/plain").text(), accept("text/html").text()), ("p".to_owned(), "<p>".to_owned()));
    assert_eq!(accept("image/png").refusal().1, "not_acceptable");
    assert_eq!(client.get(&format!("{show}/empty")).header("content-type"), Some("application/json"));
    for (path, status, error) in [
        ("", 404, "show_error"),
        ("/field/x", 404, "not_found"),
        ("/none", 404, "not_found"),
        ("/wrong", 500, "render_error"),
        ("/number", 500, "render_error"),
    ] {
        let refused = client.get(&format!("{show}{path}"));
        assert_eq!((refused.status, refused.json()["error"].as_str()), (status, Some(error)), "{path}");
    }
}

#[test]
fn update_functions_store_documents() {
    let (_server, mut client) = database();
    let updates = json!({"updates": {
        "bump": "function (doc, req) { if (!doc) return [{_id: req.id || req.uuid, n: 0}, 'new']; doc.n++; return [doc, {code: 302, body: 'bumped'}]; }",
        "form": "function (doc, req) { for (var name in req.form) doc[name] = req.form[name]; return [doc, {json: {ok: true}}]; }",
        "nothing": "function (doc, req) { return [null, req.uuid]; }",
        "unnamed": "function () { return [{}, 'x']; }",
        "forbidden": "function () { throw {forbidden: 'no'}; }"
    }});
    design(&mut client, "d", &updates);
    let update = "/db/_design/d/_update";
    let new = client.put(&format!("{update}/bump/a%2F%C3%A9"), &json!({}));
    assert_eq!((new.status, new.text().as_str(), new.header("x-couch-id")), (201, "new", Some("a%2F%C3%A9")));
    let bumped = client.put(&format!("{update}/bump/a/%C3%A9"), &json!({}));
    assert_eq!((bumped.status, bumped.text()), (302, "bumped".to_owned()));
    let stored = client.get("/db/a%2F%C3%A9").json();
    assert_eq!((&stored["n"], stored["_rev"].as_str()), (&json!(1), bumped.header("x-couch-update-newrev")));
    let headers = [("Content-Type", "application/x-www-form-urlencoded")];
    let form = client.send("POST", &format!("{update}/form/a/%C3%A9"), &headers, b"x=1&y=a+b");
    assert_eq!((form.status, form.text()), (201, "{\"ok\":true}\n".to_owned()));
    assert_eq!(client.get("/db/a%2F%C3%A9").json()["y"], "a b");
    assert_eq!(client.post(&format!("{update}/nothing"), &json!({})).text().len(), 32);
    let unnamed = client.put(&format!("{update}/unnamed/x"), &json!({}));
    assert_eq!(unnamed.refusal(), (400, "illegal_docid".into(), "Document id must not be empty".into()));
    assert_eq!(client.put(&format!("{update}/forbidden/x"), &json!({})).status, 403);
    assert_eq!(client.get(&format!("{update}/bump/a")).status, 405);
    assert_eq!(client.post(update, &json!({})).refusal().1, "update_error");
}

#[test]
fn list_functions_format_rows() {
    let (_server, mut client) = database();
    let fields = json!({
        "views": {"n": {"map": "function (doc) { emit(doc.n, null); }", "reduce": "_count"}},
        "lists": {
            "keys": "function (head, req) { send('head '); var row; while (row = getRow()) send(row.key); return ' tail'; }",
            "json": "function (head, req) { start({headers: {'Content-Type': 'application/json'}}); var rows = []; var row; while (row = getRow()) rows.push(row); head.rows = rows; return toJSON(head); }",
            "late": "function () { getRow(); start({code: 418, headers: {'X-A': 'b'}}); send('late'); }",
            "stop": "function () { var row, n = 0; while ((row = getRow()) && n++ < 2) send(row.key); return '.'; }",
            "wrong": "function () { getRow(); return nothing.here; }"
        }
    });
    design(&mut client, "d", &fields);
    design(&mut client, "other", &json!({"views": {"m": {"map": "function (doc) { emit(-doc.n, 1); }"}}}));
    for n in 0..5 {
        client.put(&format!("/db/{n}"), &json!({ "n": n }));
    }
    let list = "/db/_design/d/_list";
    let text = |client: &mut HttpClient, path: &str| client.get(&format!("{list}/{path}")).text();
    assert_eq!(text(&mut client, "keys/n?reduce=false&startkey=1"), "head 1234 tail");
    assert_eq!(text(&mut client, "keys/n?reduce=false&keys=[3,1]"), "head 31 tail");
    assert_eq!(text(&mut client, "keys/other/m"), "head -4-3-2-10 tail");
    assert_eq!(text(&mut client, "stop/n?group=true"), "01.");
    let posted = client.post(&format!("{list}/keys/n?reduce=false"), &json!({"keys": [4]}));
    assert_eq!(posted.text(), "head 4 tail");
    let rows = client.get(&format!("{list}/json/n?reduce=false&limit=1&update_seq=true"));
    assert_eq!(rows.header("content-type"), Some("application/json"));
    let rows = rows.json();
    assert_eq!(
        (&rows["total_rows"], &rows["rows"][0]),
        (&json!(5), &json!({"id": "0", "key": 0, "value": null}))
    );
    assert!(rows["update_seq"].is_string());
    let all = client.get(&format!("{list}/json/_all_docs?limit=1")).json();
    assert_eq!((&all["total_rows"], &all["rows"][0]["id"]), (&json!(7), &json!("0")));
    assert!(all["rows"][0]["value"]["rev"].is_string());
    let late = client.get(&format!("{list}/late/n?reduce=false"));
    assert_eq!((late.status, late.header("x-a"), late.text().as_str()), (418, Some("b"), "late"));
    assert_eq!(client.get(&format!("{list}/wrong/n")).refusal().1, "render_error");
    assert_eq!(client.get(&format!("{list}/keys")).refusal().1, "list_error");
    assert_eq!(client.put(&format!("{list}/keys/n"), &json!({})).status, 405);
    assert_eq!(
        client.send("POST", &format!("{list}/keys/n"), &[("Content-Type", "text/plain")], b"{}").status,
        415
    );
}

#[test]
fn rewrite_rules_and_functions_redirect_requests() {
    let (_server, mut client) = database();
    let fields = json!({
        "rewrites": [
            {"from": "", "to": "_view/n"},
            {"from": "doc/:id", "to": "../../:id", "method": "GET"},
            {"from": "doc/:id", "to": "_update/make/:id", "method": "PUT"},
            {"from": "between/:a/:b", "to": "_view/n", "formats": {"a": "int", "b": "int"},
             "query": {"startkey": ":a", "endkey": ":b"}},
            {"from": "key/:k", "to": "_view/s", "query": {"key": [":k", 1]}},
            {"from": "db/*", "to": "../../*"},
            {"from": "loop", "to": "_rewrite/loop"},
            {"from": "out", "to": "../../../_all_dbs"}
        ],
        "views": {
            "n": {"map": "function (doc) { if ('n' in doc) emit(doc.n, null); }"},
            "s": {"map": "function (doc) { if ('n' in doc) emit(['k' + doc.n, 1], null); }"}
        },
        "updates": {"make": "function (doc, req) { return [{_id: req.id, n: 9}, 'made']; }"}
    });
    design(&mut client, "d", &fields);
    for n in 0..4 {
        client.put(&format!("/db/{n}"), &json!({ "n": n }));
    }
    let at = "/db/_design/d/_rewrite";
    assert_eq!(client.get(at).json()["total_rows"], 4);
    assert_eq!(client.get(&format!("{at}/doc/2")).json()["n"], 2);
    assert_eq!(client.put(&format!("{at}/doc/9"), &json!({})).text(), "made");
    let rows = |client: &mut HttpClient, path: &str| {
        let reply = client.get(&format!("{at}/{path}")).json();
        reply["rows"].as_array().unwrap().iter().map(|row| row["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(rows(&mut client, "between/1/2?startkey=0"), ["1", "2"]);
    assert_eq!(rows(&mut client, "key/k3"), ["3"]);
    let design = client.get(&format!("{at}/db/_design/d?meta=true")).json();
    assert!(design["_id"] == "_design/d" && design["_revs_info"].is_array());
    assert_eq!(client.get(&format!("{at}/loop")).refusal().2, "Exceeded rewrite recursion limit");
    assert_eq!(client.get(&format!("{at}/out")).refusal().1, "insecure_rewrite_rule");
    assert_eq!(client.get(&format!("{at}/none")).refusal().1, "not_found");

    let function = "function (req) { var last = req.path[4]; if (last == 'own') return {code: 203, body: 'own', path: 'x'}; if (last == 'doc') return {path: '../../' + req.query.id, query: {revs: 'true'}}; if (last == 'bad') return {a: 1}; if (last == 'root') return {path: '/_show/s'}; if (last == 'out') return {path: '../../../other/x'}; if (last == 'server') return {path: '../../../_all_dbs'}; }";
    let shows = json!({ "s": "function () { return 'shown'; }" });
    self::design(&mut client, "f", &json!({ "rewrites": function, "shows": shows }));
    client.put("/other", &json!({}));
    client.put("/other/x", &json!({ "there": true }));
    let at = "/db/_design/f/_rewrite";
    let own = client.get(&format!("{at}/own"));
    assert_eq!((own.status, own.text().as_str()), (203, "own"));
    assert!(client.get(&format!("{at}/doc?id=1")).json()["_revisions"].is_object());
    assert_eq!(client.get(&format!("{at}/bad")).refusal().2, "Rewrite result must produce a new path.");
    assert_eq!(client.get(&format!("{at}/root")).text(), "shown");
    assert_eq!(client.get(&format!("{at}/out")).json()["there"], true);
    assert_eq!(client.get(&format!("{at}/server")).json(), json!(["db", "other"]));
    assert_eq!(
        client.get(&format!("{at}/none")).refusal(),
        (404, "rewrite_error".into(), "Invalid path.".into())
    );
}

#[test]
fn validation_functions_get_old_and_new_document() {
    let (_server, mut client) = database();
    let function = "function (doc, old, user, security) { if (old && old.fixed && !doc._deleted) throw {forbidden: 'fixed ' + old._rev}; if (doc.who) throw {unauthorized: user.roles[0] + security.x}; }";
    client.put("/db/_security", &json!({"x": "!"}));
    design(&mut client, "v", &json!({ "validate_doc_update": function }));
    let first = rev(&client.put("/db/a", &json!({"fixed": true})));
    let refused = client.put("/db/a", &json!({"_rev": first, "fixed": false})).refusal();
    assert_eq!(refused, (403, "forbidden".into(), format!("fixed {first}")));
    assert_eq!(
        client.put("/db/b", &json!({"who": 1})).refusal(),
        (401, "unauthorized".into(), "_admin!".into())
    );
    let docs = json!({"docs": [{"_id": "c"}, {"_id": "d", "who": 1}]});
    let written = client.post("/db/_bulk_docs", &docs).json();
    assert!(written[0]["ok"] == true && written[1]["error"] == "unauthorized");
    assert_eq!(client.send("DELETE", &format!("/db/a?rev={first}"), &[], b"").status, 200);
    assert_eq!(client.put("/db/_local/x", &json!({"who": 1})).status, 201);
}

#[test]
fn functions_get_the_security_object() {
    let (_server, mut client) = database();
    let validate = "function (doc, old, user, security) { if (doc.who !== security.admins.roles[0]) throw {forbidden: security.admins.roles[0]}; }";
    let fields = json!({
        "validate_doc_update": validate,
        "shows": {"s": "function (doc, req) { return {json: req.secObj}; }"}
    });
    design(&mut client, "d", &fields);
    let shown = client.get("/db/_security").json();
    assert_eq!(shown, json!({"members": {"roles": ["_admin"]}, "admins": {"roles": ["_admin"]}}));
    assert_eq!(client.get("/db/_design/d/_show/s").json(), shown);
    assert_eq!(client.put("/db/a", &json!({})).refusal(), (403, "forbidden".into(), "_admin".into()));
    let own = json!({"admins": {"names": [], "roles": ["boss"]}, "more": 1});
    client.put("/db/_security", &own);
    assert_eq!(client.get("/db/_design/d/_show/s").json(), own);
    assert_eq!(client.put("/db/a", &json!({"who": "boss"})).status, 201);
}

#[test]
fn function_output_has_a_sandbox_policy() {
    let (_server, mut client) = database();
    let fields = json!({
        "views": {"v": {"map": "function (doc) { emit(doc._id, null); }"}},
        "shows": {
            "page": "function () { return '<p>'; }",
            "own": "function () { return {body: 'x', headers: {'Content-Security-Policy': 'img-src *'}}; }",
            "json": "function () { return {json: 1}; }"
        },
        "lists": {
            "plain": "function () { while (getRow()); return '[]'; }",
            "typed": "function () { start({headers: {'Content-Type': 'text/plain'}}); while (getRow()); return 'x'; }"
        },
        "updates": {"none": "function () { return [null, 'nothing']; }"}
    });
    design(&mut client, "d", &fields);
    let of = |client: &mut HttpClient, method: &str, path: &str| {
        let reply = client.send(method, &format!("/db/_design/d/{path}"), &[], b"");
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        let header = |name| reply.header(name).map(str::to_owned);
        (header("content-security-policy"), header("content-type"))
    };
    let some = |text: &str| Some(text.to_owned());
    let page = some("text/html; charset=utf-8");
    assert_eq!(of(&mut client, "GET", "_show/page"), (some("sandbox"), page.clone()));
    assert_eq!(of(&mut client, "GET", "_show/own").0, some("sandbox, img-src *"));
    assert_eq!(of(&mut client, "GET", "_show/json"), (None, some("application/json")));
    assert_eq!(of(&mut client, "POST", "_update/none"), (some("sandbox"), page));
    for method in ["GET", "OPTIONS"] {
        assert_eq!(of(&mut client, method, "_list/plain/v"), (some("sandbox"), some("application/json")));
    }
    assert_eq!(of(&mut client, "GET", "_list/typed/v"), (some("sandbox"), some("text/plain")));
}

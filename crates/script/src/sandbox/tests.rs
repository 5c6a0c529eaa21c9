use super::*;

fn sandbox() -> Arc<Sandbox> {
    Sandbox::new(Limits { time: Duration::from_millis(300), ..Limits::default() })
}

fn design(members: &str) -> Design {
    Design::parse(format!(r#"{{"_id":"_design/d",{members}}}"#).as_bytes()).unwrap()
}

/// A design document with one function.
fn with(kind: &str, source: &str) -> Design {
    design(&format!(r#""{kind}":{{"f":{}}}"#, json::quoted(source)))
}

fn show(source: &str) -> Result<String> {
    sandbox().show(
        &with("shows", source),
        "f",
        "null",
        r#"{"query":{},"headers":{},"path":["d","_design","d","_show","f"]}"#,
    )
}

#[test]
fn compiler_accepts_all_forms_of_functions() {
    for source in [
        "function(doc, req){ return 'x'; }",
        "function named(doc) { return 'x' };",
        "(doc) => 'x'",
        "doc => ({body: 'x'});",
        "/* why */ function(doc) { return 'x'; } // that is why",
        "// a\nfunction(doc) { return 'x'; };\n// b",
        "\n\n(function(doc) { return 'x'; })",
        "function(doc) { function twice(x) { return x + x; } return twice('x').slice(1); }",
    ] {
        assert_eq!(show(source).unwrap(), r#"{"body":"x"}"#, "{source}");
    }
    for source in ["function(", "1", "return 1", "'text'", "}{"] {
        let error = show(source).unwrap_err();
        assert_eq!((error.name(), error.status()), ("compilation_error", 400), "{source}");
    }
    assert_eq!(show("").unwrap_err().name(), "not_found");
}

#[test]
fn thrown_values_become_errors() {
    let thrown = |source: &str| {
        let error = show(&format!("function () {{ throw {source}; }}")).unwrap_err();
        (error.status(), error.name().to_owned(), error.reason())
    };
    let told = |status, name: &str, reason: &str| (status, name.to_owned(), reason.to_owned());
    assert_eq!(thrown("{forbidden: 'no'}"), told(403, "forbidden", "no"));
    assert_eq!(thrown("{unauthorized: 'who?'}"), told(401, "unauthorized", "who?"));
    assert_eq!(thrown("['error', 'not_found', 'gone']"), told(404, "not_found", "gone"));
    assert_eq!(thrown("['error', 'teapot', 'hot']"), told(500, "teapot", "hot"));
    assert_eq!(thrown("{error: 'bad_request', reason: 'why'}"), told(400, "bad_request", "why"));
    let (status, name, reason) = thrown("new TypeError('wrong')");
    assert_eq!((status, name.as_str()), (500, "render_error"));
    assert!(reason.starts_with("function raised error: TypeError: wrong \nstacktrace:"), "{reason}");
    assert_eq!(thrown("undefined").1, "render_error");
    // Null is also what the engine throws without memory.
    assert_eq!(thrown("null").1, "os_process_error");
}

#[test]
fn exceeding_a_limit_is_an_error() {
    let hasty = sandbox();
    let patient = Sandbox::new(Limits { time: Duration::from_secs(60), ..Limits::default() });
    for (source, name) in [
        ("function () { for (;;) {} }", "timeout"),
        ("function () { try { for (;;) {} } catch (e) {} finally { for (;;) {} } }", "timeout"),
        ("function () { var a = []; for (;;) a.push('x'.repeat(10000) + a.length); }", "os_process_error"),
        ("function () { return 'x'.repeat(40000000); }", "os_process_error"),
        ("function () { return new Array(2000000000).join('xx'); }", "render_error"),
        (
            "function () { return Array.prototype.indexOf.call({length: 9007199254740991}, 1); }",
            "render_error",
        ),
        ("function () { var a = []; a.length = 4294967295; a.forEach(x => x); }", "render_error"),
        ("function f() { return f() + 1; }", "render_error"),
        (
            "function () { var a = []; for (var i = 0; i < 100000; i++) a = [a]; return {json: a}; }",
            "RangeError",
        ),
        ("function () { /^(a+)+$/.test('a'.repeat(50) + 'b'); }", "timeout"),
        ("function () { return JSON.parse('['.repeat(100000)); }", "render_error"),
    ] {
        // Only the timeout case has a short time limit, so that a busy machine does not fail the other cases.
        let sandbox = if name == "timeout" { &hasty } else { &patient };
        let begun = std::time::Instant::now();
        let error = sandbox.show(&with("shows", source), "f", "{}", "{}").unwrap_err();
        assert_eq!(error.name(), name, "{source}: {error}");
        assert!(begun.elapsed() < Duration::from_secs(30), "{source}");
        assert!(error.reason().len() < 10_000, "{source}");
    }
    assert_eq!(
        hasty.show(&with("shows", "function () { return 'still there'; }"), "f", "{}", "{}").unwrap(),
        r#"{"body":"still there"}"#
    );
}

#[test]
fn contexts_are_isolated() {
    let sandbox = sandbox();
    let spoil = with(
        "shows",
        "function () { Object.prototype.x = 1; JSON.stringify = null; globalThis.emit = null; return 'a'; }",
    );
    assert!(sandbox.show(&spoil, "f", "{}", "{}").is_ok());
    assert!(sandbox.show(&spoil, "f", "{}", "{}").is_ok());
    let look =
        with("shows", "function () { return typeof emit + ({}).x + typeof std + typeof os + typeof fetch; }");
    assert_eq!(
        sandbox.show(&look, "f", "{}", "{}").unwrap(),
        r#"{"body":"functionundefinedundefinedundefinedundefined"}"#
    );
}

#[test]
fn helper_functions_are_available() {
    let source = "function () { return [isArray([]), isArray({}), sum([1, 2, 3]), toJSON({a: [1]}), log('x')].join(' '); }";
    assert_eq!(show(source).unwrap(), r#"{"body":"true false 6 {\"a\":[1]} "}"#);
}

#[test]
fn require_loads_modules() {
    let members = r#""lib":{"a":"exports.name = 'a'; exports.b = require('./b');","b":"module.exports = {name: 'b', root: require('lib/c/d').name};",
        "c":{"d":"exports.name = require('../a').name || 'early';","e":{"f":"exports.id = require('../.././c/./g').id;"},"g":"exports.id = module.id;"},"bad":"throw new Error('no')","number":1},
        "shows":{"f":"function () { var a = require('lib/a'); return a.name + a.b.name + a.b.root; }",
        "far":"function () { return require('lib/c/e/f').id; }","missing":"function () { require('lib/nothing'); }","bad":"function () { require('lib/bad'); }","number":"function () { require('lib/number'); }"}"#;
    let design = design(members);
    let sandbox = sandbox();
    let show = |name: &str| sandbox.show(&design, name, "{}", "{}");
    assert_eq!(show("f").unwrap(), r#"{"body":"aba"}"#);
    assert_eq!(show("far").unwrap(), r#"{"body":"lib/c/g"}"#);
    for (name, error) in [
        ("missing", "invalid_require_path"),
        ("number", "invalid_require_path"),
        ("bad", "compilation_error"),
    ] {
        assert_eq!(show(name).unwrap_err().name(), error);
    }
}

#[test]
fn filter_and_validation_functions_decide() {
    let sandbox = sandbox();
    let filters = with("filters", "function (doc, req) { return doc.n > req.query.least; }");
    let passed = sandbox.filter(&filters, "f", &[r#"{"n":1}"#, r#"{"n":5}"#], r#"{"query":{"least":2}}"#);
    assert_eq!(passed.unwrap(), [false, true]);
    assert_eq!(
        sandbox.filter(&filters, "g", &["{}"], "{}").unwrap_err().reason(),
        "missing filters function g on design doc _design/d"
    );
    let views = design(r#""views":{"v":{"map":"function (doc) { if (doc.n) emit(doc.n); }"}}"#);
    assert_eq!(sandbox.filter_by_view(&views, "v", &[r#"{"n":1}"#, "{}"]).unwrap(), [true, false]);
    assert_eq!(sandbox.filter_by_view(&views, "w", &["{}"]).unwrap_err().status(), 404);
    let source = "function (doc, old, user, security) { if (!doc.type) throw {forbidden: 'no type for ' + user.name}; if (old && old.type !== doc.type) throw {unauthorized: security.x}; }";
    let validation = design(&format!(r#""validate_doc_update":{}"#, json::quoted(source)));
    let validate =
        |new, old| sandbox.validate_doc_update(&validation, new, old, r#"{"name":"me"}"#, r#"{"x":"y"}"#);
    assert!(validate(r#"{"type":1}"#, "null").is_ok());
    assert_eq!(validate("{}", "null").unwrap_err().reason(), "no type for me");
    assert_eq!(validate(r#"{"type":1}"#, r#"{"type":2}"#).unwrap_err().status(), 401);
    for (thrown, name, reason) in [
        ("{x: 1}", "unknown_error", "1"),
        ("{x: 'why'}", "unknown_error", "why"),
        ("'why'", "unknown_error", "why"),
        ("['error', 'teapot', 'hot']", "teapot", "hot"),
        ("new TypeError('wrong')", "TypeError", "wrong"),
    ] {
        let source = json::quoted(&format!("function () {{ throw {thrown}; }}"));
        let validation = design(&format!(r#""validate_doc_update":{source}"#));
        let error = sandbox.validate_doc_update(&validation, "{}", "null", "{}", "{}").unwrap_err();
        assert_eq!((error.status(), error.name(), error.reason().as_str()), (500, name, reason), "{thrown}");
    }
}

#[test]
fn update_show_and_rewrite_functions_respond() {
    let sandbox = sandbox();
    let updates = with(
        "updates",
        "function (doc, req) { if (!doc) return [null, 'none']; doc.n = 1; return [doc, {code: 201, body: req.body}]; }",
    );
    let update = |doc, request| sandbox.update(&updates, "f", doc, request).unwrap();
    assert_eq!(
        update(r#"{"_id":"a"}"#, r#"{"body":"b"}"#),
        (Some(r#"{"_id":"a","n":1}"#.into()), r#"{"code":201,"body":"b"}"#.into())
    );
    assert_eq!(update("null", "{}"), (None, r#"{"body":"none"}"#.into()));
    assert_eq!(sandbox.update(&updates, "f", "null", r#"{"method":"GET"}"#).unwrap_err().status(), 405);
    let shows = with(
        "shows",
        "function (doc) { provides('html', function () { return '<b>' + doc.n; }); provides('json', () => toJSON(doc)); registerType('own', 'a/b'); }",
    );
    let accept = |accept: &str| {
        sandbox.show(&shows, "f", r#"{"n":1}"#, &format!(r#"{{"headers":{{"Accept":"{accept}"}}}}"#))
    };
    assert_eq!(
        accept("text/html,*/*;q=0.8").unwrap(),
        r#"{"body":"<b>1","headers":{"Content-Type":"text/html; charset=utf-8"}}"#
    );
    assert_eq!(
        accept("application/json").unwrap(),
        r#"{"body":"{\"n\":1}","headers":{"Content-Type":"application/json"}}"#
    );
    assert_eq!(accept("image/png").unwrap_err().status(), 406);
    let rewrites = design(r#""rewrites":"function (req) { return {path: '../..' + req.path}; }""#);
    assert_eq!(sandbox.rewrite(&rewrites, r#"{"path":"/x"}"#).unwrap(), r#"{"path":"../../x"}"#);
}

fn list(source: &str, rows: &[&str]) -> Result<Vec<ListEvent>> {
    let mut events = Vec::new();
    let mut call = sandbox().list(&with("lists", source), "f", r#"{"headers":{}}"#)?;
    call.head(r#"{"total_rows":2}"#, &mut |event| {
        events.push(event);
        Ok(())
    })?;
    for row in rows {
        let more = call.row(row, &mut |event| {
            events.push(event);
            Ok(())
        })?;
        if !more {
            break;
        }
    }
    call.finish(&mut |event| {
        events.push(event);
        Ok(())
    })?;
    Ok(events)
}

#[test]
fn list_functions_consume_rows_one_by_one() {
    let chunk = |text: &str| ListEvent::Chunk(text.to_owned());
    let rows = [r#"{"key":1}"#, r#"{"key":2}"#, r#"{"key":3}"#];
    let source = "function (head, req) { start({code: 202, headers: {'Content-Type': 'a/b'}}); send('h' + head.total_rows); var row; while (row = getRow()) send(row.key); return 'end'; }";
    let events = list(source, &rows).unwrap();
    let start = ListEvent::Start(r#"{"code":202,"headers":{"Content-Type":"a/b"}}"#.to_owned());
    assert_eq!(events, [start, chunk("h2"), chunk("1"), chunk("2"), chunk("3"), chunk("end")]);
    let events = list("function () { getRow(); return 'first'; }", &rows).unwrap();
    assert_eq!(events, [ListEvent::Start(r#"{"headers":{}}"#.to_owned()), chunk("first")]);
    let events = list("function () { return 'nothing read'; }", &rows).unwrap();
    assert_eq!(events, [ListEvent::Start(r#"{"headers":{}}"#.to_owned()), chunk("nothing read")]);
    assert_eq!(list("function () { getRow(); throw {forbidden: 'x'}; }", &rows).unwrap_err().status(), 403);
    assert_eq!(list("function () { while (getRow()) for (;;) {} }", &rows).unwrap_err().name(), "timeout");
}

#[test]
fn map_functions_emit_for_each_document() {
    let design = design(
        r#""views":{"a":{"map":"function (doc) { emit(doc._id, doc.n); if (doc.n > 1) { doc.n = 0; emit(['x', doc._rev], {a: undefined, b: [1.5, 'é\"']}); } }"},
            "b":{"map":"function (doc) { emit(doc.n); if (doc.n === 2) throw new Error('skip'); }"},
            "c":{"map":"function (doc) { emit(require('views/lib/l').twice(doc.n), {toJSON: function () { emit('inner'); return 7; }}); }"},
            "lib":{"l":"exports.twice = function (x) { return x * 2; }"}}"#,
    );
    let mapper = Mapper::new(Limits::default(), &design).unwrap();
    let docs = [diwan_value::doc! { "_id": "one", "n": 1 }, diwan_value::doc! { "_id": "two", "n": 2i64 }];
    let mut rows = Vec::new();
    let document = |at: usize| MapDocument {
        id: ["one", "two"][at],
        revision: Some("1-a"),
        more: "",
        doc: docs[at].as_doc(),
    };
    mapper
        .map((0..2).map(document), |index, view, emitted| {
            rows.extend(emitted.pairs().map(|(key, value)| format!("{index}{view} {key} {value}")));
            Ok(())
        })
        .unwrap();
    assert_eq!(
        rows,
        [
            r#"00 "one" 1"#,
            "01 1 null",
            r#"02 "inner" null"#,
            "02 2 7",
            r#"10 "two" 2"#,
            r#"10 ["x","1-a"] {"b":[1.5,"é\""]}"#,
            r#"12 "inner" null"#,
            "12 4 7",
        ]
    );
}

#[test]
fn map_functions_see_every_bson_type() {
    let design = design(r#""views":{"a":{"map":"function (doc) { emit(null, doc); }"}}"#);
    let mapper = Mapper::new(Limits::default(), &design).unwrap();
    let doc = diwan_value::doc! {
        "_id": 1, "__v": 3, "big": (1i64 << 60), "whole": 2.0, "when": diwan_value::Value::DateTime(0), "none": diwan_value::Value::Null,
        "in": { "_id": 5, "__proto__": { "x": 1 } }
    };
    let mut text = String::new();
    let document = MapDocument { id: "~1", revision: None, more: r#""_local_seq":7"#, doc: doc.as_doc() };
    mapper
        .map(std::iter::once(document), |_, _, emitted| {
            text.push_str(emitted.pairs().next().unwrap().1);
            Ok(())
        })
        .unwrap();
    assert_eq!(
        text,
        r#"{"_id":"~1","_local_seq":7,"$__v":3,"big":{"$numberLong":"1152921504606846976"},"whole":2,"when":{"$date":"1970-01-01T00:00:00Z"},"none":null,"in":{"_id":5,"__proto__":{"x":1}}}"#
    );
}

#[test]
fn check_rejects_invalid_design_documents() {
    let sandbox = sandbox();
    let check = |views: &str| sandbox.check(&design(&format!(r#""views":{views}"#)));
    assert!(check(r#"{"v":{"map":"function (doc) {}","reduce":"_sum"}}"#).is_ok());
    let error = check(r#"{"v":{"map":"function (doc) {"}}"#).unwrap_err();
    assert!(
        error.reason().starts_with("Compilation of the map function in the 'v' view failed: SyntaxError"),
        "{error}"
    );
    let error = check(r#"{"v":{"map":"x => x","reduce":"_median"}}"#).unwrap_err();
    assert_eq!(error.reason(), "`_median` is not a supported reduce function.");
}

/// Compares the fast path with the engine's `stringify`.
#[test]
fn emitted_values_match_stringify() {
    let values = [
        "{a: 1, b: [1.5, -0, 1e21, 1e-7, 0.000001, 123456789012345680000, 4294967296, NaN]}",
        "{b: undefined, c: function () {}, d: null}",
        "[undefined, function () {}, [], {}]",
        "new Date(0)",
        "{at: new Date(0)}",
        "new String('x')",
        "[new Number(1), new Boolean(false)]",
        "{toJSON: function () { return [7]; }}",
        "/x/",
        "new Map([[1, 2]])",
        "'\\ud800'",
        "{'\\udc00': 'é\\n\\u0001\"'}",
        "new Error('x')",
        "{2: 'b', 1: 'a', x: 'c'}",
        "Object.create({inherited: 1})",
        "Object.create(null)",
        "[,1]",
        "Symbol('x')",
        "{get g() { return 5; }}",
        "(function () { class A { constructor() { this.x = 1; } } return new A(); })()",
        "(function () { return arguments; })(1, 2)",
        "true",
        "'text'",
        "-5",
        "0.1",
        "(function () { var a = []; a.length = 200000; return a; })().length",
        "new Uint8Array(2)",
    ];
    for value in values {
        let map = format!(
            "function (doc) {{ var v = {value}; emit(1, v); emit(2, JSON.stringify(v === undefined ? null : v)); }}"
        );
        let design = design(&format!(r#""views":{{"a":{{"map":{}}}}}"#, json::quoted(&map)));
        let mapper = Mapper::new(Limits::default(), &design).unwrap();
        let doc = diwan_value::doc! { "_id": "a" };
        let document = MapDocument { id: "a", revision: None, more: "", doc: doc.as_doc() };
        let mut rows = Vec::new();
        mapper
            .map(std::iter::once(document), |_, _, emitted| {
                rows.extend(emitted.pairs().map(|(_, value)| value.to_owned()));
                Ok(())
            })
            .unwrap();
        let [own, engine] = rows.try_into().unwrap_or_else(|_| panic!("{value}"));
        // Values that `stringify` leaves undefined become null in a row.
        assert_eq!(own, json::unquote(&engine), "{value}");
    }
}

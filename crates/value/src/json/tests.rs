use super::*;
use crate::view::{Doc, Value};
use crate::{doc, extjson, random};
use fastrand::Rng;

fn parse(text: &str) -> Result<DocBuf, JsonError> {
    parse_document(text.as_bytes(), Limits::default())
}

fn couch(text: &str) -> Result<CouchDoc<'_>, JsonError> {
    couch_with(text, Limits::default())
}

fn couch_with(text: &str, limits: Limits) -> Result<CouchDoc<'_>, JsonError> {
    parse_couch(text.as_bytes(), limits, Dialect::Plain)
}

fn read(text: &str) -> DocBuf {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn parsing_maps_json_to_bson_types() {
    let text =
        " { \"a\" : [ 1 , -2.5e1 , true , false , null , [ ] , { } ] ,\t\"b\":{\"c\":\"d\"},\r\n\"\":\"\" } ";
    assert_eq!(read(text), doc! { "a": [1, -25.0, true, false, null, [], {}], "b": { "c": "d" }, "": "" });
    let text = r#"{"a":"\"\\\/\b\f\n\r\t\u00e9\u0000\ud83d\ude00 \u20AC é😀"}"#;
    assert_eq!(read(text), doc! { "a": "\"\\/\u{8}\u{c}\n\r\té\0😀 € é😀" });
    let long = format!("[{}]", (0..1234).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
    let read = parse_value(long.as_bytes(), Limits::default()).unwrap();
    let array = read.as_value().as_array().unwrap();
    assert!(array.elements().enumerate().all(|(at, element)| element.key_str() == at.to_string()));
    assert_eq!(array.get(1233), Some(Value::Int32(1233)));
    assert!(array.iter().enumerate().all(|(at, value)| value == Value::Int32(at as i32)));
}

#[test]
fn parsing_reports_the_position_of_errors() {
    for (text, position) in [
        ("", 0),
        ("  ", 2),
        ("{", 1),
        ("{]", 1),
        ("{\"a\"}", 4),
        ("{\"a\":}", 5),
        ("{\"a\":1,}", 7),
        ("{\"a\":1 \"b\"}", 7),
        ("{'a':1}", 1),
        ("{\"a\":[1,]}", 8),
        ("{\"a\":[1 2]}", 8),
        ("{\"a\":tru}", 5),
        ("{\"a\":\"x", 7),
        ("{\"a\":\"\n\"}", 6),
        ("{\"a\":\"\\x\"}", 6),
        ("{\"a\":\"\\u12g4\"}", 6),
        ("{\"a\":\"\\ud800\"}", 6),
        ("{\"a\":\"\\ud800\\u0041\"}", 6),
        ("{\"a\":\"\\udc00\"}", 6),
        ("{\"a\":1}}", 7),
        ("{\"a\":NaN}", 5),
        ("{\"a\":01}", 5),
        ("{\"a\":/**/1}", 5),
        ("\u{feff}{}", 0),
    ] {
        let error = parse(text).expect_err(text);
        assert_eq!((error.kind, error.position), (ErrorKind::Syntax, position), "{text}: {error}");
        // Skipped text is checked just as strictly.
        if text.starts_with("{\"") && !text.ends_with("}}") {
            let skipped = format!("{{\"_attachments\":{text}}}");
            assert!(couch(&skipped).is_err(), "{skipped}");
        }
    }
    let error = parse("{\"a\\u0000\":1}").unwrap_err();
    assert_eq!((error.kind, error.position), (ErrorKind::Unstorable, 1));
    let error = parse_document(b"{\"a\":\"\xFF\"}", Limits::default()).unwrap_err();
    assert_eq!((error.position, error.message.as_str()), (6, "invalid UTF-8"));
    assert!(parse("[1]").is_err() && parse("1").is_err());
}

#[test]
fn plain_dialect_keeps_the_last_value_of_a_duplicate_name() {
    assert_eq!(read(r#"{"a":1,"b":2,"a":{"c":1,"c":[]}}"#), doc! { "a": { "c": [] }, "b": 2 });
    assert_eq!(read(r#"{"abc":1,"\u0061bc":2}"#), doc! { "abc": 2 });
    // Many names, and names that differ only in the middle.
    let mut rng = Rng::with_seed(3);
    for count in [2, 15, 16, 17, 40, 300] {
        let names: Vec<String> =
            (0..count).map(|_| format!("beginning{}ofaname", rng.usize(..count * 2))).collect();
        let members: Vec<String> =
            names.iter().enumerate().map(|(at, name)| format!("\"{name}\":{at}")).collect();
        let doc = read(&format!("{{{}}}", members.join(",")));
        let mut order: Vec<&str> = Vec::new();
        for name in &names {
            if !order.contains(&name.as_str()) {
                order.push(name);
            }
        }
        assert!(doc.as_doc().iter().map(|element| element.key_str()).eq(order));
        for (at, name) in names.iter().enumerate() {
            if !names[at + 1..].contains(name) {
                assert_eq!(doc.as_doc().get(name), Some(Value::Int32(at as i32)));
            }
        }
    }
}

#[test]
fn plain_dialect_keeps_objects_that_only_begin_like_wrappers() {
    for text in [
        r#"{"a":{"$date":"yesterday"}}"#,
        r#"{"a":{"$oid":"0102030405060708090a0b0c","b":1}}"#,
        r#"{"a":{"b":1,"$oid":"0102030405060708090a0b0c"}}"#,
        r#"{"a":{"$numberLong":"x"}}"#,
        r#"{"a":{"$type":"number"}}"#,
    ] {
        let mut out = Vec::new();
        write_document(&mut out, read(text).as_doc(), Mode::Exchange);
        assert_eq!(String::from_utf8_lossy(&out), text);
    }
    assert_eq!(read(r#"{"a":[{"$date":{"$numberLong":"5"}}]}"#), doc! { "a": [Value::DateTime(5)] });
}

#[test]
fn parsing_limits_depth_and_size() {
    let nested = |levels: usize| format!("{}1{}", "{\"a\":[".repeat(levels), "]}".repeat(levels));
    assert!(parse(&nested(50)).is_ok());
    assert_eq!(parse(&nested(51)).unwrap_err().kind, ErrorKind::Depth);
    assert_eq!(parse(&nested(100_000)).unwrap_err().kind, ErrorKind::Depth);
    assert_eq!(couch(&nested(100_000)).unwrap_err().kind, ErrorKind::Depth);
    assert!(couch(&nested(50)).is_ok());
    let attachments = format!("{{\"_attachments\":{}}}", nested(100_000));
    assert_eq!(couch(&attachments).unwrap_err().kind, ErrorKind::Depth);
    // A wrapper on the deepest level adds a level to the text, but not to the values.
    let deepest = |value: &str| format!("{}{value}{}", "{\"a\":".repeat(100), "}".repeat(100));
    for value in [r#"{"$date":{"$numberLong":"1"}}"#, r#"{"$binary":{"base64":"","subType":"00"}}"#] {
        assert!(parse(&deepest(value)).is_ok(), "{value}");
    }
    for value in ["{}", r#"{"$date":{"a":1}}"#, r#"{"$code":"","$scope":{}}"#] {
        assert_eq!(parse(&deepest(value)).unwrap_err().kind, ErrorKind::Depth, "{value}");
    }
    let limits = Limits { depth: 10, bytes: 100 };
    for text in [format!("{{\"a\":\"{}\"}}", "x".repeat(100)), format!("{{\"a\":[{}1]}}", "1,".repeat(20))] {
        assert_eq!(parse_document(text.as_bytes(), limits).unwrap_err().kind, ErrorKind::Size);
        assert_eq!(couch_with(&text, limits).unwrap_err().kind, ErrorKind::Size);
    }
    // The limit applies to the value that a wrapper becomes, not to the object while it is parsed.
    let wrapped =
        format!("{{\"a\":{{\"$binary\":{{\"base64\":\"{}\",\"subType\":\"00\"}}}}}}", "A".repeat(100));
    assert!(parse_document(wrapped.as_bytes(), limits).is_ok());
    let attached = format!("{{\"_attachments\":{{\"a\":{{\"data\":\"{}\"}}}},\"b\":1}}", "x".repeat(1000));
    assert_eq!(couch_with(&attached, limits).map(|doc| doc.body), Ok(doc! { "b": 1 }));
}

#[test]
fn parse_couch_separates_metadata_members() {
    let text = r#"{"a":1,"_id":"x","_rev":"1-\u0061","_deleted":true,"$__v":3,"_revisions":{"start":2,"ids":
        ["000102030405060708090a0b0c0d0e0F","ffffffffffffffffffffffffffffffff"]},"_revs_info":[{"x":1}],
        "_conflicts":[],"_deleted_conflicts":[],"_local_seq":7,"$_rev":"mine","_replication_state":"completed",
        "_attachments": { "f": {"stub":true} } , "b":{"_c":1,"$d":2}}"#;
    let doc = couch(text).unwrap();
    assert_eq!((doc.id.as_deref(), doc.rev.as_deref(), doc.deleted), (Some("x"), Some("1-a"), true));
    let revisions = doc.revisions.unwrap();
    let first = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    assert_eq!((revisions.start, revisions.ids), (2, vec![first, [255; 16]]));
    assert_eq!(doc.attachments, Some(r#"{ "f": {"stub":true} }"#.as_bytes()));
    let body = doc! {
        "a": 1, "__v": 3, "_rev": "mine", "_replication_state": "completed", "b": { "_c": 1, "$d": 2 },
    };
    assert_eq!(doc.body, body);
    let mut out = br#"{"_id":"x""#.to_vec();
    write_couch_members(&mut out, body.as_doc());
    let expected = concat!(
        r#"{"_id":"x","a":1,"$__v":3,"$_rev":"mine","_replication_state":"completed","#,
        r#""b":{"_c":1,"$d":2}"#
    );
    assert_eq!(String::from_utf8_lossy(&out), expected);
    let mut out = b"{".to_vec();
    write_couch_members(&mut out, doc! { "_id": 1, "_a": "{", "b": 1 }.as_doc());
    assert_eq!(String::from_utf8_lossy(&out), r#"{"$_a":"{","b":1"#);
    assert_eq!(couch("{}").unwrap().body, doc! {});
    assert_eq!(couch(r#"{"_id":"x","$_a":1,"_id":"y","$_a":2}"#).unwrap().id.as_deref(), Some("y"));
}

#[test]
fn parse_couch_reports_couchdb_errors() {
    use ErrorKind::{BadRequest, DocValidation, IllegalId, Reserved, Syntax, Unstorable};
    for (text, kind, message) in [
        ("[]", BadRequest, "Document must be a JSON object"),
        ("\"a", Syntax, "unexpected end of text"),
        (r#"{"_id":1}"#, IllegalId, "Document id must be a string"),
        (r#"{"_rev":1}"#, BadRequest, "Invalid rev format"),
        (r#"{"_deleted":1}"#, DocValidation, "Bad special document member: _deleted"),
        (r#"{"_attachments":[]}"#, DocValidation, "Bad special document member: _attachments"),
        (r#"{"_foo":1}"#, DocValidation, "Bad special document member: _foo"),
        (r#"{"_":1}"#, DocValidation, "Bad special document member: _"),
        (r#"{"$set":1}"#, Reserved, "Bad special document member: $set"),
        (r#"{"$oid":"0102030405060708090a0b0c"}"#, Reserved, "Bad special document member: $oid"),
        (r#"{"$_id":1}"#, Reserved, "Bad special document member: $_id"),
        (r#"{"$_replication_id":1}"#, Reserved, "Bad special document member: $_replication_id"),
        (r#"{"_revisions":[]}"#, DocValidation, "Bad special document member: _revisions"),
        (r#"{"_revisions":{"start":"1","ids":[]}}"#, DocValidation, "_revisions.start isn't an integer."),
        (r#"{"_revisions":{"start":1,"ids":{}}}"#, DocValidation, "_revisions.ids isn't a array."),
        (r#"{"_revisions":{"start":1,"ids":[1]}}"#, DocValidation, "RevId isn't a string"),
        (r#"{"_revisions":{"start":1,"ids":["a b"]}}"#, Unstorable, UNSTORABLE_REVISION),
        (
            r#"{"_revisions":{"start":1,"ids":["0123456789abcdef0123456789abcdeg"]}}"#,
            DocValidation,
            "RevId isn't a valid hexadecimal",
        ),
    ] {
        let error = couch(text).expect_err(text);
        assert_eq!((error.kind, error.message.as_str()), (kind, message), "{text}");
    }
}

#[test]
fn exchange_mode_wraps_integers_that_javascript_would_round() {
    let doc = doc! { "a": 1i64 << 53, "b": (1i64 << 53) + 1, "c": i64::MIN, "d": 1.0, "e": -0.0, "f": 1e16, "g": 0.1 };
    let mut out = Vec::new();
    write_document(&mut out, doc.as_doc(), Mode::Exchange);
    let text = String::from_utf8_lossy(&out).into_owned();
    let expected = concat!(
        r#"{"a":9007199254740992,"b":{"$numberLong":"9007199254740993"},"#,
        r#""c":{"$numberLong":"-9223372036854775808"},"d":1.0,"e":-0.0,"f":1e+16,"g":0.1}"#
    );
    assert_eq!(text, expected);
    assert_eq!(read(&text), doc);
}

#[test]
fn replicated_dialect_preserves_the_text() {
    let exchange = |doc: &DocBuf| {
        let mut out = Vec::new();
        write_document(&mut out, doc.as_doc(), Mode::Exchange);
        String::from_utf8(out).unwrap()
    };
    let replicated = |text: &str| {
        parse_document_with(text.as_bytes(), Limits::default(), Dialect::Replicated)
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    };
    // A wrapper in the form that the writer produces is its value, with any white space.
    for (text, value) in [
        (r#"{"a":{"$date":"2024-05-06T07:08:09Z"}}"#, Value::DateTime(1_714_979_289_000)),
        (r#"{"a": { "$date" : "2024-05-06T07:08:09Z"} }"#, Value::DateTime(1_714_979_289_000)),
        (r#"{"a":{"$date":{"$numberLong":"-5"}}}"#, Value::DateTime(-5)),
        (r#"{"a":{"$numberLong":"9007199254740993"}}"#, Value::Int64(9_007_199_254_740_993)),
        (r#"{"a":{"$code":" a \" ","$scope":{"$x":1}}}"#, Value::Null),
        (r#"{"b":{"$in":[{"$date":"2024-05-06T07:08:09Z"}]},"a":1}"#, Value::Null),
    ] {
        let doc = replicated(text);
        if value != Value::Null {
            assert_eq!(doc, doc! { "a": value });
        }
        assert!(!matches!(doc.as_doc().get("a"), Some(Value::Document(_))), "{text}");
        assert_eq!(doc, read(text), "{text}");
    }
    // Other wrappers stay objects.
    for value in [
        r#"{"$date":"2024-05-06T07:08:09+02:00"}"#,
        r#"{"$date":"2024-05-06T07:08:09.000Z"}"#,
        r#"{"$date":{"$numberLong":"5"}}"#,
        r#"{"$date":5}"#,
        r#"{"$numberLong":"5"}"#,
        r#"{"$numberInt":"5"}"#,
        r#"{"$oid":"0102030405060708090A0B0C"}"#,
        r#"{"$uuid":"c8edabc3-f738-4ca3-b68d-ab92a91478a3"}"#,
        r#"{"$regularExpression":{"pattern":"a","options":"xi"}}"#,
        r#"{"$type":"number"}"#,
        r#"{"$date":{"$date":{"$date":{"b":[{"$date":1}]}}}}"#,
    ] {
        let text = format!("{{\"a\":{value},\"b\":[{value}]}}");
        let doc = replicated(&text);
        assert!(matches!(doc.as_doc().get("a"), Some(Value::Document(_))), "{text}");
        assert_eq!(exchange(&doc), text);
    }
    // Text that this server wrote parses to the same document.
    let mut rng = Rng::with_seed(13);
    for _ in 0..5_000 {
        let doc = random::document(&mut rng, 3);
        let text = exchange(&doc);
        let twice = replicated(&text);
        if unique(doc.as_doc()) {
            assert_eq!(exchange(&twice), text);
            assert_eq!(twice, read(&text), "{text}");
        }
    }
    // At any depth, the reader reads each byte at most twice.
    let deep = format!("{}1{}", r#"{"$date":"#.repeat(99), "}".repeat(99));
    assert_eq!(exchange(&replicated(&deep)), deep);
}

#[test]
fn keep_types_restores_types_after_an_exchange() {
    let mut rng = Rng::with_seed(7);
    for _ in 0..5_000 {
        let doc = random::document(&mut rng, 3);
        let mut out = Vec::new();
        write_document(&mut out, doc.as_doc(), Mode::Exchange);
        let dialect = Dialect::Extended;
        let back = parse_document_with(&out, Limits::default(), dialect).unwrap();
        assert_eq!(crate::compare_docs(doc.as_doc(), back.as_doc(), None), std::cmp::Ordering::Equal);
        assert!(Doc::validate(back.as_doc().as_bytes()).is_ok());
        // After `keep_types` the result is exact, apart from NaN's bits, decimal forms and duplicate names.
        let kept = keep_types(doc.as_doc(), back.as_doc()).unwrap_or(back);
        let canonical = |doc: &DocBuf| extjson::to_json(doc.as_doc(), Mode::Canonical);
        if unique(doc.as_doc()) {
            assert_eq!(canonical(&kept), canonical(&doc));
        }
    }
}

/// Whether no name occurs twice in a document or in a nested one.
fn unique(doc: Doc<'_>) -> bool {
    let names: Vec<&[u8]> = doc.iter().map(|element| element.key).collect();
    let once = |name: &&[u8]| names.iter().filter(|other| *other == name).count() == 1;
    names.iter().all(once)
        && doc.iter().all(|element| match element.value() {
            Value::Document(doc) => unique(doc),
            Value::Array(array) => unique(Doc::trusted(array.as_bytes())),
            // `keep_types` does not enter scopes, so numbers in them may change type.
            Value::JavaScriptWithScope { .. } => false,
            _ => true,
        })
}

#[test]
fn keep_types_keeps_the_type_of_equal_numbers() {
    let old =
        doc! { "a": 2.0, "b": 5i64, "c": { "d": [1.0, 2i64, { "e": 3.0 }], "f": "x" }, "g": -0.0, "h": 1 };
    let new =
        doc! { "h": 1.0, "c": { "f": "y", "d": [1, 3, { "e": 3 }, 4] }, "a": 2, "b": 6, "g": 0, "z": 1 };
    let kept = doc! {
        "h": 1, "c": { "f": "y", "d": [1.0, 3, { "e": 3.0 }, 4] }, "a": 2.0, "b": 6, "g": -0.0, "z": 1,
    };
    assert_eq!(keep_types(old.as_doc(), new.as_doc()), Some(kept.clone()));
    assert_eq!(keep_types(kept.as_doc(), kept.as_doc()), None);
    assert_eq!(keep_types(doc! { "a": 1 }.as_doc(), doc! { "a": 2.0, "b": [1] }.as_doc()), None);
    // Numbers never become other types or decimals.
    let old = doc! { "a": Value::DateTime(1), "b": true, "c": Value::Decimal128(crate::Decimal128::ZERO) };
    assert_eq!(keep_types(old.as_doc(), doc! { "a": 1, "b": 1, "c": 0 }.as_doc()), None);
    // Many members in another order.
    let mut forward = crate::DocBuilder::new();
    let mut backward = crate::DocBuilder::new();
    for number in 0..1000 {
        forward.append(&format!("n{number}"), f64::from(number));
        backward.append(&format!("n{}", 999 - number), 999 - number);
    }
    let kept = keep_types(forward.finish().as_doc(), backward.finish().as_doc()).unwrap();
    assert!(kept.as_doc().iter().all(|element| matches!(element.value(), Value::Double(_))));
}

#[test]
fn id_texts_are_unique() {
    let hex = "0102030405060708090a0b0c";
    let oid = crate::ObjectId::parse_hex(hex).unwrap();
    for (id, text) in [
        (Value::String("a b/é"), "a b/é"),
        (Value::ObjectId(oid), hex),
        (Value::String(hex), "~\"0102030405060708090a0b0c\""),
        (Value::String("0102030405060708090A0B0C"), "0102030405060708090A0B0C"),
        (Value::String("~"), "~"),
        (Value::String("~x"), "~x"),
        (Value::String("~1"), "~1"),
        (Value::String("~ null"), "~ null"),
        (Value::String("~\"a\""), "~\"a\""),
        (Value::String("~true"), "~\"~true\""),
        (Value::String("~\"~true\""), "~\"~\\\"~true\\\"\""),
        (Value::String("~{\"$numberInt\":\"7\"}"), "~\"~{\\\"$numberInt\\\":\\\"7\\\"}\""),
        (Value::String(""), "~\"\""),
        (Value::String("_x"), "~\"_x\""),
        (Value::String("_local/x"), "~\"_local/x\""),
        (Value::String("_design/x"), "_design/x"),
        (Value::String("_design/"), "~\"_design/\""),
        (Value::Int32(-5), "~{\"$numberInt\":\"-5\"}"),
        (Value::Boolean(true), "~true"),
        (Value::Null, "~null"),
    ] {
        let mut written = String::new();
        id_to_text(id, &mut written);
        assert_eq!(written, text);
        assert_eq!(id_from_text(text).as_ref().map(|id| id.as_value()), Ok(id));
    }
    for (text, reason) in [
        ("", "Document id must not be empty"),
        ("_x", "Only reserved document ids may start with underscore."),
        ("_design/", "Illegal document id `_design/`"),
        ("_local/x", "Only reserved document ids may start with underscore."),
    ] {
        assert_eq!(id_from_text(text).map_err(|error| error.to_string()), Err(reason.to_owned()), "{text}");
    }
}

#[test]
fn random_ids_survive_a_round_trip() {
    let mut rng = Rng::with_seed(11);
    for _ in 0..5_000 {
        let id = random::value(&mut rng, 2);
        let mut text = String::new();
        id_to_text(id.as_value(), &mut text);
        let back = id_from_text(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let mut again = String::new();
        id_to_text(back.as_value(), &mut again);
        assert_eq!(again, text);
        assert_eq!(crate::compare(id.as_value(), back.as_value()), std::cmp::Ordering::Equal);
        // Strings that look like ids of other types, or like such strings again, stay distinct from them.
        for _ in 0..3 {
            let string = text;
            text = String::new();
            id_to_text(Value::String(&string), &mut text);
            let back = id_from_text(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(back.as_value(), Value::String(&string));
        }
        // Any text is rejected or is the only text of its id.
        let end = ["", "\"", "}", " "][rng.usize(..4)];
        let mutated: String = text.chars().filter(|_| rng.u8(..8) > 0).chain(end.chars()).collect();
        if let Ok(id) = id_from_text(&mutated) {
            let mut again = String::new();
            id_to_text(id.as_value(), &mut again);
            assert_eq!(again, mutated);
        }
    }
}

#[test]
fn parsing_random_bytes_does_not_panic() {
    let mut rng = Rng::with_seed(5);
    let seed = br#"{"a":[1,2.5,{"$date":{"$numberLong":"1"}}],"_id":"x\u00e9\ud83d\ude00","$_b":null,"_attachments":{"a":{}}}"#;
    for _ in 0..20_000 {
        let mut text = seed.to_vec();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(..text.len());
            match rng.u8(..3) {
                0 => text[at] = b"{}[]\",:\\0-e.$_a \x00\xff"[rng.usize(..18)],
                1 => drop(text.remove(at)),
                _ => text.insert(at, b"{}[]\",:\\0-e.$_a "[rng.usize(..16)]),
            }
        }
        if let Ok(doc) = parse_document(&text, Limits::default()) {
            assert!(Doc::validate(doc.as_doc().as_bytes()).is_ok());
        }
        for dialect in [Dialect::Plain, Dialect::Replicated] {
            if let Ok(doc) = parse_couch(&text, Limits::default(), dialect) {
                assert!(Doc::validate(doc.body.as_doc().as_bytes()).is_ok());
            }
        }
    }
}

/// Splits text that is fed in pieces of the given lengths.
fn split(
    text: &[u8],
    limit: usize,
    mut piece: impl FnMut() -> usize,
) -> Result<(Vec<String>, String), JsonError> {
    let mut splitter = ArraySplitter::new("docs", limit);
    let mut elements = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (head, tail) = rest.split_at(piece().clamp(1, rest.len()));
        splitter.feed(head);
        while let Some(element) = splitter.next_element()? {
            elements.push(String::from_utf8_lossy(element).into_owned());
        }
        rest = tail;
    }
    splitter.finish().map(|others| (elements, String::from_utf8_lossy(&others).into_owned()))
}

#[test]
fn splitter_returns_elements_and_other_members() {
    let mut rng = Rng::with_seed(9);
    for (text, elements, others) in [
        (r#"{"docs":[]}"#, vec![], "{}"),
        (
            r#" { "docs" : [ {"a":"]}\"\\"} , 1,"x" ,[[],[]], true ] } "#,
            vec![r#"{"a":"]}\"\\"}"#, "1", "\"x\"", "[[],[]]", "true"],
            "{}",
        ),
        (
            r#"{"new_edits":false,"docs":[{}],"w":{"docs":[1]}}"#,
            vec!["{}"],
            r#"{"new_edits":false,"w":{"docs":[1]}}"#,
        ),
        (r#"{"\u0064ocs":[{}, {}],"a":1}"#, vec!["{}", "{}"], r#"{"a":1}"#),
        (r#"{"a":1,"docs":[2]}"#, vec!["2"], r#"{"a":1}"#),
        (r#"{"docs":{},"a":"}"}"#, vec![], r#"{"docs":{},"a":"}"}"#),
        ("{}", vec![], "{}"),
    ] {
        let expected = (elements.into_iter().map(str::to_owned).collect(), others.to_owned());
        for _ in 0..20 {
            assert_eq!(split(text.as_bytes(), 1000, || rng.usize(1..6)), Ok(expected.clone()), "{text}");
        }
        assert_eq!(split(text.as_bytes(), 1000, || usize::MAX), Ok(expected));
    }
    for text in [
        "",
        "[",
        "{",
        "{\"docs\":[",
        "{\"docs\":[1",
        "{\"docs\":[1,]}",
        "{\"docs\":[,1]}",
        "{\"docs\":[1 2]}",
        "{\"docs\":[1]",
        "{\"docs\":[]}x",
        "{\"docs\":[],\"docs\":[]}",
        "{\"a\" 1}",
        "{\"a\":1 \"b\":2}",
        "{,}",
        "{\"a\":}",
        "{\"docs\":[}]}",
        "{\"docs\":[]}}",
        "{1:2}",
    ] {
        assert!(split(text.as_bytes(), 1000, || rng.usize(1..4)).is_err(), "{text}");
    }
    let large = format!("{{\"docs\":[{{\"a\":\"{}\"}}]}}", "x".repeat(2000));
    for piece in [1, 7, 4000] {
        assert_eq!(split(large.as_bytes(), 1000, || piece).unwrap_err().kind, ErrorKind::Size);
        assert!(split(large.as_bytes(), 2100, || piece).is_ok());
    }
    let others = format!("{{\"a\":\"{0}\",\"b\":\"{0}\"}}", "x".repeat(600));
    assert_eq!(split(others.as_bytes(), 1000, || 100).unwrap_err().kind, ErrorKind::Size);
}

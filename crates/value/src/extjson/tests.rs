use super::{Mode, parse, parse_value, to_json, value_to_json};
use crate::{Doc, Value, doc, random};
use fastrand::Rng;

#[test]
fn canonical_text_of_every_type_survives_a_round_trip() {
    for json in [
        r#"{"a":{"$numberDouble":"1.5"}}"#,
        r#"{"a":{"$numberDouble":"1e+100"}}"#,
        r#"{"a":{"$numberDouble":"-0.0"}}"#,
        r#"{"a":{"$numberDouble":"NaN"}}"#,
        r#"{"a":{"$numberDouble":"-Infinity"}}"#,
        r#"{"a":{"$numberInt":"-7"}}"#,
        r#"{"a":{"$numberLong":"9223372036854775807"}}"#,
        r#"{"a":{"$numberDecimal":"1.20"}}"#,
        r#"{"a":"text \" \\ \n \u0001 é"}"#,
        r#"{"a":{"b":{}},"c":[[],[null,true,false]]}"#,
        r#"{"a":{"$binary":{"base64":"AQID","subType":"80"}}}"#,
        r#"{"a":{"$binary":{"base64":"AQID","subType":"02"}}}"#,
        r#"{"a":{"$undefined":true}}"#,
        r#"{"a":{"$oid":"0102030405060708090a0b0c"}}"#,
        r#"{"a":{"$date":{"$numberLong":"-1"}}}"#,
        r#"{"a":{"$regularExpression":{"pattern":"^a\"","options":"im"}}}"#,
        r#"{"a":{"$dbPointer":{"$ref":"db.c","$id":{"$oid":"0102030405060708090a0b0c"}}}}"#,
        r#"{"a":{"$code":"f()"}}"#,
        r#"{"a":{"$code":"f()","$scope":{"x":{"$numberInt":"1"}}}}"#,
        r#"{"a":{"$symbol":"s"}}"#,
        r#"{"a":{"$timestamp":{"t":4294967295,"i":1}}}"#,
        r#"{"a":{"$minKey":1},"b":{"$maxKey":1}}"#,
        // Names of operators and references are ordinary names.
        r#"{"$regex":"a","$options":"i"}"#,
        r#"{"$ref":"c","$id":{"$numberInt":"1"},"$type":"x"}"#,
    ] {
        let doc = parse(json).unwrap_or_else(|error| panic!("{json}: {error}"));
        assert!(Doc::validate(doc.as_doc().as_bytes()).is_ok(), "{json}");
        assert_eq!(to_json(doc.as_doc(), Mode::Canonical), json);
    }
}

#[test]
fn relaxed_mode_writes_plain_json() {
    let document = doc! {
        "int": 1, "long": 5_000_000_000i64, "double": 2.0, "huge": 1e300, "inf": f64::INFINITY,
        "date": Value::DateTime(1_356_351_330_501), "second": Value::DateTime(1_356_351_330_000),
        "tenth": Value::DateTime(100), "old": Value::DateTime(-1), "far": Value::DateTime(253_402_300_800_000),
    };
    let json = concat!(
        r#"{"int":1,"long":5000000000,"double":2.0,"huge":1e+300,"inf":{"$numberDouble":"Infinity"},"#,
        r#""date":{"$date":"2012-12-24T12:15:30.501Z"},"second":{"$date":"2012-12-24T12:15:30Z"},"#,
        r#""tenth":{"$date":"1970-01-01T00:00:00.100Z"},"old":{"$date":{"$numberLong":"-1"}},"#,
        r#""far":{"$date":{"$numberLong":"253402300800000"}}}"#,
    );
    assert_eq!(to_json(document.as_doc(), Mode::Relaxed), json);
    assert_eq!(parse(json).as_ref(), Ok(&document));
}

#[test]
fn parsing_accepts_plain_json_and_older_forms() {
    for (json, expected) in [
        ("2147483647", Value::Int32(i32::MAX)),
        ("2147483648", Value::Int64(1 << 31)),
        ("18446744073709551615", Value::Double(u64::MAX as f64)),
        ("1.0", Value::Double(1.0)),
        ("0.1", Value::Double(0.1)),
        (" null ", Value::Null),
        (r#"{"$date":"2012-12-24T13:15:30.501+01:00"}"#, Value::DateTime(1_356_351_330_501)),
        (r#"{"$date":1000}"#, Value::DateTime(1000)),
        (r#"{"$binary":"AQ==","$type":"5"}"#, Value::Binary { subtype: 5, bytes: &[1] }),
        (
            r#"{"$uuid":"c8edabc3-f738-4ca3-b68d-ab92a91478a3"}"#,
            Value::Binary {
                subtype: 4,
                bytes: b"\xc8\xed\xab\xc3\xf7\x38\x4c\xa3\xb6\x8d\xab\x92\xa9\x14\x78\xa3",
            },
        ),
    ] {
        assert_eq!(parse_value(json).as_ref().map(|value| value.as_value()), Ok(expected), "{json}");
    }
}

#[test]
fn parsing_reports_errors_with_line_and_column() {
    for (json, message, line, column) in [
        ("", "unexpected end of text", 1, 1),
        ("{\"a\":1,\n \"b\":}", "expected a value", 2, 6),
        ("{\"a\":1} x", "unexpected text after the value", 1, 9),
        (r#"{"a":{"$oid":"12"}}"#, "invalid value of '$oid'", 1, 6),
        (r#"{"a":{"$oid":"0102030405060708090a0b0c","x":1}}"#, "unexpected 'x' beside '$oid'", 1, 6),
        (r#"{"a\u0000":1}"#, "a name must not contain a null character", 1, 2),
    ] {
        match parse(json) {
            Err(error) => {
                let place = (error.message.as_str(), error.line, error.column);
                assert_eq!(place, (message, line, column), "{json}");
            }
            Ok(doc) => panic!("{json}: {doc:?}"),
        }
    }
    for json in [
        "[1]",
        r#"{"a":{"$numberInt":"2147483648"}}"#,
        r#"{"a":{"$numberInt":1}}"#,
        r#"{"a":{"$numberLong":"1.5"}}"#,
        r#"{"a":{"$numberDouble":"inf"}}"#,
        r#"{"a":{"$numberDecimal":"one"}}"#,
        r#"{"a":{"$binary":{"base64":"?","subType":"00"}}}"#,
        r#"{"a":{"$binary":{"base64":"","subType":"100"}}}"#,
        r#"{"a":{"$date":"yesterday"}}"#,
        r#"{"a":{"$timestamp":{"t":-1,"i":1}}}"#,
        r#"{"a":{"$timestamp":{"t":1,"i":1,"x":1}}}"#,
        r#"{"a":{"$regularExpression":{"pattern":"a\u0000","options":""}}}"#,
        r#"{"a":{"$uuid":"c8edabc3f7384ca3b68dab92a91478a3"}}"#,
        r#"{"a":{"$minKey":2}}"#,
        r#"{"a":{"$code":"x","$scope":1}}"#,
        r#"{"a":1e999}"#,
    ] {
        assert!(parse(json).is_err(), "{json}");
    }
}

#[test]
fn parsing_limits_nesting() {
    let nested = |levels: usize| format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
    let deepest = parse(&nested(100)).unwrap_or_else(|error| panic!("{error}"));
    assert!(Doc::validate(deepest.as_doc().as_bytes()).is_ok());
    assert!(parse(&nested(101)).is_err());
    assert!(parse(&nested(100_000)).is_err());
    assert!(parse_value(&"[".repeat(100_000)).is_err());
}

#[test]
fn random_values_survive_the_canonical_form() {
    let mut rng = Rng::with_seed(1);
    for _ in 0..5_000 {
        let value = random::value(&mut rng, 3);
        let json = value_to_json(value.as_value(), Mode::Canonical);
        let Ok(back) = parse_value(&json) else { panic!("{value:?} as {json}") };
        // The bits of NaN and non-canonical decimals are not preserved, so the test compares the text and the order.
        assert_eq!(value_to_json(back.as_value(), Mode::Canonical), json);
        assert_eq!(crate::compare(value.as_value(), back.as_value()), std::cmp::Ordering::Equal, "{json}");
    }
}

//! Conversions and their failures.

use crate::expr::testing::{Expected, check, check_over};
use diwan_value::{Decimal128, DocBuf, ObjectId, Timestamp, Value, doc};

fn decimal(text: &str) -> Value<'static> {
    Value::Decimal128(text.parse::<Decimal128>().expect(text))
}

/// Checks a short form on a document whose field `v` is `input`.
fn check_short(operator: &str, input: Value<'_>, expected: impl Into<Expected>) {
    let root = doc! { "v": input };
    check_over(root.as_doc(), doc! { operator: "$v" }, expected);
}

fn convert(arguments: DocBuf, expected: impl Into<Expected>) {
    check(doc! { "$convert": arguments }, expected);
}

#[test]
fn numbers_and_text_convert_to_integers() {
    for (input, expected) in [
        (Value::Double(2.9), 2),
        (Value::Double(-2.9), -2),
        (Value::Int64(7), 7),
        (decimal("-5.5"), -5),
        (Value::Boolean(true), 1),
        (Value::String("-42"), -42),
        (Value::String("+42"), 42),
    ] {
        check_short("$toInt", input, Value::Int32(expected));
        check_short("$toLong", input, Value::Int64(expected.into()));
    }
    check_short("$toLong", Value::DateTime(-1), Value::Int64(-1));
    check_short("$toLong", Value::Double(-9_223_372_036_854_775_808.0), Value::Int64(i64::MIN));
    check_short("$toInt", Value::Null, Value::Null);
    check_short("$toInt", Value::Undefined, Value::Null);
    check(doc! { "$toInt": "$missing" }, Value::Null);
    check(doc! { "$toInt": ["3"] }, Value::Int32(3));
    check(doc! { "$toInt": [1, 2] }, 16020);
}

#[test]
fn conversion_to_integers_fails_out_of_range() {
    let overflow = "Conversion would overflow target type in $convert with no onError value: ";
    check_short("$toInt", Value::Int64(1 << 31), (241, overflow));
    let double = "Conversion would overflow target type in $convert with no onError value: 1e+20";
    check_short("$toLong", Value::Double(1e20), (241, double));
    check_short("$toLong", Value::Double(9_223_372_036_854_775_808.0), 241);
    check_short("$toInt", decimal("2147483648"), 241);
    let nan = "Attempt to convert NaN value to integer type in $convert with no onError value";
    check_short("$toInt", Value::Double(f64::NAN), (241, nan));
    check_short("$toLong", decimal("NaN"), (241, nan));
    let infinity = "Attempt to convert infinity value to integer type in $convert with no onError value";
    check_short("$toInt", Value::Double(f64::INFINITY), (241, infinity));
    let bad =
        "Failed to parse number '5.5' in $convert with no onError value: Bad digit \".\" while parsing 5.5";
    check_short("$toInt", Value::String("5.5"), (241, bad));
    let empty = "Failed to parse number '' in $convert with no onError value: No digits";
    check_short("$toLong", Value::String(""), (241, empty));
    let large = "Failed to parse number '2147483648' in $convert with no onError value: Overflow";
    check_short("$toInt", Value::String("2147483648"), (241, large));
    let hex = "Illegal hexadecimal input in $convert with no onError value: 0x10";
    check_short("$toInt", Value::String("0x10"), (241, hex));
    let date = "Unsupported conversion from date to int in $convert with no onError value";
    check_short("$toInt", Value::DateTime(0), (241, date));
}

#[test]
fn numbers_and_text_convert_to_doubles_and_decimals() {
    check_short("$toDouble", Value::String("-5.5e3"), Value::Double(-5500.0));
    check_short("$toDouble", Value::String("inf"), Value::Double(f64::INFINITY));
    check_short("$toDouble", Value::Boolean(false), Value::Double(0.0));
    check_short("$toDouble", Value::DateTime(3), Value::Double(3.0));
    check_short("$toDouble", decimal("0.5"), Value::Double(0.5));
    check_short("$toDouble", decimal("1E400"), 241);
    check_short("$toDouble", decimal("1E-400"), 241);
    check_short("$toDouble", Value::String("1e400"), 241);
    check_short("$toDouble", Value::String("1e-400"), 241);
    check_short("$toDouble", Value::String("0e5"), Value::Double(0.0));
    let whole =
        "Failed to parse number '1,5' in $convert with no onError value: Did not consume whole string.";
    check_short("$toDouble", Value::String("1,5"), (241, whole));
    let empty = "Failed to parse number '' in $convert with no onError value: Empty string";
    check_short("$toDouble", Value::String(""), (241, empty));
    check_short("$toDouble", Value::String(" 1"), 241);
    check_short("$toDecimal", Value::String("1.50"), decimal("1.50"));
    check_short("$toDecimal", Value::Double(2.5), decimal("2.50000000000000"));
    check_short("$toDecimal", Value::Int64(-3), decimal("-3"));
    check_short("$toDecimal", Value::Boolean(true), decimal("1"));
    check_short("$toDecimal", Value::String("x"), 241);
}

#[test]
fn values_convert_to_text() {
    for (input, text) in [
        (Value::Double(2.5), "2.5"),
        (Value::Double(1.0), "1"),
        (Value::Double(-0.0), "-0"),
        (Value::Double(1e16), "1e+16"),
        (Value::Double(1.5e-5), "1.5e-05"),
        (Value::Double(123_456_789_012_345.0), "123456789012345"),
        (Value::Double(f64::NAN), "NaN"),
        (Value::Double(f64::NEG_INFINITY), "-Infinity"),
        (Value::Int32(-1), "-1"),
        (Value::Int64(1 << 40), "1099511627776"),
        (decimal("1.50"), "1.50"),
        (Value::Boolean(true), "true"),
        (Value::ObjectId(ObjectId([1; 12])), "010101010101010101010101"),
        (Value::DateTime(0), "1970-01-01T00:00:00.000Z"),
        (Value::String("é"), "é"),
        (Value::Binary { subtype: 0, bytes: &[255, 0] }, "/wA="),
        (Value::Binary { subtype: 4, bytes: &[0xab; 16] }, "abababab-abab-abab-abab-abababababab"),
    ] {
        check_short("$toString", input, text);
    }
    check_short("$toString", Value::Regex { pattern: "a", options: "" }, 241);
}

#[test]
fn values_convert_to_dates_and_object_ids() {
    check_short("$toDate", Value::Int64(5), Value::DateTime(5));
    check_short("$toDate", Value::Double(5.9), Value::DateTime(5));
    check_short("$toDate", Value::ObjectId(ObjectId([0; 12])), Value::DateTime(0));
    check_short("$toDate", Value::Timestamp(Timestamp { seconds: 2, increment: 9 }), Value::DateTime(2000));
    check_short("$toDate", Value::String("1970-01-01T00:00:01Z"), Value::DateTime(1000));
    check_short("$toDate", Value::Int32(5), 241);
    check_short("$toDate", Value::String("x"), 241);
    let id = "0123456789abcdef01234567";
    check_short("$toObjectId", Value::String(id), Value::ObjectId(ObjectId::parse_hex(id).expect(id)));
    let short = "Failed to parse objectId 'ab' in $convert with no onError value: Invalid string length for parsing to OID, expected 24 but found 2";
    check_short("$toObjectId", Value::String("ab"), (241, short));
    let bad = "Failed to parse objectId '0123456789abcdef0123456z' in $convert with no onError value: Invalid character found in hex string";
    check_short("$toObjectId", Value::String("0123456789abcdef0123456z"), (241, bad));
    let uuid = Value::Binary { subtype: 4, bytes: &[0xab; 16] };
    check_short("$toUUID", Value::String("ABABABAB-abab-abab-abab-abababababab"), uuid);
    let invalid = "Failed to parse BinData 'x' in $convert with no onError value: Invalid UUID string: x";
    check_short("$toUUID", Value::String("x"), (241, invalid));
}

#[test]
fn values_convert_to_booleans() {
    for (input, expected) in [
        (Value::Int32(0), false),
        (Value::Double(-0.0), false),
        (Value::Double(f64::NAN), true),
        (Value::String(""), true),
        (Value::DateTime(0), true),
        (Value::MinKey, true),
        (Value::Binary { subtype: 0, bytes: &[] }, true),
    ] {
        check_short("$toBool", input, Value::Boolean(expected));
    }
}

#[test]
fn convert_checks_its_arguments() {
    convert(doc! { "input": "5", "to": 16 }, Value::Int32(5));
    convert(doc! { "input": "5", "to": { "type": "long" } }, Value::Int64(5));
    convert(doc! { "input": "x", "to": "int", "onError": "no" }, "no");
    convert(doc! { "input": "x", "to": "int", "onError": "$$REMOVE" }, Expected::Value(None));
    convert(doc! { "input": null, "to": "int", "onNull": "none" }, "none");
    convert(doc! { "input": "5", "to": null }, Value::Null);
    convert(doc! { "input": null, "to": null, "onNull": "none" }, "none");
    convert(doc! { "input": [1], "to": "minKey" }, 241);
    check(doc! { "$convert": 1 }, (9, "$convert expects an object of named arguments but found: int"));
    convert(doc! { "input": 1, "to": "int", "x": 1 }, (9, "$convert found an unknown argument: x"));
    convert(doc! { "to": "int" }, (9, "Missing 'input' parameter to $convert"));
    convert(doc! { "input": 1 }, (9, "Missing 'to' parameter to $convert"));
    convert(doc! { "input": 1, "to": "number", "onError": 0 }, (2, "Unknown type name: number"));
    convert(doc! { "input": 1, "to": 1.5 }, (9, "In $convert, numeric 'to' argument is not an integer"));
    let unknown = "In $convert, numeric value for 'to' does not correspond to a BSON type: 100";
    convert(doc! { "input": 1, "to": 100 }, (9, unknown));
    let wrong = "$convert's 'to' argument must be a string or number, but is bool";
    convert(doc! { "input": 1, "to": true }, (9, wrong));
}

#[test]
fn binary_data_converts_from_and_to_text() {
    let bytes = |subtype, bytes| Value::Binary { subtype, bytes };
    let binary = |input: &str, format: &str| doc! { "input": input, "to": "binData", "format": format };
    convert(binary("aGk=", "base64"), bytes(0, b"hi"));
    convert(binary("_w", "base64url"), bytes(0, &[255]));
    convert(binary("6869", "hex"), bytes(0, b"hi"));
    convert(binary("hi", "utf8"), bytes(0, b"hi"));
    let subtype = doc! { "type": "binData", "subtype": 128 };
    convert(doc! { "input": "hi", "to": subtype, "format": "utf8" }, bytes(128, b"hi"));
    convert(binary("a", "hex"), 241);
    convert(binary("!", "base64"), 241);
    convert(binary("a", "uuid"), 241);
    convert(binary("a", "rot13"), 4341125);
    convert(doc! { "input": "a", "to": "binData" }, 4341115);
    convert(doc! { "input": "a", "to": "binData", "format": 1 }, 4341114);
    let wrong = |subtype: Value<'_>| doc! { "type": "binData", "subtype": subtype };
    convert(doc! { "input": "a", "to": wrong(Value::Int32(100)), "format": "hex" }, 4341107);
    convert(doc! { "input": "a", "to": wrong(Value::Double(0.5)), "format": "hex" }, 4341106);
    convert(doc! { "input": "a", "to": wrong(Value::String("0")), "format": "hex" }, 4341108);
    for (format, text) in [("hex", "6869"), ("utf8", "hi"), ("base64", "aGk="), ("base64url", "aGk")] {
        convert(doc! { "input": bytes(0, b"hi"), "to": "string", "format": format }, text);
    }
    convert(doc! { "input": bytes(0, &[255]), "to": "string", "format": "utf8" }, 241);
    convert(doc! { "input": bytes(0, b"hi"), "to": "string", "format": "uuid" }, 241);
    convert(doc! { "input": bytes(0, b"hi"), "to": "string" }, 4341115);
    convert(doc! { "input": bytes(5, b"hi"), "to": "binData" }, 241);
}

#[test]
fn numbers_convert_from_and_to_bytes() {
    fn bytes(bytes: &[u8]) -> Value<'_> {
        Value::Binary { subtype: 0, bytes }
    }
    convert(doc! { "input": 258, "to": "binData" }, bytes(&[2, 1, 0, 0]));
    convert(doc! { "input": 258, "to": "binData", "byteOrder": "big" }, bytes(&[0, 0, 1, 2]));
    convert(doc! { "input": 1.5, "to": "binData" }, bytes(&1.5f64.to_le_bytes()));
    convert(doc! { "input": bytes(&[254, 255]), "to": "int" }, Value::Int32(-2));
    convert(doc! { "input": bytes(&[1, 2]), "to": "long", "byteOrder": "big" }, Value::Int64(258));
    convert(doc! { "input": bytes(&1.5f32.to_le_bytes()), "to": "double" }, Value::Double(1.5));
    convert(doc! { "input": bytes(&[1, 2, 3]), "to": "int" }, 241);
    convert(doc! { "input": 1, "to": "binData", "byteOrder": "middle" }, 9130002);
    convert(doc! { "input": 1, "to": "binData", "byteOrder": 1 }, 9130001);
}

#[test]
fn type_gives_the_name_of_the_type() {
    check(doc! { "$type": "$missing" }, "missing");
    check(doc! { "$type": 1 }, "int");
    check(doc! { "$type": [[]] }, "array");
    check(doc! { "$isNumber": 1.5 }, Value::Boolean(true));
    check(doc! { "$isNumber": "1" }, Value::Boolean(false));
    check(doc! { "$isNumber": "$missing" }, Value::Boolean(false));
}

//! Arbitrary bytes as a document: validation, iteration, comparison, keys, Extended JSON.
//!
//! A validated document must be readable to its end, and a round trip through every other form must not change it. Reading
//! invalid bytes may give any result but must not panic.

#![no_main]

use diwan_value::extjson::{self, Mode};
use diwan_value::{Doc, DocBuilder, Value, compare, hash_value, key};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    read(data);
    // A random length is almost always wrong, so the input gets the right one.
    if let Ok(length) = u32::try_from(data.len() + 5) {
        let mut framed = length.to_le_bytes().to_vec();
        framed.extend_from_slice(data);
        framed.push(0);
        read(&framed);
    }
});

fn read(data: &[u8]) {
    walk(Value::Document(Doc::trusted(data)));
    let Ok(doc) = Doc::validate(data) else { return };
    let mut copy = DocBuilder::new();
    for element in doc {
        assert!(element.raw.decode().is_some(), "a valid value decodes");
        copy.append(element.key_str(), element.value());
    }
    assert_eq!(copy.finish().as_doc().as_bytes(), data, "a copy is the same");
    let value = Value::Document(doc);
    check_key(value);
    check_json(value);
}

/// Reads every element.
fn walk(value: Value<'_>) {
    assert!(compare(value, value).is_eq());
    let json = extjson::value_to_json(value, Mode::Relaxed);
    let _ = extjson::parse_value(&json);
    let mut bytes = Vec::new();
    key::encode_order(&mut bytes, value, key::Direction::Descending, None);
    hash_value(value);
}

fn check_key(value: Value<'_>) {
    for direction in [key::Direction::Ascending, key::Direction::Descending] {
        let (mut bytes, mut types) = (Vec::new(), key::Types::new());
        key::encode(&mut bytes, &mut types, value, direction, None);
        assert_eq!(key::skip(&bytes, direction), Some(bytes.len()), "{value:?}");
        let back = key::decode(&bytes, types.as_bytes(), &[direction]);
        let Some([back]) = back.as_deref() else { panic!("{value:?} is not decoded") };
        assert!(compare(value, back.as_value()).is_eq(), "{value:?} became {back:?}");
    }
}

fn check_json(value: Value<'_>) {
    let json = extjson::value_to_json(value, Mode::Canonical);
    // Field names that are type wrappers, and options of regular expressions, change in a round trip.
    let ambiguous = contains_dollar_name(value) || json.contains("$regularExpression");
    match extjson::parse_value(&json) {
        Ok(back) if !ambiguous => assert!(compare(value, back.as_value()).is_eq(), "{json}"),
        Ok(back) => {
            let again = extjson::value_to_json(back.as_value(), Mode::Canonical);
            let _ = extjson::parse_value(&again);
        }
        Err(error) => assert!(ambiguous || error.message.contains("recursion limit"), "{error}: {json}"),
    }
}

fn contains_dollar_name(value: Value<'_>) -> bool {
    let inside = |doc: Doc<'_>| {
        doc.iter().any(|element| element.key.starts_with(b"$") || contains_dollar_name(element.value()))
    };
    match value {
        Value::Document(doc) => inside(doc),
        Value::Array(array) => array.iter().any(contains_dollar_name),
        Value::JavaScriptWithScope { scope, .. } => inside(scope),
        _ => false,
    }
}

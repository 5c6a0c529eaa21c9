//! Keys of views as bytes that order as CouchDB orders the values.
//!
//! `null`, `false`, `true`, numbers, strings, arrays, objects; strings by the Unicode collation algorithm with the root
//! locale's table; arrays element by element and objects member by member in the order they stand, the shorter first.
//! With the `raw` option: numbers, `false`, `null`, `true`, objects, arrays, strings by their bytes.
//!
//! No key is a prefix of another one, so what follows a key never disturbs its order. Equal bytes are equal keys, which
//! is not to say equal texts: `1` and `1.0` are one key, and so are strings that differ only in what is ignored.
//!
//! A key: one byte for the type, then the content. A number is its double, the sign bit inverted, all bits inverted if
//! it is negative. A string is its sort key, in which a zero byte is followed by 0xFF, and two zero bytes. Arrays and
//! objects are their parts and a zero byte.

use crate::json::{self, Kind, Number};
use diwan_value::{Collation, Collator, doc};
use std::sync::OnceLock;

/// The version of the order of strings: that of the library which has its table.
pub const VERSION: &str = "2.4.0";

/// How keys are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By the rules of languages.
    #[default]
    Unicode,
    /// By bytes.
    Raw,
}

/// What ends arrays, objects and strings: less than any type.
const END: u8 = 0;
/// The byte of the array type.
const ARRAY: [u8; 2] = [8, 7];

impl Order {
    fn tag(self, kind: Kind) -> u8 {
        let tags = match kind {
            Kind::Null => [1, 3],
            Kind::False => [2, 2],
            Kind::True => [3, 4],
            Kind::Number => [4, 1],
            Kind::String => [6, 8],
            Kind::Array => ARRAY,
            Kind::Object => [9, 6],
        };
        tags[self as usize]
    }
}

/// Less than any key.
pub const LOWEST: &[u8] = &[];

/// Greater than any key.
pub const HIGHEST: &[u8] = &[0xFF];

/// Appends the key of a JSON text. The text must have passed [`json::check`]; of any other nothing sensible comes out,
/// but no panic either.
pub(crate) fn write_key(out: &mut Vec<u8>, text: &str, order: Order) {
    let text = text.trim();
    let Some(kind) = json::kind(text) else { return };
    // A whole number beyond those of JavaScript stands among the others, though it comes as an object.
    if kind == Kind::Object
        && let Some(number) = Number::of(text)
    {
        out.push(order.tag(Kind::Number));
        return write_number(out, number.as_f64());
    }
    out.push(order.tag(kind));
    match kind {
        Kind::Null | Kind::False | Kind::True => {}
        Kind::Number => write_number(out, Number::parse(text).map_or(0.0, Number::as_f64)),
        Kind::String => write_text(out, &json::unquote(text), order),
        Kind::Array => {
            for element in json::elements(text) {
                write_key(out, element, order);
            }
            out.push(END);
        }
        Kind::Object => {
            for (name, value) in json::members(text) {
                // Names are strings: their type byte sets them apart from the end.
                out.push(order.tag(Kind::String));
                write_text(out, &json::unquote(name), order);
                write_key(out, value, order);
            }
            out.push(END);
        }
    }
}

/// The key of any text, or nothing if it is not JSON or nested too deep.
pub fn key(text: &str, order: Order) -> Option<Vec<u8>> {
    json::check(text).then(|| {
        let mut out = Vec::with_capacity(text.len() + 8);
        write_key(&mut out, text, order);
        out
    })
}

fn write_number(out: &mut Vec<u8>, number: f64) {
    // Adding zero makes of the negative zero the other one.
    let bits = (number + 0.0).to_bits();
    let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    out.extend_from_slice(&ordered.to_be_bytes());
}

fn write_text(out: &mut Vec<u8>, text: &str, order: Order) {
    let start = out.len();
    match order {
        Order::Raw => out.extend_from_slice(text.as_bytes()),
        Order::Unicode => match collator() {
            Some(collator) => out.extend_from_slice(&collator.sort_key(text)),
            None => out.extend_from_slice(text.as_bytes()),
        },
    }
    if out[start..].contains(&0) {
        let plain = out.split_off(start);
        for byte in plain {
            out.push(byte);
            if byte == 0 {
                out.push(0xFF);
            }
        }
    }
    out.extend_from_slice(&[0, 0]);
}

/// The root locale's order, whose data is compiled in.
fn collator() -> Option<&'static Collator> {
    static ROOT: OnceLock<Option<Collator>> = OnceLock::new();
    let load = || {
        Collation::parse(doc! { "locale": "root" }.as_doc())
            .ok()
            .flatten()
            .map(|root| Collator::new(&root).ok())
    };
    ROOT.get_or_init(|| load().flatten()).as_ref()
}

/// How many bytes of `bytes` the key at its front takes.
pub fn key_length(bytes: &[u8], order: Order) -> Option<usize> {
    skip(bytes, 0, order)
}

fn skip(bytes: &[u8], at: usize, order: Order) -> Option<usize> {
    let tag = *bytes.get(at)?;
    let at = at + 1;
    let is = |kind| tag == order.tag(kind);
    if is(Kind::Number) {
        (bytes.len() >= at + 8).then_some(at + 8)
    } else if is(Kind::String) {
        skip_text(bytes, at)
    } else if is(Kind::Array) || is(Kind::Object) {
        let mut at = at;
        // Members are names and values one after another, and a name reads as a string.
        while *bytes.get(at)? != END {
            at = skip(bytes, at, order)?;
        }
        Some(at + 1)
    } else {
        (is(Kind::Null) || is(Kind::False) || is(Kind::True)).then_some(at)
    }
}

fn skip_text(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += bytes.get(at..)?.iter().position(|byte| *byte == 0)?;
        match bytes.get(at + 1)? {
            0 => return Some(at + 2),
            _ => at += 2,
        }
    }
}

/// What keys of one group have in common: of an array its first `level` elements, of anything else all. Gives the bytes
/// of `key` that say so; the end of an array with as many elements or fewer is among them.
pub fn group_prefix(key: &[u8], level: usize, order: Order) -> &[u8] {
    if key.first() != Some(&ARRAY[order as usize]) {
        return key;
    }
    let mut at = 1;
    for _ in 0..level {
        match key.get(at) {
            None | Some(&END) => return key,
            _ => at = skip(key, at, order).unwrap_or(key.len()),
        }
    }
    // An array of exactly so many elements is in one group with the longer ones.
    key.get(..at).unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_ascending(texts: &[&str], order: Order) {
        let keys: Vec<Vec<u8>> = texts.iter().map(|text| key(text, order).unwrap()).collect();
        for (index, pair) in keys.windows(2).enumerate() {
            assert!(pair[0] < pair[1], "{} and {}", texts[index], texts[index + 1]);
        }
        for (key, text) in keys.iter().zip(texts) {
            assert_eq!(key_length(&[key, &b"rest"[..]].concat(), order), Some(key.len()), "{text}");
            assert!(key.as_slice() < HIGHEST && key.as_slice() > LOWEST);
        }
    }

    #[test]
    fn the_version_is_that_of_the_library() {
        let pinned = format!("icu_collator = {{ version = \"={VERSION}\"");
        assert!(include_str!("../../../Cargo.toml").contains(&pinned));
    }

    /// The order that CouchDB documents.
    #[test]
    fn values_order_as_documented() {
        let ascending = [
            "null",
            "false",
            "true",
            "-1e300",
            "-2",
            "-1.5",
            "0",
            "1",
            "2",
            "3.0",
            "4",
            r#"{"$numberLong":"9007199254740993"}"#,
            "1e18",
            r#"{"$numberLong":"9223372036854775807"}"#,
            r#""""#,
            r#""a""#,
            r#""A""#,
            r#""aa""#,
            r#""b""#,
            r#""B""#,
            r#""ba""#,
            r#""bb""#,
            r#""é""#,
            r#""z""#,
            r#""\ufff0""#,
            "[]",
            "[null]",
            r#"["a"]"#,
            r#"["b"]"#,
            r#"["b","c"]"#,
            r#"["b","c","a"]"#,
            r#"["b","d"]"#,
            r#"["b","d","e"]"#,
            "[[]]",
            "{}",
            r#"{"a":1}"#,
            r#"{"a":2}"#,
            r#"{"b":1}"#,
            r#"{"b":2}"#,
            r#"{"b":2,"a":1}"#,
            r#"{"b":2,"c":2}"#,
            r#"{"\ufff0":null}"#,
        ];
        assert_ascending(&ascending, Order::Unicode);
    }

    #[test]
    fn raw_values_order_as_documented() {
        let ascending = [
            "-1",
            "1",
            "2.5",
            "false",
            "null",
            "true",
            "{}",
            r#"{"a":1}"#,
            r#"{"b":0}"#,
            "[]",
            "[1]",
            r#"["a"]"#,
            r#""""#,
            r#""A""#,
            r#""B""#,
            r#""a""#,
            r#""a\u0000b""#,
            r#""ab""#,
            r#""é""#,
        ];
        assert_ascending(&ascending, Order::Raw);
    }

    #[test]
    fn equal_values_are_one_key() {
        for (one, other) in
            [("1", "1.0"), ("0", "-0"), ("10", "1e1"), (r#""\u0061""#, r#""a""#), ("[1, 2]", "[1,2]")]
        {
            assert_eq!(key(one, Order::Unicode), key(other, Order::Unicode));
        }
        assert_eq!(key("[1", Order::Unicode), None);
    }

    #[test]
    fn groups_share_a_prefix() {
        let key = |text: &str| key(text, Order::Unicode).unwrap();
        let group = |text: &str, level| group_prefix(&key(text), level, Order::Unicode).to_vec();
        assert_eq!(group("[1,2,3]", 2), group("[1,2]", 2));
        assert_eq!(group("[1,2,3]", 2), group("[1,2,4,5]", 2));
        assert_ne!(group("[1,2,3]", 2), group("[1,3]", 2));
        assert_ne!(group("[1]", 2), group("[1,2]", 2));
        assert_eq!(group("[1,2,3]", 9), key("[1,2,3]"));
        assert_eq!(group(r#""text""#, 1), key(r#""text""#));
        assert_eq!(group(r#"[["a",1],2]"#, 1), group(r#"[["a",1]]"#, 1));
    }

    #[test]
    fn damaged_bytes_have_no_length() {
        let whole = key(r#"[1,{"a":"b"},"c"]"#, Order::Unicode).unwrap();
        for end in 0..whole.len() {
            assert_eq!(key_length(&whole[..end], Order::Unicode), None);
        }
    }
}

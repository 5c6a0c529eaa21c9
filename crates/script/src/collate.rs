//! View keys as bytes whose order is CouchDB's order of values.
//!
//! The order is `null`, `false`, `true`, numbers, strings, arrays, objects. Strings compare by the Unicode collation
//! algorithm with the root locale's table, arrays element by element, and objects member by member in document order; a
//! prefix is the smaller one. With the `raw` option the order is numbers, `false`, `null`, `true`, objects, arrays, and
//! strings by their bytes.
//!
//! No key is a prefix of another one, so bytes after a key do not affect its order. Equal bytes mean equal keys, but
//! not equal texts: `1` and `1.0` are one key, and so are strings that differ only in ignorable characters.
//!
//! A key is one byte for the type and then the content. A number is its double with the sign bit inverted, or with all
//! bits inverted if it is negative. A string is its sort key, in which each zero byte is followed by 0xFF, and two zero
//! bytes. An array or object is its parts and a zero byte.

use crate::json::{self, Kind, Number};
use diwan_value::{Collation, Collator, doc};
use std::sync::OnceLock;

/// The version of the order of strings: that of the library, which contains the table.
pub const VERSION: &str = "2.4.0";

/// The order of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Strings are ordered by the Unicode collation algorithm.
    #[default]
    Unicode,
    /// Strings are ordered by their bytes.
    Raw,
}

/// Ends arrays, objects and strings. It sorts below the byte of any type.
const END: u8 = 0;
/// The byte of the array type in each order.
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

/// Sorts below every key.
pub const LOWEST: &[u8] = &[];

/// Sorts above every key.
pub const HIGHEST: &[u8] = &[0xFF];

/// Appends the key of a JSON text. The text must have passed [`json::check`]; otherwise the key is meaningless, but the
/// function does not panic.
pub(crate) fn write_key(out: &mut Vec<u8>, text: &str, order: Order) {
    let text = text.trim();
    let Some(kind) = json::kind(text) else { return };
    // An integer beyond JavaScript's range sorts among the numbers, although it is an object in Extended JSON.
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
                // Names are encoded as strings, whose type byte differs from the end byte.
                out.push(order.tag(Kind::String));
                write_text(out, &json::unquote(name), order);
                write_key(out, value, order);
            }
            out.push(END);
        }
    }
}

/// The key of any text; `None` if it is not JSON or nests too deep.
pub fn key(text: &str, order: Order) -> Option<Vec<u8>> {
    json::check(text).then(|| {
        let mut out = Vec::with_capacity(text.len() + 8);
        write_key(&mut out, text, order);
        out
    })
}

fn write_number(out: &mut Vec<u8>, number: f64) {
    // Adding zero turns negative zero into positive zero.
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

/// The collator of the root locale, whose data is compiled in.
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

/// The length in bytes of the key at the front of `bytes`.
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
        // Members are names and values one after another, and a name is encoded as a string.
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

/// The prefix that the keys of one group share: the first `level` elements of an array, or the whole of any other key.
/// For an array with at most `level` elements, the prefix includes its end.
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
    // An array with exactly `level` elements is in one group with longer ones.
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
    fn version_matches_the_library() {
        let pinned = format!("icu_collator = {{ version = \"={VERSION}\"");
        assert!(include_str!("../../../Cargo.toml").contains(&pinned));
    }

    /// The order that CouchDB's documentation gives.
    #[test]
    fn keys_sort_in_the_documented_order() {
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
    fn raw_keys_sort_in_the_documented_order() {
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
    fn equal_values_have_one_key() {
        for (one, other) in
            [("1", "1.0"), ("0", "-0"), ("10", "1e1"), (r#""\u0061""#, r#""a""#), ("[1, 2]", "[1,2]")]
        {
            assert_eq!(key(one, Order::Unicode), key(other, Order::Unicode));
        }
        assert_eq!(key("[1", Order::Unicode), None);
    }

    #[test]
    fn keys_of_a_group_share_a_prefix() {
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
    fn key_length_rejects_damaged_bytes() {
        let whole = key(r#"[1,{"a":"b"},"c"]"#, Order::Unicode).unwrap();
        for end in 0..whole.len() {
            assert_eq!(key_length(&whole[..end], Order::Unicode), None);
        }
    }
}

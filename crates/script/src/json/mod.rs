//! Reads JSON text in place, without building a tree.
//!
//! [`check`] validates a text once. The other functions expect validated text; on other text they return less, and
//! never panic.

mod terms;

pub use terms::compare_terms;

use std::borrow::Cow;
use std::cmp::Ordering;

/// How deep arrays and objects may nest.
pub const MAX_DEPTH: usize = 500;

/// The kinds of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `null`
    Null,
    /// `false`
    False,
    /// `true`
    True,
    /// A number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// The kind of a value, determined by the first byte of its text.
pub fn kind(text: &str) -> Option<Kind> {
    Some(match text.trim_start().as_bytes().first()? {
        b'n' => Kind::Null,
        b'f' => Kind::False,
        b't' => Kind::True,
        b'"' => Kind::String,
        b'[' => Kind::Array,
        b'{' => Kind::Object,
        b'-' | b'0'..=b'9' => Kind::Number,
        _ => return None,
    })
}

/// Whether the text is exactly one JSON value that does not nest too deep.
pub fn check(text: &str) -> bool {
    let mut scanner = Scanner { bytes: text.as_bytes(), at: 0 };
    scanner.value(0).is_some() && {
        scanner.space();
        scanner.at == text.len()
    }
}

/// Removes spaces outside of strings.
pub fn compact(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let (mut in_string, mut escaped) = (false, false);
    for letter in text.chars() {
        if in_string {
            in_string = escaped || letter != '"';
            escaped = !escaped && letter == '\\';
        } else if letter == '"' {
            in_string = true;
        } else if matches!(letter, ' ' | '\t' | '\n' | '\r') {
            continue;
        }
        out.push(letter);
    }
    Cow::Owned(out)
}

/// A JSON number: an integer if it is written as one and fits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A number without point and exponent.
    Integer(i128),
    /// Any other number.
    Real(f64),
}

impl Number {
    /// Parses a number.
    pub fn parse(text: &str) -> Option<Number> {
        let text = text.trim();
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            // Rejects "inf" and "nan", which the standard library accepts.
            return match digits.as_bytes().first() {
                Some(b'0'..=b'9') => text.parse().ok().map(Number::Real),
                _ => None,
            };
        }
        match text.parse() {
            Ok(whole) => Some(Number::Integer(whole)),
            Err(_) => text.parse().ok().map(Number::Real),
        }
    }

    /// Parses a value that counts as a number: a number, or an Extended JSON integer beyond JavaScript's range.
    pub fn of(value: &str) -> Option<Number> {
        match kind(value)? {
            Kind::Number => Number::parse(value),
            Kind::Object => {
                let mut members = members(value);
                let (name, whole) = members.next()?;
                let is_long = name == "\"$numberLong\"" && members.next().is_none();
                let whole: i64 = unquote(whole).parse().ok().filter(|_| is_long)?;
                Some(Number::Integer(whole.into()))
            }
            _ => None,
        }
    }

    /// Compares two numbers exactly. NaN compares as equal.
    pub fn compare(self, other: Number) -> Ordering {
        match (self, other) {
            (Number::Integer(one), Number::Integer(other)) => one.cmp(&other),
            (Number::Real(one), Number::Real(other)) => one.partial_cmp(&other).unwrap_or(Ordering::Equal),
            (Number::Integer(whole), Number::Real(real)) => compare_mixed(whole, real),
            (Number::Real(real), Number::Integer(whole)) => compare_mixed(whole, real).reverse(),
        }
    }

    /// The number as a double.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Integer(whole) => whole as f64,
            Number::Real(real) => real,
        }
    }

    /// Appends the number as JSON. Like JavaScript, writes NaN and infinities as `null`.
    pub fn write(self, out: &mut String) {
        use std::fmt::Write;
        // Writing to a string cannot fail.
        let _ = match self {
            Number::Integer(whole) => write!(out, "{whole}"),
            Number::Real(real) if real.is_finite() => write!(out, "{real:?}"),
            Number::Real(_) => write!(out, "null"),
        };
    }
}

fn compare_mixed(whole: i128, real: f64) -> Ordering {
    // The conversion is exact, or saturates beyond all doubles in the range.
    let floor = real.floor();
    let is_less = real > floor || floor >= i128::MAX as f64;
    whole.cmp(&(floor as i128)).then(if is_less { Ordering::Less } else { Ordering::Equal })
}

/// The elements in the text of an array.
pub fn elements(text: &str) -> Elements<'_> {
    Elements { text, scanner: Scanner::open(text, b'['), close: b']' }
}

/// The members in the text of an object: names as written, with quotes and escapes, and values.
pub fn members(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut parts = Elements { text, scanner: Scanner::open(text, b'{'), close: b'}' };
    std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
}

/// The value of the member with this name. If the name occurs more than once, the last one counts.
pub fn member<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    members(text).filter(|(raw, _)| unquote(raw) == name).map(|(_, value)| value).last()
}

/// See [`elements`].
pub struct Elements<'a> {
    text: &'a str,
    scanner: Scanner<'a>,
    close: u8,
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.scanner.space();
        // Skips commas and colons. Their positions were validated.
        while matches!(self.scanner.peek(), Some(b',' | b':')) {
            self.scanner.at += 1;
            self.scanner.space();
        }
        let start = self.scanner.at;
        if self.scanner.peek().is_none_or(|byte| byte == self.close) {
            return None;
        }
        self.scanner.value(0)?;
        self.text.get(start..self.scanner.at)
    }
}

/// The content of a string's text. A lone surrogate becomes U+FFFD.
pub fn unquote(text: &str) -> Cow<'_, str> {
    let text = text.trim();
    let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
    let Some(first) = inner.find('\\') else { return Cow::Borrowed(inner) };
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    let mut next = Some(first);
    while let Some(at) = next {
        out.push_str(&rest[..at]);
        let mut escape = rest[at + 1..].chars();
        match escape.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('u') => {
                let unit = hex(escape.as_str());
                escape = skip_hex(escape.as_str()).chars();
                out.push(match unit {
                    Some(high @ 0xD800..=0xDBFF) => {
                        let low = escape.as_str().strip_prefix("\\u");
                        match low.and_then(hex) {
                            Some(unit @ 0xDC00..=0xDFFF) => {
                                escape = skip_hex(low.unwrap_or_default()).chars();
                                char::from_u32(0x10000 + ((high - 0xD800) << 10) + (unit - 0xDC00))
                                    .unwrap_or(char::REPLACEMENT_CHARACTER)
                            }
                            _ => char::REPLACEMENT_CHARACTER,
                        }
                    }
                    other => other.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER),
                });
            }
            Some(other) => out.push(other),
            None => {}
        }
        rest = escape.as_str();
        next = rest.find('\\');
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn hex(text: &str) -> Option<u32> {
    text.get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok())
}

fn skip_hex(text: &str) -> &str {
    text.get(4..).unwrap_or_default()
}

/// Appends a string in quotes.
pub fn quote(out: &mut String, text: &str) {
    if text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        out.reserve(text.len() + 2);
        out.push('"');
        out.push_str(text);
        out.push('"');
        return;
    }
    let mut bytes = Vec::with_capacity(text.len() + 2);
    diwan_value::json::write_string(&mut bytes, text);
    out.push_str(&String::from_utf8_lossy(&bytes));
}

/// A string in quotes.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    quote(&mut out, text);
    out
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    /// A scanner after the opening bracket, or at the end if there is none.
    fn open(text: &'a str, bracket: u8) -> Scanner<'a> {
        let mut scanner = Scanner { bytes: text.as_bytes(), at: 0 };
        scanner.space();
        scanner.at = if scanner.peek() == Some(bracket) { scanner.at + 1 } else { text.len() };
        scanner
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.bytes[self.at..].starts_with(word).then(|| self.at += word.len())
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        self.space();
        match self.peek()? {
            b'"' => self.string(),
            b'n' => self.word(b"null"),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'[' | b'{' if depth >= MAX_DEPTH => None,
            b'[' => self.container(b']', |scanner| scanner.value(depth + 1)),
            b'{' => self.container(b'}', |scanner| {
                scanner.string()?;
                scanner.space();
                scanner.expect(b':')?;
                scanner.value(depth + 1)
            }),
            _ => self.number(),
        }
    }

    fn container(&mut self, close: u8, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.at += 1;
        self.space();
        if self.expect(close).is_some() {
            return Some(());
        }
        loop {
            self.space();
            element(self)?;
            self.space();
            if self.expect(close).is_some() {
                return Some(());
            }
            self.expect(b',')?;
        }
    }

    fn string(&mut self) -> Option<()> {
        self.expect(b'"')?;
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Some(());
                }
                b'\\' => {
                    self.at += 1;
                    match self.peek()? {
                        b'u' => {
                            let digits = self.bytes.get(self.at + 1..self.at + 5)?;
                            if !digits.iter().all(u8::is_ascii_hexdigit) {
                                return None;
                            }
                            self.at += 5;
                        }
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 1,
                        _ => return None,
                    }
                }
                0..0x20 => return None,
                _ => self.at += 1,
            }
        }
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn number(&mut self) -> Option<()> {
        let _ = self.expect(b'-');
        match self.peek()? {
            b'0' => self.at += 1,
            _ => self.digits()?,
        }
        if self.expect(b'.').is_some() {
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_accepts_only_json() {
        for good in ["1", " [ ] ", r#"{"a":[1,-2.5e+3,"x\u00e9\n"],"b":null}"#, "-0", "true", r#""""#] {
            assert!(check(good), "{good}");
        }
        for bad in [
            "",
            "01",
            "1.",
            "[1,]",
            "{\"a\"}",
            "{a:1}",
            "nul",
            "\"\\x\"",
            "\"\n\"",
            "[1 2]",
            "1 1",
            "\"\\u12g4\"",
            "+1",
            "[,]",
        ] {
            assert!(!check(bad), "{bad}");
        }
        assert!(check(&format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH))));
        assert!(!check(&"[".repeat(100_000)));
    }

    #[test]
    fn comparison_of_numbers_is_exact() {
        let large = 1_i128 << 60;
        for (one, other, expected) in [
            (Number::Integer(large), Number::Integer(large + 1), Ordering::Less),
            (Number::Integer(large + 1), Number::Real(large as f64), Ordering::Greater),
            (Number::Integer(large), Number::Real(large as f64), Ordering::Equal),
            (Number::Integer(2), Number::Real(2.5), Ordering::Less),
            (Number::Integer(-2), Number::Real(-2.5), Ordering::Greater),
            (Number::Integer(i128::MAX), Number::Real(1e300), Ordering::Less),
            (Number::Real(0.5), Number::Real(0.25), Ordering::Greater),
        ] {
            assert_eq!(one.compare(other), expected, "{one:?} {other:?}");
            assert_eq!(other.compare(one), expected.reverse(), "{other:?} {one:?}");
        }
    }

    #[test]
    fn elements_and_members_split_texts() {
        assert_eq!(
            elements(r#" [1, [2,3] ,"a,b",{"c":4}]"#).collect::<Vec<_>>(),
            ["1", "[2,3]", "\"a,b\"", r#"{"c":4}"#]
        );
        assert_eq!(elements("{}").count(), 0);
        let object = r#"{ "a" : 1, "b\u0063":{"a":2}, "a":3 }"#;
        assert_eq!(member(object, "a"), Some("3"));
        assert_eq!(member(object, "bc"), Some(r#"{"a":2}"#));
        assert_eq!(member(object, "d"), None);
        assert_eq!(compact(object), r#"{"a":1,"b\u0063":{"a":2},"a":3}"#);
        assert_eq!(compact(r#"[ " \" x", 1 ]"#), r#"[" \" x",1]"#);
    }

    #[test]
    fn strings_and_numbers_are_parsed() {
        assert_eq!(unquote(r#""a\"\\\/\u00e9\ud83d\ude00b""#), "a\"\\/é😀b");
        assert_eq!(unquote(r#""\ud800x\udc00""#), "\u{FFFD}x\u{FFFD}");
        assert_eq!(Number::parse("-12"), Some(Number::Integer(-12)));
        assert_eq!(Number::parse("1e3"), Some(Number::Real(1000.0)));
        assert_eq!(Number::parse("inf"), None);
        let mut out = String::new();
        Number::Real(1.5).write(&mut out);
        Number::Integer(7).write(&mut out);
        assert_eq!(out, "1.57");
    }
}

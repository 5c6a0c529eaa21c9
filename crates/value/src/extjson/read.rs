//! Extended JSON as values.
//!
//! serde_json reads the syntax; what it finds is written as BSON right away. An object whose first name is one of the
//! type wrappers (`$oid`, `$date`, …) is taken apart as a whole; other names with a dollar are ordinary.

use crate::builder::DocBuilder;
use crate::owned::{DocBuf, ValueBuf};
use crate::scalar::{Decimal128, ObjectId, Timestamp};
use crate::validate::{MAX_DEPTH, MAX_DOCUMENT_BYTES};
use crate::view::Value;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;
use std::fmt;

/// The largest BSON that text may become: what fits a message of the wire protocol.
const MAX_BYTES: usize = 3 * MAX_DOCUMENT_BYTES;

/// Why text is not Extended JSON, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// What is wrong.
    pub message: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in bytes, from 1; 0 at the beginning of a line.
    pub column: usize,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at line {} column {}", self.message, self.line, self.column)
    }
}

impl std::error::Error for ParseError {}

impl From<serde_json::Error> for ParseError {
    fn from(error: serde_json::Error) -> ParseError {
        let (line, column) = (error.line(), error.column());
        let text = error.to_string();
        let place = format!(" at line {line} column {column}");
        let message = text.strip_suffix(&place).unwrap_or(&text).to_owned();
        ParseError { message, line, column }
    }
}

/// Reads text that is exactly one object.
pub fn parse(text: &str) -> Result<DocBuf, ParseError> {
    let value = parse_value(text)?;
    match value.as_value() {
        Value::Document(doc) => Ok(doc.to_owned()),
        _ => Err(ParseError { message: "expected an object".to_owned(), line: 1, column: 1 }),
    }
}

/// Reads text that is exactly one value of any type.
pub fn parse_value(text: &str) -> Result<ValueBuf, ParseError> {
    let mut builder = DocBuilder::new();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    Field { builder: &mut builder, name: "", depth: MAX_DEPTH }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    let doc = builder.finish();
    let value = doc.as_doc().iter().next().map(|element| element.value()).unwrap_or(Value::Null);
    Ok(value.to_owned())
}

/// Reads one value and appends it under a name. Documents and arrays may nest `depth` levels.
struct Field<'b> {
    builder: &'b mut DocBuilder,
    name: &'b str,
    depth: usize,
}

impl<'b> Field<'b> {
    fn append<E: Error>(self, value: Value<'_>) -> Result<(), E> {
        if self.name.contains('\0') {
            return Err(E::custom("a field name must not contain a null character"));
        }
        self.builder.append(self.name, value);
        self.check_size()
    }

    fn check_size<E: Error>(&self) -> Result<(), E> {
        if self.builder.len() > MAX_BYTES {
            return Err(E::custom(format_args!("more than {MAX_BYTES} bytes")));
        }
        Ok(())
    }

    /// One level down.
    fn nested<E: Error>(&self) -> Result<usize, E> {
        if self.name.contains('\0') {
            return Err(E::custom("a field name must not contain a null character"));
        }
        self.depth
            .checked_sub(1)
            .ok_or_else(|| E::custom(format_args!("nesting depth exceeds the limit of {MAX_DEPTH} levels")))
    }
}

impl<'de> DeserializeSeed<'de> for Field<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Field<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.append(Value::Null)
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<(), E> {
        self.append(Value::Boolean(flag))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.append(i32::try_from(number).map_or(Value::Int64(number), Value::Int32))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        match i64::try_from(number) {
            Ok(number) => self.visit_i64(number),
            Err(_) => self.append(Value::Double(number as f64)),
        }
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.append(Value::Double(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.append(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let depth = self.nested()?;
        self.builder.begin_array(self.name);
        for index in 0usize.. {
            let item = Field { builder: self.builder, name: &index.to_string(), depth };
            if seq.next_element_seed(item)?.is_none() {
                break;
            }
        }
        self.builder.end();
        self.check_size()
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut next = map.next_key::<String>()?;
        if let Some(name) = next.as_deref().filter(|name| is_wrapper(name)) {
            let value = wrapped(name, &mut map, self.depth)?;
            if let Some(extra) = map.next_key::<String>()? {
                return Err(A::Error::custom(format_args!("unexpected '{extra}' beside '{name}'")));
            }
            return self.append(value.as_value());
        }
        let depth = self.nested()?;
        self.builder.begin_document(self.name);
        while let Some(name) = next {
            map.next_value_seed(Field { builder: self.builder, name: &name, depth })?;
            next = map.next_key()?;
        }
        self.builder.end();
        self.check_size()
    }
}

/// Whether an object that begins with this name stands for a value of another type.
fn is_wrapper(name: &str) -> bool {
    matches!(
        name,
        "$oid"
            | "$symbol"
            | "$numberInt"
            | "$numberLong"
            | "$numberDouble"
            | "$numberDecimal"
            | "$binary"
            | "$uuid"
            | "$code"
            | "$timestamp"
            | "$regularExpression"
            | "$dbPointer"
            | "$date"
            | "$minKey"
            | "$maxKey"
            | "$undefined"
    )
}

/// Reads what a wrapper's first name announces, up to but without the object's end.
fn wrapped<'de, A: MapAccess<'de>>(name: &str, map: &mut A, depth: usize) -> Result<ValueBuf, A::Error> {
    let content: Json = map.next_value()?;
    let invalid = || A::Error::custom(format_args!("invalid value of '{name}'"));
    if name == "$code" {
        let code = content.as_str().ok_or_else(invalid)?;
        return match map.next_key::<String>()?.as_deref() {
            None => Ok(Value::JavaScript(code).to_owned()),
            Some("$scope") => {
                let mut holder = DocBuilder::new();
                map.next_value_seed(Field { builder: &mut holder, name: "scope", depth })?;
                let holder = holder.finish();
                let scope = holder.as_doc().get_doc("scope").ok_or_else(invalid)?;
                Ok(Value::JavaScriptWithScope { code, scope }.to_owned())
            }
            Some(extra) => Err(A::Error::custom(format_args!("unexpected '{extra}' beside '$code'"))),
        };
    }
    if name == "$binary" && content.is_string() {
        // The form of version 1 has the subtype beside the content.
        let subtype: Json = match map.next_key::<String>()?.as_deref() {
            Some("$type") => map.next_value()?,
            _ => return Err(invalid()),
        };
        return binary(content.as_str(), subtype.as_str()).ok_or_else(invalid);
    }
    unwrap(name, &content).ok_or_else(invalid)
}

/// The value that a wrapper's one member stands for.
fn unwrap(name: &str, content: &Json) -> Option<ValueBuf> {
    let text = content.as_str();
    let member = |name: &str| content.get(name);
    // An object must have exactly its members.
    let members = content.as_object().map_or(0, |object| object.len());
    Some(match name {
        "$oid" => Value::ObjectId(ObjectId::parse_hex(text?)?).to_owned(),
        "$symbol" => Value::Symbol(text?).to_owned(),
        "$numberInt" => Value::Int32(text?.parse().ok()?).to_owned(),
        "$numberLong" => Value::Int64(text?.parse().ok()?).to_owned(),
        "$numberDouble" => Value::Double(double(text?)?).to_owned(),
        "$numberDecimal" => Value::Decimal128(text?.parse::<Decimal128>().ok()?).to_owned(),
        "$binary" if members == 2 => return binary(member("base64")?.as_str(), member("subType")?.as_str()),
        "$uuid" => Value::Binary { subtype: 4, bytes: &uuid(text?)? }.to_owned(),
        "$timestamp" if members == 2 => {
            let part = |name: &str| u32::try_from(member(name)?.as_u64()?).ok();
            Value::Timestamp(Timestamp { seconds: part("t")?, increment: part("i")? }).to_owned()
        }
        "$regularExpression" if members == 2 => {
            let pattern = member("pattern")?.as_str()?;
            let options = member("options")?.as_str()?;
            if pattern.contains('\0') || options.contains('\0') {
                return None;
            }
            let mut sorted: Vec<char> = options.chars().collect();
            sorted.sort_unstable();
            Value::Regex { pattern, options: &sorted.into_iter().collect::<String>() }.to_owned()
        }
        "$dbPointer" if members == 2 => {
            let id = ObjectId::parse_hex(member("$id")?.get("$oid")?.as_str()?)?;
            Value::DbPointer { namespace: member("$ref")?.as_str()?, id }.to_owned()
        }
        "$date" => Value::DateTime(match (text, content.as_i64()) {
            (Some(text), _) => text.parse::<jiff::Timestamp>().ok()?.as_millisecond(),
            (_, Some(millis)) => millis,
            _ if members == 1 => member("$numberLong")?.as_str()?.parse().ok()?,
            _ => return None,
        })
        .to_owned(),
        "$minKey" if content.as_i64() == Some(1) => Value::MinKey.to_owned(),
        "$maxKey" if content.as_i64() == Some(1) => Value::MaxKey.to_owned(),
        "$undefined" if content.as_bool() == Some(true) => Value::Undefined.to_owned(),
        _ => return None,
    })
}

/// A double's text: what Rust reads, but infinities and NaN only in their JSON spelling.
fn double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => text.parse().ok().filter(|number: &f64| number.is_finite()),
    }
}

fn binary(content: Option<&str>, subtype: Option<&str>) -> Option<ValueBuf> {
    let subtype = subtype.filter(|digits| (1..=2).contains(&digits.len()))?;
    let subtype = u8::from_str_radix(subtype, 16).ok()?;
    let mut bytes = STANDARD.decode(content?).ok()?;
    if subtype == 2 {
        // The old subtype repeats its length inside.
        let length = i32::try_from(bytes.len()).ok()?;
        bytes.splice(0..0, length.to_le_bytes());
    }
    Some(Value::Binary { subtype, bytes: &bytes }.to_owned())
}

/// The 16 bytes of `c8edabc3-f738-4ca3-b68d-ab92a91478a3`.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let dashes = [8, 13, 18, 23];
    if text.len() != 36 || !text.bytes().enumerate().all(|(at, byte)| (byte == b'-') == dashes.contains(&at))
    {
        return None;
    }
    let digits: String = text.chars().filter(|&char| char != '-').collect();
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
}

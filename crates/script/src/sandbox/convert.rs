//! Converts values between Rust and JavaScript: BSON to JavaScript objects without intermediate text, and JavaScript
//! values to JSON.

use diwan_value::json::{self, Mode};
use diwan_value::{Array as BsonArray, Doc, Value as Bson};
use rquickjs::object::Filter;
use rquickjs::{Array, Ctx, IntoJs, Object, Result, Type, Value};

/// The largest integer below which JavaScript's numbers are exact.
const SAFE_INTEGER: u64 = 1 << 53;

/// The JavaScript object for a document. The first members are the id and the revision; `more` has further members as
/// JSON text without braces.
pub(super) fn document<'js>(
    ctx: &Ctx<'js>,
    id: &str,
    revision: Option<&str>,
    more: &str,
    doc: Doc<'_>,
) -> Result<Value<'js>> {
    if more.is_empty() && is_plain(doc) {
        let object = Object::new(ctx.clone())?;
        object.set("_id", id)?;
        if let Some(revision) = revision {
            object.set("_rev", revision)?;
        }
        members(ctx, &object, doc)?;
        return Ok(object.into_value());
    }
    // Documents that the fast path does not support are converted through JSON text.
    let mut text = b"{\"_id\":".to_vec();
    json::write_string(&mut text, id);
    if let Some(revision) = revision {
        text.extend_from_slice(b",\"_rev\":");
        json::write_string(&mut text, revision);
    }
    if !more.is_empty() {
        text.push(b',');
        text.extend_from_slice(more.as_bytes());
    }
    json::write_couch_members(&mut text, doc);
    text.push(b'}');
    ctx.json_parse(text)
}

/// Whether all names are the same in JavaScript and BSON, and none is renamed for HTTP.
fn is_plain(doc: Doc<'_>) -> bool {
    fn names_are(doc: Doc<'_>, top: bool) -> bool {
        doc.iter().all(|element| {
            let renamed = element.key.first() == Some(&b'_')
                && (element.key == b"__proto__" || top && element.key != b"_id");
            !renamed
                && match element.raw.tag {
                    diwan_value::Type::Document => {
                        element.value().as_doc().is_none_or(|doc| names_are(doc, false))
                    }
                    diwan_value::Type::Array => match element.value() {
                        Bson::Array(array) => elements_are(array),
                        _ => true,
                    },
                    _ => true,
                }
        })
    }
    fn elements_are(array: BsonArray<'_>) -> bool {
        array.iter().all(|value| match value {
            Bson::Document(doc) => names_are(doc, false),
            Bson::Array(array) => elements_are(array),
            _ => true,
        })
    }
    names_are(doc, true)
}

fn members<'js>(ctx: &Ctx<'js>, object: &Object<'js>, doc: Doc<'_>) -> Result<()> {
    for element in doc {
        if element.key != b"_id" {
            object.set(element.key_str(), value(ctx, element.value())?)?;
        }
    }
    Ok(())
}

fn value<'js>(ctx: &Ctx<'js>, bson: Bson<'_>) -> Result<Value<'js>> {
    Ok(match bson {
        Bson::String(text) => text.into_js(ctx)?,
        Bson::Int32(number) => Value::new_int(ctx.clone(), number),
        Bson::Int64(number) if number.unsigned_abs() <= SAFE_INTEGER => match i32::try_from(number) {
            Ok(number) => Value::new_int(ctx.clone(), number),
            Err(_) => Value::new_float(ctx.clone(), number as f64),
        },
        Bson::Double(number) if number.is_finite() => Value::new_number(ctx.clone(), number),
        Bson::Boolean(flag) => Value::new_bool(ctx.clone(), flag),
        Bson::Null => Value::new_null(ctx.clone()),
        Bson::Document(doc) => {
            let object = Object::new(ctx.clone())?;
            // Only the top level treats `_id` separately.
            for element in doc {
                object.set(element.key_str(), value(ctx, element.value())?)?;
            }
            object.into_value()
        }
        Bson::Array(elements) => {
            let array = Array::new(ctx.clone())?;
            for (index, element) in elements.iter().enumerate() {
                array.set(index, value(ctx, element)?)?;
            }
            array.into_value()
        }
        other => {
            let mut text = Vec::new();
            json::write_value(&mut text, other, Mode::Exchange);
            ctx.json_parse(text)?
        }
    })
}

/// A value as JSON, ready to be appended.
pub(super) enum Piece {
    Word(&'static str),
    Integer(i32),
    /// A string without quotes and escapes.
    Plain(String),
    /// JSON text.
    Json(String),
}

impl Piece {
    pub fn append(&self, out: &mut String) {
        match self {
            Piece::Word(word) => out.push_str(word),
            Piece::Integer(number) => {
                use std::fmt::Write;
                // Writing to a string cannot fail.
                let _ = write!(out, "{number}");
            }
            Piece::Plain(text) => crate::json::quote(out, text),
            Piece::Json(text) => out.push_str(text),
        }
    }
}

/// Converts a value to JSON. Values without a JSON form become `null`. May run functions of the script (`toJSON`,
/// getters).
pub(super) fn to_json<'js>(ctx: &Ctx<'js>, value: Option<Value<'js>>) -> Result<Piece> {
    let Some(value) = value else { return Ok(Piece::Word("null")) };
    if value.is_null() || value.is_undefined() {
        return Ok(Piece::Word("null"));
    }
    if let Some(number) = value.as_int() {
        return Ok(Piece::Integer(number));
    }
    if let Some(flag) = value.as_bool() {
        return Ok(Piece::Word(if flag { "true" } else { "false" }));
    }
    // A string with a lone surrogate is not valid text; the engine's `stringify` escapes it.
    if let Some(text) = value.as_string()
        && let Ok(text) = text.to_string()
    {
        return Ok(Piece::Plain(text));
    }
    let mut out = String::new();
    if write_plain(ctx, &value, &mut out, 0)? {
        return Ok(Piece::Json(out));
    }
    match ctx.json_stringify(value)? {
        Some(text) => Ok(Piece::Json(text.to_string()?)),
        None => Ok(Piece::Word("null")),
    }
}

/// The limits on depth and length of arrays and objects for the fast path.
const PLAIN_DEPTH: usize = 32;
const PLAIN_LENGTH: f64 = 1e5;

/// Appends a value as the engine's `stringify` would, but faster, if it consists only of plain objects, arrays,
/// strings, numbers, booleans and null. Returns whether it does; if not, the appended text must be discarded.
fn write_plain<'js>(ctx: &Ctx<'js>, value: &Value<'js>, out: &mut String, depth: usize) -> Result<bool> {
    use std::fmt::Write;
    if value.is_null() {
        out.push_str("null");
    } else if let Some(number) = value.as_int() {
        // Writing to a string cannot fail.
        let _ = write!(out, "{number}");
    } else if let Some(number) = value.as_float() {
        // Outside of this range JavaScript writes exponents.
        if !(number == 0.0 || (1e-6..1e21).contains(&number.abs())) {
            return Ok(false);
        }
        // Adding zero turns negative zero into positive zero.
        let _ = write!(out, "{}", number + 0.0);
    } else if let Some(flag) = value.as_bool() {
        out.push_str(if flag { "true" } else { "false" });
    } else if let Some(text) = value.as_string() {
        let Ok(text) = text.to_string() else { return Ok(false) };
        crate::json::quote(out, &text);
    } else if value.is_array() && depth < PLAIN_DEPTH {
        let Some(array) = value.as_object() else { return Ok(false) };
        let length: f64 = array.get("length")?;
        if length > PLAIN_LENGTH || array.contains_key("toJSON")? {
            return Ok(false);
        }
        out.push('[');
        for index in 0..length as u32 {
            if index > 0 {
                out.push(',');
            }
            if !write_plain(ctx, &array.get::<_, Value<'js>>(index)?, out, depth + 1)? {
                return Ok(false);
            }
        }
        out.push(']');
    } else if value.type_of() == Type::Object && depth < PLAIN_DEPTH {
        let Some(object) = value.as_object() else { return Ok(false) };
        let plain = Object::new(ctx.clone())?.get_prototype();
        if object.get_prototype() != plain || object.contains_key("toJSON")? {
            return Ok(false);
        }
        out.push('{');
        let start = out.len();
        for property in
            object.own_props::<rquickjs::String<'js>, Value<'js>>(Filter::new().string().enum_only())
        {
            let (name, value) = property?;
            if value.is_undefined() {
                continue;
            }
            if out.len() > start {
                out.push(',');
            }
            // The text is not taken from the atom, because the binding does not check atoms for valid UTF-8.
            let Ok(name) = name.to_string() else { return Ok(false) };
            crate::json::quote(out, &name);
            out.push(':');
            if !write_plain(ctx, &value, out, depth + 1)? {
                return Ok(false);
            }
        }
        out.push('}');
    } else {
        return Ok(false);
    }
    Ok(true)
}

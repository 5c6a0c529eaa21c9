//! `$arrayToObject` and `$objectToArray`.

use super::OrderedFields;
use crate::error::{Error, Result};
use crate::expr::coerce::{Evaluated, is_nullish, null, type_name};
use crate::expr::display::Shown;
use crate::expr::{Args, EvalEnv};
use diwan_value::{ArrayBuilder, DocBuilder, Value};

pub(crate) fn object_to_array<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let doc = match args.eval(0, env)? {
        Some(Value::Document(doc)) => doc,
        value if is_nullish(value) => return null(),
        other => {
            let found = type_name(other);
            let text = format!("$objectToArray requires a document input, found: {found}");
            return Err(Error::new(40390, text));
        }
    };
    let mut pairs = ArrayBuilder::new();
    for element in doc.iter() {
        let mut pair = DocBuilder::new();
        pair.append("k", element.key_str()).append("v", element.raw);
        pairs.push(pair.finish());
        env.check_size(pairs.len())?;
    }
    env.array(pairs).map(Some)
}

pub(crate) fn array_to_object<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let array = match args.eval(0, env)? {
        Some(Value::Array(array)) => array,
        value if is_nullish(value) => return null(),
        other => {
            let found = type_name(other);
            let text = format!("$arrayToObject requires an array input, found: {found}");
            return Err(Error::new(40386, text));
        }
    };
    let pair = match array.get(0) {
        Some(Value::Array(_)) | None => pair_of_array,
        Some(Value::Document(_)) => pair_of_document,
        other => {
            let found = type_name(other);
            let text = format!("Unrecognised input type format for $arrayToObject: {found}");
            return Err(Error::new(40398, text));
        }
    };
    let mut fields = OrderedFields::default();
    for value in array.iter() {
        let (key, value) = pair(value)?;
        fields.set(key, value);
    }
    fields.build(env)
}

/// A key with its value.
type Pair<'a> = (&'a str, Value<'a>);

fn pair_of_array(value: Value<'_>) -> Result<Pair<'_>> {
    let Value::Array(pair) = value else {
        return Err(inconsistent(40396, "Array", value));
    };
    let mut values = pair.iter();
    let (Some(key), Some(value), None) = (values.next(), values.next(), values.next()) else {
        let text = format!(
            "$arrayToObject requires an array of size 2 arrays,found array of size: {}",
            pair.count()
        );
        return Err(Error::new(40397, text));
    };
    let Value::String(key) = key else {
        let text = format!(
            "$arrayToObject requires an array of key-value pairs, where the key must be of type string. Found key \
             type: {}",
            type_name(Some(key))
        );
        return Err(Error::new(40395, text));
    };
    Ok((checked_key(key, 4940400)?, value))
}

fn pair_of_document(value: Value<'_>) -> Result<Pair<'_>> {
    let Value::Document(pair) = value else {
        return Err(inconsistent(40391, "Object", value));
    };
    if pair.count() != 2 {
        let text = format!(
            "$arrayToObject requires an object keys of 'k' and 'v'. Found incorrect number of keys:{}",
            pair.count()
        );
        return Err(Error::new(40392, text));
    }
    let (Some(key), Some(found)) = (pair.get("k"), pair.get("v")) else {
        let text = format!(
            "$arrayToObject requires an object with keys 'k' and 'v'. Missing either or both keys from: {}",
            Shown(Some(value))
        );
        return Err(Error::new(40393, text));
    };
    let Value::String(key) = key else {
        let text = format!(
            "$arrayToObject requires an object with keys 'k' and 'v', where the value of 'k' must be of type string. \
             Found type: {}",
            type_name(Some(key))
        );
        return Err(Error::new(40394, text));
    };
    Ok((checked_key(key, 4940401)?, found))
}

fn inconsistent(code: i32, detected: &str, found: Value<'_>) -> Error {
    let text = format!(
        "$arrayToObject requires a consistent input format. Elements mustall be arrays or all be objects. {detected} \
         was detected, now found: {}",
        type_name(Some(found))
    );
    Error::new(code, text)
}

fn checked_key(key: &str, code: i32) -> Result<&str> {
    if key.contains('\0') {
        return Err(Error::new(code, "Key field cannot contain an embedded null byte"));
    }
    Ok(key)
}

//! Document ids as text, in paths, bodies and answers.

use crate::error::{Error, Result};
use crate::partition;
use diwan_store::{Collection, id_key};
use diwan_value::Value;
use diwan_value::json::{IdError, id_from_text, id_to_text, write_string};

/// A parsed document id.
#[derive(Clone, Debug)]
pub(crate) struct IdKey {
    /// The key bytes of `_id`.
    pub(crate) key: Vec<u8>,
}

/// Parses an id.
pub(crate) fn parse_id(text: &str) -> Result<IdKey> {
    let value = id_from_text(text).map_err(id_error)?;
    let key = id_key(value.as_value()).map_err(|error| Error::illegal_docid(error.to_string()))?;
    Ok(IdKey { key })
}

/// Converts the error for an invalid id.
pub(crate) fn id_error(error: IdError) -> Error {
    Error::illegal_docid(error.to_string())
}

/// Returns the name of a local document, the text after `_local/`.
pub(crate) fn local_name(id: &str) -> Option<&str> {
    id.strip_prefix("_local/").filter(|name| !name.is_empty())
}

/// Refuses an id that is not allowed in the database: in a partitioned one it must begin with a partition name.
pub(crate) fn check_new(collection: &Collection, id: &str) -> Result<()> {
    if !partition::is_partitioned(collection) || id.starts_with("_design/") {
        return Ok(());
    }
    let Some((partition, rest)) = id.split_once(':') else {
        return Err(Error::illegal_docid("Doc id must be of form partition:id"));
    };
    match partition.as_bytes() {
        [] => Err(Error::illegal_partition("Partition must not be empty")),
        [b'_', ..] => Err(Error::illegal_partition("Partition must not start with an underscore")),
        _ if rest.is_empty() => Err(Error::illegal_docid("Document id must not be empty")),
        _ if rest.starts_with('_') => {
            Err(Error::illegal_docid("Only reserved document ids may start with underscore."))
        }
        _ => Ok(()),
    }
}

/// Appends an id as a JSON string.
#[inline]
pub(crate) fn write_id(out: &mut Vec<u8>, id: Value<'_>) {
    match id {
        // Fast path: text that cannot be mistaken for another type of id needs no escaping.
        Value::String(text)
            if text.len() != 24 && !matches!(text.as_bytes().first(), None | Some(b'~' | b'_')) =>
        {
            write_string(out, text);
        }
        _ => {
            let mut text = String::with_capacity(32);
            id_to_text(id, &mut text);
            write_string(out, &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_value::ObjectId;

    #[test]
    fn write_id_and_parse_id_are_inverse() {
        let oid = ObjectId::parse_hex("0123456789abcdef01234567").unwrap();
        for (value, expected) in [
            (Value::String("a\"b"), r#""a\"b""#),
            (Value::String("0123456789abcdef01234567"), r#""~\"0123456789abcdef01234567\"""#),
            (Value::ObjectId(oid), r#""0123456789abcdef01234567""#),
            (Value::String("_design/x"), r#""_design/x""#),
            (Value::Int32(7), r#""~{\"$numberInt\":\"7\"}""#),
            (Value::String("~7"), r#""~7""#),
        ] {
            let mut out = Vec::new();
            write_id(&mut out, value);
            assert_eq!(String::from_utf8_lossy(&out), expected);
            let text: String = serde_json::from_slice(&out).unwrap();
            assert_eq!(parse_id(&text).unwrap().key, id_key(value).unwrap());
        }
        for bad in ["", "_x", "_design/", "_local/"] {
            assert_eq!(parse_id(bad).unwrap_err().error, "illegal_docid", "{bad}");
        }
        assert_eq!(
            (local_name("_local/a/b"), local_name("_local/"), local_name("a")),
            (Some("a/b"), None, None)
        );
    }
}

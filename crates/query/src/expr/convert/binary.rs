//! Conversions of binary data from and to formatted text, and from and to the bytes of numbers.

use super::failure;
use super::target::Target;
use crate::display::Shown;
use crate::error::{Error, Result};
use crate::expr::EvalEnv;
use crate::expr::coerce::{is_nullish, type_name};
use crate::expr::display::Shown as ShownOptional;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use diwan_value::{Type, Value};

/// The subtype of UUIDs.
const UUID: u8 = 4;

/// The text format of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// A UUID if the data is one, otherwise base64.
    Auto,
    Base64,
    Base64Url,
    Hex,
    Utf8,
    Uuid,
}

impl Format {
    /// Parses the argument `format`; `None` if it is null.
    pub fn of(value: Option<Value<'_>>) -> Result<Option<Format>> {
        let name = match value {
            Some(Value::String(name)) => name,
            value if is_nullish(value) => return Ok(None),
            other => {
                let (found, shown) = (type_name(other), ShownOptional(other));
                let text =
                    format!("$convert requires that 'format' be a string, found: {found} with value {shown}");
                return Err(Error::new(4341114, text));
            }
        };
        Ok(Some(match name {
            "auto" => Format::Auto,
            "base64" => Format::Base64,
            "base64url" => Format::Base64Url,
            "hex" => Format::Hex,
            "utf8" => Format::Utf8,
            "uuid" => Format::Uuid,
            other => {
                let text = format!("Invalid 'format' argument for $convert: {other}");
                return Err(Error::new(4341125, text));
            }
        }))
    }
}

/// The byte order of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// Parses the argument `byteOrder`; little-endian if it is null.
    pub fn of(value: Option<Value<'_>>) -> Result<ByteOrder> {
        match value {
            Some(Value::String("little")) => Ok(ByteOrder::Little),
            Some(Value::String("big")) => Ok(ByteOrder::Big),
            Some(Value::String(other)) => {
                Err(Error::new(9130002, format!("Invalid 'byteOrder' argument for $convert: {other}")))
            }
            value if is_nullish(value) => Ok(ByteOrder::Little),
            other => {
                let (found, shown) = (type_name(other), ShownOptional(other));
                let text = format!(
                    "$convert requires that 'byteOrder' be a string, found: {found} with value {shown}"
                );
                Err(Error::new(9130001, text))
            }
        }
    }
}

/// The format, or the error if a conversion needs one and has none.
fn required(format: Option<Format>, from: &str, to: &str) -> Result<Format> {
    format.ok_or_else(|| {
        Error::new(4341115, format!("Format must be speficied when converting from '{from}' to '{to}'"))
    })
}

/// Converts to binary data.
pub(super) fn to_binary<'a>(
    target: Target<'a>,
    input: Value<'a>,
    format: Option<Format>,
    order: ByteOrder,
    env: &EvalEnv<'a>,
) -> Result<Value<'a>> {
    let ordered = |mut bytes: Vec<u8>| {
        if order == ByteOrder::Big {
            bytes.reverse();
        }
        bytes
    };
    let bytes = match input {
        Value::Binary { subtype, .. } => {
            return if subtype == target.binary_subtype()? {
                Ok(input)
            } else {
                Err(failure("Conversions between different BinData subtypes are not supported"))
            };
        }
        Value::String(text) => {
            let format = required(format, "string", "binData")?;
            let subtype = target.binary_subtype()?;
            parse(text, format, subtype).map_err(|reason| {
                let text =
                    format!("Failed to parse BinData '{text}' in $convert with no onError value: {reason}");
                failure(text)
            })?
        }
        Value::Int32(number) => ordered(number.to_le_bytes().to_vec()),
        Value::Int64(number) => ordered(number.to_le_bytes().to_vec()),
        Value::Double(number) => ordered(number.to_le_bytes().to_vec()),
        other => {
            let found = other.tag().alias();
            let text =
                format!("Unsupported conversion from {found} to binData in $convert with no onError value");
            return Err(failure(text));
        }
    };
    Ok(Value::Binary { subtype: target.binary_subtype()?, bytes: env.bytes(&bytes)? })
}

/// Parses bytes from formatted text.
fn parse(text: &str, format: Format, subtype: u8) -> std::result::Result<Vec<u8>, String> {
    if (format == Format::Uuid) != (subtype == UUID) {
        return Err("Only the 'uuid' format is allowed with the UUID subtype".to_owned());
    }
    match format {
        Format::Base64 => STANDARD.decode(text).map_err(|error| error.to_string()),
        Format::Base64Url => {
            URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|error| error.to_string())
        }
        Format::Hex => parse_hex(text.as_bytes()),
        Format::Utf8 => Ok(text.as_bytes().to_vec()),
        Format::Uuid => parse_uuid(text).ok_or_else(|| format!("Invalid UUID string: {text}")),
        Format::Auto => Err("Invalid format 'auto'".to_owned()),
    }
}

/// Parses pairs of hexadecimal digits.
fn parse_hex(digits: &[u8]) -> std::result::Result<Vec<u8>, String> {
    if digits.len() % 2 == 1 {
        return Err("Hex blob with odd length".to_owned());
    }
    let digit = |digit: u8| (digit as char).to_digit(16).map(|digit| digit as u8);
    let pairs = digits.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?));
    pairs.collect::<Option<_>>().ok_or_else(|| "The character is not a hexadecimal digit".to_owned())
}

/// Parses `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
fn parse_uuid(text: &str) -> Option<Vec<u8>> {
    let groups: Vec<&str> = text.split('-').collect();
    let lengths = groups.iter().map(|group| group.len());
    if !lengths.eq([8, 4, 4, 4, 12]) {
        return None;
    }
    parse_hex(groups.concat().as_bytes()).ok()
}

/// Writes hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    let digit = |digit: u8| char::from_digit(digit.into(), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Formats binary data as text.
pub(super) fn to_text<'a>(
    input: Value<'a>,
    subtype: u8,
    bytes: &'a [u8],
    format: Option<Format>,
    env: &EvalEnv<'a>,
) -> Result<Value<'a>> {
    let format = required(format, "binData", "string")?;
    let is_uuid = subtype == UUID && bytes.len() == 16;
    // The longest format needs two characters for each byte.
    env.check_size(bytes.len().saturating_mul(2))?;
    let impossible = |reason: &str| {
        let shown = Shown(input);
        failure(format!("Failed to convert '{shown}' to string in $convert with no onError value: {reason}"))
    };
    let text = match format {
        Format::Uuid if !is_uuid => return Err(impossible("BinData does not represent a valid UUID")),
        Format::Uuid | Format::Auto if is_uuid => {
            let digits = hex(bytes);
            let groups = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)];
            groups.map(|(from, to)| digits.get(from..to).unwrap_or_default()).join("-")
        }
        Format::Base64Url => URL_SAFE_NO_PAD.encode(bytes),
        Format::Hex => hex(bytes).to_uppercase(),
        Format::Utf8 => match std::str::from_utf8(bytes) {
            Ok(text) => return Ok(Value::String(text)),
            Err(_) => return Err(impossible("BinData does not represent a valid UTF-8 string")),
        },
        _ => STANDARD.encode(bytes),
    };
    env.string(&text)
}

/// Converts the bytes of a number.
pub(super) fn to_number(
    tag: Type,
    input: Value<'_>,
    bytes: &[u8],
    order: ByteOrder,
) -> Result<Value<'static>> {
    let mut little = bytes.iter().copied().take(8).collect::<Vec<u8>>();
    if order == ByteOrder::Big {
        little.reverse();
    }
    let number = match (tag, bytes.len()) {
        (Type::Double, 4) => {
            little.first_chunk().map(|bytes| Value::Double(f32::from_le_bytes(*bytes).into()))
        }
        (Type::Double, 8) => little.first_chunk().map(|bytes| Value::Double(f64::from_le_bytes(*bytes))),
        (Type::Int32, 1 | 2 | 4) => Some(Value::Int32(integer(&little) as i32)),
        (Type::Int64, 1 | 2 | 4 | 8) => Some(Value::Int64(integer(&little))),
        _ => None,
    };
    number.ok_or_else(|| {
        let (shown, length) = (Shown(input), bytes.len());
        failure(format!(
            "Failed to convert '{shown}' to number in $convert because of invalid length: {length}"
        ))
    })
}

/// The signed integer in up to eight little-endian bytes.
fn integer(little: &[u8]) -> i64 {
    let sign = if little.last().is_some_and(|last| last & 0x80 != 0) { -1 } else { 0 };
    little.iter().rev().fold(sign, |number, byte| number << 8 | i64::from(*byte))
}

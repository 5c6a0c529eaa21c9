//! Reading the arguments of a command, with MongoDB's errors for wrong types and unknown names.

use crate::error::{CommandError, Result, code};
use crate::wire::{Documents, Sequence};
use diwan_store::plan::Hint;
use diwan_value::decimal::Rounding;
use diwan_value::{Array, Doc, Value};

/// Arguments that many of MongoDB's commands take for features that this server does not have.
const NOT_IMPLEMENTED: [&str; 2] = ["encryptionInformation", "querySettings"];

/// The types that MongoDB accepts as a boolean where it is lenient.
const FLAG: &str = "[bool, long, int, decimal, double]";
/// The numeric types.
const NUMBER: &str = "[long, int, decimal, double]";

/// One argument: a field of the body, or a document sequence beside it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    /// The name of the command, or of the argument that this one is part of. Error texts begin with it.
    owner: &'a str,
    /// The name.
    pub key: &'a str,
    content: FieldContent<'a>,
}

#[derive(Clone, Copy, Debug)]
enum FieldContent<'a> {
    Value(Value<'a>),
    Sequence(Sequence<'a>),
}

impl<'a> Field<'a> {
    pub(crate) fn new(owner: &'a str, key: &'a str, value: Value<'a>) -> Field<'a> {
        Field { owner, key, content: FieldContent::Value(value) }
    }

    pub(crate) fn of_sequence(owner: &'a str, sequence: Sequence<'a>) -> Field<'a> {
        Field { owner, key: sequence.name, content: FieldContent::Sequence(sequence) }
    }

    /// Passes the fields of an argument that is a document to `reader`.
    pub(crate) fn read_document(
        owner: &'a str,
        document: Doc<'a>,
        reader: impl FnMut(Field<'a>) -> Result<()>,
    ) -> Result<()> {
        read(document.iter().map(|element| Field::new(owner, element.key_str(), element.value())), reader)
    }

    /// The name of the command, or of the argument that this one is part of.
    pub(crate) fn owner(&self) -> &'a str {
        self.owner
    }

    /// The value, of any type. A document sequence counts as an empty array.
    pub(crate) fn value(&self) -> Value<'a> {
        match self.content {
            FieldContent::Value(value) => value,
            FieldContent::Sequence(_) => Value::Array(Array::EMPTY),
        }
    }

    pub(crate) fn string(&self) -> Result<&'a str> {
        self.value().as_str().ok_or_else(|| self.wrong("string"))
    }

    pub(crate) fn document(&self) -> Result<Doc<'a>> {
        self.value().as_doc().ok_or_else(|| self.wrong("object"))
    }

    pub(crate) fn array(&self) -> Result<Array<'a>> {
        self.value().as_array().ok_or_else(|| self.wrong("array"))
    }

    /// The documents of an array or a sequence. Elements of an array that are not documents come as `Err`.
    pub(crate) fn documents(&self) -> Result<Documents<'a>> {
        match self.content {
            FieldContent::Value(Value::Array(array)) => Ok(Documents::of_array(array)),
            FieldContent::Value(_) => Err(self.wrong("array")),
            FieldContent::Sequence(sequence) => Ok(sequence.documents()),
        }
    }

    /// A boolean. Any other type is an error.
    pub(crate) fn boolean(&self) -> Result<bool> {
        self.value().as_bool().ok_or_else(|| self.wrong("bool"))
    }

    /// A boolean, with the error text of MongoDB's optional booleans for any other type.
    pub(crate) fn optional_boolean(&self) -> Result<bool> {
        let wrong = || {
            let found = self.value().tag().alias();
            let text = format!("Field '{}' should be a boolean value, but found: {found}", self.key);
            CommandError::new(code::TYPE_MISMATCH, text)
        };
        self.value().as_bool().ok_or_else(wrong)
    }

    /// A boolean, or a number: any but zero is true.
    pub(crate) fn flag(&self) -> Result<bool> {
        match self.value() {
            Value::Boolean(flag) => Ok(flag),
            value if value.is_number() => Ok(int64(value) != Some(0)),
            _ => Err(self.wrong(FLAG)),
        }
    }

    /// A number of any type, truncated to an integer.
    pub(crate) fn integer(&self) -> Result<i64> {
        int64(self.value()).ok_or_else(|| self.wrong(NUMBER))
    }

    /// A number of any type that is not negative.
    pub(crate) fn natural(&self) -> Result<u64> {
        let number = self.integer()?;
        u64::try_from(number).map_err(|_| {
            let text = format!("BSON field '{}' value must be >= 0, actual value '{number}'", self.key);
            CommandError::new(51024, text)
        })
    }

    /// The collation of a `collation` argument. An empty document counts as absent.
    pub(crate) fn collation(&self) -> Result<Option<Doc<'a>>> {
        Ok(Some(self.document()?).filter(|collation| !collation.is_empty()))
    }

    /// The index of a `hint` argument. An empty document counts as absent.
    pub(crate) fn hint(&self) -> Result<Hint> {
        match self.value() {
            Value::Document(key) if key.is_empty() => Ok(Hint::None),
            other => Ok(Hint::parse(Some(other))?),
        }
    }

    /// The error for an argument that the command does not have.
    pub(crate) fn unknown(&self) -> CommandError {
        if NOT_IMPLEMENTED.contains(&self.key) {
            return CommandError::not_implemented(format_args!("{}.{}", self.owner, self.key));
        }
        let text = format!("BSON field '{}.{}' is an unknown field.", self.owner, self.key);
        CommandError::new(code::IDL_UNKNOWN_FIELD, text)
    }

    /// The error for a value that is not of an `expected` type: the alias of one type, or several in brackets.
    pub(crate) fn wrong(&self, expected: &str) -> CommandError {
        wrong_type(self.owner, self.key, self.value(), expected)
    }
}

/// Passes fields to `reader`, one after the other. Null counts as absent unless it has the field's type.
pub(crate) fn read<'a>(
    fields: impl Iterator<Item = Field<'a>>,
    mut reader: impl FnMut(Field<'a>) -> Result<()>,
) -> Result<()> {
    for field in fields {
        match reader(field) {
            // The reader has complained about the type of a null.
            Err(error) if error.code == code::TYPE_MISMATCH && field.value().is_nullish() => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

/// The error for a field of `owner` whose value is not of the `expected` type.
pub(crate) fn wrong_type(owner: &str, key: &str, value: Value<'_>, expected: &str) -> CommandError {
    let plural = if expected.starts_with('[') { "types" } else { "type" };
    CommandError::new(
        code::TYPE_MISMATCH,
        format!(
            "BSON field '{owner}.{key}' is the wrong type '{}', expected {plural} '{expected}'",
            value.tag().alias()
        ),
    )
}

/// The error for a required field that is absent.
pub(crate) fn missing(owner: &str, key: &str) -> CommandError {
    let text = format!("BSON field '{owner}.{key}' is missing but a required field");
    CommandError::new(code::IDL_MISSING_FIELD, text)
}

/// A number of any type, truncated to an integer and limited to the range of `i64`.
pub(crate) fn int64(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Int32(number) => Some(number.into()),
        Value::Int64(number) => Some(number),
        Value::Double(number) => Some(number as i64),
        Value::Decimal128(number) if number.is_nan() => Some(0),
        Value::Decimal128(number) => {
            let nearest = if number.is_sign_negative() { i64::MIN } else { i64::MAX };
            Some(number.to_i64(Rounding::TowardZero).unwrap_or(nearest))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_value::{DocBuf, doc};

    #[test]
    fn errors_have_the_texts_of_mongodb() {
        let field = Field::new("find", "filter", Value::Int32(1));
        assert_eq!(
            field.document().unwrap_err().message,
            "BSON field 'find.filter' is the wrong type 'int', expected type 'object'"
        );
        assert_eq!(field.unknown().message, "BSON field 'find.filter' is an unknown field.");
        let text = Field::new("find", "limit", Value::String("x"));
        assert_eq!(
            text.integer().unwrap_err().message,
            "BSON field 'find.limit' is the wrong type 'string', expected types '[long, int, decimal, double]'"
        );
        assert_eq!(Field::new("find", "skip", Value::Int32(-1)).natural().unwrap_err().code, 51024);
    }

    #[test]
    fn null_counts_as_absent() {
        let read = |document: DocBuf| {
            let mut limit = 7;
            let outcome = Field::read_document("find", document.as_doc(), |field| {
                match field.key {
                    "limit" => limit = field.natural()?,
                    _ => return Err(field.unknown()),
                }
                Ok(())
            });
            outcome.map(|()| limit).map_err(|error| error.code)
        };
        assert_eq!(read(doc! { "limit": Value::Null }), Ok(7));
        assert_eq!(read(doc! { "limit": Value::Undefined }), Ok(7));
        assert_eq!(read(doc! { "limit": "1" }), Err(code::TYPE_MISMATCH));
        assert_eq!(read(doc! { "other": Value::Null }), Err(code::IDL_UNKNOWN_FIELD));
    }
}

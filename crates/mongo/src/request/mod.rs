//! One command as its function sees it: its name, its arguments, and the document sequences beside the body.

pub(crate) mod arguments;
pub(crate) mod fields;
pub(crate) mod weight;

use crate::error::{CommandError, Result, code};
use crate::request::arguments::{GenericArguments, is_generic};
use crate::request::fields::Field;
use crate::wire::Sequence;
use diwan_store::Namespace;
use diwan_value::{Doc, Value};
use std::collections::HashSet;

/// Up to this number of fields, a command's names are compared without a hash table.
const FEW_FIELDS: usize = 24;

/// Refuses a command with two fields of one name. The check of rights and the command could read different ones.
pub(crate) fn check_unique(name: &str, body: Doc<'_>) -> Result<()> {
    let duplicate = |key: &[u8]| {
        let key = String::from_utf8_lossy(key);
        let text = format!("BSON field '{name}.{key}' is a duplicate field");
        CommandError::new(code::IDL_DUPLICATE_FIELD, text)
    };
    let mut few: [&[u8]; FEW_FIELDS] = [&[]; FEW_FIELDS];
    let mut many = HashSet::new();
    // Names with different marks differ, so few of them have to be compared.
    let mut marks = 0_u64;
    for (at, element) in body.iter().enumerate() {
        let mark = mark_of(element.key);
        let is_marked = marks & mark != 0;
        marks |= mark;
        let is_new = match few.get_mut(at) {
            Some(place) => {
                *place = element.key;
                !is_marked || !few[..at].contains(&element.key)
            }
            None => many.insert(element.key) && !few.contains(&element.key),
        };
        if !is_new {
            return Err(duplicate(element.key));
        }
    }
    Ok(())
}

/// One of 64 bits, by the length, the first and the last byte of a name.
fn mark_of(name: &[u8]) -> u64 {
    let (first, last) = (name.first().copied().unwrap_or(0), name.last().copied().unwrap_or(0));
    let mixed = usize::from(first) * 7 + usize::from(last) * 13 + name.len() * 29;
    1 << (mixed % 64)
}

/// A parsed command. It borrows from the message and copies nothing.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// The command's name as the client sent it.
    pub name: &'a str,
    /// The whole command.
    pub body: Doc<'a>,
    /// The document sequences of the message: arguments beside the body.
    pub sequences: &'a [Sequence<'a>],
    /// The generic arguments.
    pub arguments: GenericArguments<'a>,
}

impl<'a> Request<'a> {
    /// Parses a command. `database` is given if the protocol names the database outside of the body.
    pub(crate) fn parse(
        body: Doc<'a>,
        sequences: &'a [Sequence<'a>],
        database: Option<&'a str>,
    ) -> Result<Request<'a>> {
        let name = body.iter().next().map(|element| element.key_str()).unwrap_or_default();
        check_unique(name, body)?;
        Ok(Request { name, body, sequences, arguments: GenericArguments::parse(name, body, database)? })
    }

    /// The value of the command's first field: for most commands the name of a collection, or 1.
    pub(crate) fn target(&self) -> Value<'a> {
        self.body.iter().next().map_or(Value::Null, |element| element.value())
    }

    /// The collection that the command names.
    pub(crate) fn namespace(&self) -> Result<Namespace> {
        match self.target() {
            Value::String(collection) => Ok(Namespace::new(self.arguments.database, collection)?),
            other => Err(CommandError::new(
                code::INVALID_NAMESPACE,
                format!("collection name has invalid type {}", other.tag().alias()),
            )),
        }
    }

    /// Passes the command's own arguments to `reader`, one after the other. Null counts as absent.
    pub(crate) fn read(&self, reader: impl FnMut(Field<'a>) -> Result<()>) -> Result<()> {
        fields::read(self.fields(), reader)
    }

    /// The command's own arguments: all but the generic ones.
    pub(crate) fn fields(&self) -> impl Iterator<Item = Field<'a>> {
        let name = self.name;
        let body =
            self.body.iter().skip(1).map(move |element| Field::new(name, element.key_str(), element.value()));
        let sequences = self.sequences.iter().map(move |sequence| Field::of_sequence(name, *sequence));
        body.filter(|field| !is_generic(field.key)).chain(sequences)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_value::DocBuilder;

    #[test]
    fn field_that_stands_twice_is_refused() {
        for fields in [2, FEW_FIELDS, 3 * FEW_FIELDS] {
            let mut body = DocBuilder::new();
            for at in 0..fields {
                body.append(&format!("field{at}"), 1);
            }
            let unique = body.finish();
            assert!(check_unique("find", unique.as_doc()).is_ok());
            for twice in ["field0".to_owned(), format!("field{}", fields - 1)] {
                let mut body = unique.clone().into_builder();
                body.append(&twice, 2);
                let error = check_unique("find", body.finish().as_doc()).unwrap_err();
                assert_eq!(
                    (error.code, error.message),
                    (40413, format!("BSON field 'find.{twice}' is a duplicate field"))
                );
            }
        }
    }
}

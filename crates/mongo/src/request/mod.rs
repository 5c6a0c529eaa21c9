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

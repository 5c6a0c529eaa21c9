//! One command as its handler sees it: name, arguments, and the documents beside it.

use crate::arguments::{Arguments, is_generic};
use crate::error::{CommandError, Result, code};
use crate::fields::{self, Field};
use crate::wire::Sequence;
use diwan_store::Namespace;
use diwan_value::{Doc, Value};

/// A command, viewed: nothing of the message is copied.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// The command's name as it was sent.
    pub name: &'a str,
    /// The whole command.
    pub body: Doc<'a>,
    /// Document sequences: arguments beside the body.
    pub sequences: &'a [Sequence<'a>],
    /// The generic arguments.
    pub arguments: Arguments<'a>,
}

impl<'a> Request<'a> {
    pub(crate) fn parse(
        body: Doc<'a>,
        sequences: &'a [Sequence<'a>],
        database: Option<&'a str>,
    ) -> Result<Request<'a>> {
        let name = body.iter().next().map(|element| element.key_str()).unwrap_or_default();
        Ok(Request { name, body, sequences, arguments: Arguments::parse(name, body, database)? })
    }

    /// The value of the command's own field: a collection's name, or just 1.
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

    /// Reads the arguments that are the command's own, one after the other; a null is none.
    pub(crate) fn read(&self, reader: impl FnMut(Field<'a>) -> Result<()>) -> Result<()> {
        fields::read(self.fields(), reader)
    }

    /// The arguments that are the command's own.
    pub(crate) fn fields(&self) -> impl Iterator<Item = Field<'a>> {
        let name = self.name;
        let body =
            self.body.iter().skip(1).map(move |element| Field::new(name, element.key_str(), element.value()));
        let sequences = self.sequences.iter().map(move |sequence| Field::of_sequence(name, *sequence));
        body.filter(|field| !is_generic(field.key)).chain(sequences)
    }
}

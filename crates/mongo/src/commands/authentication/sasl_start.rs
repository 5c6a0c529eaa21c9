//! `saslStart`: begins a sign-in.

use crate::dispatch::Context;
use crate::error::Result;
use crate::request::fields::{Field, missing};
use crate::sign_in::{self, First};
use diwan_value::{Doc, DocBuilder, Value};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let arguments = Arguments::read("saslStart", context.request.fields())?;
    let database = context.request.arguments.database;
    if arguments.mechanism == "MONGODB-X509" {
        let user = std::str::from_utf8(arguments.payload).ok().filter(|user| !user.is_empty());
        sign_in::by_certificate(context, user, database)?;
        reply.append("conversationId", 1).append("done", true);
        reply.append("payload", Value::Binary { subtype: 0, bytes: b"" });
        return Ok(());
    }
    // A command that has waited runs again with a deadline.
    let has_waited = context.deadline.is_some();
    if let Some(answer) = sign_in::start(context, &arguments.first(database), has_waited)? {
        reply.append_all(answer.as_doc());
    }
    Ok(())
}

/// The arguments of `saslStart`, which a hello may bring, too.
pub(crate) struct Arguments<'a> {
    pub mechanism: &'a str,
    payload: &'a [u8],
    skips_empty_exchange: bool,
}

impl<'a> Arguments<'a> {
    /// Reads the arguments of a command.
    pub(crate) fn read(owner: &'a str, fields: impl Iterator<Item = Field<'a>>) -> Result<Arguments<'a>> {
        let (mut mechanism, mut payload, mut skips) = (None, None, false);
        for field in fields {
            match field.key {
                "mechanism" => mechanism = Some(field.string()?),
                "payload" => payload = Some(payload_of(&field)?),
                "options" => {
                    skips = field.document()?.get("skipEmptyExchange").is_some_and(Value::is_truthy);
                }
                // Older drivers send it; it never had a meaning.
                "autoAuthorize" => {}
                // The database of a sign-in that comes with a hello.
                "db" => {}
                _ => return Err(field.unknown()),
            }
        }
        let mechanism = mechanism.ok_or_else(|| missing(owner, "mechanism"))?;
        let payload = match payload {
            Some(payload) => payload,
            None if mechanism == "MONGODB-X509" => &[],
            None => return Err(missing(owner, "payload")),
        };
        Ok(Arguments { mechanism, payload, skips_empty_exchange: skips })
    }

    /// Reads the arguments in the document of a hello.
    pub(crate) fn of_hello(doc: Doc<'a>) -> Result<Arguments<'a>> {
        const OWNER: &str = "speculativeAuthenticate";
        let fields =
            doc.iter().filter(|element| !matches!(element.key_str(), "saslStart" | "authenticate" | "user"));
        Arguments::read(OWNER, fields.map(|element| Field::new(OWNER, element.key_str(), element.value())))
    }

    /// The first message, for a user of this database.
    pub(crate) fn first(&self, database: &'a str) -> First<'a> {
        First {
            mechanism: self.mechanism,
            payload: self.payload,
            database,
            skips_empty_exchange: self.skips_empty_exchange,
        }
    }
}

/// A message of SASL: binary, or text from clients that have no binary.
pub(crate) fn payload_of<'a>(field: &Field<'a>) -> Result<&'a [u8]> {
    match field.value() {
        Value::Binary { bytes, .. } => Ok(bytes),
        Value::String(text) => Ok(text.as_bytes()),
        _ => Err(field.wrong("binData")),
    }
}

//! `authenticate`: signs in with the certificate of the connection.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::sign_in;
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let (mut mechanism, mut user) = ("MONGODB-CR", None);
    context.request.read(|field| {
        match field.key {
            "mechanism" => mechanism = field.string()?,
            "user" => user = Some(field.string()?),
            _ => {}
        }
        Ok(())
    })?;
    let database = context.request.arguments.database;
    if mechanism != "MONGODB-X509" {
        let text = format!("Authentication mechanism {mechanism} is not supported: use saslStart");
        return Err(CommandError::new(code::MECHANISM_UNAVAILABLE, text));
    }
    let subject = sign_in::by_certificate(context, user, database)?;
    reply.append("dbname", database).append("user", subject);
    Ok(())
}

//! `saslContinue`: the next message of a sign-in.

use super::sasl_start::payload_of;
use crate::dispatch::Context;
use crate::error::Result;
use crate::request::fields::missing;
use crate::sign_in;
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let (mut conversation, mut payload) = (None, None);
    context.request.read(|field| {
        match field.key {
            "conversationId" => conversation = Some(field.integer()?),
            "payload" => payload = Some(payload_of(&field)?),
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let conversation = conversation.ok_or_else(|| missing("saslContinue", "conversationId"))?;
    let payload = payload.ok_or_else(|| missing("saslContinue", "payload"))?;
    let conversation = i32::try_from(conversation).unwrap_or(0);
    let answer = sign_in::proceed(context, conversation, payload)?;
    reply.append_all(answer.as_doc());
    Ok(())
}

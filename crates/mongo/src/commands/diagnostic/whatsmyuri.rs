//! `whatsmyuri`: the client's address as the server sees it.

use crate::dispatch::Context;
use crate::error::Result;
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    reply.append("you", context.client.peer.to_string());
    Ok(())
}

//! `ping`: an empty reply.

use crate::dispatch::Context;
use crate::error::Result;
use diwan_value::DocBuilder;

pub(crate) fn run(_: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    Ok(())
}

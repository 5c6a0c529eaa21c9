//! `ping`: an answer.

use crate::dispatch::Context;
use crate::error::Result;
use diwan_value::DocBuilder;

pub(super) fn run(_: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    Ok(())
}

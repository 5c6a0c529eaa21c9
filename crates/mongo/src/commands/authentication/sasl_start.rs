//! `saslStart`, `saslContinue` and `authenticate`. There are no users, so authentication always fails.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use diwan_value::DocBuilder;

pub(crate) fn run(_: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    Err(CommandError::new(code::AUTHENTICATION_FAILED, "Authentication failed."))
}

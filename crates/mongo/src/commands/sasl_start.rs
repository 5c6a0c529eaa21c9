//! `saslStart`, `saslContinue`, `authenticate`: there are no users, so nobody can be one.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use diwan_value::DocBuilder;

pub(super) fn run(_: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    Err(CommandError::new(code::AUTHENTICATION_FAILED, "Authentication failed."))
}

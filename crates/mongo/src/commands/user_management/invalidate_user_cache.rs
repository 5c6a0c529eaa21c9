//! `invalidateUserCache`: nothing to do. What is known of a user is valid only as long as no user has changed.

use crate::dispatch::Context;
use crate::error::Result;
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    context.request.read(|field| Err(field.unknown()))
}

//! `getCmdLineOpts`: the command line and the settings that the server was started with.

use crate::dispatch::Context;
use crate::error::Result;
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let options = &context.server.options;
    reply.append("argv", options.arguments.clone()).append("parsed", &options.settings);
    Ok(())
}

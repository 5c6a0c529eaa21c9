//! `commitTransaction` and `abortTransaction`.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    let (request, server) = (context.request, context.server);
    request.read(|field| match field.key {
        "recoveryToken" | "coordinator" => Ok(()),
        _ => Err(field.unknown()),
    })?;
    let arguments = &request.arguments;
    let number = arguments.txn_number.filter(|_| arguments.in_transaction());
    let (Some(session), Some(number)) = (arguments.session, number) else {
        let text = format!("{} must be run within a transaction", request.name);
        return Err(CommandError::new(code::COMMAND_NOT_IN_TRANSACTION, text));
    };
    if request.name == "abortTransaction" {
        return server.transactions.abort(session, number);
    }
    match server.transactions.commit(&server.store, session, number, &context.interrupt)? {
        Some(commit) => context.committed(commit),
        // It was committed before the server was started, or it wrote nothing. What it read may not be durable yet.
        None => context.fence()?,
    }
    Ok(())
}

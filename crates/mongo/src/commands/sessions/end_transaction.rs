//! `commitTransaction` and `abortTransaction`. Transactions cannot be started, so there is never one to end.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    let arguments = &context.request.arguments;
    let Some(number) = arguments.txn_number.filter(|_| arguments.in_transaction()) else {
        let text = format!("{} must be run within a transaction", context.request.name);
        return Err(CommandError::new(code::COMMAND_NOT_IN_TRANSACTION, text));
    };
    let text = format!("Given transaction number {number} does not match any in-progress transactions.");
    Err(CommandError::new(code::NO_SUCH_TRANSACTION, text))
}

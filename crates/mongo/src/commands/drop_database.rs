//! `dropDatabase`: all collections and views of a database go.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::profiler::Settings;
use diwan_value::{DocBuilder, Value};

pub(super) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let request = context.request;
    if let Some(field) = request.fields().next() {
        return Err(field.unknown());
    }
    if request.target() != Value::Int32(1) && crate::fields::int64(request.target()) != Some(1) {
        return Err(CommandError::new(5255000, "have to pass 1 as 'dropDatabase' parameter"));
    }
    let database = request.arguments.database;
    if database == "admin" {
        let text = "Dropping the 'admin' database is prohibited.";
        return Err(CommandError::new(code::ILLEGAL_OPERATION, text));
    }
    context.server.profiler.set(database, Settings::default());
    if context.server.store.drop_database(database)? {
        context.server.usage.forget(database, None);
        reply.append("dropped", database);
    }
    context.fence()
}

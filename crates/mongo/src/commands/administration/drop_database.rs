//! `dropDatabase`: drops all collections and views of a database.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::monitoring::profiler::DatabaseSettings;
use diwan_value::{DocBuilder, Value};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let request = context.request;
    if let Some(field) = request.fields().next() {
        return Err(field.unknown());
    }
    if request.target() != Value::Int32(1) && crate::request::fields::int64(request.target()) != Some(1) {
        return Err(CommandError::new(5255000, "have to pass 1 as 'dropDatabase' parameter"));
    }
    let database = request.arguments.database;
    if database == "admin" {
        let text = "Dropping the 'admin' database is prohibited.";
        return Err(CommandError::new(code::ILLEGAL_OPERATION, text));
    }
    context.server.profiler.set(database, DatabaseSettings::default());
    if context.store.drop_database(database)? {
        context.server.usage.forget(database, None);
        reply.append("dropped", database);
    }
    context.fence()
}

//! `profile`: the profiling level of a database, and the server's threshold for slow commands.

use crate::dispatch::Context;
use crate::error::{CommandError, Result};
use crate::monitoring::profiler;
use crate::request::fields::{Field, int64};
use diwan_value::{DocBuilder, Value};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let request = context.request;
    let database = request.arguments.database;
    let level = Field::new("profile", "profile", request.target()).integer()?;
    let profiler = &context.server.profiler;
    let was = profiler.settings(database).as_deref().cloned().unwrap_or_default();
    let slow_was = profiler.slow();
    let (mut settings, mut slow) = (was.clone(), slow_was);
    request.read(|field| {
        match (field.key, field.value()) {
            ("slowms", _) => slow.millis = field.integer()?,
            ("sampleRate", value) => slow.sample_rate = sample_rate(field, value)?,
            ("filter", Value::String("unset")) => settings.filter = None,
            ("filter", _) => {
                let filter = field.document()?;
                settings.filter = Some((filter.to_owned(), profiler::compile_filter(filter)?));
            }
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    // Any other level only queries the settings.
    if (0..=2).contains(&level) {
        settings.level = level as i32;
    }
    // The collection exists before any command writes an entry.
    if settings.level > 0 {
        profiler::create_collection(context.server, database)?;
    }
    let has_filter = settings.filter.is_some();
    profiler.set(database, settings);
    profiler.set_slow(slow);
    context.server.store.slow().set_threshold_millis(slow.millis);
    reply.append("was", was.level).append("slowms", int32(slow_was.millis));
    reply.append("sampleRate", slow_was.sample_rate);
    if let Some((filter, _)) = was.filter {
        reply.append("filter", filter);
    }
    if has_filter {
        let text = "When a filter expression is set, slowms and sampleRate are not used for profiling.";
        reply.append("note", text);
    }
    Ok(())
}

fn int32(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
}

/// Reads the argument `sampleRate`.
fn sample_rate(field: Field<'_>, value: Value<'_>) -> Result<f64> {
    let rate = match value {
        Value::Double(rate) => rate,
        Value::Decimal128(rate) => rate.to_f64(),
        other => {
            int64(other).map(|rate| rate as f64).ok_or_else(|| field.wrong("[long, int, decimal, double]"))?
        }
    };
    if (0.0..=1.0).contains(&rate) {
        return Ok(rate);
    }
    Err(CommandError::bad_value("'sampleRate' must be between 0.0 and 1.0 inclusive"))
}

//! Settings of the running server under MongoDB's names: one table for `getParameter` and `setParameter`.

use crate::error::{CommandError, Result};
use crate::fields::Field;
use crate::options::Topology;
use crate::server::Server;
use diwan_value::{Value, ValueBuf, array, doc};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// The settings that can be changed while the server runs.
#[derive(Debug)]
pub(crate) struct Parameters {
    cursor_timeout_millis: AtomicI64,
    ttl_seconds: AtomicI64,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters { cursor_timeout_millis: AtomicI64::new(10 * 60 * 1000), ttl_seconds: AtomicI64::new(60) }
    }
}

impl Parameters {
    /// How long a cursor lives that nobody asks for more.
    pub(crate) fn cursor_timeout(&self) -> Duration {
        Duration::from_millis(self.cursor_timeout_millis.load(Ordering::Relaxed).unsigned_abs())
    }
}

/// One setting.
pub(crate) struct Parameter {
    pub name: &'static str,
    value: fn(&Server) -> ValueBuf,
    /// Changes it, where that is possible.
    pub set: Option<fn(&Server, Field<'_>) -> Result<()>>,
}

/// All settings, in the order of their names.
pub(crate) const TABLE: &[Parameter] = &[
    Parameter {
        name: "authenticationMechanisms",
        value: |_| Value::Array(diwan_value::Array::trusted(&array![].finish())).to_owned(),
        set: None,
    },
    Parameter {
        name: "cursorTimeoutMillis",
        value: |server| {
            Value::Int64(server.parameters.cursor_timeout_millis.load(Ordering::Relaxed)).to_owned()
        },
        set: Some(|server, field| {
            let millis = field.integer()?;
            if millis < 1 {
                return Err(CommandError::bad_value("cursorTimeoutMillis must be greater than 0"));
            }
            server.parameters.cursor_timeout_millis.store(millis, Ordering::Relaxed);
            Ok(())
        }),
    },
    Parameter { name: "enableTestCommands", value: |_| Value::Boolean(false).to_owned(), set: None },
    Parameter { name: "featureCompatibilityVersion", value: |_| doc! { "version": "8.0" }.into(), set: None },
    Parameter {
        name: "localLogicalSessionTimeoutMinutes",
        value: |_| Value::Int32((crate::sessions::TIMEOUT.as_secs() / 60) as i32).to_owned(),
        set: None,
    },
    Parameter { name: "notablescan", value: |_| Value::Boolean(false).to_owned(), set: None },
    Parameter { name: "quiet", value: |_| Value::Boolean(false).to_owned(), set: None },
    Parameter { name: "requireApiVersion", value: |_| Value::Boolean(false).to_owned(), set: None },
    Parameter {
        name: "transactionLifetimeLimitSeconds",
        value: |server| {
            let seconds = if server.options.topology == Topology::Standalone { 0 } else { 60 };
            Value::Int32(seconds).to_owned()
        },
        set: None,
    },
    Parameter {
        name: "ttlMonitorSleepSecs",
        value: |server| Value::Int64(server.parameters.ttl_seconds.load(Ordering::Relaxed)).to_owned(),
        set: Some(|server, field| {
            let seconds = field.integer()?;
            if seconds < 1 {
                return Err(CommandError::bad_value("ttlMonitorSleepSecs must be greater than 0"));
            }
            server.parameters.ttl_seconds.store(seconds, Ordering::Relaxed);
            server.store.set_ttl_interval(seconds.unsigned_abs());
            Ok(())
        }),
    },
];

/// The value of a setting.
pub(crate) fn get(server: &Server, parameter: &Parameter) -> ValueBuf {
    (parameter.value)(server)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(TABLE.is_sorted_by(|a, b| a.name < b.name));
    }
}

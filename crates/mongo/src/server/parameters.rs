//! The server parameters: one table for `getParameter` and `setParameter`.

use crate::error::{CommandError, Result};
use crate::request::fields::Field;
use crate::server::Server;
use crate::server::options::Topology;
use diwan_auth::Mechanism;
use diwan_value::{Value, ValueBuf, array, doc};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// The values of the parameters that can change while the server runs.
#[derive(Debug)]
pub(crate) struct Parameters {
    cursor_timeout_millis: AtomicI64,
    ttl_seconds: AtomicI64,
    transaction_lifetime_seconds: AtomicI64,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            cursor_timeout_millis: AtomicI64::new(10 * 60 * 1000),
            ttl_seconds: AtomicI64::new(60),
            transaction_lifetime_seconds: AtomicI64::new(60),
        }
    }
}

impl Parameters {
    /// How long an idle cursor stays open.
    pub(crate) fn cursor_timeout(&self) -> Duration {
        Duration::from_millis(self.cursor_timeout_millis.load(Ordering::Relaxed).unsigned_abs())
    }

    /// How long a transaction may be open.
    pub(crate) fn transaction_lifetime(&self) -> Duration {
        Duration::from_secs(self.transaction_lifetime_seconds.load(Ordering::Relaxed).unsigned_abs())
    }
}

/// One parameter.
pub(crate) struct Parameter {
    pub name: &'static str,
    value: fn(&Server) -> ValueBuf,
    /// Changes the value. `None` for a parameter that cannot change at runtime.
    pub set: Option<fn(&Server, Field<'_>) -> Result<()>>,
}

/// All parameters, sorted by name.
pub(crate) const TABLE: &[Parameter] = &[
    Parameter {
        name: "authenticationMechanisms",
        value: |_| {
            let names = array!["SCRAM-SHA-1", "SCRAM-SHA-256", "MONGODB-X509"].finish();
            Value::Array(diwan_value::Array::trusted(&names)).to_owned()
        },
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
    Parameter {
        name: "enableTestCommands",
        value: |server| Value::Boolean(server.options.test_commands).to_owned(),
        set: None,
    },
    Parameter { name: "featureCompatibilityVersion", value: |_| doc! { "version": "8.0" }.into(), set: None },
    Parameter {
        name: "localLogicalSessionTimeoutMinutes",
        value: |_| Value::Int32((crate::server::sessions::TIMEOUT.as_secs() / 60) as i32).to_owned(),
        set: None,
    },
    Parameter {
        name: "minSnapshotHistoryWindowInSeconds",
        value: |_| Value::Int32(crate::server::snapshots::WINDOW.as_secs() as i32).to_owned(),
        set: None,
    },
    Parameter { name: "notablescan", value: |_| Value::Boolean(false).to_owned(), set: None },
    Parameter { name: "quiet", value: |_| Value::Boolean(false).to_owned(), set: None },
    Parameter { name: "requireApiVersion", value: |_| Value::Boolean(false).to_owned(), set: None },
    Parameter {
        name: "scramIterationCount",
        value: |server| iterations(server, Mechanism::ScramSha1),
        set: Some(|server, field| set_iterations(server, Mechanism::ScramSha1, field)),
    },
    Parameter {
        name: "scramSHA256IterationCount",
        value: |server| iterations(server, Mechanism::ScramSha256),
        set: Some(|server, field| set_iterations(server, Mechanism::ScramSha256, field)),
    },
    Parameter {
        name: "transactionLifetimeLimitSeconds",
        value: |server| {
            let seconds = server.parameters.transaction_lifetime_seconds.load(Ordering::Relaxed);
            let seconds = if server.options.topology == Topology::Standalone { 0 } else { seconds };
            Value::Int32(i32::try_from(seconds).unwrap_or(i32::MAX)).to_owned()
        },
        set: Some(|server, field| {
            let seconds = field.integer()?;
            if !(1..=i64::from(i32::MAX)).contains(&seconds) {
                let text = "transactionLifetimeLimitSeconds must be greater than or equal to 1";
                return Err(CommandError::bad_value(text));
            }
            server.parameters.transaction_lifetime_seconds.store(seconds, Ordering::Relaxed);
            Ok(())
        }),
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

/// The iterations of the SCRAM verifiers that are made from now on.
fn iterations(server: &Server, mechanism: Mechanism) -> ValueBuf {
    let count = server.access.scram_iterations(mechanism);
    Value::Int32(i32::try_from(count).unwrap_or(i32::MAX)).to_owned()
}

fn set_iterations(server: &Server, mechanism: Mechanism, field: Field<'_>) -> Result<()> {
    Ok(server.access.set_scram_iterations(mechanism, field.integer()?)?)
}

/// The value of a parameter.
pub(crate) fn get(server: &Server, parameter: &Parameter) -> ValueBuf {
    (parameter.value)(server)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sorted() {
        assert!(TABLE.is_sorted_by(|a, b| a.name < b.name));
    }
}

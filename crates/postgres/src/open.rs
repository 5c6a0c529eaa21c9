//! Opening: checks the server, makes or checks the schema, and enters the process. Refusals write nothing.

use crate::connection::Connection;
use crate::error::{Cause, cause, text};
use crate::head::{self, Head};
use crate::server::Server;
use crate::session::{self, Role};
use crate::{OpenError, Options, layout};
use std::time::{Duration, Instant};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// An opened store.
pub(crate) struct Opened {
    pub server: Server,
    /// The connection that commits.
    pub connection: Connection,
    /// The number of this process.
    pub process: u32,
    /// A number of the schema, for advisory locks.
    pub class: i32,
    pub head: Head,
}

/// Opens the store.
pub(crate) async fn open(server: Server, options: &Options) -> Result<Opened, OpenError> {
    let client = connect(&server, options).await?;
    check(&server, &client).await?;
    let failed = |error| server_error("cannot begin a session in PostgreSQL", &error);
    client.batch_execute(&session::session(Role::Writer)).await.map_err(failed)?;
    layout::prepare(&server, &client, options.create).await?;
    let schema = server.target.schema.as_str();
    let entered = async {
        let sql = "SELECT oid::bigint FROM pg_catalog.pg_namespace WHERE nspname = $1";
        let class: i64 = client.query_one(sql, &[&schema]).await?.try_get(0)?;
        let (process, head) = head::enlist(&client, schema).await?;
        Ok((process, class, head))
    };
    let (process, class, head) =
        entered.await.map_err(|error: tokio_postgres::Error| match error.code() {
            Some(&SqlState::INSUFFICIENT_PRIVILEGE) => OpenError::NoRight {
                user: server.target.user().to_owned(),
                schema: schema.to_owned(),
                reason: text(&error),
            },
            _ => server_error("cannot open the store", &error),
        })?;
    let connection = Connection::new(client, schema.into());
    Ok(Opened { server, connection, process: process as u32, class: class as i32, head })
}

fn server_error(context: &str, error: &tokio_postgres::Error) -> OpenError {
    OpenError::Server { context: context.into(), reason: text(error) }
}

/// Connects. A server that is just starting is waited for.
async fn connect(server: &Server, options: &Options) -> Result<Client, OpenError> {
    let began = Instant::now();
    loop {
        match server.connect_plain().await {
            Ok(client) => return Ok(client),
            Err(error)
                if error.code() == Some(&SqlState::CANNOT_CONNECT_NOW)
                    && began.elapsed() < options.patience =>
            {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Err(error) => return Err(refusal(server, &error)),
        }
    }
}

/// Why a connection was refused.
fn refusal(server: &Server, error: &tokio_postgres::Error) -> OpenError {
    let target = &server.target;
    let (address, reason) = (target.address(), text(error));
    let is_password = reason.contains("password missing") || reason.contains("user missing");
    match error.code() {
        Some(&(SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION)) => {
            OpenError::Refused { address, user: target.user().to_owned(), reason }
        }
        Some(&SqlState::INVALID_CATALOG_NAME) => {
            OpenError::NoDatabase { address, database: target.database().to_owned() }
        }
        None if is_password => OpenError::Refused { address, user: target.user().to_owned(), reason },
        None if reason.contains("TLS") => server_error("no TLS with PostgreSQL", error),
        // Of several hosts none accepts writes.
        None if reason.contains("database does not allow writes") => OpenError::ReadOnly { address },
        None if cause(error) == Cause::Lost => OpenError::Unreachable { address, reason },
        _ => server_error("PostgreSQL refuses the connection", error),
    }
}

/// Looks at the server's version and whether it accepts writes.
async fn check(server: &Server, client: &Client) -> Result<(), OpenError> {
    let failed = |error| server_error("cannot read the version of PostgreSQL", &error);
    let row = client
        .query_one(
            "SELECT version(), current_setting('server_version_num'), current_setting('server_version'), \
             current_setting('transaction_read_only')",
            &[],
        )
        .await
        .map_err(failed)?;
    let (name, number, version, read_only): (&str, &str, &str, &str) =
        (row.get(0), row.get(1), row.get(2), row.get(3));
    if let Some(product) = session::relative(name) {
        return Err(OpenError::Unsupported { product });
    }
    if number.parse().is_ok_and(|number: i32| number < session::OLDEST) {
        return Err(OpenError::TooOld { version: version.to_owned() });
    }
    if read_only == "on" {
        return Err(OpenError::ReadOnly { address: server.target.address() });
    }
    Ok(())
}

//! The schema: its tables, their creation, and the test that tells a foreign schema from one of Diwan's.
//!
//! - `layout`: one row with the version of the layout.
//! - `processes`: one row, with the number of the process that has opened the store last, and of the holder of the [lease](crate::lease).
//! - `journal`: what the last groups of commits have written ([`crate::journal`]).
//! - a table for each space: `head`, `rest`, `tail` ([`crate::key`]) and `value` ([`crate::value`]).
//!
//! The schema is made in one transaction, or not at all.

use crate::OpenError;
use crate::error::{Answer, text};
use crate::server::Server;
use crate::session;
use crate::statements::table;
use diwan_kv::Space;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// The layout that this version reads and writes.
pub(crate) const VERSION: i32 = 3;

/// Sees to it that the schema is there and ours. If there is none, it is made, or refused.
pub(crate) async fn prepare(server: &Server, client: &Client, create_it: bool) -> Result<(), OpenError> {
    // Two processes that make it at the same time collide; the second look finds what the other has made.
    for _ in 0..3 {
        if is_there(server, client).await? {
            return Ok(());
        }
        if !create_it {
            return Err(OpenError::NoStore { schema: server.target.schema.clone() });
        }
        match create(server, client).await {
            Ok(()) => return Ok(()),
            Err(error) => {
                let code = error.code().cloned();
                client.batch_execute("ROLLBACK").await.map_err(|error| failed(&error))?;
                let there = [
                    SqlState::UNIQUE_VIOLATION,
                    SqlState::DUPLICATE_SCHEMA,
                    SqlState::DUPLICATE_TABLE,
                    SqlState::DUPLICATE_OBJECT,
                ];
                match code {
                    Some(code) if there.contains(&code) => {}
                    Some(SqlState::INSUFFICIENT_PRIVILEGE) => return Err(no_right(server, &error)),
                    _ => return Err(failed(&error)),
                }
            }
        }
    }
    Err(OpenError::NotDiwan { schema: server.target.schema.clone() })
}

fn failed(error: &tokio_postgres::Error) -> OpenError {
    OpenError::Server { context: "cannot prepare the store in PostgreSQL".into(), reason: text(error) }
}

fn no_right(server: &Server, error: &tokio_postgres::Error) -> OpenError {
    let user = server.target.user().to_owned();
    OpenError::NoRight { user, schema: server.target.schema.clone(), reason: text(error) }
}

/// Whether the schema has our tables. An empty schema is one that an administrator has made for us.
async fn is_there(server: &Server, client: &Client) -> Result<bool, OpenError> {
    let schema = &server.target.schema;
    let tables = client
        .query(
            "SELECT c.relname::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')",
            &[schema],
        )
        .await
        .map_err(|error| failed(&error))?;
    if tables.is_empty() {
        return Ok(false);
    }
    let has = |name: &str| tables.iter().any(|row| row.get::<_, &str>(0) == name);
    if !has("layout") || !has("journal") {
        return Err(OpenError::NotDiwan { schema: schema.clone() });
    }
    let found = client.query(&format!("SELECT product, version FROM {schema}.layout"), &[]).await;
    let rows = found.map_err(|error| match error.code() {
        Some(&SqlState::UNDEFINED_COLUMN) => OpenError::NotDiwan { schema: schema.clone() },
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => no_right(server, &error),
        _ => failed(&error),
    })?;
    let versions: Vec<(String, i32)> = rows
        .iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
        .collect::<Answer<_>>()
        .map_err(|_| OpenError::NotDiwan { schema: schema.clone() })?;
    match versions.as_slice() {
        [(product, VERSION)] if product == "diwan" => Ok(true),
        [(product, found)] if product == "diwan" => Err(OpenError::OtherLayout {
            schema: schema.clone(),
            found: *found,
            expected: VERSION,
            advice: if *found > VERSION {
                "start a newer version of Diwan"
            } else {
                "open it with the version of Diwan that made it, and copy it by a replication"
            },
        }),
        _ => Err(OpenError::NotDiwan { schema: schema.clone() }),
    }
}

async fn create(server: &Server, client: &Client) -> Answer<()> {
    let schema = &server.target.schema;
    let mut sql = String::from("BEGIN;");
    let exists = client.query("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1", &[schema]).await?;
    if exists.is_empty() {
        sql.push_str(&format!("CREATE SCHEMA {schema};"));
    }
    sql.push_str(&format!(
        "CREATE TABLE {schema}.layout (
            one integer PRIMARY KEY CHECK (one = 1), product text NOT NULL, version integer NOT NULL
        );
        CREATE TABLE {schema}.processes (
            one integer PRIMARY KEY CHECK (one = 1), last bigint NOT NULL, lease bigint NOT NULL
        );
        CREATE TABLE {schema}.journal (
            number bigint PRIMARY KEY, before bigint NOT NULL, stamp bigint NOT NULL, keys bytea NOT NULL
        );"
    ));
    for space in Space::ALL {
        let table = table(schema, space);
        sql.push_str(&format!(
            "CREATE TABLE {table} (
                head bytea NOT NULL, rest bytea NOT NULL, tail bytea, value bytea NOT NULL, PRIMARY KEY (head, rest)
            );"
        ));
        sql.push_str(&session::storage(&table));
        sql.push(';');
    }
    sql.push_str(&format!(
        "INSERT INTO {schema}.processes VALUES (1, 0, 0);
         INSERT INTO {schema}.journal VALUES (0, 0, 0, '\\x00');
         INSERT INTO {schema}.layout VALUES (1, 'diwan', {VERSION});
         COMMIT"
    ));
    client.batch_execute(&sql).await
}

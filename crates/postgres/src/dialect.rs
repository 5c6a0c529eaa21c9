//! What differs between PostgreSQL and the databases that speak its protocol. All other statements are standard ones.

use std::time::Duration;

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// PostgreSQL itself, and servers made from its code: Citus, YugabyteDB.
    Postgres,
    /// CockroachDB, which has its own planner and storage.
    Cockroach,
}

/// What a session is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Reads, alone or in a snapshot that may last.
    Reader,
    /// Commits.
    Writer,
    /// One ingestion.
    Ingest,
}

/// A read takes less, unless the server hangs.
const LONGEST_READ: Duration = Duration::from_secs(60);

/// A statement of a commit takes less; it may wait for the commits of other processes.
const LONGEST_WRITE: Duration = Duration::from_secs(30);

/// Moving ingested pairs into their table takes less.
const LONGEST_MERGE: Duration = Duration::from_secs(600);

/// After this silence in a transaction the server ends the session of a committer that is gone or stopped, with its locks.
const LONGEST_SILENCE: Duration = Duration::from_secs(10);

impl Dialect {
    /// The dialect of a server that calls itself so.
    pub fn of(version: &str) -> Dialect {
        if version.contains("CockroachDB") { Dialect::Cockroach } else { Dialect::Postgres }
    }

    /// The oldest version number supported.
    pub fn oldest(self) -> i32 {
        match self {
            Dialect::Postgres => 140_000,
            // It tells the number of a PostgreSQL that it resembles.
            Dialect::Cockroach => 0,
        }
    }

    /// The statements that begin a session.
    pub fn session(self, role: Role) -> String {
        let (statement, silence) = match role {
            Role::Reader => (LONGEST_READ, Duration::ZERO),
            Role::Writer => (LONGEST_WRITE, LONGEST_SILENCE),
            Role::Ingest => (LONGEST_MERGE, LONGEST_MERGE),
        };
        let mut session = format!(
            "SET statement_timeout = {}; SET idle_in_transaction_session_timeout = {};",
            statement.as_millis(),
            silence.as_millis()
        );
        match self {
            Dialect::Postgres => {
                // Every statement is meant to follow the primary key, also while the planner has no statistics.
                for other in ["seqscan", "bitmapscan", "hashjoin", "mergejoin"] {
                    session.push_str(&format!("SET enable_{other} = off;"));
                }
                session.push_str("SET jit = off; SET plan_cache_mode = force_generic_plan;");
                // A server may wait for more than its own disk, never for less.
                session.push_str(
                    "SELECT set_config('synchronous_commit', 'on', false) \
                     WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write');",
                );
            }
            Dialect::Cockroach => session.push_str("SET experimental_enable_temp_tables = on;"),
        }
        session
    }

    /// The statement after the creation of a space's table.
    pub fn storage(self, table: &str) -> Option<String> {
        match self {
            // Values come compressed.
            Dialect::Postgres => Some(format!("ALTER TABLE {table} ALTER COLUMN value SET STORAGE EXTERNAL")),
            Dialect::Cockroach => None,
        }
    }

    /// The query for the sizes of the tables in a schema: name, bytes, rows.
    pub fn sizes(self) -> Option<&'static str> {
        match self {
            Dialect::Postgres => Some(
                "SELECT c.relname::text, pg_total_relation_size(c.oid), greatest(c.reltuples, 0)::bigint \
                 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
                 WHERE n.nspname = $1 AND c.relkind = 'r'",
            ),
            Dialect::Cockroach => None,
        }
    }
}

//! What a session of the server is set to, and which servers are refused.

use std::time::Duration;

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

/// The databases that speak PostgreSQL's protocol, but lack the advisory locks or the notifications that several processes need, by
/// what they call themselves.
const RELATIVES: [(&str, &str); 2] = [("CockroachDB", "CockroachDB"), ("-YB-", "YugabyteDB")];

/// The name of a server that cannot have a store, if its version says so.
pub(crate) fn relative(version: &str) -> Option<&'static str> {
    RELATIVES.iter().find(|(part, _)| version.contains(part)).map(|(_, name)| *name)
}

/// The oldest version of PostgreSQL, as its number.
pub(crate) const OLDEST: i32 = 140_000;

/// The statements that begin a session.
pub(crate) fn session(role: Role) -> String {
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
    session
}

/// The statement after the creation of a space's table: values come compressed.
pub(crate) fn storage(table: &str) -> String {
    format!("ALTER TABLE {table} ALTER COLUMN value SET STORAGE EXTERNAL")
}

/// The query for the sizes of the tables in a schema: name, bytes, rows.
pub(crate) const SIZES: &str = "SELECT c.relname::text, pg_total_relation_size(c.oid), greatest(c.reltuples, 0)::bigint \
     FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname = $1 AND c.relkind = 'r'";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relatives_are_known_by_their_versions() {
        assert_eq!(relative("PostgreSQL 15.2-YB-2.25.0.0-b0 on x86_64"), Some("YugabyteDB"));
        assert_eq!(relative("CockroachDB CCL v24.1.0 (x86_64-pc-linux-gnu)"), Some("CockroachDB"));
        assert_eq!(relative("PostgreSQL 17.2 (Debian 17.2-1) on x86_64"), None);
    }
}

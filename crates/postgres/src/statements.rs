//! The prepared statements of a connection: each kind, for each space.

use crate::error::Answer;
use diwan_kv::Space;
use std::sync::OnceLock;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Statement};

/// A kind of statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// The value of one key: head, rest.
    Get,
    /// Heads and values of several short keys.
    GetMany,
    /// A run of a scan by heads: first head, head after the last, most rows, longest value.
    Heads,
    /// The same in descending order.
    HeadsReverse,
    /// A run of a scan of the keys with one head: head, first tail, tail after the last, most rows, longest value.
    Tails,
    /// The same in descending order.
    TailsReverse,
    /// Puts short keys: heads, values.
    Put,
    /// Puts long keys: heads, rests, tails, values.
    PutLong,
    /// Deletes short keys: heads.
    Delete,
    /// Deletes one long key: head, rest.
    DeleteLong,
}

const KINDS: usize = 10;

impl Kind {
    fn sql(self, table: &str) -> String {
        // A value longer than asked for comes as a null, and is read alone.
        let row = "SELECT head, tail, CASE WHEN octet_length(value) <=";
        let replaced = "ON CONFLICT (head, rest) DO UPDATE SET value = excluded.value";
        match self {
            Kind::Get => format!("SELECT value FROM {table} WHERE head = $1 AND rest = $2"),
            Kind::GetMany => format!("SELECT head, value FROM {table} WHERE head = ANY($1) AND rest = ''"),
            Kind::Heads => format!(
                "{row} $4 THEN value END FROM {table} WHERE head >= $1 AND head < $2 ORDER BY head, rest LIMIT $3"
            ),
            Kind::HeadsReverse => format!(
                "{row} $4 THEN value END FROM {table} WHERE head >= $1 AND head < $2 \
                 ORDER BY head DESC, rest DESC LIMIT $3"
            ),
            Kind::Tails | Kind::TailsReverse => format!(
                "{row} $5 THEN value END FROM {table} WHERE head = $1 AND coalesce(tail, '') >= $2 \
                 AND ($3::bytea IS NULL OR coalesce(tail, '') < $3) ORDER BY coalesce(tail, ''){} LIMIT $4",
                if self == Kind::TailsReverse { " DESC" } else { "" }
            ),
            Kind::Put => format!(
                "INSERT INTO {table} (head, rest, value) \
                 SELECT k.head, ''::bytea, k.value FROM unnest($1::bytea[], $2::bytea[]) AS k (head, value) {replaced}"
            ),
            Kind::PutLong => format!(
                "INSERT INTO {table} (head, rest, tail, value) SELECT k.head, k.rest, k.tail, k.value \
                 FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[]) AS k (head, rest, tail, value) \
                 {replaced}"
            ),
            Kind::Delete => format!("DELETE FROM {table} WHERE head = ANY($1) AND rest = ''"),
            Kind::DeleteLong => format!("DELETE FROM {table} WHERE head = $1 AND rest = $2"),
        }
    }

    fn types(self) -> &'static [Type] {
        match self {
            Kind::Get | Kind::DeleteLong => &[Type::BYTEA, Type::BYTEA],
            Kind::GetMany | Kind::Delete => &[Type::BYTEA_ARRAY],
            Kind::Heads | Kind::HeadsReverse => &[Type::BYTEA, Type::BYTEA, Type::INT8, Type::INT8],
            Kind::Tails | Kind::TailsReverse => {
                &[Type::BYTEA, Type::BYTEA, Type::BYTEA, Type::INT8, Type::INT8]
            }
            Kind::Put => &[Type::BYTEA_ARRAY, Type::BYTEA_ARRAY],
            Kind::PutLong => &[Type::BYTEA_ARRAY, Type::BYTEA_ARRAY, Type::BYTEA_ARRAY, Type::BYTEA_ARRAY],
        }
    }
}

/// The statements that a connection has prepared so far.
#[derive(Default)]
pub(crate) struct Statements([[OnceLock<Statement>; Space::ALL.len()]; KINDS]);

impl Statements {
    /// The statement, which is prepared at its first use.
    pub async fn get(&self, client: &Client, kind: Kind, space: Space, schema: &str) -> Answer<&Statement> {
        let slot = &self.0[kind as usize][space.index()];
        if let Some(statement) = slot.get() {
            return Ok(statement);
        }
        let sql = kind.sql(&table(schema, space));
        let statement = client.prepare_typed(&sql, kind.types()).await?;
        // Of two that were prepared at once, one stays.
        Ok(slot.get_or_init(|| statement))
    }
}

/// The name of a space's table.
pub(crate) fn table(schema: &str, space: Space) -> String {
    format!("{schema}.{}", space.name())
}

//! The prepared statements of a connection: each kind, for each space.

use crate::error::Answer;
use crate::journal;
use diwan_kv::Space;
use std::sync::OnceLock;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Statement};

/// A kind of statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    /// The statement with parameters from `$first` on.
    fn sql(self, table: &str, first: usize) -> String {
        let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|after| format!("${}", first + after));
        // A value longer than asked for comes as a null, and is read alone.
        let row = "SELECT head, tail, CASE WHEN octet_length(value) <=";
        let replaced = "ON CONFLICT (head, rest) DO UPDATE SET value = excluded.value";
        match self {
            Kind::Get => format!("SELECT value FROM {table} WHERE head = {a} AND rest = {b}"),
            Kind::GetMany => format!("SELECT head, value FROM {table} WHERE head = ANY({a}) AND rest = ''"),
            Kind::Heads => format!(
                "{row} {d} THEN value END FROM {table} WHERE head >= {a} AND head < {b} ORDER BY head, rest LIMIT {c}"
            ),
            Kind::HeadsReverse => format!(
                "{row} {d} THEN value END FROM {table} WHERE head >= {a} AND head < {b} \
                 ORDER BY head DESC, rest DESC LIMIT {c}"
            ),
            Kind::Tails | Kind::TailsReverse => format!(
                "{row} {e} THEN value END FROM {table} WHERE head = {a} AND coalesce(tail, '') >= {b} \
                 AND ({c}::bytea IS NULL OR coalesce(tail, '') < {c}) ORDER BY coalesce(tail, ''){} LIMIT {d}",
                if self == Kind::TailsReverse { " DESC" } else { "" }
            ),
            Kind::Put => format!(
                "INSERT INTO {table} (head, rest, value) \
                 SELECT k.head, ''::bytea, k.value FROM unnest({a}::bytea[], {b}::bytea[]) AS k (head, value) {replaced}"
            ),
            Kind::PutLong => format!(
                "INSERT INTO {table} (head, rest, tail, value) SELECT k.head, k.rest, k.tail, k.value \
                 FROM unnest({a}::bytea[], {b}::bytea[], {c}::bytea[], {d}::bytea[]) AS k (head, rest, tail, value) \
                 {replaced}"
            ),
            Kind::Delete => format!("DELETE FROM {table} WHERE head = ANY({a}) AND rest = ''"),
            Kind::DeleteLong => format!("DELETE FROM {table} WHERE head = {a} AND rest = {b}"),
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
        let sql = kind.sql(&table(schema, space), 1);
        let statement = client.prepare_typed(&sql, kind.types()).await?;
        // Of two that were prepared at once, one stays.
        Ok(slot.get_or_init(|| statement))
    }
}

/// Prepares one statement for several ones that write to different rows, and the row of the journal. Its parameters are those of all of
/// them, one after another.
pub(crate) async fn prepare_joint(
    client: &Client,
    schema: &str,
    parts: &[(Kind, Space)],
) -> Answer<Statement> {
    let mut sql = String::new();
    let mut types = Vec::new();
    for (at, (kind, space)) in parts.iter().enumerate() {
        sql.push_str(if at == 0 { "WITH " } else { ", " });
        sql.push_str(&format!("w{at} AS ({}) ", kind.sql(&table(schema, *space), types.len() + 1)));
        types.extend_from_slice(kind.types());
    }
    sql.push_str(&journal::insert(schema, types.len() + 1));
    types.extend_from_slice(&journal::ROW);
    client.prepare_typed(&sql, &types).await
}

/// The name of a space's table.
pub(crate) fn table(schema: &str, space: Space) -> String {
    format!("{schema}.{}", space.name())
}

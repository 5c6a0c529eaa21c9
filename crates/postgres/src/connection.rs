//! A connection with its prepared statements, and the reads that it offers.

use crate::error::Answer;
use crate::journal;
use crate::key::{Columns, Segment, is_long};
use crate::statements::{Kind, Statements};
use crate::value::owned_value_of;
use crate::wait::send;
use diwan_kv::{Bytes, Direction, Result, Space};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use tokio_postgres::types::{FromSql, ToSql};
use tokio_postgres::{Client, Row, Statement};

/// An open connection. Requests of several threads travel one behind another.
pub(crate) struct Connection {
    pub client: Client,
    pub schema: Arc<str>,
    statements: Statements,
    journal: OnceLock<Statement>,
}

/// What a run of a scan may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The most rows.
    pub rows: usize,
    /// Longer values are not sent.
    pub longest: i64,
}

impl Connection {
    pub fn new(client: Client, schema: Arc<str>) -> Connection {
        Connection { client, schema, statements: Statements::default(), journal: OnceLock::new() }
    }

    /// Runs a prepared statement that returns rows.
    pub async fn query(
        &self,
        kind: Kind,
        space: Space,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Answer<Vec<Row>> {
        let statement = self.statements.get(&self.client, kind, space, &self.schema).await?;
        self.client.query(statement, parameters).await
    }

    /// Runs a prepared statement that writes.
    pub async fn execute(&self, kind: Kind, space: Space, parameters: &[&(dyn ToSql + Sync)]) -> Answer<u64> {
        let statement = self.statements.get(&self.client, kind, space, &self.schema).await?;
        self.client.execute(statement, parameters).await
    }

    /// Prepares a statement, so that its first use can be sent with others.
    pub async fn prepare(&self, kind: Kind, space: Space) -> Answer<()> {
        self.statements.get(&self.client, kind, space, &self.schema).await.map(drop)
    }

    /// The row of one key.
    pub async fn get(&self, space: Space, key: &[u8]) -> Answer<Option<Row>> {
        let columns = Columns::of(key);
        let rows = self.query(Kind::Get, space, &[&columns.head, &columns.rest()]).await?;
        Ok(rows.into_iter().next())
    }

    /// The rows of several keys. They travel together.
    pub async fn get_many(&self, space: Space, keys: &[&[u8]]) -> Answer<Found> {
        let (long, short): (Vec<&[u8]>, Vec<&[u8]>) = keys.iter().partition(|key| is_long(key));
        if !long.is_empty() {
            self.prepare(Kind::Get, space).await?;
        }
        let many = match short.as_slice() {
            [] => None,
            heads => Some(send(async move { self.query(Kind::GetMany, space, &[&heads]).await }).await),
        };
        let mut alone = Vec::with_capacity(long.len());
        for key in long {
            alone.push((key.to_vec(), send(self.get(space, key)).await));
        }
        let mut found = Found::default();
        if let Some(many) = many {
            found.short = many.answer().await?;
        }
        for (key, row) in alone {
            if let Some(row) = row.answer().await? {
                found.long.push((key, row));
            }
        }
        Ok(found)
    }

    /// Some rows of the journal after a number, up to another.
    pub async fn journal(&self, after: i64, upto: i64) -> Answer<Vec<Row>> {
        let statement = match self.journal.get() {
            Some(statement) => statement,
            None => {
                let statement = self.client.prepare(&journal::read(&self.schema)).await?;
                self.journal.get_or_init(|| statement)
            }
        };
        self.client.query(statement, &[&after, &upto, &journal::ROWS]).await
    }

    /// A run of a scan.
    pub async fn run(
        &self,
        space: Space,
        segment: &Segment,
        direction: Direction,
        limits: Limits,
    ) -> Answer<Vec<Row>> {
        let rows = limits.rows as i64;
        match segment {
            Segment::Heads { from, to } => {
                let kind = match direction {
                    Direction::Forward => Kind::Heads,
                    Direction::Reverse => Kind::HeadsReverse,
                };
                self.query(kind, space, &[from, to, &rows, &limits.longest]).await
            }
            Segment::Tails { head, from, to } => {
                let kind = match direction {
                    Direction::Forward => Kind::Tails,
                    Direction::Reverse => Kind::TailsReverse,
                };
                self.query(kind, space, &[head, from, to, &rows, &limits.longest]).await
            }
        }
    }
}

/// The rows that [`Connection::get_many`] has found.
#[derive(Default)]
pub(crate) struct Found {
    short: Vec<Row>,
    long: Vec<(Vec<u8>, Row)>,
}

impl Found {
    /// The values by their keys.
    pub fn values(&self) -> Result<HashMap<&[u8], Bytes>> {
        let mut values = HashMap::with_capacity(self.short.len() + self.long.len());
        for row in &self.short {
            values.insert(column(row, 0)?, owned_value_of(column(row, 1)?)?);
        }
        for (key, row) in &self.long {
            values.insert(key.as_slice(), owned_value_of(column(row, 0)?)?);
        }
        Ok(values)
    }
}

/// A column of a row. A column of another type than it has in our tables counts as damage.
pub(crate) fn column<'a, T: FromSql<'a>>(row: &'a Row, at: usize) -> Result<T> {
    let found = row.try_get(at);
    found.map_err(|error| diwan_kv::Error::Damaged(format!("a row in PostgreSQL: {error}").into()))
}

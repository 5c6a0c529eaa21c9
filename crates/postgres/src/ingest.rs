//! Ingestion: many pairs go to a temporary table by COPY, then to their table in one transaction of the committer's.
//!
//! Other commits wait only for the second part. Few pairs are committed as a batch.

use crate::committer::Job;
use crate::connection::Connection;
use crate::error::{Answer, engine_error};
use crate::head::{self, BEGIN_WRITE, Head};
use crate::journal;
use crate::key::Columns;
use crate::server::Server;
use crate::session::Role;
use crate::statements::table;
use crate::value::Stored;
use crate::wait::wait;
use diwan_kv::{Bytes, Error, MAX_KEY_LEN, Result, SortedPairs, Space};
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Instant;
use tokio::sync::mpsc::UnboundedSender;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};

/// Up to this many bytes, pairs are committed as a batch.
const BATCH_BYTES: usize = 1 << 20;

/// How many pairs are handed to the connection at a time.
const CHUNK: usize = 256;

/// What errors of ingestions begin with.
pub(crate) const INGESTING: &str = "ingesting into PostgreSQL";

/// A pair of an ingestion.
type Pair<'a> = (&'a [u8], &'a [u8]);

/// Reads pairs until they are too many for a batch: the pairs, and whether there may be more.
pub(crate) fn gather<'a>(pairs: &mut SortedPairs<'a>) -> (Vec<Pair<'a>>, bool) {
    let mut gathered = Vec::new();
    let mut bytes = 0;
    for pair in pairs {
        bytes += pair.0.len() + pair.1.len();
        gathered.push(pair);
        if bytes > BATCH_BYTES {
            return (gathered, true);
        }
    }
    (gathered, false)
}

/// Writes the pairs of `first` and then the others to a temporary table, and has the committer move them.
pub(crate) fn ingest<'a>(
    server: &Arc<Server>,
    jobs: &UnboundedSender<Job>,
    space: Space,
    first: Vec<Pair<'a>>,
    pairs: SortedPairs<'a>,
    deadline: Instant,
) -> Result<()> {
    let connection = server.connect_blocking(Role::Ingest, deadline)?;
    let (mut low, mut high) = (None, None);
    let seen = first.into_iter().chain(pairs).inspect(|(key, _)| {
        low.get_or_insert(*key);
        high = Some(*key);
    });
    copy(&connection, seen)?;
    let (low, high) = (low.unwrap_or_default(), high.unwrap_or_default());
    let keys = journal::encode_range(space, low, high);
    let (reply, replied) = sync_channel(1);
    jobs.send(Job::Merge(Box::new(Merge { connection, space, keys, reply }))).map_err(|_| Error::Closed)?;
    replied.recv().map_err(|_| Error::Closed)?
}

fn copy<'a>(connection: &Connection, mut pairs: impl Iterator<Item = Pair<'a>>) -> Result<()> {
    let sql = format!(
        "{BEGIN_WRITE}; CREATE TEMPORARY TABLE diwan_ingest (head bytea, rest bytea, tail bytea, value bytea) \
         ON COMMIT DROP; ALTER TABLE diwan_ingest ALTER COLUMN value SET STORAGE EXTERNAL"
    );
    wait(connection.client.batch_execute(&sql)).map_err(failed)?;
    let sink = connection.client.copy_in("COPY diwan_ingest FROM STDIN BINARY");
    let sink = wait(sink).map_err(failed)?;
    let mut writer =
        pin!(BinaryCopyInWriter::new(sink, &[Type::BYTEA, Type::BYTEA, Type::BYTEA, Type::BYTEA]));
    loop {
        let chunk: Vec<(&[u8], Stored)> =
            pairs.by_ref().take(CHUNK).map(|(key, value)| (key, Stored::of(&Bytes::from(value)))).collect();
        if chunk.is_empty() {
            return wait(writer.as_mut().finish()).map(drop).map_err(failed);
        }
        if let Some((key, _)) = chunk.iter().find(|(key, _)| key.is_empty() || key.len() > MAX_KEY_LEN) {
            return Err(Error::KeyLength(key.len()));
        }
        let written = wait(async {
            for (key, stored) in &chunk {
                let columns = Columns::of(key);
                writer.as_mut().write(&[&columns.head, &columns.rest(), &columns.tail, stored]).await?;
            }
            Ok(())
        });
        written.map_err(failed)?;
    }
}

fn failed(error: tokio_postgres::Error) -> Error {
    engine_error(INGESTING, &error)
}

/// Pairs in a temporary table, which wait for their turn. The transaction that made it is open.
pub(crate) struct Merge {
    pub connection: Connection,
    space: Space,
    /// What the journal is told.
    keys: Vec<u8>,
    reply: SyncSender<Result<()>>,
}

impl Merge {
    /// Moves the pairs as the next group, whichever was the last, and returns both. The second is set as soon as the pairs
    /// may have been moved, also after a failure.
    pub async fn apply(&self, class: i32, own: i64, step: &mut Option<(Head, Head)>) -> Answer<()> {
        let Connection { client, schema, .. } = &self.connection;
        let from = head::read_locked(client, "", schema, class).await?;
        let to = from.next();
        let table = table(schema, self.space);
        let sql = format!(
            "INSERT INTO {table} (head, rest, tail, value) SELECT head, rest, tail, value FROM diwan_ingest \
             ON CONFLICT (head, rest) DO UPDATE SET value = excluded.value"
        );
        client.batch_execute(&sql).await?;
        let row: [&(dyn ToSql + Sync); 5] = [&to.number, &from.stamp, &to.stamp, &self.keys, &own];
        client.execute(&journal::insert(schema, 1), &row).await?;
        *step = Some((from, to));
        client.batch_execute(&format!("NOTIFY {schema}; COMMIT")).await
    }

    /// Tells the caller what became of it.
    pub fn answer(self, outcome: Result<()>) {
        // Its caller waits.
        let _ = self.reply.send(outcome);
    }
}

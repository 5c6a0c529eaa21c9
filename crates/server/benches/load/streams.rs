//! Change streams that are open during a load.

use crate::client::{Client, Outcome};
use diwan_value::{DocBuf, Value, doc};
use std::net::SocketAddr;
use std::time::Duration;

/// How long the server waits for an event before it answers a `getMore`.
const PATIENCE: Duration = Duration::from_secs(60);

/// An open change stream on the collection `few`.
pub struct Stream {
    client: Client,
    cursor: i64,
}

impl Stream {
    /// Opens a stream that shows the inserted documents of one group, or of all groups.
    pub async fn open(address: SocketAddr, group: Option<i64>) -> Outcome<Stream> {
        let mut client = Client::connect(address).await?;
        let watch = doc! { "$changeStream": {} };
        let pipeline = match group {
            Some(group) => diwan_value::array![watch, doc! { "$match": { "fullDocument.group": group } }],
            None => diwan_value::array![watch],
        };
        let command = doc! { "aggregate": "few", "pipeline": pipeline, "cursor": {}, "$db": "test" };
        let reply = client.ask(&command).await?;
        let Some(Value::Int64(cursor)) = reply.get_doc("cursor").and_then(|cursor| cursor.get("id")) else {
            return Err("the server opened no stream".into());
        };
        Ok(Stream { client, cursor })
    }

    fn get_more(&self) -> DocBuf {
        let patience = PATIENCE.as_millis() as i64;
        doc! { "getMore": self.cursor, "collection": "few", "maxTimeMS": patience, "$db": "test" }
    }

    /// Waits for the next events.
    pub async fn next(&mut self) -> Outcome<()> {
        let command = self.get_more();
        self.client.run(&command).await
    }

    /// Reads until the task is ended.
    pub async fn read(mut self) -> Outcome<()> {
        loop {
            self.next().await?;
        }
    }
}

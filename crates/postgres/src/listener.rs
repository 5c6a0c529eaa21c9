//! The session by which other processes see that this one lives, and by which it hears of their commits.
//!
//! It holds an advisory lock with this process's number; the server frees it when the session ends. One process at a time also
//! holds the lock of the one that leads. Notifications arrive on the session. A look every second stands behind them.

use crate::error::{Answer, text};
use crate::following::Following;
use crate::server::Server;
use diwan_kv::Peers;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;
use tokio_postgres::Client;

/// How often the session looks for the lock of the process that leads, and for other processes.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A pause before the next session.
const PAUSE: Duration = Duration::from_millis(200);

/// Keeps a session until the engine is closed. `wake` is told of other processes' commits.
pub(crate) async fn listen(server: Arc<Server>, following: Arc<Following>, wake: SyncSender<()>) {
    loop {
        if let Err(error) = session(&server, &following, &wake).await {
            tracing::debug!("the session that listens to PostgreSQL ended: {}", text(&error));
        }
        following.note(false, true);
        tokio::time::sleep(PAUSE).await;
    }
}

async fn session(server: &Server, following: &Following, wake: &SyncSender<()>) -> Answer<()> {
    let told = wake.clone();
    // A wake-up that waits already serves for this one, too.
    let wake = move || {
        let _ = told.try_send(());
    };
    let client = server.connect_notified(wake).await?;
    client.batch_execute(&format!("SET statement_timeout = 0; LISTEN {}", server.target.schema)).await?;
    let (class, own, leader) = following.locks();
    let mut leads = false;
    let mut lives = false;
    loop {
        if !lives {
            // A former session of this process may still have it.
            lives = try_lock(&client, class, own).await?;
        }
        if !leads {
            leads = try_lock(&client, class, leader).await?;
        }
        let sql = "SELECT count(*) FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_database d ON d.oid = l.database \
                   WHERE l.locktype = 'advisory' AND d.datname = current_database() AND l.granted \
                   AND l.classid::bigint = $1 AND l.objid::bigint NOT IN (0, 4294967295, $2)";
        let others: i64 = client
            .query_one(sql, &[&i64::from(class.cast_unsigned()), &i64::from(own.cast_unsigned())])
            .await?
            .try_get(0)?;
        following.note(leads, others > 0);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn try_lock(client: &Client, class: i32, number: i32) -> Answer<bool> {
    client.query_one("SELECT pg_try_advisory_lock($1, $2)", &[&class, &number]).await?.try_get(0)
}

/// Has the observer told of other processes' commits, until `woken` is disconnected. For a thread of its own.
pub(crate) fn follow(following: &Following, woken: &Receiver<()>) {
    loop {
        if let Err(RecvTimeoutError::Disconnected) = woken.recv_timeout(LOOK_EVERY) {
            return;
        }
        if let Err(error) = following.catch_up() {
            tracing::debug!(%error, "cannot read what other processes have written");
        }
    }
}

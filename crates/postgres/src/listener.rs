//! The session by which other processes see that this one lives, and by which it hears of their commits.
//!
//! It holds an advisory lock with this process's number; the server frees it when the session ends. One process at a time also
//! holds the lock of the one that leads. Notifications arrive on the session. A look every second stands behind them. The
//! session takes, confirms and gives back the [lease].

use crate::error::{Answer, text};
use crate::following::Following;
use crate::lease::{self, CONFIRM_EVERY};
use crate::locks::{LEADER, living, try_lock};
use crate::server::Server;
use diwan_kv::Peers;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::time::timeout;

/// How often the session looks for the lock of the process that leads, and for other processes.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// For how long a lease that was given back is left to others.
const LEFT_FOR: Duration = Duration::from_secs(2);

/// A pause before the next session.
const PAUSE: Duration = Duration::from_millis(200);

/// Keeps a session until the engine is closed. `wake` is told of other processes' commits.
pub(crate) async fn listen(server: Arc<Server>, following: Arc<Following>, wake: SyncSender<()>) {
    let mut returned = None;
    loop {
        if let Err(error) = session(&server, &following, &wake, &mut returned).await {
            tracing::debug!("the session that listens to PostgreSQL ended: {}", text(&error));
        }
        following.note(false, true);
        following.lease().end();
        tokio::time::sleep(PAUSE).await;
    }
}

/// `returned` is when the lease was last given back.
async fn session(
    server: &Server,
    following: &Following,
    wake: &SyncSender<()>,
    returned: &mut Option<Instant>,
) -> Answer<()> {
    let told = wake.clone();
    let heard = Arc::new(Notify::new());
    let hear = heard.clone();
    // A wake-up that waits already serves for this one, too.
    let wake = move || {
        let _ = told.try_send(());
        hear.notify_one();
    };
    let client = server.connect_notified(wake).await?;
    let schema = server.target.schema.as_str();
    client.batch_execute(&format!("SET statement_timeout = 0; LISTEN {schema}")).await?;
    let (class, own) = (following.class(), following.own());
    let mut leads = false;
    let mut lives = false;
    loop {
        if !lives {
            // A former session of this process may still have it.
            lives = try_lock(&client, class, own.cast_signed()).await?;
        }
        if !leads {
            leads = try_lock(&client, class, LEADER).await?;
        }
        let has_others = living(&client, class).await?.iter().any(|process| *process != i64::from(own));
        following.note(leads, has_others);
        let is_alone = lives && leads && !has_others;
        let asked = Instant::now();
        let holder = lease::holder(&client, schema).await?;
        let is_own = holder.abs() == following.process();
        if is_own && (holder < 0 || !is_alone) {
            // From here on commands read the journal. Then other processes may commit.
            following.lease().end();
            client.batch_execute(&lease::give_back(schema, following.process())).await?;
            *returned = Some(Instant::now());
        } else if is_own && following.lease().confirm(asked) {
            // Another process notifies when it wants to commit.
            let _ = timeout(CONFIRM_EVERY, heard.notified()).await;
            continue;
        } else {
            following.lease().end();
            let is_left = returned.is_some_and(|at| at.elapsed() < LEFT_FOR);
            if is_own || holder == 0 && is_alone && !is_left {
                following.take_lease();
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
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

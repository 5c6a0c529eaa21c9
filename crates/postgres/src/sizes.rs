//! The sizes of the tables: asked for in the background, at most once in some seconds.

use crate::error::Answer;
use crate::server::Server;
use crate::session::{Role, SIZES};
use diwan_kv::{Space, SpaceStats, Stats};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How old sizes may be.
const FRESH: Duration = Duration::from_secs(5);

/// The sizes as last seen.
#[derive(Default)]
pub(crate) struct Sizes {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    stats: Stats,
    asked: Option<Instant>,
}

impl Sizes {
    /// The sizes as last seen. Newer ones are asked for, if these are old.
    pub fn show(self: &Arc<Self>, server: &Arc<Server>) -> Stats {
        let mut state = self.state.lock();
        if state.asked.is_none_or(|asked| asked.elapsed() >= FRESH) {
            state.asked = Some(Instant::now());
            let (sizes, server) = (self.clone(), server.clone());
            server.handle.clone().spawn(async move {
                match read(&server).await {
                    Ok(stats) => sizes.state.lock().stats = stats,
                    Err(error) => tracing::debug!(%error, "cannot read the sizes of the tables"),
                }
            });
        }
        state.stats.clone()
    }
}

/// Reads the sizes. The connection is closed after it: sizes are seldom asked for, and connections are scarce.
pub(crate) async fn read(server: &Server) -> Answer<Stats> {
    let mut stats = Stats::default();
    let connection = server.connect(Role::Reader).await?;
    for row in connection.client.query(SIZES, &[&server.target.schema]).await? {
        let (name, bytes, rows): (&str, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let bytes = bytes.max(0) as u64;
        stats.disk_bytes += bytes;
        if let Some(space) = Space::ALL.into_iter().find(|space| space.name() == name) {
            stats.spaces[space.index()] =
                SpaceStats { disk_bytes: bytes, memory_bytes: 0, approximate_keys: rows.max(0) as u64 };
        }
    }
    Ok(stats)
}

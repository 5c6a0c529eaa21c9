//! Claims: of several processes that have the store open, one at a time updates an index.
//!
//! The header names the process. Each of its batches has the condition that the header is the one that it wrote last. So a
//! process that has lost its claim, because it was taken for dead or took too long, writes nothing more.

use super::header::Header;
use super::index::Index;
use crate::error::{Error, Result};
use std::time::{Duration, Instant};

/// How often a process that waits for another one looks at the header.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// After how long without progress an index is taken over.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);

/// The outcome of waiting for a claim.
pub(super) enum Claim {
    /// The index is this process's until [`Index::release`]. The header is as it is now.
    Taken(Header),
    /// Another process has brought the index up.
    IsThere,
    /// Another process is at it.
    Busy,
}

impl Index {
    /// Claims the index, unless its header `is_there` already. Waits for another process up to `patience`. The caller holds
    /// [`Index::updating`].
    pub fn claim(&self, is_there: impl Fn(&Header) -> bool, patience: Option<Duration>) -> Result<Claim> {
        let Some(peers) = self.collection.peers() else {
            let header = self.header()?;
            return Ok(if is_there(&header) { Claim::IsThere } else { Claim::Taken(header) });
        };
        let began = Instant::now();
        let mut seen: Option<(Header, Instant)> = None;
        loop {
            let header = self.header()?;
            if is_there(&header) {
                return Ok(Claim::IsThere);
            }
            let since = match &seen {
                Some((known, since)) if *known == header => *since,
                _ => seen.insert((header.clone(), Instant::now())).1,
            };
            let is_free = match header.owner.filter(|owner| *owner != peers.own()) {
                None => true,
                Some(owner) => {
                    since.elapsed() > LONGEST_SILENCE
                        || !peers.lives(owner).map_err(diwan_store::Error::Engine)?
                }
            };
            if is_free {
                *self.claimed.lock() = Some(header.encode());
                let own = Header { owner: Some(peers.own()), ..header };
                match self.commit(diwan_kv::Batch::new(), Some(&own)) {
                    Ok(()) => return Ok(Claim::Taken(own)),
                    // Another process was faster, or the index is gone, which its header will tell.
                    Err(Error::Replaced) => *self.claimed.lock() = None,
                    Err(error) => {
                        *self.claimed.lock() = None;
                        return Err(error);
                    }
                }
            } else if patience.is_some_and(|patience| began.elapsed() >= patience) {
                return Ok(Claim::Busy);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Gives the claim back. After a failure the next process waits until this one has ended, or some time.
    pub fn release(&self) {
        if self.claimed.lock().is_none() {
            return;
        }
        let released = self.header().and_then(|header| {
            let header = Header { owner: None, ..header };
            self.commit(diwan_kv::Batch::new(), Some(&header))
        });
        if let Err(error) = released {
            tracing::debug!(%error, "an index of views was not given back");
        }
        *self.claimed.lock() = None;
    }
}

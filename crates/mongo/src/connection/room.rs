//! The memory of messages and replies, of all connections together.
//!
//! Receiving a long message needs a permit, and so does making a long reply. If there is none, the connection or the command
//! waits. A command whose message has a permit may wait for the permit of its reply, never the other way round. A slow client
//! does not keep a permit: a client that sends slowly while others wait is disconnected, and a reply that its client does
//! not read goes to a file if memory is scarce. So no connection waits for ever.
//!
//! Shorter batches of cursors need no permit. If too many are being made at once, they end early.

use crate::error::{CommandError, Result};
use diwan_query::{Interrupt, LARGE, MemoryPool, Reservation, code};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many bytes all long messages, and all long replies, may take. Each is more than the longest single one.
const MESSAGES: usize = 64 << 20;
const REPLIES: usize = 64 << 20;
/// How many bytes the batches that are being made, and are longer than [`SHORT_BATCH`], may take.
const BATCHES: usize = 32 << 20;
/// A batch may always grow to so many bytes.
pub(crate) const SHORT_BATCH: usize = 64 << 10;
/// How many bytes of replies may wait in memory for clients that do not read them.
const UNSENT: usize = 32 << 20;
/// The semaphores count in units of so many bytes.
const UNIT: usize = 1 << 10;
/// How often a command that waits for a permit checks whether it was interrupted.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// The memory of messages and replies.
#[derive(Debug)]
pub(crate) struct Room {
    messages: Arc<Semaphore>,
    replies: Arc<Semaphore>,
    batches: MemoryPool,
    unsent: MemoryPool,
}

/// Permission to hold a long message or reply in memory. Dropping it lets others proceed.
pub(crate) type Permit = OwnedSemaphorePermit;

impl Default for Room {
    fn default() -> Room {
        Room {
            messages: Arc::new(Semaphore::new(MESSAGES / UNIT)),
            replies: Arc::new(Semaphore::new(REPLIES / UNIT)),
            batches: MemoryPool::new(BATCHES),
            unsent: MemoryPool::new(UNSENT),
        }
    }
}

/// Whether a message or reply of so many bytes needs a permit.
pub(crate) fn is_long(bytes: usize) -> bool {
    bytes >= LARGE
}

fn units(bytes: usize, all: usize) -> u32 {
    u32::try_from(bytes.min(all).div_ceil(UNIT)).unwrap_or(u32::MAX)
}

impl Room {
    /// A permit to receive a long message, if there is one at once.
    pub(crate) fn message_now(&self, length: usize) -> Option<Permit> {
        self.messages.clone().try_acquire_many_owned(units(length, MESSAGES)).ok()
    }

    /// Waits for a permit to receive a long message. `None` if the semaphore was closed.
    pub(crate) async fn message(&self, length: usize) -> Option<Permit> {
        self.messages.clone().acquire_many_owned(units(length, MESSAGES)).await.ok()
    }

    /// Whether other connections may be waiting for a permit to receive a message.
    pub(crate) fn is_wanted(&self) -> bool {
        self.messages.available_permits() < MESSAGES / UNIT / 4
    }

    /// Waits for a permit to make a reply of so many bytes. The calling thread must be one that may block.
    pub(crate) fn reply(&self, bytes: usize, interrupt: &Interrupt) -> Result<Permit> {
        let replies = self.replies.clone();
        Handle::current().block_on(async {
            let permit = replies.acquire_many_owned(units(bytes, REPLIES));
            tokio::pin!(permit);
            loop {
                tokio::select! {
                    permit = &mut permit => {
                        let closing = |_| CommandError::new(code::INTERRUPTED, "the server is closing");
                        return permit.map_err(closing);
                    }
                    () = tokio::time::sleep(CHECK_EVERY) => interrupt.check()?,
                }
            }
        })
    }

    /// A reservation for a batch that is being made.
    pub(crate) fn batch(&self) -> Reservation {
        self.batches.exact_reservation()
    }

    /// A reservation for a reply that its client does not read.
    pub(crate) fn unsent(&self) -> Reservation {
        self.unsent.exact_reservation()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_wait_for_each_other() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let room = Room::default();
            let first = room.message(48 << 20).await.unwrap();
            assert!(room.is_wanted() || room.message_now(48 << 20).is_none());
            assert!(tokio::time::timeout(Duration::from_millis(5), room.message(48 << 20)).await.is_err());
            drop(first);
            // A message that is longer than the limit gets the whole limit.
            assert!(room.message(usize::MAX).await.is_some());
            assert!(room.message_now(48 << 20).is_some());
        });
    }

    #[test]
    fn a_command_that_waits_to_reply_can_be_interrupted() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
        let room = Arc::new(Room::default());
        let waiting = runtime.spawn_blocking(move || {
            let interrupt = Interrupt::new();
            let _first = room.reply(REPLIES, &interrupt).unwrap();
            interrupt.kill();
            room.reply(REPLIES, &interrupt).unwrap_err().code
        });
        assert_eq!(runtime.block_on(waiting).unwrap(), code::INTERRUPTED);
    }
}

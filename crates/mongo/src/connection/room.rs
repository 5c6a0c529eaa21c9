//! The memory of messages and replies, of all connections together.
//!
//! A long message is received, and a long reply is made, only by leave, for which others that come later wait. Leave to
//! make a reply may be waited for by a command whose message has leave, never the other way round, and neither is kept
//! while a client is waited for: a client that sends slowly while others wait is disconnected, and a reply that its
//! client does not take goes to a file where memory is scarce. So nobody waits for ever.

use crate::error::{CommandError, Result};
use diwan_query::{Interrupt, LARGE, MemoryPool, Reservation, code};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many bytes long messages take at most, and long replies: more than the longest of them.
const MESSAGES: usize = 64 << 20;
const REPLIES: usize = 64 << 20;
/// How many bytes of replies wait in memory for clients that do not take them.
const UNSENT: usize = 32 << 20;
/// Semaphores count in units of so many bytes.
const UNIT: usize = 1 << 10;
/// How often a command that waits for leave looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// The memory of messages and replies.
#[derive(Debug)]
pub(crate) struct Room {
    messages: Arc<Semaphore>,
    replies: Arc<Semaphore>,
    unsent: MemoryPool,
}

/// Leave to hold a long message or reply.
pub(crate) type Leave = OwnedSemaphorePermit;

impl Default for Room {
    fn default() -> Room {
        Room {
            messages: Arc::new(Semaphore::new(MESSAGES / UNIT)),
            replies: Arc::new(Semaphore::new(REPLIES / UNIT)),
            unsent: MemoryPool::new(UNSENT),
        }
    }
}

/// Whether so many bytes need leave.
pub(crate) fn is_long(bytes: usize) -> bool {
    bytes >= LARGE
}

fn units(bytes: usize, all: usize) -> u32 {
    u32::try_from(bytes.min(all).div_ceil(UNIT)).unwrap_or(u32::MAX)
}

impl Room {
    /// Leave to receive a long message, if there is some at once.
    pub(crate) fn message_now(&self, length: usize) -> Option<Leave> {
        self.messages.clone().try_acquire_many_owned(units(length, MESSAGES)).ok()
    }

    /// Waits for leave to receive a long message; nothing when the server ends.
    pub(crate) async fn message(&self, length: usize) -> Option<Leave> {
        self.messages.clone().acquire_many_owned(units(length, MESSAGES)).await.ok()
    }

    /// Whether others may be waiting for leave to receive a message.
    pub(crate) fn is_wanted(&self) -> bool {
        self.messages.available_permits() < MESSAGES / UNIT / 4
    }

    /// Waits in a thread that may block for leave to make a reply of so many bytes.
    pub(crate) fn reply(&self, bytes: usize, interrupt: &Interrupt) -> Result<Leave> {
        let replies = self.replies.clone();
        Handle::current().block_on(async {
            let leave = replies.acquire_many_owned(units(bytes, REPLIES));
            tokio::pin!(leave);
            loop {
                tokio::select! {
                    leave = &mut leave => {
                        let closing = |_| CommandError::new(code::INTERRUPTED, "the server is closing");
                        return leave.map_err(closing);
                    }
                    () = tokio::time::sleep(LOOK) => interrupt.check()?,
                }
            }
        })
    }

    /// A reservation for a reply that its client does not take.
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
            // What is longer than all that there is gets all.
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

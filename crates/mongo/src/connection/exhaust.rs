//! Several replies to one message, for clients that allow it: exhaust cursors and streamed hellos.
//!
//! A command that has another reply asks to be run again, with the same message, as soon as its reply is written. Every
//! reply but the last sets the flag `moreToCome`. The first reply responds to the message, each later one to the reply
//! before it.

use crate::connection::room::{Permit, Room};
use diwan_query::Reservation;

/// The replies to the message that a connection is handling.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    /// Whether the client accepts several replies.
    allowed: bool,
    /// Whether the command has asked to run again.
    rerun_requested: bool,
    /// The message number of the previous reply.
    previous: Option<i32>,
    /// The topology version that the previous reply told.
    told: Option<i64>,
    /// The permit to make the reply, if that is long.
    permit: Option<Permit>,
    /// The memory of a batch that is being made.
    batch: Option<Reservation>,
}

impl Replies {
    /// Starts a run of the message's command.
    pub(crate) fn begin(&mut self, allowed: bool) {
        self.allowed = allowed;
        self.rerun_requested = false;
    }

    /// Whether the command may build a long reply.
    pub(crate) fn have_permit(&self) -> bool {
        self.permit.is_some()
    }

    /// Sets the permit to build a long reply.
    pub(crate) fn set_permit(&mut self, permit: Permit) {
        self.permit = Some(permit);
    }

    /// Reserves memory for a batch of so many bytes. False if there is not enough.
    pub(crate) fn reserve_batch(&mut self, room: &Room, bytes: usize) -> bool {
        self.batch.get_or_insert_with(|| room.batch()).cover(bytes)
    }

    /// Releases the permit and the memory of the batch. The reply must no longer be in this connection's buffers.
    pub(crate) fn release_memory(&mut self) {
        self.permit = None;
        self.batch = None;
    }

    /// Whether the client accepts several replies.
    pub(crate) fn are_allowed(&self) -> bool {
        self.allowed
    }

    /// Whether the message already has a reply, so that this run was requested by the one before.
    pub(crate) fn have_begun(&self) -> bool {
        self.previous.is_some()
    }

    /// The topology version that the previous reply told.
    pub(crate) fn told(&self) -> Option<i64> {
        self.told
    }

    /// Notes the topology version that this reply tells.
    pub(crate) fn tell(&mut self, version: i64) {
        self.told = Some(version);
    }

    /// Requests another run, if the client accepts several replies.
    pub(crate) fn request_rerun(&mut self) {
        self.rerun_requested = self.allowed;
    }

    /// The number that the next reply responds to. `request` is the number of the message.
    pub(crate) fn response_to(&self, request: i32) -> i32 {
        self.previous.unwrap_or(request)
    }

    /// Whether another reply follows the one that was written.
    pub(crate) fn follow(&self) -> bool {
        self.rerun_requested
    }

    /// Notes the message number of the reply that was written.
    pub(crate) fn note(&mut self, reply: i32) {
        self.previous = Some(reply);
    }

    /// Resets the state after the last reply to a message. The permit and the memory stay until that reply has been sent.
    pub(crate) fn end(&mut self) {
        *self = Replies { permit: self.permit.take(), batch: self.batch.take(), ..Replies::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reply_responds_to_the_previous_one() {
        let mut replies = Replies::default();
        replies.begin(true);
        assert_eq!(replies.response_to(7), 7);
        replies.request_rerun();
        assert!(replies.follow() && !replies.have_begun());
        replies.note(100);
        replies.begin(true);
        assert_eq!(replies.response_to(7), 100);
        assert!(replies.have_begun() && !replies.follow());
    }

    #[test]
    fn rerun_is_ignored_for_a_client_that_accepts_one_reply() {
        let mut replies = Replies::default();
        replies.begin(false);
        replies.request_rerun();
        assert!(!replies.follow());
    }
}

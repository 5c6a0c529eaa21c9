//! Several replies to one message, for clients that allow it: exhaust cursors and streamed hellos.
//!
//! A command that has another reply asks to be run again, with the same message, as soon as its reply is written. Every
//! reply but the last sets the flag `moreToCome`. The first reply responds to the message, each later one to the reply
//! before it.

use crate::connection::room::Leave;

/// The replies to the message that a connection is handling.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    /// Whether the client accepts several replies.
    allowed: bool,
    /// Whether the command has asked to run again.
    rerun_requested: bool,
    /// The message number of the previous reply.
    previous: Option<i32>,
    /// To make the reply, if it is long.
    leave: Option<Leave>,
}

impl Replies {
    /// Starts a run of the message's command.
    pub(crate) fn begin(&mut self, allowed: bool) {
        self.allowed = allowed;
        self.rerun_requested = false;
    }

    /// Whether the command may build a long reply.
    pub(crate) fn have_leave(&self) -> bool {
        self.leave.is_some()
    }

    /// Lets the command build a long reply.
    pub(crate) fn give_leave(&mut self, leave: Leave) {
        self.leave = Some(leave);
    }

    /// Returns the leave when the reply has left memory.
    pub(crate) fn end_leave(&mut self) {
        self.leave = None;
    }

    /// Whether the client accepts several replies.
    pub(crate) fn are_allowed(&self) -> bool {
        self.allowed
    }

    /// Whether the message already has a reply, so that this run was requested by the one before.
    pub(crate) fn have_begun(&self) -> bool {
        self.previous.is_some()
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

    /// Resets the state after the last reply to a message.
    pub(crate) fn end(&mut self) {
        *self = Replies { leave: self.leave.take(), ..Replies::default() };
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

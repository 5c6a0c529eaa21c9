//! Several replies to one message, for clients that allow it: exhaust cursors and streamed hellos.
//!
//! A command that wants to go on is run again with the same message as soon as its reply is written. Each reply but the
//! last one says that another one follows, and is a response to the one before it; only the first one is a response to
//! the message.

/// The replies to the message that a connection handles.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    /// Whether the client takes more than one.
    allowed: bool,
    /// Whether the command that has just run is to run again.
    goes_on: bool,
    /// The number of the reply before.
    previous: Option<i32>,
}

impl Replies {
    /// Begins a run of the message's command.
    pub(crate) fn begin(&mut self, allowed: bool) {
        self.allowed = allowed;
        self.goes_on = false;
    }

    /// Whether the command may ask for another run.
    pub(crate) fn are_allowed(&self) -> bool {
        self.allowed
    }

    /// Whether the message has been answered before: this run was not asked for by itself.
    pub(crate) fn have_begun(&self) -> bool {
        self.previous.is_some()
    }

    /// Asks for another run, if the client allows it.
    pub(crate) fn go_on(&mut self) {
        self.goes_on = self.allowed;
    }

    /// What the next reply is a response to, for a message of the number `request`.
    pub(crate) fn response_to(&self, request: i32) -> i32 {
        self.previous.unwrap_or(request)
    }

    /// Whether another reply follows the one that was written.
    pub(crate) fn follow(&self) -> bool {
        self.goes_on
    }

    /// Notes the number of the reply that was written.
    pub(crate) fn note(&mut self, reply: i32) {
        self.previous = Some(reply);
    }

    /// Forgets a message that has its last reply.
    pub(crate) fn end(&mut self) {
        *self = Replies::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reply_is_a_response_to_the_one_before() {
        let mut replies = Replies::default();
        replies.begin(true);
        assert_eq!(replies.response_to(7), 7);
        replies.go_on();
        assert!(replies.follow() && !replies.have_begun());
        replies.note(100);
        replies.begin(true);
        assert_eq!(replies.response_to(7), 100);
        assert!(replies.have_begun() && !replies.follow());
    }

    #[test]
    fn a_client_that_takes_one_reply_gets_one() {
        let mut replies = Replies::default();
        replies.begin(false);
        replies.go_on();
        assert!(!replies.follow());
    }
}

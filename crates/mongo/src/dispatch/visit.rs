//! Commands that do not come through a connection of this face: those of the HTTP face.

use super::{Wait, answer};
use crate::connection::exhaust::Replies;
use crate::error::{CommandError, code};
use crate::request::Request;
use crate::server::Server;
use diwan_access::Caller;
use diwan_query::Interrupt;
use diwan_value::{Doc, DocBuf};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Commands about the connection itself.
const OF_CONNECTIONS: [&str; 5] = ["authenticate", "hello", "logout", "saslContinue", "saslStart"];

/// How long a command waits for news at most, such as `getMore` on a tailable cursor: it holds a thread.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

impl Server {
    /// Runs one command and returns its reply, for a caller who has signed in elsewhere. The acknowledgement waits for the
    /// disk as the write concern says. The command ends when `interrupt` is killed.
    pub fn run_command(
        self: &Arc<Server>,
        caller: &Caller,
        peer: IpAddr,
        database: &str,
        body: Doc<'_>,
        interrupt: Interrupt,
    ) -> DocBuf {
        let client = self.clients.visitor(SocketAddr::new(peer, 0), caller.clone(), interrupt);
        let mut replies = Replies::default();
        let mut deadline = None;
        loop {
            let request = check(body).and_then(|()| Request::parse(body, &[], Some(database)));
            let mut output = Vec::new();
            self.metrics.requests.add(u64::from(deadline.is_none()));
            let wait = answer(self, &client, body, request, deadline, &mut replies, &mut output);
            let reply = DocBuf::trusted(output);
            match wait {
                Wait::Nothing | Wait::Close => return reply,
                Wait::Durable(commit) => match self.engine.wait_durable(commit) {
                    Ok(()) => return reply,
                    Err(error) => return failure(&CommandError::from(diwan_store::Error::from(error))),
                },
                Wait::Change { until, changed } => {
                    let until = until.min(Instant::now() + LONGEST_WAIT);
                    deadline.get_or_insert(until);
                    let until = tokio::time::Instant::from_std(until);
                    // The time is over, or something has changed: in both cases the command runs again.
                    let _ =
                        tokio::runtime::Handle::current().block_on(tokio::time::timeout_at(until, changed));
                }
            }
        }
    }
}

fn check(body: Doc<'_>) -> Result<(), CommandError> {
    let name = body.iter().next().map(|element| element.key_str()).unwrap_or_default();
    if OF_CONNECTIONS.contains(&name) || name.eq_ignore_ascii_case("ismaster") {
        let text = format!(
            "{name} is about the connection of a MongoDB driver. Over HTTP, requests sign in one by one"
        );
        return Err(CommandError::new(code::ILLEGAL_OPERATION, text));
    }
    if body.contains_key("$db") {
        return Err(CommandError::bad_value(
            "the database of a command over HTTP is in the address, not in $db",
        ));
    }
    Ok(())
}

fn failure(error: &CommandError) -> DocBuf {
    let mut reply = diwan_value::DocBuilder::new();
    error.write(&[], &mut reply);
    reply.finish()
}

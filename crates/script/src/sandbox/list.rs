//! A list function, fed with rows.
//!
//! The function asks for rows while it runs, and whoever has the rows brings them one by one: so the function runs in a
//! thread of its own, and the two take turns. What it sends between two rows is handed on at once.

use super::{Sandbox, path_text};
use crate::design::Design;
use crate::error::{Error, Result};
use crate::json;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// What comes of a list function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListEvent {
    /// The response's head (`code`, `headers`), as JSON; comes once, first.
    Start(String),
    /// A part of the response's body.
    Chunk(String),
}

enum Turn {
    /// The function wants a row.
    Wants { head: Option<String>, chunks: String },
    /// The function has ended, with its head, if that was not told before, and its last words.
    Ended(Result<String>),
}

/// A call of a list function.
pub struct ListCall {
    sandbox: Arc<Sandbox>,
    design: Design,
    path: String,
    request: String,
    running: Option<Running>,
    ended: bool,
}

struct Running {
    rows: SyncSender<Option<String>>,
    turns: Receiver<Turn>,
    thread: JoinHandle<()>,
}

impl ListCall {
    pub(super) fn begin(
        sandbox: Arc<Sandbox>,
        design: &Design,
        name: &str,
        request: &str,
    ) -> Result<ListCall> {
        Ok(ListCall {
            sandbox,
            design: design.clone(),
            path: path_text(&["lists", name]),
            request: request.to_owned(),
            running: None,
            ended: false,
        })
    }

    /// Runs the function until it wants the first row. `head` is the view's head as JSON.
    pub fn head(&mut self, head: &str, out: &mut dyn FnMut(ListEvent) -> Result<()>) -> Result<()> {
        let (rows, own_rows) = sync_channel::<Option<String>>(1);
        let (own_turns, turns) = sync_channel::<Turn>(1);
        let context = self.sandbox.take(&self.design)?;
        let (sandbox, design) = (self.sandbox.clone(), self.design.clone());
        let path = self.path.clone();
        let args = format!("[{head},{}]", self.request);
        let run = move || {
            let (asking, shared) = (own_turns.clone(), context.shared.clone());
            let time = sandbox.limits().time;
            *context.shared.rows.lock() = Some(Box::new(move |head, chunks| {
                let row = asking
                    .send(Turn::Wants { head, chunks })
                    .ok()
                    .and_then(|()| own_rows.recv().ok().flatten());
                // Waiting is not the script's time.
                shared.extend(time);
                row
            }));
            let outcome = context.invoke("call", &[&path, &args]);
            *context.shared.rows.lock() = None;
            sandbox.give_back(&design, context, &outcome);
            // Nobody waits for it any more if the caller is gone.
            let _ = own_turns.send(Turn::Ended(outcome));
        };
        let thread = std::thread::Builder::new().name("diwan-list".to_owned()).spawn(run);
        let thread =
            thread.map_err(|error| Error::Exhausted(format!("no thread for the script: {error}")))?;
        self.running = Some(Running { rows, turns, thread });
        self.turn(out).map(drop)
    }

    /// Gives the function a row, as JSON, and runs it until it wants the next. Says whether it wants one.
    pub fn row(&mut self, row: &str, out: &mut dyn FnMut(ListEvent) -> Result<()>) -> Result<bool> {
        self.feed(Some(row.to_owned()), out)
    }

    /// There are no more rows: runs the function to its end.
    pub fn finish(mut self, out: &mut dyn FnMut(ListEvent) -> Result<()>) -> Result<()> {
        while self.feed(None, out)? {}
        if let Some(running) = self.running.take()
            && running.thread.join().is_err()
        {
            return Err(Error::Exhausted("the script's thread failed".to_owned()));
        }
        Ok(())
    }

    fn feed(&mut self, row: Option<String>, out: &mut dyn FnMut(ListEvent) -> Result<()>) -> Result<bool> {
        if self.ended {
            return Ok(false);
        }
        if let Some(running) = &self.running {
            // If that fails the function has ended, which is told below.
            let _ = running.rows.send(row);
        }
        self.turn(out)
    }

    /// Waits for the function's turn to end.
    fn turn(&mut self, out: &mut dyn FnMut(ListEvent) -> Result<()>) -> Result<bool> {
        let turn = self.running.as_ref().and_then(|running| running.turns.recv().ok());
        match turn {
            Some(Turn::Wants { head, chunks }) => {
                if let Some(head) = head {
                    out(ListEvent::Start(head))?;
                }
                send(chunks, out)?;
                Ok(true)
            }
            Some(Turn::Ended(outcome)) => {
                self.ended = true;
                let answer = outcome?;
                let mut parts = json::elements(&answer);
                if let Some(head) = parts.next().filter(|head| *head != "null") {
                    out(ListEvent::Start(head.to_owned()))?;
                }
                send(parts.next().map(|text| json::unquote(text).into_owned()).unwrap_or_default(), out)?;
                Ok(false)
            }
            None => {
                self.ended = true;
                Err(Error::Ended)
            }
        }
    }
}

fn send(chunks: String, out: &mut dyn FnMut(ListEvent) -> Result<()>) -> Result<()> {
    if chunks.is_empty() { Ok(()) } else { out(ListEvent::Chunk(chunks)) }
}

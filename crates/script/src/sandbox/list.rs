//! Runs list functions, which consume rows one by one.
//!
//! A list function asks for rows while it runs, and its caller supplies them one by one. The function therefore runs in
//! its own thread, and the two threads alternate. Output between two rows is passed on immediately.

use super::{Sandbox, path_text};
use crate::design::Design;
use crate::error::{Error, Result};
use crate::json;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Output of a list function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListEvent {
    /// The head of the response (`code`, `headers`) as JSON. It is sent once, before all chunks.
    Start(String),
    /// A part of the response body.
    Chunk(String),
}

enum Turn {
    /// The function requests a row.
    Wants { head: Option<String>, chunks: String },
    /// The function has ended, with the remaining output, and the head if it was not sent before.
    Ended(Result<String>),
}

/// A running call of a list function.
pub struct ListCall {
    sandbox: Arc<Sandbox>,
    design: Design,
    path: String,
    request: String,
    running: Option<RunningList>,
    ended: bool,
}

struct RunningList {
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

    /// Runs the function until it requests the first row. `head` is the view's head as JSON.
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
                // Time spent waiting does not count towards the script's limit.
                shared.extend(time);
                row
            }));
            let outcome = context.invoke("call", &[&path, &args]);
            *context.shared.rows.lock() = None;
            sandbox.give_back(&design, context, &outcome);
            // If the caller is gone, no one receives this message.
            let _ = own_turns.send(Turn::Ended(outcome));
        };
        let thread = std::thread::Builder::new().name("diwan-list".to_owned()).spawn(run);
        let thread =
            thread.map_err(|error| Error::Exhausted(format!("no thread for the script: {error}")))?;
        self.running = Some(RunningList { rows, turns, thread });
        self.turn(out).map(drop)
    }

    /// Passes a row to the function as JSON and runs it until it requests the next one. Returns whether it does.
    pub fn row(&mut self, row: &str, out: &mut dyn FnMut(ListEvent) -> Result<()>) -> Result<bool> {
        self.feed(Some(row.to_owned()), out)
    }

    /// Tells the function that there are no more rows, and runs it to its end.
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
            // If sending fails, the function has ended; `turn` reports that.
            let _ = running.rows.send(row);
        }
        self.turn(out)
    }

    /// Waits until the function requests a row or ends.
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

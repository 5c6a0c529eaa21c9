//! Answers that are written a chunk at a time, at the pace of their clients.
//!
//! Whoever writes the rows is asked for a chunk when the client has taken the one before, on any thread, and gives the
//! thread back with the chunk. Between two chunks it keeps a position and nothing of the store: a view of the store that
//! it needs, it asks the writer for, which lets it go when the client reads slowly or when it has grown old. So an
//! answer that is read swiftly shows one state of the store, and one that is not goes on in the state of then.

use super::Response;
use super::workers::Workers;
use crate::error::{Error, Result};
use diwan_store::{Collection, ReadView};
use hyper::body::Bytes;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Writes rows until the writer is full, or to the end. What fails before anything has been sent is answered as an error;
/// later the answer is broken off. Between two calls nothing of the store may be held.
pub type Rows = Box<dyn FnMut(&mut RowWriter) -> Result<Flow> + Send>;

/// Whether there are more rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// There may be.
    More,
    /// There are, but not yet: to be asked for in a moment.
    Later,
    /// There are none.
    Done,
}

/// How many bytes are gathered before they are sent.
const CHUNK: usize = 32 << 10;
/// How many chunks may wait for a slow client.
pub(super) const CHUNKS: usize = 2;
/// How long a thread waits for a client that reads, so that it need not be found anew for each chunk; and how long it
/// writes for one client before it is another's turn.
const AT_PACE: Duration = Duration::from_millis(1);
const TURN: Duration = Duration::from_millis(10);
/// How long a view is kept for a client that does not read, and how long at all.
const HELD: Duration = Duration::from_secs(1);
const VIEW_AGE: Duration = Duration::from_secs(10);
/// How long to wait where rows come later: first, and at most.
const MOMENT: Duration = Duration::from_millis(5);
const LONG_MOMENT: Duration = Duration::from_millis(500);

/// Where the rows of an answer go.
#[derive(Default)]
pub struct RowWriter {
    buffer: Vec<u8>,
    /// What comes before the buffer.
    before: VecDeque<Piece>,
    /// What there is is to be sent at once.
    urgent: bool,
    view: Option<(Arc<ReadView>, Instant)>,
    head: Option<Head>,
    scarce: Option<Scarce>,
}

/// Changes the head of an answer.
type Head = Box<dyn FnOnce(Response) -> Response + Send>;
/// Whether others wait for what an answer holds.
type Scarce = Box<dyn Fn() -> bool + Send>;

enum Piece {
    Text(Vec<u8>),
    Reader(Box<dyn Read + Send>),
}

impl RowWriter {
    /// The buffer, for who appends to it directly.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Whether enough was gathered to be sent.
    pub fn is_full(&self) -> bool {
        self.buffer.len() >= CHUNK || self.urgent || !self.before.is_empty()
    }

    /// Has what there is sent, however little it is.
    pub fn send_now(&mut self) {
        self.urgent = true;
    }

    /// Appends all that a reader gives, which is read as the client takes it.
    pub fn splice(&mut self, reader: impl Read + Send + 'static) {
        self.before.push_back(Piece::Text(std::mem::take(&mut self.buffer)));
        self.before.push_back(Piece::Reader(Box::new(reader)));
    }

    /// A state of the collection: that of the last call, unless the client was slow meanwhile. Not to be kept.
    pub fn view(&mut self, collection: &Arc<Collection>) -> Arc<ReadView> {
        match &self.view {
            Some((view, taken))
                if taken.elapsed() < VIEW_AGE && Arc::ptr_eq(view.collection(), collection) =>
            {
                view.clone()
            }
            _ => self.new_view(collection),
        }
    }

    /// The collection as of now. Not to be kept.
    pub fn new_view(&mut self, collection: &Arc<Collection>) -> Arc<ReadView> {
        let view = Arc::new(collection.view());
        self.view = Some((view.clone(), Instant::now()));
        view
    }

    /// Has the head of the answer changed, if nothing was sent yet.
    pub fn change_head(&mut self, head: impl FnOnce(Response) -> Response + Send + 'static) {
        self.head = Some(Box::new(head));
    }

    /// Says how to find out whether others wait for what this answer holds: then it is broken off if its client does not
    /// read.
    pub fn holds_scarce(&mut self, is_wanted: impl Fn() -> bool + Send + 'static) {
        self.scarce = Some(Box::new(is_wanted));
    }
}

impl Write for RowWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An answer that is being written.
pub struct Streamed {
    /// Gone after the last row.
    rows: Option<Rows>,
    out: RowWriter,
}

/// What comes next of an answer.
pub enum Next {
    Chunk(Bytes),
    /// Nothing yet.
    Later,
    End,
}

impl Streamed {
    /// An answer of these rows.
    pub fn new(rows: Rows) -> Streamed {
        Streamed { rows: Some(rows), out: RowWriter::default() }
    }

    /// Writes the next chunk. To be called from a thread that may block.
    pub fn next(&mut self) -> Result<Next> {
        let mut chunk = Vec::new();
        loop {
            if self.drain(&mut chunk)? || (self.out.urgent && !chunk.is_empty()) {
                self.out.urgent = false;
                return Ok(Next::Chunk(chunk.into()));
            }
            self.out.urgent = false;
            let Some(rows) = &mut self.rows else {
                return Ok(if chunk.is_empty() { Next::End } else { Next::Chunk(chunk.into()) });
            };
            if self.out.buffer.capacity() == 0 {
                self.out.buffer.reserve(CHUNK + 4096);
            }
            match rows(&mut self.out)? {
                Flow::More => {}
                Flow::Later if self.out.buffer.is_empty() && chunk.is_empty() => return Ok(Next::Later),
                Flow::Later => self.out.urgent = true,
                Flow::Done => self.rows = None,
            }
        }
    }

    /// Moves what was written into the chunk; says whether that is full.
    fn drain(&mut self, chunk: &mut Vec<u8>) -> io::Result<bool> {
        while chunk.len() < CHUNK {
            match self.out.before.front_mut() {
                Some(Piece::Text(text)) => {
                    append(chunk, text);
                    self.out.before.pop_front();
                }
                Some(Piece::Reader(reader)) => {
                    chunk.reserve(CHUNK - chunk.len());
                    let wanted = (CHUNK - chunk.len()) as u64;
                    if reader.by_ref().take(wanted).read_to_end(chunk)? == 0 {
                        self.out.before.pop_front();
                    }
                }
                None => {
                    append(chunk, &mut self.out.buffer);
                    break;
                }
            }
        }
        Ok(chunk.len() >= CHUNK)
    }

    /// Whether nothing follows.
    pub fn is_done(&self) -> bool {
        self.rows.is_none() && self.out.before.is_empty() && self.out.buffer.is_empty()
    }

    /// The head of the answer as the rows would have it.
    pub fn head(&mut self, response: Response) -> Response {
        match self.out.head.take() {
            Some(head) => head(response),
            None => response,
        }
    }

    /// Writes chunks as long as the client takes them, for one turn.
    fn fill(&mut self, sender: &Sender) -> Filled {
        let begun = Instant::now();
        while begun.elapsed() < TURN {
            let permit = match sender.try_reserve() {
                Ok(permit) => permit,
                Err(mpsc::error::TrySendError::Closed(())) => return Filled::Over,
                Err(mpsc::error::TrySendError::Full(())) => {
                    let patience = async { timeout(AT_PACE, sender.reserve()).await };
                    match Handle::current().block_on(patience) {
                        Ok(Ok(permit)) => permit,
                        Ok(Err(_)) => return Filled::Over,
                        Err(_) => return Filled::Full,
                    }
                }
            };
            match self.next() {
                Ok(Next::Chunk(chunk)) => permit.send(Ok(chunk)),
                Ok(Next::Later) => return Filled::Later,
                Ok(Next::End) => return Filled::Over,
                Err(error) => {
                    tracing::warn!(%error, "a response broke off");
                    permit.send(Err(io::Error::other(error)));
                    return Filled::Over;
                }
            }
        }
        Filled::Full
    }
}

fn append(chunk: &mut Vec<u8>, text: &mut Vec<u8>) {
    if chunk.is_empty() {
        std::mem::swap(chunk, text);
    } else {
        chunk.append(text);
    }
}

/// Why no more is written for now.
enum Filled {
    /// The client has not taken what there is, or it is another's turn.
    Full,
    /// There is no more yet.
    Later,
    /// There is no more, or nobody to take it.
    Over,
}

/// Where chunks go; an error breaks the connection off.
type Sender = mpsc::Sender<io::Result<Bytes>>;

/// Waits between attempts to get rows that come later.
#[derive(Default)]
pub struct Moments {
    last: Option<Duration>,
}

impl Moments {
    /// The next wait, longer than the one before.
    pub fn next(&mut self) -> Duration {
        let next = self.last.map_or(MOMENT, |last| (last * 2).min(LONG_MOMENT));
        *self.last.insert(next)
    }
}

/// Writes an answer to its end, a chunk whenever the client has taken one, with a thread only for that long.
pub async fn pump(workers: &Workers, mut answer: Streamed, sender: Sender) {
    let mut moments = Moments::default();
    loop {
        let mut is_slow = false;
        loop {
            match timeout(HELD, sender.reserve()).await {
                Ok(Ok(_)) => break,
                Ok(Err(_)) => return,
                Err(_) if answer.out.scarce.as_ref().is_some_and(|is_wanted| is_wanted()) => {
                    drop(answer);
                    tracing::info!("a response was broken off: its client does not read, and others wait");
                    return abort(&sender, "others wait, and the client does not read").await;
                }
                // No state of the store is held for a client that does not read.
                Err(_) if !is_slow => {
                    answer.out.view = None;
                    is_slow = true;
                }
                Err(_) => {}
            }
        }
        let own = sender.clone();
        let filled = workers.run_stream(move || {
            let filled = answer.fill(&own);
            (answer, filled)
        });
        match filled.await {
            Ok((_, Filled::Over)) => return,
            Ok((back, Filled::Full)) => {
                moments = Moments::default();
                answer = back;
            }
            Ok((mut back, Filled::Later)) => {
                back.out.view = None;
                answer = back;
                tokio::time::sleep(moments.next()).await;
            }
            Err(error) => return abort(&sender, &error.reason).await,
        }
    }
}

async fn abort(sender: &Sender, reason: &str) {
    // Nobody may be there any more.
    let _ = sender.send(Err(io::Error::other(reason.to_owned()))).await;
}

/// An answer, read where it is written.
pub struct RowReader {
    answer: Streamed,
    ready: Bytes,
}

impl RowReader {
    /// Reads the answer of these rows.
    pub fn new(rows: Rows) -> RowReader {
        RowReader { answer: Streamed::new(rows), ready: Bytes::new() }
    }
}

impl Read for RowReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut moments = Moments::default();
        while self.ready.is_empty() {
            match self.answer.next() {
                Ok(Next::Chunk(chunk)) => self.ready = chunk,
                Ok(Next::Later) => std::thread::sleep(moments.next()),
                Ok(Next::End) => return Ok(0),
                Err(error) => return Err(Error::into(error)),
            }
        }
        let count = self.ready.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.ready.split_to(count));
        Ok(count)
    }
}

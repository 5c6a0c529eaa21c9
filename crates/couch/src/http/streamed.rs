//! Responses that are written a chunk at a time, at the speed of their clients.
//!
//! The function that writes the rows is called for a chunk when the client has received the previous one, on any
//! thread. Between two chunks it keeps only its position and no resources of the store. If it needs a snapshot, it
//! asks the writer for one; the writer drops the snapshot when the client reads slowly or the snapshot gets old. So
//! an answer that is read quickly shows one state of the store, and a slow one continues in a newer state.

use super::Response;
use super::workers::Workers;
use crate::error::{Error, Result};
use diwan_query::{LARGE, MemoryPool, Reservation};
use diwan_store::{Collection, ReadView};
use hyper::body::Bytes;
use std::collections::VecDeque;
use std::io::{self, Cursor, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Writes rows until the writer is full or there are no more. An error before the first chunk becomes an error
/// response; a later one closes the connection. The function must not hold resources of the store between calls.
pub type Rows = Box<dyn FnMut(&mut RowWriter) -> Result<Flow> + Send>;

/// Whether there are more rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// There may be more.
    More,
    /// There are more, but not yet: call again after a pause.
    Later,
    /// There are no more.
    Done,
}

/// The size at which a chunk is sent.
const CHUNK: usize = 32 << 10;
/// How many chunks may wait for a slow client.
pub(super) const CHUNKS: usize = 2;
/// How long a thread waits for a client to receive a chunk before it is returned to the pool; and how long it serves
/// one client in a row.
const AT_PACE: Duration = Duration::from_millis(1);
const TURN: Duration = Duration::from_millis(10);
/// How long a snapshot is kept for a client that does not read, and its maximum age.
const HELD: Duration = Duration::from_secs(1);
const VIEW_AGE: Duration = Duration::from_secs(10);
/// The first and the longest pause when rows are not available yet.
const MOMENT: Duration = Duration::from_millis(5);
const LONG_MOMENT: Duration = Duration::from_millis(500);

/// Collects the rows of an answer.
#[derive(Default)]
pub struct RowWriter {
    buffer: Vec<u8>,
    /// Completed pieces that precede the buffer.
    before: VecDeque<Piece>,
    /// Send the buffer even though it is small.
    urgent: bool,
    /// Where files can be made for what is too long to wait in memory.
    directory: Option<PathBuf>,
    view: Option<(Arc<ReadView>, Instant)>,
    head: Option<Head>,
    scarce: Option<Scarce>,
}

/// Changes the head of an answer.
type Head = Box<dyn FnOnce(Response) -> Response + Send>;
/// Whether other requests wait for a resource that this answer holds.
type Scarce = Box<dyn Fn() -> bool + Send>;

enum Piece {
    Text(Vec<u8>),
    /// A text that is too long to be sent at once, and what it holds of the memory that all operations share.
    Long {
        text: Cursor<Vec<u8>>,
        _reservation: Reservation,
    },
    Reader(Box<dyn Read + Send>),
}

/// A piece of this text: a long one in memory if there is enough of it, else in a file.
fn piece(text: Vec<u8>, directory: Option<&Path>) -> io::Result<Piece> {
    if text.len() < LARGE {
        return Ok(Piece::Text(text));
    }
    let mut reservation = MemoryPool::shared().exact_reservation();
    match directory {
        Some(directory) if !reservation.cover(text.capacity()) => in_file(&text, directory),
        _ => Ok(Piece::Long { text: Cursor::new(text), _reservation: reservation }),
    }
}

fn in_file(text: &[u8], directory: &Path) -> io::Result<Piece> {
    let mut file = tempfile::tempfile_in(directory)?;
    file.write_all(text)?;
    file.rewind()?;
    Ok(Piece::Reader(Box::new(file)))
}

impl RowWriter {
    /// The buffer, for direct appends.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Whether enough has been written for a chunk.
    pub fn is_full(&self) -> bool {
        self.buffer.len() >= CHUNK || self.urgent || !self.before.is_empty()
    }

    /// Sends what has been written, however small.
    pub fn send_now(&mut self) {
        self.urgent = true;
    }

    /// Appends everything that a reader yields; it is read as the client receives it.
    pub fn splice(&mut self, reader: impl Read + Send + 'static) {
        self.before.push_back(Piece::Text(std::mem::take(&mut self.buffer)));
        self.before.push_back(Piece::Reader(Box::new(reader)));
    }

    /// Moves a long text to where it is sent from in parts.
    fn set_aside(&mut self) -> io::Result<()> {
        if self.buffer.len() >= LARGE {
            let text = std::mem::take(&mut self.buffer);
            self.before.push_back(piece(text, self.directory.as_deref())?);
        }
        Ok(())
    }

    /// Moves long texts to files, for a client that does not read.
    fn spill(&mut self) -> io::Result<()> {
        let Some(directory) = &self.directory else { return Ok(()) };
        for piece in &mut self.before {
            if let Piece::Long { text, .. } = piece {
                let rest = text.get_ref().get(text.position() as usize..).unwrap_or_default();
                *piece = in_file(rest, directory)?;
            }
        }
        Ok(())
    }

    fn holds_long_text(&self) -> bool {
        self.before.iter().any(|piece| matches!(piece, Piece::Long { .. }))
    }

    /// Returns a snapshot of the collection: the one of the last call unless it was dropped. Do not keep it between
    /// calls.
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

    /// Takes a new snapshot of the collection. Do not keep it between calls.
    pub fn new_view(&mut self, collection: &Arc<Collection>) -> Arc<ReadView> {
        let view = Arc::new(collection.view());
        self.view = Some((view.clone(), Instant::now()));
        view
    }

    /// Changes the head of the answer, if it has not been sent yet.
    pub fn change_head(&mut self, head: impl FnOnce(Response) -> Response + Send + 'static) {
        self.head = Some(Box::new(head));
    }

    /// Declares that this answer holds a scarce resource. If `is_wanted` returns true and the client does not read,
    /// the answer is aborted.
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
    /// `None` after the last row.
    rows: Option<Rows>,
    out: RowWriter,
}

/// The next piece of an answer.
pub enum Next {
    Chunk(Bytes),
    /// Not available yet.
    Later,
    End,
}

impl Streamed {
    /// Creates the answer of these rows. Long rows may be moved to files in this directory.
    pub fn new(rows: Rows, directory: Option<PathBuf>) -> Streamed {
        Streamed { rows: Some(rows), out: RowWriter { directory, ..RowWriter::default() } }
    }

    /// Produces the next chunk. Call it on a thread that may block.
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
            self.out.set_aside()?;
        }
    }

    /// Moves written data into the chunk; returns whether the chunk is full.
    fn drain(&mut self, chunk: &mut Vec<u8>) -> io::Result<bool> {
        while chunk.len() < CHUNK {
            match self.out.before.front_mut() {
                Some(Piece::Text(text)) => {
                    append(chunk, text);
                    self.out.before.pop_front();
                }
                Some(Piece::Long { text, .. }) => {
                    let wanted = (CHUNK - chunk.len()) as u64;
                    if Read::by_ref(text).take(wanted).read_to_end(chunk)? == 0 {
                        self.out.before.pop_front();
                    }
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

    /// Whether the answer is complete.
    pub fn is_done(&self) -> bool {
        self.rows.is_none() && self.out.before.is_empty() && self.out.buffer.is_empty()
    }

    /// Applies the change that the rows requested to the head.
    pub fn head(&mut self, response: Response) -> Response {
        match self.out.head.take() {
            Some(head) => head(response),
            None => response,
        }
    }

    /// Sends chunks while the client receives them, for at most one turn.
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
                    tracing::warn!(%error, "a response was aborted");
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

/// Why [`Streamed::fill`] stopped.
enum Filled {
    /// The client has not received the last chunks, or the turn is over.
    Full,
    /// More rows are not available yet.
    Later,
    /// The answer is complete, or the client is gone.
    Over,
}

/// The channel of chunks; an error closes the connection.
type Sender = mpsc::Sender<io::Result<Bytes>>;

/// Growing pauses between attempts to get rows that are not available yet.
#[derive(Default)]
pub struct Moments {
    last: Option<Duration>,
}

impl Moments {
    /// The next pause, longer than the last.
    pub fn next(&mut self) -> Duration {
        let next = self.last.map_or(MOMENT, |last| (last * 2).min(LONG_MOMENT));
        *self.last.insert(next)
    }
}

/// Writes an answer to its end, using a thread only while chunks are being written.
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
                    tracing::info!(
                        "a response was aborted: its client does not read, and other requests wait"
                    );
                    return abort(&sender, "other requests wait, and the client does not read").await;
                }
                // Release the snapshot while the client does not read.
                Err(_) if !is_slow => {
                    answer.out.view = None;
                    is_slow = true;
                    if answer.out.holds_long_text() {
                        let spilled = workers.run_stream(move || answer.out.spill().map(|()| answer));
                        match spilled.await {
                            Ok(Ok(back)) => answer = back,
                            Ok(Err(error)) => return abort(&sender, &error.to_string()).await,
                            Err(error) => return abort(&sender, &error.reason).await,
                        }
                    }
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
    // The client may be gone.
    let _ = sender.send(Err(io::Error::other(reason.to_owned()))).await;
}

/// A reader over an answer's rows, for use within the server.
pub struct RowReader {
    answer: Streamed,
    ready: Bytes,
}

impl RowReader {
    /// Creates a reader of these rows.
    pub fn new(rows: Rows) -> RowReader {
        RowReader { answer: Streamed::new(rows, None), ready: Bytes::new() }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_rows_are_sent_in_parts_from_memory_or_a_file() {
        let text: Vec<u8> = (0..3 * LARGE as u32 + 5).map(|n| n.wrapping_mul(2_654_435_761) as u8).collect();
        let directory = tempfile::tempdir().unwrap();
        for (directory, spilled_at) in [
            (None, None),
            (Some(directory.path().to_path_buf()), None),
            (Some(directory.path().into()), Some(7)),
        ] {
            let row = text.clone();
            let mut rows = 0;
            let mut answer = Streamed::new(
                Box::new(move |out| {
                    rows += 1;
                    out.write_all(&row)?;
                    out.write_all(b"end")?;
                    Ok(if rows == 2 { Flow::Done } else { Flow::More })
                }),
                directory,
            );
            let mut sent = Vec::new();
            for number in 0.. {
                if Some(number) == spilled_at {
                    assert!(answer.out.holds_long_text());
                    answer.out.spill().unwrap();
                    assert!(!answer.out.holds_long_text());
                }
                match answer.next().unwrap() {
                    Next::Chunk(chunk) => {
                        assert!(chunk.len() <= CHUNK);
                        sent.extend_from_slice(&chunk);
                    }
                    Next::Later => panic!("nothing is waited for"),
                    Next::End => break,
                }
            }
            assert!(sent == [&text, &b"end"[..], &text, b"end"].concat());
        }
    }
}

//! Feeds that wait for changes: a task each, without a thread.
//!
//! A task writes pieces into the channel that its connection empties: while a client is slow its task waits there, and
//! when it has gone the channel is closed and the task ends. Rows that need no documents are written by the task itself
//! from the hub's window; everything that reads the store is done by one of a few threads for all feeds.

use super::Feed;
use super::hub::{Hub, Window};
use super::parameters::{Kind, Patience};
use crate::error::{Error, Result};
use crate::http::Response;
use crate::sequence::Since;
use crate::server::Couch;
use diwan_kv::Direction;
use diwan_store::{ChangeRow, ReadView};
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE};
use std::io::{self, Write};
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::Instant;

/// How many threads read the store for feeds at the same time.
pub const READERS: usize = 4;
/// How many changes are read at a time.
const BATCH: usize = 512;
/// How many bytes are gathered before they are sent.
const CHUNK: usize = 32 << 10;
/// How many pieces may wait for a slow client.
const PIECES: usize = 2;

/// Answers with a feed that waits.
pub(super) fn answer(couch: &Arc<Couch>, feed: Feed) -> Result<Response> {
    let (sender, receiver) = mpsc::channel(PIECES);
    let hub = couch.feeds.of(&feed.collection);
    // The handler runs on a thread of the runtime.
    let runtime = tokio::runtime::Handle::current();
    let kind = feed.parameters.kind;
    runtime.spawn(run(Arc::new(feed), hub, couch.feed_readers.clone(), sender));
    let response = Response::feed(receiver);
    Ok(match kind {
        Kind::EventSource => {
            response.with_header(CONTENT_TYPE, "text/event-stream").with_header(CACHE_CONTROL, "no-cache")
        }
        _ => response,
    })
}

/// Where a feed's pieces go.
type Sender = mpsc::Sender<io::Result<Bytes>>;

/// How far a feed has come.
#[derive(Clone, Copy)]
struct Progress {
    /// All changes up to here were looked at.
    since: u64,
    /// How many rows there may still be.
    left: u64,
    /// How many there were.
    written: u64,
}

/// A piece of a feed.
struct Piece {
    bytes: Vec<u8>,
    progress: Progress,
}

async fn run(feed: Arc<Feed>, hub: Arc<Hub>, readers: Arc<Semaphore>, sender: Sender) {
    match follow(&feed, &hub, &readers, &sender).await {
        Ok(()) => {}
        Err(error) => {
            tracing::warn!(%error, "a feed broke off");
            let _ = sender.send(Err(io::Error::other(error))).await;
        }
    }
}

async fn follow(feed: &Arc<Feed>, hub: &Hub, readers: &Semaphore, sender: &Sender) -> Result<()> {
    let kind = feed.parameters.kind;
    let mut windows = hub.subscribe();
    let since = match feed.parameters.since {
        Since::Sequence(since) if !feed.parameters.descending => since,
        _ => windows.borrow().end,
    };
    let mut progress = Progress { since, left: feed.parameters.limit, written: 0 };
    if kind == Kind::Longpoll && send(sender, b"{\"results\":[\n".to_vec()).await.is_err() {
        return Ok(());
    }
    let mut last_sent = Instant::now();
    // What is known one by one is looked up one by one, the first time.
    if feed.filter.ids().is_some() {
        let piece = read(feed, readers, progress, true).await?;
        progress = piece.progress;
        if !piece.bytes.is_empty() {
            last_sent = Instant::now();
            if send(sender, piece.bytes).await.is_err() {
                return Ok(());
            }
        }
    }
    loop {
        // All there is, piece by piece.
        loop {
            if progress.left == 0 || sender.is_closed() {
                break;
            }
            let window = windows.borrow_and_update().clone();
            if progress.since >= window.end {
                break;
            }
            let piece = match progress.since >= window.start && !feed.needs_view() {
                true => from_window(feed, &window, progress)?,
                false => read(feed, readers, progress, false).await?,
            };
            progress = piece.progress;
            if !piece.bytes.is_empty() {
                if send(sender, piece.bytes).await.is_err() {
                    return Ok(());
                }
                last_sent = Instant::now();
            }
        }
        let is_done = progress.left == 0 || (kind == Kind::Longpoll && progress.written > 0);
        if is_done || windows.borrow().closed {
            break;
        }
        if !wait(feed, &mut windows, sender, progress, &mut last_sent).await? {
            break;
        }
    }
    if sender.is_closed() {
        return Ok(());
    }
    let _ = send(sender, last_piece(feed, progress, &windows)).await;
    Ok(())
}

/// Waits for a change. Says whether the feed goes on.
async fn wait(
    feed: &Feed,
    windows: &mut watch::Receiver<Arc<Window>>,
    sender: &Sender,
    progress: Progress,
    last_sent: &mut Instant,
) -> Result<bool> {
    let patience = feed.parameters.patience;
    loop {
        let until = *last_sent + patience.period();
        tokio::select! {
            changed = windows.changed() => {
                if changed.is_err() {
                    return Ok(false);
                }
                let window = windows.borrow().clone();
                if window.end > progress.since || window.closed {
                    return Ok(true);
                }
            }
            () = sender.closed() => return Ok(false),
            () = tokio::time::sleep_until(until) => match patience {
                Patience::Timeout(_) => return Ok(false),
                Patience::Heartbeat(_) => {
                    let beat: &[u8] = match feed.parameters.kind {
                        Kind::EventSource => b"event: heartbeat\ndata: \n\n",
                        _ => b"\n",
                    };
                    if send(sender, beat.to_vec()).await.is_err() {
                        return Ok(false);
                    }
                    *last_sent = Instant::now();
                }
            }
        }
    }
}

/// What ends a feed.
fn last_piece(feed: &Feed, progress: Progress, windows: &watch::Receiver<Arc<Window>>) -> Vec<u8> {
    let mut out = Vec::new();
    let window = windows.borrow();
    let pending = match progress.since < window.start {
        true => window.end.saturating_sub(progress.since),
        false => window.after(progress.since).count() as u64,
    };
    match feed.parameters.kind {
        Kind::EventSource => return out,
        Kind::Longpoll => out.extend_from_slice(b"\n],\n\"last_seq\":"),
        _ => out.extend_from_slice(b"{\"last_seq\":"),
    }
    feed.writing.sequences.write(&mut out, progress.since);
    // Writing to memory cannot fail.
    let _ = writeln!(out, ",\"pending\":{pending}}}");
    out
}

/// The next piece from rows that are in memory.
fn from_window(feed: &Feed, window: &Window, progress: Progress) -> Result<Piece> {
    let mut piece = Piece { bytes: Vec::new(), progress };
    for row in window.after(progress.since) {
        piece.row(feed, None, row)?;
        if piece.is_full() {
            return Ok(piece);
        }
    }
    piece.progress.since = window.end;
    Ok(piece)
}

/// The next piece from the store, read by one of the few threads for it.
async fn read(feed: &Arc<Feed>, readers: &Semaphore, progress: Progress, by_ids: bool) -> Result<Piece> {
    let closing = || Error::internal("The server is closing.");
    let _place = readers.acquire().await.map_err(|_| closing())?;
    let feed = feed.clone();
    let work = move || match by_ids {
        true => read_ids(&feed, progress),
        false => read_log(&feed, progress),
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| closing())?
}

fn read_log(feed: &Feed, progress: Progress) -> Result<Piece> {
    let mut piece = Piece { bytes: Vec::new(), progress };
    let end = feed.collection.last_sequence();
    let rows = feed.collection.changes(progress.since, BATCH, Direction::Forward)?;
    let view = feed.needs_view().then(|| feed.collection.view());
    for row in &rows {
        piece.row(feed, view.as_ref(), row)?;
        if piece.is_full() {
            return Ok(piece);
        }
    }
    if rows.len() < BATCH {
        piece.progress.since = piece.progress.since.max(end);
    }
    Ok(piece)
}

/// The last changes of the only documents that are asked for.
fn read_ids(feed: &Feed, progress: Progress) -> Result<Piece> {
    let mut piece = Piece { bytes: Vec::new(), progress };
    let end = feed.collection.last_sequence();
    let view = feed.collection.view();
    let mut rows = Vec::new();
    for id in feed.filter.ids().into_iter().flatten() {
        if let Some(row) = super::normal::current_row(&view, id)?
            && row.sequence > progress.since
            && row.sequence <= end
        {
            rows.push(row);
        }
    }
    rows.sort_unstable_by_key(|row| row.sequence);
    for row in &rows {
        if piece.progress.left == 0 {
            return Ok(piece);
        }
        piece.row(feed, Some(&view), row)?;
    }
    piece.progress.since = piece.progress.since.max(end);
    Ok(piece)
}

impl Piece {
    fn is_full(&self) -> bool {
        self.bytes.len() >= CHUNK || self.progress.left == 0
    }

    fn row(&mut self, feed: &Feed, view: Option<&ReadView>, row: &ChangeRow) -> Result<()> {
        self.progress.since = row.sequence;
        let Some(leaves) = feed.filter.apply(view, row)? else { return Ok(()) };
        let kind = feed.parameters.kind;
        match kind {
            Kind::EventSource => self.bytes.extend_from_slice(b"data: "),
            Kind::Longpoll if self.progress.written > 0 => self.bytes.extend_from_slice(b",\n"),
            _ => {}
        }
        self.progress.written += 1;
        self.progress.left -= 1;
        let with_sequence = self.progress.left == 0
            || self.progress.written.is_multiple_of(feed.parameters.sequence_interval);
        feed.writing.write(&mut self.bytes, view, row, &leaves, with_sequence)?;
        match kind {
            Kind::EventSource => {
                self.bytes.extend_from_slice(b"\nid: ");
                feed.writing.sequences.write(&mut self.bytes, row.sequence);
                self.bytes.extend_from_slice(b"\n\n");
            }
            Kind::Continuous => self.bytes.push(b'\n'),
            _ => {}
        }
        Ok(())
    }
}

async fn send(
    sender: &Sender,
    bytes: Vec<u8>,
) -> std::result::Result<(), mpsc::error::SendError<io::Result<Bytes>>> {
    sender.send(Ok(bytes.into())).await
}

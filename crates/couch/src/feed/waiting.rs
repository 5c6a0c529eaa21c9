//! Feeds that wait for changes: a task each, without a thread.
//!
//! A task writes pieces into the channel that its connection empties: while a client is slow its task waits there, and
//! when it has gone the channel is closed and the task ends. Rows that need no documents are written by the task itself
//! from the hub's window; everything that reads the store is done by one of a few threads for all feeds.

use super::Feed;
use super::hub::{Hub, Window};
use super::parameters::{Kind, LONGEST_SILENCE, Patience};
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
    let end = hub.subscribe().borrow().end;
    let begun = begin(&feed, end)?;
    // The handler runs on a thread of the runtime.
    let runtime = tokio::runtime::Handle::current();
    let kind = feed.parameters.kind;
    runtime.spawn(run(Arc::new(feed), hub, couch.feed_readers.clone(), sender, begun));
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

/// Where a feed begins. A function that fails does so with the first documents as a rule: as long as nothing has been
/// told, its error can still be the answer, so the first piece is read before there is one.
fn begin(feed: &Feed, end: u64) -> Result<Piece> {
    let since = match feed.parameters.since {
        Since::Sequence(since) if !feed.parameters.descending => since,
        _ => end,
    };
    let mut piece =
        Piece { bytes: Vec::new(), progress: Progress { since, left: feed.parameters.limit, written: 0 } };
    if !feed.filter.is_script() {
        return Ok(piece);
    }
    let latest = Instant::now()
        + match feed.parameters.patience {
            Patience::Heartbeat(beat) => beat,
            Patience::Timeout(_) => LONGEST_SILENCE,
        };
    let is_late = || Instant::now() >= latest;
    while piece.bytes.is_empty() && piece.progress.left > 0 && piece.progress.since < end && !is_late() {
        piece = read_log(feed, piece.progress, &is_late)?;
    }
    Ok(piece)
}

async fn run(feed: Arc<Feed>, hub: Arc<Hub>, readers: Arc<Semaphore>, sender: Sender, begun: Piece) {
    if let Err(error) = follow(&feed, &hub, &readers, &sender, begun).await {
        // The head has been sent: to break the connection off is all that is left.
        tracing::warn!(%error, namespace = %feed.collection.namespace(), "a feed broke off");
        let _ = sender.send(Err(io::Error::other(error))).await;
    }
}

async fn follow(
    feed: &Arc<Feed>,
    hub: &Hub,
    readers: &Semaphore,
    sender: &Sender,
    begun: Piece,
) -> Result<()> {
    let kind = feed.parameters.kind;
    let mut windows = hub.subscribe();
    let Piece { bytes, mut progress } = begun;
    let mut first = if kind == Kind::Longpoll { b"{\"results\":[\n".to_vec() } else { Vec::new() };
    first.extend(bytes);
    if !first.is_empty() && send(sender, first).await.is_err() {
        return Ok(());
    }
    let mut last_sent = Instant::now();
    // What is known one by one is looked up one by one, the first time.
    if feed.filter.ids().is_some() {
        let Some(piece) = read(feed, readers, progress, true, sender, &mut last_sent).await? else {
            return Ok(());
        };
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
                false => match read(feed, readers, progress, false, sender, &mut last_sent).await? {
                    Some(piece) => piece,
                    None => return Ok(()),
                },
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
                    if beat(feed, sender).await.is_err() {
                        return Ok(false);
                    }
                    *last_sent = Instant::now();
                }
            }
        }
    }
}

/// Shows a client that its feed lives.
async fn beat(feed: &Feed, sender: &Sender) -> Sent {
    let beat: &[u8] = match feed.parameters.kind {
        Kind::EventSource => b"event: heartbeat\ndata: \n\n",
        _ => b"\n",
    };
    send(sender, beat.to_vec()).await
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

/// The next piece from the store, read by one of the few threads for it; nothing if the client goes away. A filter may
/// take long over many changes and let none through: meanwhile the client has its heartbeats.
async fn read(
    feed: &Arc<Feed>,
    readers: &Semaphore,
    progress: Progress,
    by_ids: bool,
    sender: &Sender,
    last_sent: &mut Instant,
) -> Result<Option<Piece>> {
    let closing = || Error::internal("The server is closing.");
    let reading = async {
        let _place = readers.acquire().await.map_err(|_| closing())?;
        let (feed, sender) = (feed.clone(), sender.clone());
        let work = move || match by_ids {
            true => read_ids(&feed, progress),
            false => read_log(&feed, progress, &|| sender.is_closed()),
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| closing())?
    };
    tokio::pin!(reading);
    let patience = feed.parameters.patience;
    loop {
        tokio::select! {
            piece = &mut reading => return piece.map(Some),
            () = sender.closed() => return Ok(None),
            () = tokio::time::sleep_until(*last_sent + patience.period()),
                if matches!(patience, Patience::Heartbeat(_)) =>
            {
                if beat(feed, sender).await.is_err() {
                    return Ok(None);
                }
                *last_sent = Instant::now();
            }
        }
    }
}

/// The next changes of the log, fewer if `is_ended` says so.
fn read_log(feed: &Feed, progress: Progress, is_ended: &dyn Fn() -> bool) -> Result<Piece> {
    let mut piece = Piece { bytes: Vec::new(), progress };
    let end = feed.collection.last_sequence();
    let rows = feed.collection.changes(progress.since, BATCH, Direction::Forward)?;
    let view = feed.needs_view().then(|| feed.collection.view());
    for row in &rows {
        piece.row(feed, view.as_ref(), row)?;
        if piece.is_full() || is_ended() {
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
        let with_sequence = feed.parameters.has_sequence(self.progress.left);
        self.progress.left -= 1;
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

/// Whether somebody still takes pieces.
type Sent = std::result::Result<(), mpsc::error::SendError<io::Result<Bytes>>>;

async fn send(sender: &Sender, bytes: Vec<u8>) -> Sent {
    sender.send(Ok(bytes.into())).await
}

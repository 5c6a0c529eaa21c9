//! Feeds that wait for changes: one task each, without a thread.
//!
//! A task sends chunks into a channel that the connection drains. While the client is slow the task waits on the
//! channel; when the client is gone the channel is closed and the task ends. The task itself formats rows that need
//! no documents, from the hub's window. All reads of the store run on a few threads that the feeds share.

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
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::Instant;

/// How many changes are read at once.
const BATCH: usize = 512;
/// The size at which a chunk is sent.
const CHUNK: usize = 32 << 10;
/// How often the rights of a reader are looked at while there are no changes.
const CHECK: Duration = Duration::from_secs(2);
/// How many chunks may wait for a slow client.
const PIECES: usize = 2;

/// Starts the feed's task and returns its response.
pub(super) fn answer(couch: &Arc<Couch>, feed: Feed) -> Result<Response> {
    let (sender, receiver) = mpsc::channel(PIECES);
    let hub = couch.feeds.of(&feed.collection);
    let end = hub.subscribe().borrow().end;
    let begun = begin(&feed, end)?;
    // The handler runs on a thread of the runtime.
    let runtime = tokio::runtime::Handle::current();
    let kind = feed.parameters.kind;
    runtime.spawn(run_feed(Arc::new(feed), hub, couch.feed_readers.clone(), sender, begun));
    let response = Response::feed(receiver);
    Ok(match kind {
        Kind::EventSource => {
            response.with_header(CONTENT_TYPE, "text/event-stream").with_header(CACHE_CONTROL, "no-cache")
        }
        _ => response,
    })
}

/// The sending end of the channel that the connection drains.
type Sender = mpsc::Sender<io::Result<Bytes>>;

/// How far a feed has come.
#[derive(Clone, Copy)]
struct Progress {
    /// All changes up to this sequence have been processed.
    since: u64,
    /// How many rows the limit still allows.
    left: u64,
    /// How many rows have been written.
    written: u64,
}

/// A chunk of the feed and the progress after it.
struct Piece {
    bytes: Vec<u8>,
    progress: Progress,
}

/// Produces the first chunk. A filter function that fails usually does so on the first documents. Before the head of
/// the response is sent, the error can still be the answer, so with a filter function the first chunk is read here.
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

async fn run_feed(feed: Arc<Feed>, hub: Arc<Hub>, readers: Arc<Semaphore>, sender: Sender, begun: Piece) {
    if let Err(error) = follow(&feed, &hub, &readers, &sender, begun).await {
        // The head has been sent, so all that is left is to close the connection.
        tracing::warn!(%error, namespace = %feed.collection.namespace(), "a feed was aborted");
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
    let mut next_check = last_sent + CHECK;
    // Ids that are listed in the filter are looked up directly on the first pass.
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
        // Report everything that exists, chunk by chunk.
        loop {
            if progress.left == 0 || sender.is_closed() {
                break;
            }
            let window = windows.borrow_and_update().clone();
            if progress.since >= window.end {
                break;
            }
            // A change of rights holds for changes that come after it.
            if !feed.reader.may_go_on() {
                let _ = send(sender, last_piece(feed, progress, &windows)).await;
                return Ok(());
            }
            // Without documents the hub's rows suffice; a feed that lags behind reads the log.
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
        // A longpoll feed ends with the first rows.
        let is_done = progress.left == 0 || (kind == Kind::Longpoll && progress.written > 0);
        if is_done || windows.borrow().closed {
            break;
        }
        if !wait(feed, &mut windows, sender, progress, &mut last_sent, &mut next_check).await? {
            break;
        }
    }
    if sender.is_closed() {
        return Ok(());
    }
    let _ = send(sender, last_piece(feed, progress, &windows)).await;
    Ok(())
}

/// Waits for a change. Returns whether the feed continues.
async fn wait(
    feed: &Feed,
    windows: &mut watch::Receiver<Arc<Window>>,
    sender: &Sender,
    progress: Progress,
    last_sent: &mut Instant,
    next_check: &mut Instant,
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
            () = tokio::time::sleep_until(*next_check) => {
                *next_check = Instant::now() + CHECK;
                if !feed.reader.may_go_on() {
                    return Ok(false);
                }
            }
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

/// Sends a heartbeat.
async fn beat(feed: &Feed, sender: &Sender) -> Sent {
    let beat: &[u8] = match feed.parameters.kind {
        Kind::EventSource => b"event: heartbeat\ndata: \n\n",
        _ => b"\n",
    };
    send(sender, beat.to_vec()).await
}

/// The end of a feed that timed out or reached its limit.
fn last_piece(feed: &Feed, progress: Progress, windows: &watch::Receiver<Arc<Window>>) -> Vec<u8> {
    let mut out = Vec::new();
    let window = windows.borrow();
    // A feed before the window counts sequences, an upper bound of its pending changes.
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

/// Formats the next chunk from the hub's rows.
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

/// Reads the next chunk on one of the shared threads; `None` if the client leaves. A filter may reject many changes
/// in a row, so heartbeats are sent while it runs.
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

/// Reads the next changes of the log; stops early if `is_ended` returns true.
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

/// Reads the current changes of the ids in the filter.
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

/// An error means that the client is gone.
type Sent = std::result::Result<(), mpsc::error::SendError<io::Result<Bytes>>>;

async fn send(sender: &Sender, bytes: Vec<u8>) -> Sent {
    sender.send(Ok(bytes.into())).await
}

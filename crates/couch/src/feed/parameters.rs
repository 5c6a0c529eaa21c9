//! What is asked of a feed.

use crate::document::Show;
use crate::error::{Error, Result};
use crate::http::Request;
use crate::sequence::{self, Since};
use diwan_store::Collection;
use hyper::header::HeaderName;
use std::num::NonZeroU64;
use std::time::Duration;

/// The longest time that a feed is silent, and the usual one.
pub const LONGEST_SILENCE: Duration = Duration::from_secs(60);
/// Heartbeats come no more often.
const SHORTEST_BEAT: Duration = Duration::from_millis(10);

/// The kinds of feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What there is.
    Normal,
    /// What there is, or the first that comes.
    Longpoll,
    /// What there is and all that comes, a line each.
    Continuous,
    /// The same, as browsers' `EventSource` reads it.
    EventSource,
}

impl Kind {
    /// Reads a kind's name; absent it is the first.
    pub fn parse(text: Option<&str>) -> Result<Kind> {
        match text {
            None | Some("normal") => Ok(Kind::Normal),
            Some("longpoll") => Ok(Kind::Longpoll),
            Some("continuous" | "live") => Ok(Kind::Continuous),
            Some("eventsource") => Ok(Kind::EventSource),
            Some(_) => Err(Error::bad_request(
                "Supported `feed` types: normal, continuous, live, longpoll, eventsource",
            )),
        }
    }
}

/// What a feed does that has nothing to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Ends after this time.
    Timeout(Duration),
    /// Shows each time that it lives.
    Heartbeat(Duration),
}

impl Patience {
    /// Reads `timeout` and `heartbeat`.
    pub fn read(request: &Request) -> Result<Patience> {
        let query = &request.query;
        let beat = match query.get("heartbeat") {
            None | Some("false") => None,
            Some("true") => Some(LONGEST_SILENCE),
            Some(text) => match text.parse::<i64>() {
                Ok(millis @ 1..) => Some(Duration::from_millis(millis.unsigned_abs())),
                Ok(_) => {
                    return Err(Error::bad_request(
                        "The heartbeat value should be a positive integer (in milliseconds).",
                    ));
                }
                Err(_) => {
                    return Err(Error::bad_request(
                        "Invalid heartbeat value. Expecting a positive integer value (in milliseconds).",
                    ));
                }
            },
        };
        if let Some(beat) = beat {
            return Ok(Patience::Heartbeat(beat.clamp(SHORTEST_BEAT, LONGEST_SILENCE)));
        }
        let timeout = match query.get("timeout") {
            Some("infinity") => LONGEST_SILENCE,
            _ => query.number("timeout")?.map_or(LONGEST_SILENCE, Duration::from_millis),
        };
        Ok(Patience::Timeout(timeout.min(LONGEST_SILENCE)))
    }

    /// The time.
    pub fn period(self) -> Duration {
        match self {
            Patience::Timeout(period) | Patience::Heartbeat(period) => period,
        }
    }
}

/// What is asked of a feed.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// Which kind it is.
    pub kind: Kind,
    /// After which change it begins.
    pub since: Since,
    /// How many rows it has at most.
    pub limit: u64,
    /// From the newest to the oldest.
    pub descending: bool,
    /// What it does in silence.
    pub patience: Patience,
    /// Whether rows have their documents.
    pub include_docs: bool,
    /// What is shown of them.
    pub show: Show,
    /// Whether rows name all leaves of a document, not only the winner.
    pub all_leaves: bool,
    /// Only each so-manieth row has its sequence.
    pub sequence_interval: Option<NonZeroU64>,
}

/// How many rows a feed without a limit has at most, as CouchDB counts.
const NO_LIMIT: u64 = 1_000_000_000_000_000;

impl Parameters {
    /// Whether a row has its sequence, before which there may be so many rows more. As in CouchDB, the rows are counted
    /// from the limit down: which ones have a sequence depends on it.
    pub fn has_sequence(&self, left: u64) -> bool {
        self.sequence_interval.is_none_or(|interval| left.is_multiple_of(interval.get()))
    }

    /// Reads them.
    pub fn read(request: &Request, collection: &Collection) -> Result<Parameters> {
        let query = &request.query;
        let kind = Kind::parse(query.get("feed"))?;
        let last_event = HeaderName::from_static("last-event-id");
        let since = query
            .get("last-event-id")
            .or_else(|| request.header(last_event).filter(|_| kind == Kind::EventSource))
            .or_else(|| query.get("since"));
        let descending = query.is_set("descending") || query.get("dir") == Some("rev");
        let since = match since {
            None => Since::Sequence(0),
            // One that goes backwards begins at the end, and does not look at this.
            Some(_) if descending => Since::Now,
            Some(text) => sequence::parse(collection, text)?,
        };
        let all_leaves = match query.get("style") {
            None | Some("main_only") => false,
            Some("all_docs") => true,
            Some(_) => return Err(Error::bad_request("`style` must be `main_only` or `all_docs`")),
        };
        let sequence_interval = match query.get("seq_interval").map(str::parse) {
            None => None,
            Some(Ok(interval)) => Some(interval),
            Some(Err(_)) => return Err(Error::bad_request("invalid_seq_interval")),
        };
        Ok(Parameters {
            kind,
            since,
            limit: query.number("limit")?.unwrap_or(NO_LIMIT),
            descending,
            patience: Patience::read(request)?,
            include_docs: query.is_set("include_docs"),
            show: Show {
                conflicts: query.is_set("conflicts"),
                attachments: query.is_set("attachments"),
                att_encoding_info: query.is_set("att_encoding_info"),
                ..Show::default()
            },
            all_leaves,
            sequence_interval,
        })
    }
}

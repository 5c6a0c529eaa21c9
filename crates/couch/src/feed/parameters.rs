//! The parameters of feeds.

use crate::document::Show;
use crate::error::{Error, Result};
use crate::http::Request;
use crate::sequence::{self, Since};
use diwan_store::Collection;
use hyper::header::HeaderName;
use std::num::NonZeroU64;
use std::time::Duration;

/// The default and the largest value of `timeout` and `heartbeat`.
pub(super) const LONGEST_SILENCE: Duration = Duration::from_secs(60);
/// The shortest heartbeat interval.
const SHORTEST_BEAT: Duration = Duration::from_millis(10);

/// The `feed` parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Existing changes only.
    Normal,
    /// Existing changes, or else the first new one.
    Longpoll,
    /// Existing and all new changes, one per line.
    Continuous,
    /// The same in the format of browsers' `EventSource`.
    EventSource,
}

impl Kind {
    /// Parses the parameter; the default is `normal`.
    pub(crate) fn parse(text: Option<&str>) -> Result<Kind> {
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

/// What a feed does while there is nothing to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Ends after this time.
    Timeout(Duration),
    /// Sends an empty line at this interval.
    Heartbeat(Duration),
}

impl Patience {
    /// Parses `timeout` and `heartbeat`.
    pub(crate) fn read(request: &Request) -> Result<Patience> {
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

    pub(crate) fn period(self) -> Duration {
        match self {
            Patience::Timeout(period) | Patience::Heartbeat(period) => period,
        }
    }
}

/// The parameters of a feed.
#[derive(Clone, Debug)]
pub(crate) struct Parameters {
    /// The kind of feed.
    pub(crate) kind: Kind,
    /// The feed starts after this change.
    pub(crate) since: Since,
    /// The largest number of rows.
    pub(crate) limit: u64,
    /// Reports the newest change first.
    pub(crate) descending: bool,
    /// What the feed does while there is nothing to report.
    pub(crate) patience: Patience,
    /// Whether rows contain their documents.
    pub(crate) include_docs: bool,
    /// What is shown of the documents.
    pub(crate) show: Show,
    /// Whether rows name all leaves of a document and not only the winner.
    pub(crate) all_leaves: bool,
    /// Only one in this many rows states its sequence.
    sequence_interval: Option<NonZeroU64>,
}

/// The limit of a feed without one. As in CouchDB it also determines which rows state their sequence.
const NO_LIMIT: u64 = 1_000_000_000_000_000;

impl Parameters {
    /// Whether a row states its sequence, given how many rows the limit still allows. As in CouchDB the rows are
    /// counted down from the limit.
    pub(crate) fn has_sequence(&self, left: u64) -> bool {
        self.sequence_interval.is_none_or(|interval| left.is_multiple_of(interval.get()))
    }

    /// Parses the parameters of a request.
    pub(crate) fn read(request: &Request, collection: &Collection) -> Result<Parameters> {
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
            // A descending feed always starts at the end and ignores the value.
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

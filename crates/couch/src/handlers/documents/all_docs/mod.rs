//! `/{db}/_all_docs`, `/{db}/_design_docs`, `/{db}/_partition/{partition}/_all_docs`: documents in the order of their
//! ids.
//!
//! Rows are written as the client reads. A long listing does not keep its first snapshot: after a while it continues
//! after its last row in a newer snapshot.

mod order;

use super::local;
use crate::document::{self, Show};
use crate::error::{Error, Result};
use crate::handlers::listing::{Edge, Interval, Members, Parameters, each_query};
use crate::http::{Flow, Request, Response, RowWriter};
use crate::partition;
use crate::sequence;
use crate::users;
use diwan_kv::Direction;
use diwan_store::{Collection, ReadView, Record};
use diwan_value::Value as Bson;
use order::Walk;
use serde_json::Value;
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;

/// `offset` is only reported up to this many documents, because counting them takes a scan.
const MOST_COUNTED: u64 = 50_000;
/// The documents that are listed.
#[derive(Clone, Debug)]
enum Namespace {
    All,
    Design,
    Partition(String),
}

/// Lists all documents.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    list(request, None, false)
}

/// Lists all documents with parameters in the body.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    list(request, None, true)
}

/// All documents, or those of the partition in the parameters.
fn chosen(collection: &Collection, members: &Members<'_>) -> Result<Namespace> {
    let Some(partition) = members.text("partition") else { return Ok(Namespace::All) };
    if !partition::is_partitioned(collection) {
        return Err(partition::not_supported());
    }
    partition::check(&partition)?;
    Ok(Namespace::Partition(partition.into_owned()))
}

/// Answers several listings at once.
pub(crate) fn queries(request: &mut Request) -> Result<Response> {
    several(request, None)
}

/// Lists design documents.
pub(crate) fn get_design(request: &mut Request) -> Result<Response> {
    list(request, Some(Namespace::Design), false)
}

/// Lists design documents with parameters in the body.
pub(crate) fn post_design(request: &mut Request) -> Result<Response> {
    list(request, Some(Namespace::Design), true)
}

/// Answers several listings of design documents at once.
pub(crate) fn queries_design(request: &mut Request) -> Result<Response> {
    several(request, Some(Namespace::Design))
}

/// Lists the documents of a partition.
pub(crate) fn get_partition(request: &mut Request) -> Result<Response> {
    let partition = partition::of(request)?;
    list(request, Some(Namespace::Partition(partition)), false)
}

/// Lists the documents of a partition with parameters in the body.
pub(crate) fn post_partition(request: &mut Request) -> Result<Response> {
    let partition = partition::of(request)?;
    list(request, Some(Namespace::Partition(partition)), true)
}

/// Lists the `given` documents, or else those that the parameters select.
fn list(request: &mut Request, given: Option<Namespace>, has_body: bool) -> Result<Response> {
    let collection = request.database()?;
    let body = match has_body {
        true => {
            request.require_json()?;
            Some(request.read_object()?)
        }
        false => None,
    };
    let members = Members::new(&request.query, body.as_ref());
    let namespace = given.map_or_else(|| chosen(&collection, &members), Ok)?;
    let parameters = Parameters::read(&members)?;
    let public = users::listed_fields(request, &collection);
    let mut listing = Listing { public, ..Listing::new(collection, namespace, parameters) };
    Ok(Response::rows(move |out| {
        let flow = listing.write(out)?;
        if flow == Flow::Done {
            out.buffer().push(b'\n');
        }
        Ok(flow)
    }))
}

fn several(request: &mut Request, given: Option<Namespace>) -> Result<Response> {
    let collection = request.database()?;
    let body = request.read_object()?;
    let mut listings = each_query(&body)?
        .into_iter()
        .map(|query| {
            let members = Members::of_one(&request.query, query);
            let namespace = given.clone().map_or_else(|| chosen(&collection, &members), Ok)?;
            Ok(Listing::new(collection.clone(), namespace, Parameters::read(&members)?))
        })
        .collect::<Result<Vec<_>>>()?;
    let mut at = 0;
    Ok(Response::rows(move |out| {
        let Some(listing) = listings.get_mut(at) else {
            out.write_all(if at == 0 { b"{\"results\":[\r\n]}\n" } else { b"\r\n]}\n" })?;
            return Ok(Flow::Done);
        };
        if listing.progress.is_none() {
            out.write_all(if at == 0 { b"{\"results\":[\r\n" } else { b",\r\n" })?;
        }
        if listing.write(out)? == Flow::Done {
            at += 1;
        }
        Ok(Flow::More)
    }))
}

/// One listing with its state.
struct Listing {
    collection: Arc<Collection>,
    namespace: Namespace,
    parameters: Parameters,
    /// The requested interval within the namespace.
    interval: Interval,
    show: Show,
    /// The fields of documents that the caller sees, if they are not all.
    public: Option<Vec<String>>,
    /// `None` before the head is written.
    progress: Option<Progress>,
}

/// The state of a listing.
enum Progress {
    /// A scan: its position, how many documents are still to be skipped, how many rows the limit still allows, and
    /// whether the next row is the first.
    Scan { walk: Walk, skip: u64, left: u64, first: bool },
    /// A lookup of `keys`: how many were looked up, and whether the next row is the first.
    Keys { next: usize, first: bool },
}

impl Listing {
    fn new(collection: Arc<Collection>, namespace: Namespace, parameters: Parameters) -> Listing {
        let interval = parameters.interval.clone().within(&namespace.interval());
        let show = Show {
            conflicts: parameters.conflicts,
            attachments: parameters.attachments,
            att_encoding_info: parameters.att_encoding_info,
            ..Show::default()
        };
        Listing { collection, namespace, parameters, interval, show, public: None, progress: None }
    }

    /// Writes the listing until the buffer is full.
    fn write(&mut self, out: &mut RowWriter) -> Result<Flow> {
        let mut progress = match self.progress.take() {
            Some(progress) => progress,
            None => self.begin(out)?,
        };
        let view = out.view(&self.collection);
        let flow = match &mut progress {
            Progress::Scan { walk, skip, left, first } => {
                let mut rows = Rows { listing: self, skip, left, first };
                rows.write(out, &view, walk)?
            }
            Progress::Keys { next, first } => self.write_keys(out, &view, next, first)?,
        };
        if flow == Flow::Done {
            out.buffer().extend_from_slice(b"\r\n]}");
        }
        self.progress = Some(progress);
        Ok(flow)
    }

    /// Writes the members before the rows.
    fn begin(&self, out: &mut RowWriter) -> Result<Progress> {
        // Read the sequence before taking the snapshot, so that the documents are at least as new as `update_seq`.
        let sequence = self.collection.last_sequence();
        let view = out.new_view(&self.collection);
        let total = self.total(&view)?;
        if self.parameters.keys.is_some() {
            self.write_head(out, total, None, None);
            return Ok(Progress::Keys { next: 0, first: true });
        }
        let skip = self.parameters.skip;
        let offset = self.offset(&view)?.map(|offset| total.min(offset.saturating_add(skip)));
        self.write_head(out, total, offset, Some(sequence));
        let left = self.parameters.limit.unwrap_or(u64::MAX);
        Ok(Progress::Scan { walk: Walk::new(&self.interval), skip, left, first: true })
    }

    fn write_head(&self, out: &mut RowWriter, total: u64, offset: Option<u64>, sequence: Option<u64>) {
        let buffer = out.buffer();
        let _ = write!(buffer, "{{\"total_rows\":{total},\"offset\":");
        match offset {
            Some(offset) => drop(write!(buffer, "{offset}")),
            None => buffer.extend_from_slice(b"null"),
        }
        if self.parameters.update_seq {
            match sequence {
                Some(sequence) => {
                    let text = sequence::text(&self.collection, sequence);
                    let _ = write!(buffer, ",\"update_seq\":\"{text}\"");
                }
                None => buffer.extend_from_slice(b",\"update_seq\":null"),
            }
        }
        buffer.extend_from_slice(b",\"rows\":[");
    }

    fn direction(&self) -> Direction {
        if self.parameters.descending { Direction::Reverse } else { Direction::Forward }
    }

    /// The value of `total_rows`. For a partition it counts the whole database.
    fn total(&self, view: &ReadView) -> Result<u64> {
        match &self.namespace {
            Namespace::Design => count(view, &self.namespace.interval(), u64::MAX),
            _ => Ok(self.collection.count()),
        }
    }

    /// Counts the documents of the namespace before the interval; `None` if there are too many.
    fn offset(&self, view: &ReadView) -> Result<Option<u64>> {
        let begin = match self.direction() {
            Direction::Forward => self.parameters.interval.low.clone(),
            Direction::Reverse => self.parameters.interval.high.clone(),
        };
        let Some(begin) = begin else { return Ok(Some(0)) };
        let edge = Some(Edge::new(begin.text, !begin.inclusive));
        let before = match self.direction() {
            Direction::Forward => Interval { low: None, high: edge },
            Direction::Reverse => Interval { low: edge, high: None },
        };
        let counted = count(view, &before.within(&self.namespace.interval()), MOST_COUNTED)?;
        Ok((counted < MOST_COUNTED).then_some(counted))
    }

    fn write_keys(
        &self,
        out: &mut RowWriter,
        view: &ReadView,
        next: &mut usize,
        first: &mut bool,
    ) -> Result<Flow> {
        let keys = self.parameters.keys.as_deref().unwrap_or_default();
        let (skip, limit) = self.parameters.page();
        let count = keys.len().saturating_sub(skip).min(limit);
        while *next < count && !out.is_full() {
            let at = skip + *next;
            let key = match self.direction() {
                Direction::Forward => &keys[at],
                Direction::Reverse => &keys[keys.len() - 1 - at],
            };
            // A key that cannot be a design document's id yields no row, although it counts towards `limit`.
            let is_row = match &self.namespace {
                Namespace::Design => key.as_str().is_some_and(|text| self.namespace.has(text)),
                _ => true,
            };
            if is_row {
                let separator: &[u8] = if std::mem::take(first) { b"\r\n" } else { b",\r\n" };
                out.buffer().extend_from_slice(separator);
                self.write_key(out, view, key)?;
            }
            *next += 1;
        }
        Ok(if *next < count { Flow::More } else { Flow::Done })
    }

    fn write_key(&self, out: &mut RowWriter, view: &ReadView, key: &Value) -> Result<()> {
        // As in CouchDB, `keys` may name documents outside the partition.
        let is_open = !matches!(self.namespace, Namespace::Design);
        if is_open
            && let Some(name) = key.as_str().and_then(document::local_name)
            && self.public.is_none()
            && let Some(local) = self.collection.local(name)?
        {
            local::write_row(out.buffer(), name, &local, self.parameters.include_docs);
            return Ok(());
        }
        let id = key
            .as_str()
            .filter(|text| is_open || self.namespace.has(text))
            .and_then(|text| document::parse_id(text).ok());
        let found = match &id {
            Some(id) => view.document(&id.key)?,
            None => None,
        };
        let buffer = out.buffer();
        let (Some(id), Some(found)) = (id, found) else {
            let _ = write!(buffer, "{{\"key\":{key},\"error\":\"not_found\"}}");
            return Ok(());
        };
        let _ = write!(buffer, "{{\"id\":{key},\"key\":{key},\"value\":{{\"rev\":");
        document::write_rev(buffer, &found.revision);
        if found.deleted {
            buffer.extend_from_slice(b",\"deleted\":true");
        }
        buffer.push(b'}');
        if self.parameters.include_docs {
            buffer.extend_from_slice(b",\"doc\":");
            match (found.deleted && !self.parameters.deleted_docs, &self.public) {
                (true, _) => buffer.extend_from_slice(b"null"),
                (false, Some(fields)) => users::write_public(buffer, found.doc.as_doc(), fields),
                (false, None) => document::write_doc(out, view, &id.key, &found, &self.show)?,
            }
        }
        out.buffer().push(b'}');
        Ok(())
    }
}

impl Namespace {
    fn interval(&self) -> Interval {
        match self {
            Namespace::All => Interval::default(),
            Namespace::Design => Interval::prefix("_design/"),
            Namespace::Partition(partition) => Interval::prefix(&format!("{partition}:")),
        }
    }

    fn has(&self, id: &str) -> bool {
        match self {
            Namespace::All => true,
            Namespace::Design => id.starts_with("_design/"),
            Namespace::Partition(partition) => partition::has(partition, id),
        }
    }
}

/// Writes the rows of a scan.
struct Rows<'a> {
    listing: &'a Listing,
    skip: &'a mut u64,
    left: &'a mut u64,
    first: &'a mut bool,
}

impl Rows<'_> {
    fn write(&mut self, out: &mut RowWriter, view: &ReadView, walk: &mut Walk) -> Result<Flow> {
        if *self.left == 0 {
            return Ok(Flow::Done);
        }
        let direction = self.listing.direction();
        let mut failure: Option<Error> = None;
        let flow = walk.go(view, direction, &mut |id, record| {
            self.row(out, view, id, &record).unwrap_or_else(|error| {
                failure = Some(error);
                ControlFlow::Break(())
            })
        })?;
        match failure {
            Some(error) => Err(error),
            None if flow.is_break() && *self.left > 0 => Ok(Flow::More),
            None => Ok(Flow::Done),
        }
    }

    #[inline]
    fn row(
        &mut self,
        out: &mut RowWriter,
        view: &ReadView,
        id: &[u8],
        record: &Record<'_>,
    ) -> Result<ControlFlow<()>> {
        if *self.skip > 0 {
            *self.skip -= 1;
            return Ok(ControlFlow::Continue(()));
        }
        let value = record.doc.get("_id").unwrap_or(Bson::Null);
        let revision = record.revision();
        let buffer = out.buffer();
        buffer.extend_from_slice(if std::mem::take(self.first) { b"\r\n{\"id\":" } else { b",\r\n{\"id\":" });
        let start = buffer.len();
        document::write_id(buffer, value);
        let end = buffer.len();
        buffer.extend_from_slice(b",\"key\":");
        buffer.extend_from_within(start..end);
        buffer.extend_from_slice(b",\"value\":{\"rev\":\"");
        document::push_rev(buffer, &revision);
        buffer.extend_from_slice(b"\"}");
        let listing = self.listing;
        if listing.parameters.include_docs {
            buffer.extend_from_slice(b",\"doc\":");
            // Most documents can be written from the record that the scan holds; only these options need another read.
            let is_plain = !(listing.show.conflicts && record.has_branches())
                && !((listing.show.attachments || listing.show.att_encoding_info)
                    && record.has_attachments());
            if let Some(fields) = &listing.public {
                users::write_public(buffer, record.doc, fields);
            } else if is_plain {
                document::write_record(buffer, record)?;
            } else {
                match view.document(id)? {
                    Some(found) => document::write_doc(out, view, id, &found, &listing.show)?,
                    None => out.buffer().extend_from_slice(b"null"),
                }
            }
        }
        out.buffer().push(b'}');
        *self.left -= 1;
        Ok(if *self.left == 0 || out.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

/// Counts the documents in an interval, up to `most`.
fn count(view: &ReadView, interval: &Interval, most: u64) -> Result<u64> {
    let mut count = 0;
    let _ = Walk::new(interval).go(view, Direction::Forward, &mut |_, _| {
        count += 1;
        if count < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(count)
}

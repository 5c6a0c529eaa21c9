//! `local.oplog.rs`: the events of the log as a read-only collection, in the form of MongoDB's operation log, for clients
//! that follow it instead of change streams.
//!
//! The first read begins to record everything, as a change stream on the deployment does. The first entry is a note (`op:
//! "n"`) of the time at which the history begins.

use super::event::{Event, EventKind};
use super::interest::Interest;
use super::position::Position;
use super::recordings::StreamLease;
use super::scope::EventScope;
use super::shape::Shape;
use super::stream::{OpenStream, StreamState};
use crate::error::{Error, Result};
use crate::exec::as_query_error;
use crate::namespace::Namespace;
use crate::ops::{Aggregate, Find};
use crate::plan::Hint;
use crate::store::Store;
use diwan_kv::{Direction, KeyRange, Pairs, Space};
use diwan_query::pipeline::DocSource;
use diwan_query::sort::Sort;
use diwan_query::{Interrupt, code};
use diwan_value::{Array, Doc, DocBuf, DocBuilder, Timestamp, Value};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

/// The election term in entries. There is one member, which never holds an election.
const TERM: i64 = 1;
/// The version of the entries' form.
const VERSION: i64 = 2;

/// Whether a name is that of the operation log.
pub fn is_oplog(namespace: &Namespace) -> bool {
    namespace.database == "local" && namespace.collection == "oplog.rs"
}

impl Store {
    /// Opens a find on the operation log.
    pub fn open_oplog(self: &Arc<Self>, request: &Find<'_>) -> Result<OpenStream> {
        let sort = request.sort.map(Sort::parse).transpose()?;
        let natural = sort.as_ref().and_then(Sort::natural);
        let is_reverse = natural == Some(diwan_value::key::Direction::Descending);
        if request.limits.is_some() || request.return_key {
            return Err(Error::refused(
                code::BAD_VALUE,
                "min, max and returnKey need an index, which the oplog has not",
            ));
        }
        if request.tailable && (is_reverse || request.skip > 0) {
            let text = "a tailable cursor on the oplog reads forward from its start";
            return Err(Error::refused(code::BAD_VALUE, text));
        }
        let after = start_of(request.filter);
        let (source, state) = self.oplog_source(after, is_reverse)?;
        let order = request.sort.filter(|_| natural.is_none());
        let limit = request.limit.filter(|_| !request.tailable);
        let stages = Find { sort: order, limit, ..request.clone() }.to_pipeline();
        let namespace = Namespace::new("local", "oplog.rs")?;
        let request = Aggregate {
            pipeline: Array::trusted(&stages),
            hint: Hint::None,
            scope: request.scope.clone(),
            bypass_validation: false,
        };
        let (pipeline, execution) = self.prepare_pipeline(Some(&namespace), "local", &request)?;
        Ok(OpenStream { source: pipeline.open(source, &execution)?, state })
    }

    /// The entries after a position, oldest first or newest first.
    pub(crate) fn oplog_source(
        self: &Arc<Self>,
        after: Position,
        is_reverse: bool,
    ) -> Result<(Box<dyn DocSource>, Arc<StreamState>)> {
        let scope = EventScope::Everything;
        let lease = self.record(&scope)?;
        let since = self.shared.events.recorded_since(&scope);
        let begin = Position::before(since);
        let interest = Interest::new(Shape::expanded(), None);
        let state = Arc::new(StreamState::at(self.clone(), scope, interest, after.max(begin)));
        let note = (after < begin).then(|| note(since));
        let source = OplogSource {
            state: state.clone(),
            events: VecDeque::new(),
            note,
            current: DocBuf::new(),
            _lease: lease,
        };
        Ok(match is_reverse {
            false => (Box::new(source), state),
            true => {
                let range = KeyRange {
                    start: Bound::Excluded(after.max(begin).key().to_vec().into()),
                    end: Bound::Unbounded,
                };
                let (store, pairs) = (self.clone(), None);
                (Box::new(ReverseOplog { entries: source, store, rest: range, pairs, held: None }), state)
            }
        })
    }
}

/// The position behind which a filter's entries lie.
fn start_of(filter: Doc<'_>) -> Position {
    let bound = |condition: Value<'_>| match condition {
        Value::Timestamp(time) => Position::before(time),
        Value::Document(conditions) => {
            let bounds = conditions.iter().filter_map(|element| match (element.key, element.value()) {
                (b"$gt", Value::Timestamp(time)) => Some(Position::after(time)),
                (b"$gte" | b"$eq", Value::Timestamp(time)) => Some(Position::before(time)),
                _ => None,
            });
            bounds.max().unwrap_or_default()
        }
        _ => Position::default(),
    };
    let own = filter.get("ts").map(bound).unwrap_or_default();
    let nested = filter.get_array("$and").into_iter().flat_map(Array::iter).filter_map(Value::as_doc);
    nested.map(start_of).max().unwrap_or_default().max(own)
}

/// The entries, oldest first. After the last one there may be more.
struct OplogSource {
    state: Arc<StreamState>,
    /// Events that were read and not shown yet.
    events: VecDeque<Arc<Event>>,
    /// The entry that says where the history begins.
    note: Option<DocBuf>,
    current: DocBuf,
    _lease: StreamLease,
}

impl OplogSource {
    fn next_event(&mut self) -> Result<Option<Arc<Event>>> {
        loop {
            if self.events.is_empty() {
                self.events = self.state.read_on()?.into();
            }
            let Some(event) = self.events.pop_front() else { return Ok(None) };
            self.state.pass(event.position);
            if self.state.shows(&event) {
                return Ok(Some(event));
            }
        }
    }

    fn step(&mut self) -> Result<bool> {
        if let Some(note) = self.note.take() {
            self.current = note;
            return Ok(true);
        }
        let Some(first) = self.next_event()? else { return Ok(false) };
        let mut events = vec![first];
        // The events of a transaction have one time, and were committed together.
        loop {
            if self.events.is_empty() {
                self.events = self.state.read_on()?.into();
            }
            match self.events.pop_front() {
                Some(next) if next.position.time == events[0].position.time => {
                    self.state.pass(next.position);
                    events.extend(self.state.shows(&next).then_some(next));
                }
                Some(next) => {
                    self.events.push_front(next);
                    break;
                }
                None => break,
            }
        }
        self.current = entry(&events);
        Ok(true)
    }
}

impl DocSource for OplogSource {
    fn advance(&mut self, interrupt: &Interrupt) -> diwan_query::Result<bool> {
        interrupt.check()?;
        self.step().map_err(as_query_error)
    }

    fn current(&self) -> Doc<'_> {
        self.current.as_doc()
    }

    /// Events that were read and not shown are read again.
    fn suspend(&mut self) {
        self.events = VecDeque::new();
        self.current = DocBuf::new();
    }
}

/// The entries, newest first.
struct ReverseOplog {
    entries: OplogSource,
    store: Arc<Store>,
    /// The part of the log that was not shown yet.
    rest: KeyRange,
    /// The events of `rest`, while they are read.
    pairs: Option<Pairs>,
    /// An event of the next entry.
    held: Option<Arc<Event>>,
}

impl ReverseOplog {
    fn next_event(&mut self) -> Result<Option<Arc<Event>>> {
        if let Some(held) = self.held.take() {
            return Ok(Some(held));
        }
        let engine = &self.store.shared.engine;
        let scan = || engine.snapshot().scan(Space::Events, self.rest.clone(), Direction::Reverse);
        for pair in self.pairs.get_or_insert_with(scan) {
            let (key, value) = pair?;
            let position = Position::from_key(&key)
                .ok_or_else(|| Error::Damaged("a position in the log of events".to_owned()))?;
            let event = Event::new(position, value.to_vec());
            if self.entries.state.shows(&event) {
                return Ok(Some(Arc::new(event)));
            }
        }
        Ok(None)
    }

    fn step(&mut self) -> Result<bool> {
        let Some(newest) = self.next_event()? else {
            self.entries.current = match self.entries.note.take() {
                Some(note) => note,
                None => return Ok(false),
            };
            return Ok(true);
        };
        let mut events = vec![newest];
        while let Some(event) = self.next_event()? {
            if event.position.time != events[0].position.time {
                self.held = Some(event);
                break;
            }
            events.push(event);
        }
        events.reverse();
        self.rest.end = Bound::Excluded(events[0].position.key().to_vec().into());
        self.entries.current = entry(&events);
        Ok(true)
    }
}

impl DocSource for ReverseOplog {
    fn advance(&mut self, interrupt: &Interrupt) -> diwan_query::Result<bool> {
        interrupt.check()?;
        self.step().map_err(as_query_error)
    }

    fn current(&self) -> Doc<'_> {
        self.entries.current()
    }

    fn suspend(&mut self) {
        (self.pairs, self.held) = (None, None);
        self.entries.suspend();
    }
}

/// The entry that says where the history begins.
fn note(since: Timestamp) -> DocBuf {
    let mut out = DocBuilder::new();
    out.append("op", "n").append("ns", "").begin_document("o").append("msg", "the history begins").end();
    out.append("ts", since).append("t", TERM).append("v", VERSION);
    out.append("wall", Value::DateTime(i64::from(since.seconds) * 1000));
    out.finish()
}

/// The entry of one event, or of the events of a transaction.
fn entry(events: &[Arc<Event>]) -> DocBuf {
    let mut out = DocBuilder::new();
    let Some(first) = events.first() else { return DocBuf::new() };
    match (events, first.session()) {
        ([event], None) => append_operation(event, &mut out),
        (_, session) => {
            if let Some(session) = session {
                out.append("lsid", session);
            }
            if let Some(number) = first.transaction_number() {
                out.append("txnNumber", number);
            }
            out.append("op", "c").append("ns", "admin.$cmd").begin_document("o").begin_array("applyOps");
            for (at, event) in events.iter().enumerate() {
                let mut operation = DocBuilder::new();
                append_operation(event, &mut operation);
                out.append_indexed(at, operation.finish());
            }
            out.end().end();
        }
    }
    out.append("ts", first.position.timestamp()).append("t", TERM).append("v", VERSION);
    if let Some(wall) = first.wall_time() {
        out.append("wall", wall);
    }
    out.finish()
}

/// The fields `op`, `ns`, `ui`, `o` and `o2` of an event.
fn append_operation(event: &Event, out: &mut DocBuilder) {
    let (database, collection) = (event.database(), event.collection());
    let full = format!("{database}.{collection}");
    let (operation, name) = match event.kind() {
        EventKind::Insert => ("i", full.clone()),
        EventKind::Update | EventKind::Replace => ("u", full.clone()),
        EventKind::Delete => ("d", full.clone()),
        _ => ("c", format!("{database}.$cmd")),
    };
    out.append("op", operation).append("ns", name.as_str());
    if let Some(uuid) = event.uuid() {
        out.append("ui", uuid);
    }
    let key = event.document_key().unwrap_or(Doc::EMPTY);
    match event.kind() {
        EventKind::Insert | EventKind::Replace => {
            out.append("o", event.document().unwrap_or(Doc::EMPTY)).append("o2", key);
        }
        EventKind::Update => {
            out.begin_document("o").append("$v", 2);
            out.append("diff", diff(event.update().unwrap_or(Doc::EMPTY)));
            out.end().append("o2", key);
        }
        EventKind::Delete => {
            out.append("o", key);
        }
        kind => {
            out.append("o", command(kind, event, &full));
        }
    }
}

/// The command that an event of a collection or database stands for.
fn command(kind: EventKind, event: &Event, full: &str) -> DocBuf {
    let mut out = DocBuilder::new();
    let description = event.description().unwrap_or(Doc::EMPTY);
    match kind {
        EventKind::DropDatabase => {
            out.append("dropDatabase", 1);
        }
        EventKind::Drop => {
            out.append("drop", event.collection());
        }
        EventKind::Rename => {
            let to = event.target().unwrap_or(Doc::EMPTY);
            let to = format!(
                "{}.{}",
                to.get_str("db").unwrap_or_default(),
                to.get_str("coll").unwrap_or_default()
            );
            out.append("renameCollection", full).append("to", to.as_str()).append("stayTemp", false);
            if let Some(dropped) = description.get("dropTarget") {
                out.append("dropTarget", dropped);
            }
        }
        kind => {
            let name = match kind {
                EventKind::Modify => "collMod",
                EventKind::CreateIndexes => "createIndexes",
                EventKind::DropIndexes => "dropIndexes",
                _ => "create",
            };
            out.append(name, event.collection()).append_all(description);
        }
    }
    out.finish()
}

/// The changes below one field or element.
#[derive(Default)]
struct Changes<'a> {
    is_array: bool,
    truncated: Option<Value<'a>>,
    removed: Vec<&'a str>,
    updated: Vec<(String, Value<'a>)>,
    below: BTreeMap<String, Changes<'a>>,
}

/// A part of a path, and whether it is the place of an array's element.
type Part = (String, bool);

/// The difference of an update in the form of `$v: 2`: below each document `d` (removed), `u` (set) and `s…` (changed within),
/// below each array `a: true`, `l` (its length if it is shorter), `u…` and `s…`.
fn diff(update: Doc<'_>) -> DocBuf {
    let ambiguous = update.get_doc("disambiguatedPaths").unwrap_or(Doc::EMPTY);
    let mut root = Changes::default();
    for element in update.get_doc("updatedFields").unwrap_or(Doc::EMPTY).iter() {
        let (last, parent) = root.place(parts(element.key_str(), ambiguous));
        parent.updated.push((last, element.value()));
    }
    for path in update.get_array("removedFields").into_iter().flat_map(Array::iter) {
        let Value::String(path) = path else { continue };
        let depth = parts(path, ambiguous);
        let name = path.len() - depth.last().map_or(0, |(name, _)| name.len());
        let (_, parent) = root.place(depth);
        parent.removed.push(&path[name..]);
    }
    for array in update.get_array("truncatedArrays").into_iter().flat_map(Array::iter) {
        let Some((path, size)) = array.as_doc().and_then(|doc| doc.get_str("field").zip(doc.get("newSize")))
        else {
            continue;
        };
        let (last, parent) = root.place(parts(path, ambiguous));
        let array = parent.below.entry(last).or_default();
        (array.is_array, array.truncated) = (true, Some(size));
    }
    root.to_doc()
}

/// The parts of a path. A number below the first level is an element's place unless the path is ambiguous.
fn parts(path: &str, ambiguous: Doc<'_>) -> Vec<Part> {
    if let Some(parts) = ambiguous.get_array(path) {
        return parts
            .iter()
            .map(|part| match part {
                Value::String(name) => (name.to_owned(), false),
                number => (number.as_i64_exact().unwrap_or_default().to_string(), true),
            })
            .collect();
    }
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    path.split('.').enumerate().map(|(at, part)| (part.to_owned(), at > 0 && is_number(part))).collect()
}

impl<'a> Changes<'a> {
    /// The last part of a path, and the changes of the document or array that it is in.
    fn place(&mut self, mut path: Vec<Part>) -> (String, &mut Changes<'a>) {
        let (last, is_element) = path.pop().unwrap_or_default();
        let mut parent = self;
        for (name, is_element) in path {
            parent.is_array |= is_element;
            parent = parent.below.entry(name).or_default();
        }
        parent.is_array |= is_element;
        (last, parent)
    }

    fn to_doc(&self) -> DocBuf {
        let mut out = DocBuilder::new();
        if self.is_array {
            out.append("a", true);
            if let Some(length) = self.truncated {
                out.append("l", length);
            }
            for (place, value) in &self.updated {
                out.append(&format!("u{place}"), *value);
            }
        } else {
            if !self.removed.is_empty() {
                out.begin_document("d");
                for name in &self.removed {
                    out.append(name, false);
                }
                out.end();
            }
            if !self.updated.is_empty() {
                out.begin_document("u");
                for (name, value) in &self.updated {
                    out.append(name, *value);
                }
                out.end();
            }
        }
        for (name, below) in &self.below {
            out.append(&format!("s{name}"), below.to_doc());
        }
        out.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::diff::describe;
    use super::*;
    use diwan_value::{array, doc};

    #[test]
    fn diff_names_documents_and_arrays() {
        let old = doc! { "a": 1, "gone": 1, "b": doc! { "c": 1, "d": array![1, 2, 3, 4], "0": 1 }, "e": array![1, 2, 3, 4] };
        let new =
            doc! { "a": 2, "b": doc! { "c": 1, "d": array![1, 9, 3, 4], "0": 2 }, "e": array![1, 2, 3] };
        let description = describe(old.as_doc(), new.as_doc());
        let expected = doc! {
            "d": doc! { "gone": false },
            "u": doc! { "a": 2 },
            "sb": doc! { "u": doc! { "0": 2 }, "sd": doc! { "a": true, "u1": 9 } },
            "se": doc! { "a": true, "l": 3 },
        };
        assert_eq!(diff(description.as_doc()), expected);
    }

    #[test]
    fn start_of_finds_the_bound_of_the_time() {
        let time = Timestamp { seconds: 5, increment: 2 };
        assert_eq!(start_of(doc! { "ts": doc! { "$gt": time } }.as_doc()), Position::after(time));
        let nested = doc! { "$and": array![doc! { "ns": "x" }, doc! { "ts": doc! { "$gte": time } }] };
        assert_eq!(start_of(nested.as_doc()), Position::before(time));
        assert_eq!(start_of(doc! { "ts": doc! { "$lt": time } }.as_doc()), Position::default());
    }
}

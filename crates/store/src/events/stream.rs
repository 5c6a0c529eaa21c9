//! Change streams: the documents that clients see, made from the events of the log.

use super::event::{Event, EventKind};
use super::interest::{Interest, ShownEvents};
use super::output::Output;
use super::position::{Position, Token};
use super::readers::EventSubscription;
use super::recordings::StreamLease;
use super::scope::EventScope;
use super::shape::{self, Shape};
use crate::collection::id_key;
use crate::error::{Error, Result};
use crate::exec::as_query_error;
use crate::namespace::Namespace;
use crate::ops::Aggregate;
use crate::store::{Entry, Store};
use diwan_kv::Space;
use diwan_query::display::ShownDoc;
use diwan_query::pipeline::{DocSource, Operation, StreamStart};
use diwan_query::{Interrupt, code};
use diwan_value::{Doc, DocBuf, Timestamp, Value};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// The stream cannot be continued from this token.
pub(super) const FATAL: i32 = 280;
/// The history that the token needs is gone.
const HISTORY_LOST: i32 = 286;
/// A token of an event that ended its stream.
const INVALID_TOKEN: i32 = 260;

/// How many events a stream looks at before it pauses: a reader whose filter matches nothing must not read for ever.
const EVENTS_IN_A_ROW: usize = 10_000;

/// A stream that was opened.
pub struct OpenStream {
    /// The documents. The source has more after it had none.
    pub source: Box<dyn DocSource>,
    /// How far it has come.
    pub state: Arc<StreamState>,
}

/// How far a stream has come, for replies and for waiting.
pub struct StreamState {
    store: Arc<Store>,
    scope: EventScope,
    interest: Interest,
    progress: Mutex<Progress>,
}

#[derive(Clone, Copy)]
struct Progress {
    /// Behind everything that the stream has looked at.
    scanned: Position,
    /// The token of the event that was shown last.
    shown: Token,
    /// Whether an event has ended the stream.
    has_ended: bool,
}

impl StreamState {
    /// A reader that has come to a position.
    pub(super) fn at(
        store: Arc<Store>,
        scope: EventScope,
        interest: Interest,
        position: Position,
    ) -> StreamState {
        let origin = store.shared.events.origin();
        let shown = Token { position, is_invalidate: false, is_between: true, fragment: 0, origin };
        let progress = Progress { scanned: position, shown, has_ended: false };
        StreamState { store, scope, interest, progress: Mutex::new(progress) }
    }

    /// Some of the events that come next. Fails if events between were deleted.
    pub(super) fn read_on(&self) -> Result<Vec<Arc<Event>>> {
        let scanned = self.progress.lock().scanned;
        let shared = &self.store.shared;
        let events = shared.events.read(shared.engine.as_ref(), scanned)?;
        // Asked after the read: the mark of what is deleted is set before anything is.
        if !shared.events.holds(&self.scope, scanned) {
            return Err(history_lost());
        }
        if events.is_empty()
            && let Some(end) = shared.events.end(scanned)
        {
            // The token of a stream that has nothing to show does not grow old.
            self.pass(end);
        }
        Ok(events)
    }

    /// Notes that an event has been looked at.
    pub(super) fn pass(&self, position: Position) {
        self.progress.lock().scanned = position;
    }

    /// Whether the stream shows an event, if its pipeline does.
    pub(super) fn shows(&self, event: &Event) -> bool {
        self.scope.shows(event) && self.interest.shape.shows(event)
    }

    /// Whether the stream, which waits, has to look at the events that follow `from`. If it would show none of them, it has
    /// passed them when this returns.
    pub(super) fn is_woken_by(&self, from: Position, events: &[Arc<Event>], shown: &mut ShownEvents) -> bool {
        let is_shown = |(at, event): (usize, &Arc<Event>)| {
            self.shows(event) && self.interest.lets_pass(self.token_at(event.position), event, at, shown)
        };
        if events.iter().enumerate().any(is_shown) {
            return true;
        }
        let mut progress = self.progress.lock();
        // A stream that is further behind has not looked at what is before these events.
        if progress.scanned < from {
            return true;
        }
        let last = events.last().map_or(from, |event| event.position);
        progress.scanned = progress.scanned.max(last);
        false
    }

    /// The token with which a new stream continues where this one is.
    pub fn token(&self) -> Token {
        let progress = *self.progress.lock();
        match progress.has_ended || progress.shown.position == progress.scanned {
            true => progress.shown,
            false => Token { is_between: true, ..self.token_at(progress.scanned) },
        }
    }

    /// The token behind the whole event at a position.
    fn token_at(&self, position: Position) -> Token {
        let origin = self.store.shared.events.origin();
        Token { position, is_invalidate: false, is_between: false, fragment: 0, origin }
    }

    /// The token of the event that was shown last.
    pub(super) fn shown(&self) -> Token {
        self.progress.lock().shown
    }

    /// Notes that an event, or a part of it, is shown.
    pub(super) fn show(&self, token: Token) {
        self.progress.lock().shown = token;
    }

    /// Whether an event has ended the stream: the cursor has no more documents.
    pub fn has_ended(&self) -> bool {
        self.progress.lock().has_ended
    }

    /// Whether there may be events that the stream has not looked at.
    pub fn has_news(&self) -> bool {
        self.progress.lock().scanned < self.store.shared.events.newest()
    }

    /// Calls `callback` in another thread after commits with events that the stream, which waits, may show. Check
    /// [`StreamState::has_news`] afterwards.
    pub fn on_event(self: &Arc<Self>, callback: Box<dyn Fn() + Send + Sync>) -> EventSubscription {
        self.store.shared.events.readers.add(self.clone(), callback)
    }
}

impl Store {
    /// Opens the stream of a pipeline whose first stage is `$changeStream`. `collection` is `None` for `aggregate: 1`.
    pub fn open_stream(
        self: &Arc<Self>,
        collection: Option<&Namespace>,
        database: &str,
        request: &Aggregate<'_>,
    ) -> Result<OpenStream> {
        let (pipeline, execution) = self.prepare_pipeline(collection, database, request)?;
        let Some(Operation::ChangeStream(stream)) = pipeline.stages.first().map(|stage| &stage.operation)
        else {
            return Err(Error::refused(code::BAD_VALUE, "the pipeline does not begin with $changeStream"));
        };
        let scope = match collection {
            _ if stream.is_of_cluster => EventScope::Everything,
            None => EventScope::Database(database.to_owned()),
            Some(name) => EventScope::Collection(name.clone()),
        };
        if let Some(Entry::View(view)) = collection.and_then(|name| self.entry(name)) {
            return Err(Error::refused(
                code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                format!("Namespace {} is a view, not a collection", view.namespace),
            ));
        }
        let start = start_of(&stream.start)?;
        let lease = self.record(&scope)?;
        let events = &self.shared.events;
        let mut ending = None;
        let after = match start {
            Start::Token(token) => {
                let event = self.find_event(&scope, token)?;
                ending =
                    event.filter(|event| !token.is_invalidate && is_ended_by(&scope, event)).map(Arc::new);
                if token.fragment > 0 { token.position.previous() } else { token.position }
            }
            Start::Time(time) => {
                let position = Position::before(time);
                self.check_history(&scope, position)?;
                position
            }
            Start::Now => events.start(&scope),
        };
        let following = pipeline.after(1);
        let filter = match following.stages.first().map(|stage| &stage.operation) {
            Some(Operation::Match(filter)) => Some((filter.clone(), execution.context.clone())),
            _ => None,
        };
        let interest = Interest::new(Shape::of(stream), filter);
        let state = Arc::new(StreamState::at(self.clone(), scope, interest, after));
        let source = Box::new(EventSource {
            state: state.clone(),
            events: VecDeque::new(),
            ending,
            in_a_row: 0,
            current: DocBuf::new(),
            _lease: lease,
        });
        let splits =
            following.stages.iter().any(|stage| matches!(stage.operation, Operation::SplitLargeEvent));
        let resumed = match start {
            Start::Token(token) if token.fragment > 0 => Some(token),
            _ => None,
        };
        if resumed.is_some() && !splits {
            let text =
                "To resume from a split event, the stream must include a $changeStreamSplitLargeEvent stage";
            return Err(Error::refused(FATAL, text));
        }
        let source = following.open(source, &execution)?;
        let source = Box::new(Output::new(source, state.clone(), splits, resumed));
        Ok(OpenStream { source, state })
    }

    /// Refuses a start whose history is gone.
    fn check_history(&self, scope: &EventScope, position: Position) -> Result<()> {
        if self.shared.events.holds(scope, position) {
            return Ok(());
        }
        Err(history_lost())
    }

    /// The event of a token; none if the token is between events. Refuses a token that is not of this store, or of an
    /// event that the stream would not show.
    fn find_event(&self, scope: &EventScope, token: Token) -> Result<Option<Event>> {
        if token.origin == self.shared.events.origin() {
            self.check_history(scope, token.position)?;
            if token.is_between {
                return Ok(None);
            }
            let found = self.shared.engine.get(Space::Events, &token.position.key())?;
            let event = found.map(|value| Event::new(token.position, value.to_vec()));
            if let Some(event) = event.filter(|event| scope.shows(event)) {
                return Ok(Some(event));
            }
        }
        let shown = token.to_doc();
        let text =
            format!("cannot resume stream; the resume token was not found. {}", ShownDoc(shown.as_doc()));
        Err(Error::refused(FATAL, text))
    }
}

fn history_lost() -> Error {
    let text = "Resume of change stream was not possible, as the resume point may no longer be in the oplog.";
    Error::refused(HISTORY_LOST, text)
}

/// Whether an event ends what a stream of the scope is about.
fn is_ended_by(scope: &EventScope, event: &Event) -> bool {
    match scope {
        EventScope::Collection(_) => matches!(event.kind(), EventKind::Drop | EventKind::Rename),
        EventScope::Database(_) => event.kind() == EventKind::DropDatabase,
        EventScope::Everything => false,
    }
}

/// Where a stream begins.
enum Start {
    Now,
    Time(Timestamp),
    Token(Token),
}

/// The start that the options name.
fn start_of(start: &StreamStart) -> Result<Start> {
    let parse = |doc: &DocBuf| match doc.as_doc().get("_data") {
        Some(Value::String(_)) => {
            Token::parse(doc.as_doc()).map_err(|error| Error::refused(INVALID_TOKEN, error.to_string()))
        }
        other => {
            let found = other.map_or("missing", |value| value.tag().alias());
            let text = format!("Bad resume token: _data of missing or of wrong type: {found}");
            Err(Error::refused(40647, text))
        }
    };
    Ok(match start {
        StreamStart::Now => Start::Now,
        StreamStart::AtTime(time) => Start::Time(*time),
        StreamStart::StartAfter(token) => Start::Token(parse(token)?),
        StreamStart::ResumeAfter(token) => {
            let token = parse(token)?;
            if token.is_invalidate {
                let text = "Attempting to resume a change stream using 'resumeAfter' is not allowed from an invalidate \
                            notification.";
                return Err(Error::refused(INVALID_TOKEN, text));
            }
            Start::Token(token)
        }
    })
}

/// The events of a scope as documents.
struct EventSource {
    state: Arc<StreamState>,
    /// Events that were read and not shown yet.
    events: VecDeque<Arc<Event>>,
    /// The last event of the stream, which is shown next.
    ending: Option<Arc<Event>>,
    /// How many events were looked at since the last pause.
    in_a_row: usize,
    current: DocBuf,
    _lease: StreamLease,
}

impl DocSource for EventSource {
    fn advance(&mut self, interrupt: &Interrupt) -> diwan_query::Result<bool> {
        if let Some(event) = self.ending.take() {
            let token = Token { is_invalidate: true, ..self.state.token_at(event.position) };
            self.current = shape::invalidate(token, &event);
            let mut progress = self.state.progress.lock();
            (progress.shown, progress.has_ended) = (token, true);
            return Ok(true);
        }
        if self.state.has_ended() {
            return Ok(false);
        }
        loop {
            interrupt.check()?;
            self.in_a_row += 1;
            if self.in_a_row > EVENTS_IN_A_ROW {
                self.in_a_row = 0;
                return Ok(false);
            }
            let event = match self.events.pop_front() {
                Some(event) => event,
                None => {
                    self.events = self.state.read_on().map_err(as_query_error)?.into();
                    match self.events.pop_front() {
                        Some(event) => event,
                        None => return Ok(false),
                    }
                }
            };
            self.state.pass(event.position);
            if !self.state.shows(&event) {
                continue;
            }
            let token = self.state.token_at(event.position);
            let document = self.state.interest.shape.document(token, &event, || self.present(&event));
            self.current = document.map_err(as_query_error)?;
            self.state.show(token);
            if is_ended_by(&self.state.scope, &event) {
                self.ending = Some(event);
            }
            return Ok(true);
        }
    }

    fn current(&self) -> Doc<'_> {
        self.current.as_doc()
    }

    /// An idle stream keeps no documents. Events that were read and not shown are read again.
    fn suspend(&mut self) {
        self.events = VecDeque::new();
        self.current = DocBuf::new();
    }
}

impl EventSource {
    /// The document as it is now.
    fn present(&self, event: &Event) -> Result<Option<DocBuf>> {
        let name =
            Namespace { database: event.database().to_owned(), collection: event.collection().to_owned() };
        let Some(Entry::Collection(collection)) = self.state.store.entry(&name) else { return Ok(None) };
        let is_same = matches!(event.uuid(), Some(Value::Binary { bytes, .. }) if bytes == collection.uuid());
        let Some(id) = event.document_key().and_then(|key| key.get("_id")).filter(|_| is_same) else {
            return Ok(None);
        };
        Ok(collection.get(&id_key(id)?)?.map(|stored| stored.doc().to_owned()))
    }
}

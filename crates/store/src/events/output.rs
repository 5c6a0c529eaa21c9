//! The end of a stream's pipeline: tokens must be kept, and an event larger than a document may be is split or refused.

use super::position::Token;
use super::stream::{FATAL, StreamState};
use diwan_query::display::ShownDoc;
use diwan_query::pipeline::DocSource;
use diwan_query::{Error, Interrupt, Result};
use diwan_value::{Doc, DocBuf, DocBuilder, Element, Value};
use std::collections::VecDeque;
use std::sync::Arc;

/// The bytes of the largest document in a reply: what a document may have, and some more for the fields of the event.
const MAX_EVENT_BYTES: usize = (16 << 20) + (16 << 10);
/// The bytes that a fragment needs for its token and its number.
const FRAGMENT_HEADER: usize = 256;
/// The event is larger than a document may be.
const TOO_LARGE: i32 = 10334;

/// The documents of a stream as clients get them.
pub(super) struct Output {
    source: Box<dyn DocSource>,
    state: Arc<StreamState>,
    /// Whether the pipeline ends with `$changeStreamSplitLargeEvent`.
    splits: bool,
    /// The token of a fragment, if the stream continues behind it.
    resumed: Option<Token>,
    /// What is left of the event that is shown in fragments.
    fragments: VecDeque<(Token, DocBuf)>,
    /// The fragment that is shown; `None` while whole events are.
    fragment: Option<DocBuf>,
}

impl Output {
    pub fn new(
        source: Box<dyn DocSource>,
        state: Arc<StreamState>,
        splits: bool,
        resumed: Option<Token>,
    ) -> Output {
        Output { source, state, splits, resumed, fragments: VecDeque::new(), fragment: None }
    }

    /// Shows the next fragment of an event; false if there is none.
    fn next_fragment(&mut self) -> bool {
        let next = self.fragments.pop_front();
        self.fragment = next.map(|(token, fragment)| {
            self.state.show(token);
            fragment
        });
        self.fragment.is_some()
    }
}

impl DocSource for Output {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        if self.next_fragment() {
            return Ok(true);
        }
        while self.source.advance(interrupt)? {
            let (doc, token) = (self.source.current(), self.state.shown());
            check_token(doc, token)?;
            if doc.as_bytes().len() <= MAX_EVENT_BYTES {
                return Ok(true);
            }
            if !self.splits {
                return Err(too_large(doc.as_bytes().len()));
            }
            self.fragments = split(doc, token)?;
            if let Some(resumed) = self.resumed.take_if(|resumed| resumed.position == token.position) {
                self.fragments.drain(..self.fragments.len().min(resumed.fragment as usize));
            }
            if self.next_fragment() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn current(&self) -> Doc<'_> {
        self.fragment.as_ref().map_or_else(|| self.source.current(), DocBuf::as_doc)
    }

    fn suspend(&mut self) {
        // What is left of a split event stays: the document may change before it is read again.
        self.fragment = None;
        self.source.suspend();
    }
}

/// Refuses a document whose token the pipeline changed: the client could not continue behind it.
fn check_token(doc: Doc<'_>, token: Token) -> Result<()> {
    let (expected, found) = (token.to_doc(), doc.get("_id"));
    if found == Some(Value::Document(expected.as_doc())) {
        return Ok(());
    }
    let shown = |value: Option<Value<'_>>| {
        let mut doc = DocBuilder::new();
        if let Some(value) = value {
            doc.append("_id", value);
        }
        ShownDoc(doc.finish().as_doc()).to_string()
    };
    let text = format!(
        "Encountered an event whose _id field, which contains the resume token, was modified by the pipeline. Modifying \
         the _id field of an event makes it impossible to resume the stream from that point. Only transformations that \
         retain the unmodified _id field are allowed. Expected: {} but found: {}",
        shown(Some(Value::Document(expected.as_doc()))),
        shown(found)
    );
    Err(Error::new(FATAL, text))
}

fn too_large(bytes: usize) -> Error {
    let text = format!(
        "BSONObj size: {bytes} (0x{bytes:X}) is invalid. Size must be between 0 and {MAX_EVENT_BYTES}(16MB)"
    );
    Error::new(TOO_LARGE, text)
}

/// Divides the fields of an event among documents with the event's token and their number: small fields come first.
fn split(doc: Doc<'_>, token: Token) -> Result<VecDeque<(Token, DocBuf)>> {
    let bytes = |field: &Element<'_>| field.key.len() + 2 + field.raw.bytes.len();
    let mut fields: Vec<Element<'_>> = doc.iter().filter(|field| field.key != b"_id").collect();
    fields.sort_by_key(bytes);
    let mut parts: Vec<Vec<Element<'_>>> = Vec::new();
    let mut room = 0;
    for field in fields {
        let needed = bytes(&field);
        if needed > room {
            room = MAX_EVENT_BYTES - FRAGMENT_HEADER;
            parts.push(Vec::new());
        }
        room = room.checked_sub(needed).ok_or_else(|| too_large(needed))?;
        if let Some(part) = parts.last_mut() {
            part.push(field);
        }
    }
    let of = parts.len() as i32;
    let fragments = parts.iter().zip(1..).map(|(part, number)| {
        let token = Token { fragment: number as u32, ..token };
        let mut out = DocBuilder::new();
        out.append("_id", token.to_doc());
        out.begin_document("splitEvent").append("fragment", number).append("of", of).end();
        for field in part {
            out.append_element(*field);
        }
        (token, out.finish())
    });
    Ok(fragments.collect())
}

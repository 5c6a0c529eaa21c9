//! The documents that streams show of events.

use super::event::{Event, EventKind};
use super::position::Token;
use crate::error::{Error, Result};
use diwan_query::pipeline::{BeforeChange, ChangeStream, FullDocument};
use diwan_value::{Append, Doc, DocBuf, DocBuilder, Value};

/// An image that was required is not there.
const NO_DOCUMENT: i32 = 47;

/// Which fields a stream's documents have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    pub full_document: FullDocument,
    before_change: BeforeChange,
    shows_expanded: bool,
}

impl Shape {
    pub fn of(stream: &ChangeStream) -> Shape {
        let ChangeStream { full_document, before_change, shows_expanded, .. } = *stream;
        Shape { full_document, before_change, shows_expanded }
    }

    /// Every event, for a reader that makes its documents itself.
    pub fn expanded() -> Shape {
        Shape { shows_expanded: true, ..Shape::default() }
    }

    /// Whether events of this kind are shown.
    pub fn shows(&self, event: &Event) -> bool {
        self.shows_expanded || !event.kind().is_expanded()
    }

    /// The document of an event, with MongoDB's fields in their order. `present` finds the document as it is now.
    pub fn document(
        &self,
        token: Token,
        event: &Event,
        present: impl FnOnce() -> Result<Option<DocBuf>>,
    ) -> Result<DocBuf> {
        let kind = event.kind();
        let mut out = begin_document(token, kind.name(), event);
        if self.shows_expanded {
            append_some("collectionUUID", event.uuid(), &mut out);
        }
        append_some("wallTime", event.wall_time(), &mut out);
        append_some("txnNumber", event.transaction_number(), &mut out);
        if let Some(session) = event.session() {
            out.append("lsid", session);
        }
        match kind {
            EventKind::Insert | EventKind::Replace => {
                append_some("fullDocument", event.document(), &mut out);
            }
            EventKind::Update => self.append_full(event, present, &mut out)?,
            _ => {}
        }
        out.begin_document("ns").append("db", event.database());
        if !event.collection().is_empty() {
            out.append("coll", event.collection());
        }
        out.end();
        append_some("to", event.target(), &mut out);
        append_some("documentKey", event.document_key(), &mut out);
        if let Some(update) = event.update() {
            out.begin_document("updateDescription");
            for field in update.iter() {
                if self.shows_expanded || field.key != b"disambiguatedPaths" {
                    out.append_element(field);
                }
            }
            out.end();
        }
        if self.shows_expanded {
            append_some("operationDescription", event.description().filter(|doc| !doc.is_empty()), &mut out);
            append_some("stateBeforeChange", event.state_before(), &mut out);
        }
        if matches!(kind, EventKind::Update | EventKind::Replace | EventKind::Delete) {
            let needs = (self.before_change != BeforeChange::Off)
                .then_some(self.before_change == BeforeChange::Required);
            if let Some(is_required) = needs {
                append_image(
                    "fullDocumentBeforeChange",
                    event.document_before(),
                    is_required,
                    "pre-image for all update, delete and replace events, but the pre-image",
                    &mut out,
                )?;
            }
        }
        Ok(out.finish())
    }

    /// The document of an update, as the option `fullDocument` wants it.
    fn append_full(
        &self,
        event: &Event,
        present: impl FnOnce() -> Result<Option<DocBuf>>,
        out: &mut DocBuilder,
    ) -> Result<()> {
        match self.full_document {
            FullDocument::Default => {}
            FullDocument::UpdateLookup => match present()? {
                Some(document) => {
                    out.append("fullDocument", document);
                }
                None => {
                    out.append("fullDocument", Value::Null);
                }
            },
            kept => append_image(
                "fullDocument",
                event.document(),
                kept == FullDocument::Required,
                "post-image for all update events, but the post-image",
                out,
            )?,
        }
        Ok(())
    }
}

/// The document that ends a stream.
pub(super) fn invalidate(token: Token, event: &Event) -> DocBuf {
    let mut out = begin_document(token, "invalidate", event);
    append_some("wallTime", event.wall_time(), &mut out);
    out.finish()
}

fn append_some(field: &str, value: Option<impl Append>, out: &mut DocBuilder) {
    if let Some(value) = value {
        out.append(field, value);
    }
}

fn begin_document(token: Token, operation: &str, event: &Event) -> DocBuilder {
    let mut out = DocBuilder::new();
    out.append("_id", token.to_doc()).append("operationType", operation);
    out.append("clusterTime", event.position.timestamp());
    out
}

/// Appends a version of the document that the event holds, or null.
fn append_image(
    field: &str,
    image: Option<Doc<'_>>,
    is_required: bool,
    what: &str,
    out: &mut DocBuilder,
) -> Result<()> {
    match image {
        Some(image) => {
            out.append(field, image);
        }
        None if is_required => {
            let text = format!("Change stream was configured to require a {what} was not found for an event");
            return Err(Error::refused(NO_DOCUMENT, text));
        }
        None => {
            out.append(field, Value::Null);
        }
    }
    Ok(())
}

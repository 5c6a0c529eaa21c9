//! A small library: authors and books that refer to them, a design document, a book with a conflict and a picture.

use crate::document::stream;
use crate::edit::{Context, Draft, Named, edit_all, error_of};
use crate::error::{Error, Result};
use crate::server::Couch;
use diwan_store::{Collection, RevisionOutcome};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::Arc;

const DOCUMENTS: &str = include_str!("library.json");
const PICTURE: &str = include_str!("first-edition.svg");
/// The document that has the picture in one of its revisions.
const PICTURED: &str = "book:dracula";

#[derive(Deserialize)]
struct Library<'a> {
    /// New documents.
    #[serde(borrow)]
    documents: Vec<&'a RawValue>,
    /// Revisions that other servers could have made.
    #[serde(borrow)]
    revisions: Vec<&'a RawValue>,
}

/// Stores the documents.
pub(super) fn fill(couch: &Couch, collection: &Arc<Collection>) -> Result<()> {
    let library: Library<'_> =
        serde_json::from_str(DOCUMENTS).map_err(|error| Error::bad_request(error.to_string()))?;
    store(couch, collection, &library.documents, false)?;
    store(couch, collection, &library.revisions, true)
}

fn store(couch: &Couch, collection: &Arc<Collection>, texts: &[&RawValue], replicated: bool) -> Result<()> {
    let context = Context { couch, collection, max_bytes: DOCUMENTS.len(), replicated };
    let mut drafts = Vec::with_capacity(texts.len());
    for text in texts {
        let mut draft =
            Draft::read(&context, text.get().as_bytes(), None, &Named::default(), String::new, None)?;
        if draft.id == PICTURED && !drafts.iter().any(|earlier: &Draft| earlier.id == draft.id) {
            let (blob, _) = stream(couch, collection, "image/svg+xml", false, &mut PICTURE.as_bytes())?;
            draft.attach("first-edition.svg", "image/svg+xml", blob);
        }
        drafts.push(draft);
    }
    let edits: Vec<_> = drafts.iter().filter_map(Draft::edit).collect();
    let report = edit_all(couch, collection, &edits, None)?;
    for outcome in report.outcomes {
        if !matches!(outcome, RevisionOutcome::Written(_) | RevisionOutcome::Known(_)) {
            return Err(error_of(outcome));
        }
    }
    Ok(())
}

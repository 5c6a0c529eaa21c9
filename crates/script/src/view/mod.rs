//! Views: what the map functions of a design document emit for a collection's documents, in the order of the keys,
//! with reductions.

mod parameters;

pub use parameters::{GroupLevel, Update, ViewQuery};

use crate::design::{Design, DesignOptions, ViewDefinition};
use crate::error::{Error, Result};
use crate::sandbox::Sandbox;
use diwan_store::{Collection, Namespace, ReadView, Store};
use std::sync::Arc;

/// A row of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// The id of the document that emitted it; a reduced row has none.
    pub id: Option<&'a str>,
    /// The key, as JSON.
    pub key: &'a str,
    /// The value, as JSON.
    pub value: &'a str,
    /// The document, as JSON, if documents were asked for: its own or the one that the value names.
    pub doc: Option<&'a str>,
}

/// What is told before the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewHead {
    /// How many rows the view has; nothing for reduced rows.
    pub total_rows: Option<u64>,
    /// How many rows lie before the first of these; nothing for reduced rows.
    pub offset: Option<u64>,
    /// As of which sequence of the collection the rows are, if that was asked for.
    pub update_seq: Option<u64>,
}

/// Takes the answer to a query: the head once, then the rows.
pub trait ViewSink {
    /// Takes the head.
    fn head(&mut self, head: &ViewHead) -> Result<()>;

    /// Takes a row; says whether more are wanted.
    fn row(&mut self, row: &Row<'_>) -> Result<bool>;
}

/// Writes the documents of rows.
pub trait Documents {
    /// Appends the document with this id, in a certain revision or the winning one, as JSON. Says whether there is one;
    /// a deleted one counts only if its revision was asked for.
    fn write(
        &self,
        view: &ReadView,
        id: &str,
        revision: Option<&str>,
        query: &ViewQuery,
        out: &mut Vec<u8>,
    ) -> Result<bool>;
}

/// Documents without conflicts and attachments' bodies.
pub struct StoredDocuments;

/// A view that nobody stores.
#[derive(Clone, Debug)]
pub struct TemporaryView {
    /// Its functions.
    pub view: ViewDefinition,
    /// The language they are written in.
    pub language: String,
    /// Its options.
    pub options: DesignOptions,
}

/// The indexes of views.
pub struct Views {
    store: Arc<Store>,
    sandbox: Arc<Sandbox>,
}

/// An index that is being built or updated, as `_active_tasks` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The collection.
    pub namespace: Namespace,
    /// The design document's id.
    pub design_document: String,
    /// How many documents, or changes, have been mapped.
    pub changes_done: u64,
    /// How many there are to be mapped.
    pub total_changes: u64,
    /// When it began, in seconds since the Unix epoch.
    pub started_on: u64,
    /// When it last went on, in seconds since the Unix epoch.
    pub updated_on: u64,
}

impl Task {
    /// How much is done, in percent.
    pub fn progress(&self) -> u64 {
        if self.total_changes == 0 { 100 } else { (self.changes_done * 100 / self.total_changes).min(100) }
    }
}

/// What `_design/x/_info` tells of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewInfo {
    /// What identifies the index.
    pub signature: String,
    /// The language of the functions.
    pub language: String,
    /// The sequence up to which the index has followed its collection.
    pub update_seq: u64,
    /// How many changes it has not followed yet.
    pub pending: u64,
    /// It is being built or updated.
    pub updater_running: bool,
    /// How many wait for that.
    pub waiting_clients: u64,
    /// How many rows all views have.
    pub rows: u64,
    /// How many bytes the rows' keys and values have.
    pub external_bytes: u64,
}

impl Views {
    /// The views of a store. Nothing is read before it is asked for.
    pub fn new(store: Arc<Store>, sandbox: Arc<Sandbox>) -> Arc<Views> {
        Arc::new(Views { store, sandbox })
    }
    /// Answers a query of a view.
    pub fn query(
        self: &Arc<Self>,
        collection: &Arc<Collection>,
        design: &Design,
        view: &str,
        query: &ViewQuery,
        documents: &dyn Documents,
        sink: &mut dyn ViewSink,
    ) -> Result<()> {
        let _ = (collection, design, view, query, documents, sink, &self.store, &self.sandbox);
        Err(Error::Ended)
    }

    /// Answers a query of a view that is made for it alone.
    pub fn temporary(
        &self,
        collection: &Arc<Collection>,
        view: &TemporaryView,
        query: &ViewQuery,
        documents: &dyn Documents,
        sink: &mut dyn ViewSink,
    ) -> Result<()> {
        let _ = (collection, view, query, documents, sink);
        Err(Error::Ended)
    }

    /// What there is to tell of a design document's index.
    pub fn info(&self, collection: &Arc<Collection>, design: &Design) -> Result<ViewInfo> {
        let _ = (collection, design);
        Err(Error::Ended)
    }

    /// Removes the indexes that no design document of the collection asks for any more; says how many.
    pub fn cleanup(&self, collection: &Arc<Collection>) -> Result<usize> {
        let _ = collection;
        Err(Error::Ended)
    }

    /// What is being built and updated now.
    pub fn tasks(&self) -> Vec<Task> {
        Vec::new()
    }

    /// Ends what runs in the background; it goes on where it was when the index is asked for again.
    pub fn stop(&self) {}
}

//! Views: the rows that the map functions of a design document emit for a collection's documents, ordered by key, with
//! reductions.

mod answer;
mod build;
mod claim;
mod document;
mod header;
mod index;
mod mapping;
mod nodes;
mod parameters;
mod rows;
mod tasks;
mod temporary;
mod trial;
mod update;

pub use index::Waiting;
pub use parameters::{GroupLevel, Update, ViewQuery};

use crate::design::{Design, DesignOptions, ViewDefinition, design_documents};
use crate::error::{Error, Result};
use crate::sandbox::{Limits, Sandbox};
use answer::{Cursor, RowSource};
use claim::Claim;
use diwan_store::keys::IndexId;
use diwan_store::{Collection, Namespace, ReadView};
use header::Header;
use index::Index;
use nodes::StoredNodes;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
pub use tasks::{Progress, Tasks};
pub use trial::{Trial, TrialDocument, TrialScope};

/// A row of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// The id of the document that emitted the row; a reduced row has none.
    pub id: Option<&'a str>,
    /// The key, as JSON.
    pub key: &'a str,
    /// The value, as JSON.
    pub value: &'a str,
    /// The document as JSON, if documents were requested: the emitting one or the one that the value names.
    pub doc: Option<&'a str>,
}

/// The part of an answer before the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewHead {
    /// The number of rows of the view; `None` for reduced rows.
    pub total_rows: Option<u64>,
    /// The number of rows before the first one of the answer; `None` for reduced rows.
    pub offset: Option<u64>,
    /// The sequence that the rows reflect, if it was requested.
    pub update_seq: Option<u64>,
}

/// Receives the answer to a query: the head once, then the rows.
pub trait ViewSink {
    /// Receives the head.
    fn head(&mut self, head: &ViewHead) -> Result<()>;

    /// Receives a row. Returns whether it can take more rows now.
    fn row(&mut self, row: &Row<'_>) -> Result<bool>;
}

/// Writes the documents of rows.
pub trait Documents {
    /// Appends the document with this id as JSON, in the given revision or the winning one. Returns whether it exists.
    /// A deleted document exists only if its revision was given.
    fn write(
        &self,
        view: &ReadView,
        id: &str,
        revision: Option<&str>,
        query: &ViewQuery,
        out: &mut Vec<u8>,
    ) -> Result<bool>;
}

/// The outcome of starting a query.
pub enum Queried {
    /// The query can be answered.
    Answer(Box<ViewAnswer>),
    /// Another request builds or updates the index, and the caller should retry soon. It counts as waiting until this
    /// value is dropped.
    Busy(Waiting),
}

/// An answer that is read in parts. Between two parts it holds no resources of the store.
pub struct ViewAnswer {
    query: ViewQuery,
    source: AnswerSource,
    cursor: Option<Cursor>,
    limits: Limits,
}

enum AnswerSource {
    /// A view of a stored index. Without a number, the index does not exist yet.
    Stored {
        index: Option<IndexId>,
        view: String,
        none: Header,
    },
    Temporary(Box<temporary::BuiltView>),
}

impl ViewAnswer {
    /// Sends the head, if it was not sent yet, and rows until the sink stops. Returns whether there may be more. Each
    /// call may use a different snapshot of the collection; the answer continues after the last row.
    pub fn go_on(
        &mut self,
        snapshot: &ReadView,
        documents: &dyn Documents,
        sink: &mut dyn ViewSink,
    ) -> Result<bool> {
        let (query, cursor) = (&self.query, &mut self.cursor);
        let (index, view, none) = match &self.source {
            AnswerSource::Temporary(made) => {
                return made.answer(snapshot, cursor, query, self.limits, documents, sink);
            }
            AnswerSource::Stored { index, view, none } => (*index, view, none),
        };
        let stored;
        let header = match index {
            Some(number) => {
                stored = Header::decode(&snapshot.view_header(number)?.ok_or(Error::Replaced)?)?;
                &stored
            }
            None => none,
        };
        let missing = || Error::NotFound("missing_named_view".to_owned());
        let (at, state) = header.view(view).ok_or_else(missing)?;
        let sources = [(view.as_str(), state.reduce.as_deref().filter(|_| query.reduce != Some(false)))];
        let reduce = index::reduces(&sources, self.limits)?.pop().flatten();
        let number = index.unwrap_or(IndexId(0));
        let nodes = StoredNodes { snapshot: snapshot.snapshot(), index: number, view: at as u32 };
        let source = RowSource {
            nodes: &nodes,
            tree: state.tree,
            layout: state.layout,
            has_reduce: state.reduce.is_some(),
            reduce: reduce.as_ref(),
            view: snapshot,
            sequence: header.sequence,
        };
        source.answer(cursor, query, documents, sink)
    }
}

/// How long a query waits for an index that is in use before it returns [`Queried::Busy`].
const TURN: Duration = Duration::from_millis(20);

/// The definition of a temporary view, which is not stored.
#[derive(Clone, Debug)]
pub struct TemporaryView {
    /// The functions.
    pub view: ViewDefinition,
    /// The language of the functions.
    pub language: String,
    /// The options.
    pub options: DesignOptions,
}

/// A collection's identifier and an index's number.
type IndexKey = ([u8; 16], IndexId);

/// The indexes of views.
pub struct Views {
    sandbox: Arc<Sandbox>,
    /// The open indexes, by collection and number.
    indexes: Mutex<HashMap<IndexKey, Arc<Index>>>,
    /// Held while an index is created or indexes are removed.
    creating: Mutex<()>,
    tasks: Tasks,
    /// Whether all work must stop.
    ended: AtomicBool,
}

/// An index build or update in progress, for `_active_tasks`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The collection.
    pub namespace: Namespace,
    /// The design document's id.
    pub design_document: String,
    /// How many documents or changes are mapped.
    pub changes_done: u64,
    /// How many documents or changes there are.
    pub total_changes: u64,
    /// The start time, in seconds since the Unix epoch.
    pub started_on: u64,
    /// The time of the last progress, in seconds since the Unix epoch.
    pub updated_on: u64,
}

impl Task {
    /// The progress in percent.
    pub fn progress(&self) -> u64 {
        (self.changes_done * 100).checked_div(self.total_changes).unwrap_or(100).min(100)
    }
}

/// The state of an index for `_design/x/_info`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewInfo {
    /// The signature of the index.
    pub signature: String,
    /// The language of the functions.
    pub language: String,
    /// The sequence of the collection that the index has reached.
    pub update_seq: u64,
    /// How many later changes the index lacks.
    pub pending: u64,
    /// Whether the index is being built or updated.
    pub updater_running: bool,
    /// How many requests wait for that.
    pub waiting_clients: u64,
    /// The number of rows in all views.
    pub rows: u64,
    /// The size of the rows' keys and values in bytes.
    pub external_bytes: u64,
    /// The same with the index's header.
    pub file_bytes: u64,
}

impl Views {
    /// The views of a store's collections. Indexes are opened on first use.
    pub fn new(sandbox: Arc<Sandbox>) -> Arc<Views> {
        Arc::new(Views {
            sandbox,
            indexes: Mutex::default(),
            creating: Mutex::default(),
            tasks: Tasks::default(),
            ended: AtomicBool::new(false),
        })
    }

    /// Begins to answer a view query. If the query requires an updated index, updates it first, unless another request
    /// is updating it. `take` returns the snapshot of the collection for reading the answer.
    pub fn query(
        self: &Arc<Self>,
        collection: &Arc<Collection>,
        design: &Design,
        view: &str,
        query: &ViewQuery,
        take: &mut dyn FnMut() -> Arc<ReadView>,
    ) -> Result<Queried> {
        check_language(design)?;
        let missing = || Error::NotFound("missing_named_view".to_owned());
        let definition = design.views().get(view).ok_or_else(missing)?;
        query.check(definition.reduce.is_some())?;
        if let Some(reduce) = definition.reduce.as_deref().filter(|reduce| reduce.starts_with('_')) {
            crate::reduce::builtin::Builtin::parse(reduce)?;
        }
        let target = collection.last_sequence();
        // A cleanup may remove an index between its lookup and the read, so the query retries.
        for _ in 0..3 {
            let index = match query.update {
                Update::True => {
                    let index = self.find_or_create(collection, design)?;
                    match self.bring_up(&index, design, target, Some(TURN)) {
                        Ok(true) => Some(index),
                        Ok(false) => return Ok(Queried::Busy(Waiting::new(index))),
                        Err(Error::Replaced) => continue,
                        Err(error) => return Err(error),
                    }
                }
                Update::False => self.find_usable(collection, design, view)?,
                Update::Lazy => {
                    self.follow_later(collection, design)?;
                    self.find_usable(collection, design, view)?
                }
            };
            let number = index.map(|index| index.number);
            let snapshot = take();
            if let Some(number) = number
                && snapshot.view_header(number)?.is_none()
            {
                continue;
            }
            // An index that does not exist has no rows.
            let none = Header::new(design, is_partitioned(collection, design), 0);
            let source = AnswerSource::Stored { index: number, view: view.to_owned(), none };
            return Ok(Queried::Answer(Box::new(self.answer(query, source))));
        }
        Err(Error::Replaced)
    }

    fn answer(&self, query: &ViewQuery, source: AnswerSource) -> ViewAnswer {
        ViewAnswer { query: query.clone(), source, cursor: None, limits: self.sandbox.limits() }
    }

    /// Begins to answer a query of a temporary view.
    pub fn temporary(
        &self,
        collection: &Arc<Collection>,
        view: &TemporaryView,
        query: &ViewQuery,
    ) -> Result<ViewAnswer> {
        let made = temporary::make(collection, view, query, self.sandbox.limits(), &self.ended)?;
        Ok(self.answer(query, AnswerSource::Temporary(Box::new(made))))
    }

    /// Maps a few documents and reduces their rows, for the person who writes the functions.
    pub fn trial(
        &self,
        collection: &Arc<Collection>,
        view: &TemporaryView,
        scope: &TrialScope,
    ) -> Result<Trial> {
        trial::run(&collection.view(), view, scope, self.sandbox.limits())
    }

    /// Updates the index of a design document, building it if necessary.
    pub fn refresh(&self, collection: &Arc<Collection>, design: &Design) -> Result<()> {
        check_language(design)?;
        let index = self.find_or_create(collection, design)?;
        self.bring_up(&index, design, collection.last_sequence(), None).map(drop)
    }

    /// Describes the index of a design document.
    pub fn info(&self, collection: &Arc<Collection>, design: &Design) -> Result<ViewInfo> {
        let index = self.find(collection, design.signature())?;
        let header = index.as_ref().map(|index| index.header()).transpose()?;
        let sequence = header.as_ref().filter(|header| header.is_ready()).map_or(0, |header| header.sequence);
        let views = header.iter().flat_map(|header| &header.views);
        let (rows, bytes) =
            views.fold((0, 0), |(rows, bytes), view| (rows + view.tree.rows, bytes + view.tree.bytes));
        // An index that does not exist occupies no space, but its size includes that of its future header.
        let header_bytes = match &header {
            Some(header) => header.encode().len(),
            None => Header::new(design, is_partitioned(collection, design), 0).encode().len(),
        };
        Ok(ViewInfo {
            signature: design.signature_text(),
            language: design.language().to_owned(),
            update_seq: sequence,
            pending: collection.view().changes_left(sequence, u64::MAX)?,
            updater_running: index.as_ref().is_some_and(|index| index.updating.is_locked()),
            waiting_clients: index.as_ref().map_or(0, |index| index.waiting.load(Ordering::Relaxed)),
            rows,
            external_bytes: bytes,
            file_bytes: bytes + header_bytes as u64,
        })
    }

    /// Removes the indexes that no design document of the collection uses. Returns how many.
    pub fn cleanup(&self, collection: &Arc<Collection>) -> Result<usize> {
        let _creating = self.creating.lock();
        let wanted = signatures(collection)?;
        let mut removed = 0;
        for (number, bytes) in collection.view_headers()? {
            // An index with an unreadable header is useless and is removed too.
            let signature = Header::decode(&bytes).ok().map(|header| header.signature);
            if signature.is_some_and(|signature| wanted.contains(&signature)) {
                continue;
            }
            let known = self.indexes.lock().remove(&(collection.uuid(), number));
            let index = known.unwrap_or_else(|| Arc::new(Index::new(collection.clone(), number, [0; 16])));
            index.remove()?;
            removed += 1;
        }
        Ok(removed)
    }

    /// The builds and updates in progress.
    pub fn tasks(&self) -> Vec<Task> {
        self.tasks.list()
    }

    /// Stops the builds and updates in progress. They continue from their checkpoints when the index is used again.
    pub fn stop(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Finds the index with this signature.
    fn find(&self, collection: &Arc<Collection>, signature: [u8; 16]) -> Result<Option<Arc<Index>>> {
        let uuid = collection.uuid();
        let known = |index: &&Arc<Index>| {
            index.signature == signature && index.collection.uuid() == uuid && !index.is_removed()
        };
        if let Some(index) = self.indexes.lock().values().find(known) {
            return Ok(Some(index.clone()));
        }
        for (number, bytes) in collection.view_headers()? {
            if Header::decode(&bytes).is_ok_and(|header| header.signature == signature) {
                return Ok(Some(self.index(collection, number, signature)));
            }
        }
        Ok(None)
    }

    fn index(&self, collection: &Arc<Collection>, number: IndexId, signature: [u8; 16]) -> Arc<Index> {
        let mut indexes = self.indexes.lock();
        indexes.retain(|_, index| !index.collection.is_dropped());
        let index = indexes
            .entry((collection.uuid(), number))
            .or_insert_with(|| Arc::new(Index::new(collection.clone(), number, signature)));
        index.clone()
    }

    fn find_or_create(&self, collection: &Arc<Collection>, design: &Design) -> Result<Arc<Index>> {
        if let Some(index) = self.find(collection, design.signature())? {
            return Ok(index);
        }
        let _creating = self.creating.lock();
        if let Some(index) = self.find(collection, design.signature())? {
            return Ok(index);
        }
        // Compiles the functions first, so that invalid ones create no index.
        crate::sandbox::Mapper::new(self.sandbox.limits(), design)?;
        index::reduces(&index::reduce_sources(design), self.sandbox.limits())?;
        let header = Header::new(design, is_partitioned(collection, design), collection.last_sequence());
        let number = collection.create_view_index(&header.encode())?;
        Ok(self.index(collection, number, design.signature()))
    }

    /// The index of a design document if it is complete, otherwise the newest complete index of another version of it.
    fn find_usable(
        &self,
        collection: &Arc<Collection>,
        design: &Design,
        view: &str,
    ) -> Result<Option<Arc<Index>>> {
        let mut found = None;
        for (number, bytes) in collection.view_headers()? {
            let Ok(header) = Header::decode(&bytes) else { continue };
            if !header.is_ready() {
                continue;
            }
            if header.signature == design.signature() {
                return Ok(Some(self.index(collection, number, header.signature)));
            }
            if header.design == design.id() && header.view(view).is_some() {
                found = Some((number, header.signature));
            }
        }
        Ok(found.map(|(number, signature)| self.index(collection, number, signature)))
    }

    /// Updates an index in the background.
    fn follow_later(self: &Arc<Self>, collection: &Arc<Collection>, design: &Design) -> Result<()> {
        let index = self.find_or_create(collection, design)?;
        if index.following.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let (views, design, target) = (self.clone(), design.clone(), collection.last_sequence());
        let own = index.clone();
        let follow = move || {
            own.following.store(false, Ordering::Relaxed);
            match views.bring_up(&own, &design, target, None) {
                Ok(_) | Err(Error::Ended | Error::Replaced) => {}
                Err(error) => tracing::warn!(%error, "an index of {} was not updated", design.id()),
            }
        };
        if let Err(error) = std::thread::Builder::new().name("diwan-index".to_owned()).spawn(follow) {
            index.following.store(false, Ordering::Relaxed);
            tracing::warn!(%error, "no thread to update an index");
        }
        Ok(())
    }

    /// Builds or updates an index up to at least this sequence. If another thread does so, waits up to `patience`;
    /// returns false if that was not enough.
    fn bring_up(
        &self,
        index: &Arc<Index>,
        design: &Design,
        target: u64,
        patience: Option<Duration>,
    ) -> Result<bool> {
        let is_there = |header: &Header| header.is_ready() && header.sequence >= target;
        if is_there(&index.header()?) {
            return Ok(true);
        }
        let waiting = Waiting::new(index.clone());
        let turn: Option<MutexGuard<'_, ()>> = match patience {
            Some(patience) => index.updating.try_lock_for(patience),
            None => Some(index.updating.lock()),
        };
        let Some(_turn) = turn else { return Ok(false) };
        drop(waiting);
        let header = match index.claim(is_there, patience)? {
            Claim::Taken(header) => header,
            Claim::IsThere => return Ok(true),
            Claim::Busy => return Ok(false),
        };
        let outcome = self.bring_claimed_up(index, header, design, target);
        index.release();
        outcome.map(|()| true)
    }

    fn bring_claimed_up(
        &self,
        index: &Arc<Index>,
        mut header: Header,
        design: &Design,
        target: u64,
    ) -> Result<()> {
        let mut target = target;
        let limits = self.sandbox.limits();
        let collection = &index.collection;
        let left = collection.view().changes_left(header.sequence, u64::MAX)?;
        let progress = self.tasks.begin(collection.namespace(), design.id(), 0, left);
        if !header.is_ready() {
            header = build::build(index, header, design, limits, &self.ended, &progress)?;
            // The documents were read at different moments. From here on the trees show all of them at one.
            target = target.max(collection.last_sequence());
        }
        header = build::remove_leftovers(index, header)?;
        update::update(index, header, design, limits, target, &self.ended, &progress)?;
        Ok(())
    }
}

/// Whether the views' places begin with the partition.
fn is_partitioned(collection: &Collection, design: &Design) -> bool {
    let is_set = || {
        let setting = collection.setting("partitioned");
        setting.is_some_and(|value| value.as_value() == diwan_value::Value::Boolean(true))
    };
    is_set() && design.options().partitioned.unwrap_or(true)
}

/// The signatures of all design documents in a collection.
fn signatures(collection: &Arc<Collection>) -> Result<HashSet<[u8; 16]>> {
    let mut signatures = HashSet::new();
    let mut text = Vec::new();
    design_documents(&collection.view(), &mut |record| {
        text.clear();
        text.extend_from_slice(b"{\"_id\":\"_design/\"");
        diwan_value::json::write_couch_members(&mut text, record.doc);
        text.push(b'}');
        if let Ok(design) = Design::parse(&text) {
            signatures.insert(design.signature());
        }
    })?;
    Ok(signatures)
}

/// Rejects design documents in other languages.
fn check_language(design: &Design) -> Result<()> {
    if design.language() == "javascript" {
        return Ok(());
    }
    Err(Error::Thrown { name: "unknown_query_language".to_owned(), reason: design.language().to_owned() })
}

#[cfg(test)]
mod tests;

//! Maps many documents on all cores. Each thread has its own context and takes blocks of documents in turn.

use super::document;
use super::header::Header;
use super::rows::Rows;
use crate::design::Design;
use crate::error::{Error, Result};
use crate::json;
use crate::sandbox::{Emitted, MapDocument, Mapper};
use crate::tree::{Entry, Layout, Range};
use diwan_store::keys::write_number;
use diwan_store::{ReadView, Record, Revision};
use diwan_value::Value;
use diwan_value::json::id_to_text;
use parking_lot::Mutex;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The maximum number and size of the documents that a thread takes at a time.
const BLOCK_DOCUMENTS: usize = 256;
const BLOCK_BYTES: usize = 4 << 20;

/// How documents are mapped.
pub(super) struct MappingPlan<'a> {
    pub design: &'a Design,
    /// The format of places, for each view.
    pub layouts: Vec<Layout>,
    /// Keep only rows in these ranges; `None` keeps all rows.
    pub ranges: Option<&'a [Range]>,
    /// Whether to record which rows each document emitted.
    pub keeps_records: bool,
    /// Set to cancel the work.
    pub ended: &'a AtomicBool,
    /// Counts mapped documents.
    pub mapped: &'a AtomicU64,
}

/// The source of documents: a scan that the threads share.
pub(super) struct Walk<'a> {
    pub view: &'a ReadView,
    state: Mutex<WalkState>,
}

struct WalkState {
    after: Option<Vec<u8>>,
    ended: bool,
    /// How many documents the threads may take before they pause.
    left: u64,
}

/// Stored documents: the key bytes of their ids, and their records.
#[derive(Default)]
pub(super) struct DocumentBlock {
    bytes: Vec<u8>,
    /// The end of each id and each record.
    ends: Vec<(usize, usize)>,
}

impl DocumentBlock {
    /// Adds a document.
    pub fn push(&mut self, id: &[u8], record: &[u8]) {
        self.bytes.extend_from_slice(id);
        let id_end = self.bytes.len();
        self.bytes.extend_from_slice(record);
        self.ends.push((id_end, self.bytes.len()));
    }

    pub fn is_full(&self) -> bool {
        self.ends.len() >= BLOCK_DOCUMENTS || self.bytes.len() >= BLOCK_BYTES
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&(id_end, end)| {
            let pair = (&self.bytes[start..id_end], &self.bytes[id_end..end]);
            start = end;
            pair
        })
    }
}

impl<'a> Walk<'a> {
    /// A walk that begins after an id.
    pub fn new(view: &'a ReadView, after: Option<Vec<u8>>) -> Walk<'a> {
        Walk { view, state: Mutex::new(WalkState { after, ended: false, left: 0 }) }
    }

    /// Allows the threads to take this many more documents.
    pub fn allow(&self, documents: u64) {
        self.state.lock().left = documents;
    }

    /// The last id taken, and whether the walk is at the end.
    pub fn position(&self) -> (Option<Vec<u8>>, bool) {
        let state = self.state.lock();
        (state.after.clone(), state.ended)
    }

    fn next(&self) -> Result<Option<DocumentBlock>> {
        let mut state = self.state.lock();
        if state.ended || state.left == 0 {
            return Ok(None);
        }
        let mut block = DocumentBlock::default();
        let mut last = None;
        self.view.raw_documents(state.after.as_deref(), &mut |id, record| {
            block.push(id, record);
            if block.is_full() {
                last = Some(id.to_vec());
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        state.left = state.left.saturating_sub(block.len() as u64);
        state.ended = last.is_none();
        if last.is_some() {
            state.after = last;
        }
        Ok((block.len() > 0).then_some(block))
    }
}

/// The output of mapped documents.
#[derive(Default)]
pub(super) struct Mapped {
    /// The rows of each view.
    pub views: Vec<Rows>,
    /// The record of each document's rows, with the key bytes of its id: see [`write_record`].
    pub records: Vec<(Vec<u8>, Vec<u8>)>,
    /// How much of its memory has been counted.
    pub counted: usize,
}

impl Mapped {
    pub fn new(views: usize) -> Mapped {
        Mapped { views: (0..views).map(|_| Rows::default()).collect(), records: Vec::new(), counted: 0 }
    }

    pub fn memory(&self) -> usize {
        let records: usize = self.records.iter().map(|(id, record)| id.len() + record.len() + 64).sum();
        records + self.views.iter().map(Rows::memory).sum::<usize>()
    }
}

/// Adds a row to a document's record: the number of the view, the length of the place, the place.
fn write_record(out: &mut Vec<u8>, view: usize, place: &[u8]) {
    write_number(out, view as u64);
    super::header::write_bytes(out, place);
}

/// The views and places in the record of a document.
pub(super) fn read_record(mut bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    std::iter::from_fn(move || {
        let (view, rest) = diwan_store::keys::read_number(bytes)?;
        let (place, rest) = super::header::read_bytes(rest)?;
        bytes = rest;
        Some((usize::try_from(view).ok()?, place))
    })
}

impl<'a> MappingPlan<'a> {
    /// The plan for an index that is stored.
    pub fn kept(
        design: &'a Design,
        header: &Header,
        ended: &'a AtomicBool,
        mapped: &'a AtomicU64,
    ) -> MappingPlan<'a> {
        let layouts = header.views.iter().map(|view| view.layout).collect();
        MappingPlan { design, layouts, ranges: None, keeps_records: true, ended, mapped }
    }

    /// Maps the documents of a block.
    pub fn map_block(
        &self,
        mapper: &Mapper,
        view: &ReadView,
        block: &DocumentBlock,
        out: &mut Mapped,
    ) -> Result<()> {
        if self.ended.load(Ordering::Relaxed) {
            return Err(Error::Ended);
        }
        let options = self.design.options();
        let mut prepared = Vec::with_capacity(block.len());
        for (id, bytes) in block.iter() {
            let record = Record::parse(bytes)?;
            let mut text = String::new();
            id_to_text(record.doc.get("_id").unwrap_or(Value::Null), &mut text);
            if text.starts_with("_design/") && !options.include_design {
                continue;
            }
            let more = document::more_members(view, id, &record, options.local_seq)?;
            prepared.push((id, text, revision_text(record.revision()), more, record.doc));
        }
        let docs = prepared.iter().map(|(_, id, revision, more, doc)| MapDocument {
            id,
            revision: Some(revision),
            more,
            doc: *doc,
        });
        let mut place = Vec::new();
        // The document whose record is being written.
        let mut recorded: Option<usize> = None;
        mapper.map(docs, |index, view, emitted| {
            let (id, text, ..) = &prepared[index];
            let ordinals = ordinals(&emitted);
            for (at, (key, value)) in emitted.pairs().enumerate() {
                let ordinal = ordinals.get(at).copied().unwrap_or(at);
                // Scripts may nest deeper than keys allow.
                if key.starts_with(['[', '{']) && !json::check(key) {
                    tracing::info!(target: "diwan::script", "a key is nested too deep, with doc._id {text}");
                    continue;
                }
                place.clear();
                self.layouts[view].write(&mut place, key, text, ordinal);
                if self.ranges.is_some_and(|ranges| !ranges.iter().any(|range| range.contains(&place))) {
                    continue;
                }
                if self.keeps_records {
                    if recorded != Some(index) {
                        out.records.push((id.to_vec(), Vec::new()));
                        recorded = Some(index);
                    }
                    if let Some((_, record)) = out.records.last_mut() {
                        write_record(record, view, &place);
                    }
                }
                out.views[view].push(Entry { place: &place, key, value });
            }
            Ok(())
        })?;
        self.mapped.fetch_add(block.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Maps the documents that the walk allows, with one thread for each mapper. After every block, `after_block` is called
    /// with the thread's output so far, and may take it away.
    pub fn map_walk(
        &self,
        mappers: &[Mapper],
        walk: &Walk<'_>,
        after_block: &(dyn Fn(&mut Mapped) -> Result<()> + Sync),
    ) -> Result<Vec<Mapped>> {
        let failed = AtomicBool::new(false);
        let work = |mapper: &Mapper| {
            let mut out = Mapped::new(self.layouts.len());
            let mut run = || {
                // After an error in one thread, the others stop at the next block.
                while !failed.load(Ordering::Relaxed)
                    && let Some(block) = walk.next()?
                {
                    self.map_block(mapper, walk.view, &block, &mut out)?;
                    after_block(&mut out)?;
                }
                Ok(())
            };
            let outcome = run();
            if outcome.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
            outcome.map(|()| {
                // Sorting in the threads leaves only a merge to the caller.
                out.views.iter_mut().for_each(Rows::sort);
                out
            })
        };
        std::thread::scope(|scope| {
            let work = &work;
            let (first, others) = match mappers.split_first() {
                Some(split) => split,
                None => return Ok(Vec::new()),
            };
            let threads: Vec<_> = others.iter().map(|mapper| scope.spawn(move || work(mapper))).collect();
            let mut outcomes = vec![work(first)];
            outcomes.extend(threads.into_iter().map(|thread| thread.join().unwrap_or(Err(Error::Ended))));
            outcomes.into_iter().collect()
        })
    }
}

/// The numbers of a document's rows if a key was emitted more than once: as in CouchDB, rows with the same key and
/// document are ordered by value. Empty if the emission order is correct.
fn ordinals(emitted: &Emitted<'_>) -> Vec<usize> {
    if emitted.count() < 2 {
        return Vec::new();
    }
    let pairs: Vec<(&str, &str)> = emitted.pairs().collect();
    let mut keys: Vec<&str> = pairs.iter().map(|(key, _)| *key).collect();
    keys.sort_unstable();
    if keys.windows(2).all(|two| two[0] != two[1]) {
        return Vec::new();
    }
    let mut order: Vec<usize> = (0..pairs.len()).collect();
    order.sort_by(|one, other| json::compare_terms(pairs[*one].1, pairs[*other].1));
    let mut ordinals = vec![0; order.len()];
    for (ordinal, at) in order.into_iter().enumerate() {
        ordinals[at] = ordinal;
    }
    ordinals
}

/// Formats a revision.
fn revision_text(revision: Revision) -> String {
    let mut out = Vec::with_capacity(43);
    revision.push(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// The number of threads for mapping.
pub(super) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

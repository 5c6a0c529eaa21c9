//! Updates an index from the change log: replaces the rows of changed documents in batches of several hundred, together
//! with the sequence that the index has reached.

use super::header::Header;
use super::index::{Index, reduce_sources, reduces};
use super::mapping::{DocumentBlock, Mapped, MappingPlan, read_record, threads};
use super::nodes::{ChangedNodes, StoredNodes};
use super::tasks::Progress;
use crate::design::Design;
use crate::error::{Error, Result};
use crate::sandbox::{Limits, Mapper};
use crate::tree::Change;
use diwan_kv::{Batch, Space};
use diwan_store::ReadView;
use diwan_store::keys::Key;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};

/// The maximum number of changes in a batch, and the maximum size of their documents.
const MOST_CHANGES: usize = 1000;
const MOST_BYTES: usize = 8 << 20;

/// The changes of a tree: the new rows by place, with `None` for removed ones.
type TreeChanges = BTreeMap<Vec<u8>, Option<(String, String)>>;

/// Updates a complete index to at least this sequence.
pub(super) fn update(
    index: &Index,
    mut header: Header,
    design: &Design,
    limits: Limits,
    target: u64,
    ended: &AtomicBool,
    progress: &Progress,
) -> Result<Header> {
    let reduces = reduces(&reduce_sources(design), limits)?;
    while header.sequence < target {
        if ended.load(Ordering::Relaxed) {
            return Err(Error::Ended);
        }
        // Each batch has its own snapshot, so that none stays open during a long update.
        let view = index.collection.view();
        let changes = Changes::read(&view, header.sequence)?;
        let Some(last) = changes.last else {
            // Sequences that the log no longer contains affect no current document, so the index may skip them.
            header.sequence = header.sequence.max(target);
            index.commit(Batch::new(), Some(&header))?;
            break;
        };
        let mapped = changes.map(index, &view, design, limits, &header, ended, progress)?;
        let mut batch = Batch::new();
        let mut trees: Vec<TreeChanges> = vec![BTreeMap::new(); header.views.len()];
        // First removes the old rows, then adds the new ones.
        let keys: Vec<Vec<u8>> =
            changes.ids.iter().map(|id| Key::ViewDocument(index.number, id).bytes()).collect();
        let old =
            view.snapshot().get_many(Space::Indexes, &keys.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
        let mut records: HashMap<&[u8], &[u8]> = HashMap::new();
        for part in &mapped {
            records.extend(part.records.iter().map(|(id, record)| (id.as_slice(), record.as_slice())));
        }
        for ((id, key), old) in changes.ids.iter().zip(keys).zip(old) {
            for (number, place) in old.iter().flat_map(|bytes| read_record(bytes)) {
                if let Some(tree) = trees.get_mut(number) {
                    tree.insert(place.to_vec(), None);
                }
            }
            match records.get(id.as_slice()) {
                Some(record) => batch.put(Space::Indexes, key, *record),
                None if old.is_some() => batch.delete(Space::Indexes, key),
                None => {}
            }
        }
        for part in &mapped {
            for (rows, tree) in part.views.iter().zip(&mut trees) {
                tree.extend(rows.iter().map(|entry| {
                    (entry.place.to_vec(), Some((entry.key.to_owned(), entry.value.to_owned())))
                }));
            }
        }
        for (number, tree) in trees.into_iter().enumerate() {
            let changes: Vec<Change> = tree.into_iter().map(|(place, row)| Change { place, row }).collect();
            let stored = StoredNodes { snapshot: view.snapshot(), index: index.number, view: number as u32 };
            let mut nodes = ChangedNodes::new(stored);
            let state = &mut header.views[number];
            state.tree.apply(&mut nodes, state.layout, reduces[number].as_ref(), &changes)?;
            nodes.write_to(&mut batch);
        }
        // Trees, records and sequence are committed in one batch, so readers never see a part of a change.
        header.sequence = last;
        index.commit(batch, Some(&header))?;
    }
    Ok(header)
}

/// Changes of a collection, and the changed documents in their current state.
struct Changes {
    ids: Vec<Vec<u8>>,
    documents: Vec<DocumentBlock>,
    deleted: u64,
    last: Option<u64>,
}

impl Changes {
    fn read(view: &ReadView, since: u64) -> Result<Changes> {
        let mut found =
            Changes { ids: Vec::new(), documents: vec![DocumentBlock::default()], deleted: 0, last: None };
        let mut bytes = 0;
        view.changes(since, |change| {
            // The log lists each document once, with its newest change.
            found.ids.push(change.id.to_vec());
            found.last = Some(change.sequence);
            match view.raw_document(change.id)? {
                Some(record) => {
                    bytes += record.len();
                    if found.documents.last().is_some_and(DocumentBlock::is_full) {
                        found.documents.push(DocumentBlock::default());
                    }
                    if let Some(block) = found.documents.last_mut() {
                        block.push(change.id, &record);
                    }
                }
                None => found.deleted += 1,
            }
            Ok(found.ids.len() < MOST_CHANGES && bytes < MOST_BYTES)
        })?;
        Ok(found)
    }

    /// Maps the documents, on all cores if there are many.
    #[allow(clippy::too_many_arguments)]
    fn map(
        &self,
        index: &Index,
        view: &ReadView,
        design: &Design,
        limits: Limits,
        header: &Header,
        ended: &AtomicBool,
        progress: &Progress,
    ) -> Result<Vec<Mapped>> {
        progress.work.done.fetch_add(self.deleted, Ordering::Relaxed);
        let plan = MappingPlan::kept(design, header, ended, &progress.work.done);
        let mappers = index.take_mappers(threads().min(self.documents.len()), limits, design)?;
        let work = |mapper: &Mapper, nth: usize| {
            let mut out = Mapped::new(plan.layouts.len());
            for block in self.documents.iter().skip(nth).step_by(mappers.len()) {
                plan.map_block(mapper, view, block, &mut out)?;
            }
            Ok(out)
        };
        let work = &work;
        let mapped: Result<Vec<Mapped>> = if mappers.len() == 1 {
            mappers.iter().map(|mapper| work(mapper, 0)).collect()
        } else {
            std::thread::scope(|scope| {
                let threads: Vec<_> = mappers
                    .iter()
                    .enumerate()
                    .map(|(nth, mapper)| scope.spawn(move || work(mapper, nth)))
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap_or(Err(Error::Ended))).collect()
            })
        };
        let mapped = mapped?;
        index.give_back(mappers);
        Ok(mapped)
    }
}

//! The one way in which documents change: inserts and edits, in batches that are committed as a whole.

use super::{Collection, Schema, sequence::State};
use crate::change::{Change, ChangeKind};
use crate::clock;
use crate::error::{DuplicateKey, Error, Result};
use crate::index::{Index, IndexKeys};
use crate::keys::{self, Key};
use crate::options::ValidationLevel;
use crate::record::{self, Record, Tombstone};
use crate::retry::RetryRecord;
use crate::revision::Revision;
use diwan_kv::{Batch, CommitId, Direction, KeyRange, Space};
use diwan_query::code;
use diwan_value::{Doc, DocBuf, DocBuilder, MAX_DOCUMENT_BYTES, ObjectId, Value};
use std::cell::RefCell;
use std::collections::HashMap;

/// What accompanies a write.
#[derive(Clone, Copy, Default)]
pub struct WriteOptions<'a> {
    /// Skips the validator (`bypassDocumentValidation`).
    pub bypass_validation: bool,
    /// The result to be remembered in the same batch.
    pub retry: Option<RetryRecord<'a>>,
    /// The result itself, where only the edit finds it out.
    pub retry_result: Option<&'a RefCell<Option<DocBuf>>>,
}

/// What became of an insert.
#[derive(Debug, Default)]
pub struct InsertReport {
    /// How many documents were inserted.
    pub inserted: usize,
    /// Which documents were not, by their index in the request, and why.
    pub errors: Vec<(usize, Error)>,
    /// The last commit, for who wants to wait until it is durable.
    pub commit: Option<CommitId>,
}

/// What became of an edit.
#[derive(Debug, Default)]
pub struct Written {
    /// How many documents were replaced.
    pub replaced: usize,
    /// How many documents were deleted.
    pub deleted: usize,
    /// How many documents were inserted.
    pub inserted: usize,
    /// The commit, if anything was written.
    pub commit: Option<CommitId>,
}

/// What an edit makes of a document.
#[derive(Debug)]
pub enum Edit {
    /// Leave it as it is.
    Keep,
    /// Replace it, or insert it where there is none. The `_id` must be the same.
    Put(DocBuf),
    /// Delete it.
    Delete,
}

/// How many documents one batch inserts at most, and how many bytes of them.
const BATCH_DOCUMENTS: usize = 1000;
const BATCH_BYTES: usize = 4 << 20;

/// A change made ready: all but the sequence is known.
struct Staged<'a> {
    id: &'a [u8],
    kind: ChangeKind,
    old: Option<OldState>,
    /// The document and its revision, `None` for a first one.
    new: Option<(Doc<'a>, Option<Revision>)>,
    /// The revision a deletion mints.
    tombstone: Option<Revision>,
    /// The tombstone that a new document replaces.
    revived: bool,
}

/// What a change must know of the document it replaces.
struct OldState {
    sequence: u64,
    revision: Revision,
    position: Option<u64>,
    bytes: usize,
}

/// Keys of unique indexes (and ids) as they will be after the changes staged so far.
type Overlay = HashMap<Vec<u8>, Option<Vec<u8>>>;

impl Collection {
    /// Inserts documents, a batch of some hundreds at a time. `ordered` stops at the first that is refused.
    /// Documents without an `_id` get one.
    pub fn insert(&self, docs: &[Doc<'_>], ordered: bool, options: WriteOptions<'_>) -> Result<InsertReport> {
        let mut report = InsertReport::default();
        let mut from = 0;
        while from < docs.len() {
            let mut bytes = 0;
            let fits = docs[from..]
                .iter()
                .take(BATCH_DOCUMENTS)
                .take_while(|doc| {
                    bytes += doc.as_bytes().len();
                    bytes <= BATCH_BYTES
                })
                .count()
                .max(1);
            let stopped = self.insert_batch(&docs[from..from + fits], from, ordered, options, &mut report)?;
            if stopped {
                break;
            }
            from += fits;
        }
        Ok(report)
    }

    /// Inserts one batch; says whether an error ended an ordered insert.
    fn insert_batch(
        &self,
        docs: &[Doc<'_>],
        first: usize,
        ordered: bool,
        options: WriteOptions<'_>,
        report: &mut InsertReport,
    ) -> Result<bool> {
        let guard = self.schema.read();
        let schema: &Schema = &guard;
        if schema.dropped {
            return Err(self.dropped_error());
        }
        let mut prepared: Vec<(usize, Prepared<'_>)> = Vec::with_capacity(docs.len());
        let mut errors = Vec::new();
        for (at, doc) in docs.iter().enumerate() {
            match prepare(*doc).and_then(|ready| {
                if !options.bypass_validation {
                    check_validator(schema, ready.doc(), None)?;
                }
                Ok(ready)
            }) {
                Ok(ready) => prepared.push((first + at, ready)),
                Err(error @ Error::Engine(_)) => return Err(error),
                Err(error) => {
                    errors.push((first + at, error));
                    if ordered {
                        break;
                    }
                }
            }
        }
        let _ids = self
            .shared
            .documents
            .lock_many(prepared.iter().map(|(_, ready)| (self.id.0, ready.id.as_slice())));
        let keys: Vec<Result<Vec<IndexKeys>>> =
            prepared.iter().map(|(_, ready)| index_keys(schema, ready.doc())).collect();
        let unique_keys = keys.iter().flatten().flat_map(|keys| unique_locks(schema, keys));
        let _uniques = self.shared.unique_keys.lock_many(unique_keys);
        let mut overlay = Overlay::new();
        let mut batch = Batch::with_capacity(prepared.len() * (2 + schema.secondary().len()));
        let mut staged = Vec::with_capacity(prepared.len());
        let mut statements = Vec::new();
        // Ids that only rise do not repeat within the batch.
        let rising = prepared.windows(2).all(|pair| pair[0].1.id < pair[1].1.id);
        for ((at, ready), keys) in prepared.iter().zip(keys) {
            let outcome = keys.and_then(|keys| {
                let key = Key::Record(self.id, &ready.id).bytes();
                self.check_new_id(&ready.id, ready.doc(), &key, &overlay)?;
                self.stage_index_changes(
                    schema,
                    &ready.id,
                    ready.doc(),
                    None,
                    Some(&keys),
                    &mut overlay,
                    &mut batch,
                )?;
                if !rising {
                    overlay.insert(key, Some(Vec::new()));
                }
                self.stage_insert(&ready.id, ready.doc())
            });
            match outcome {
                Ok(change) => {
                    staged.push(change);
                    statements.push(*at as u32);
                }
                Err(error @ (Error::Engine(_) | Error::Damaged(_))) => return Err(error),
                Err(error) => {
                    errors.push((*at, error));
                    if ordered {
                        break;
                    }
                }
            }
        }
        errors.sort_by_key(|(at, _)| *at);
        if ordered {
            errors.truncate(1);
        }
        if !staged.is_empty() {
            report.inserted += staged.len();
            if let Some(retry) = options.retry {
                retry.write_offsets(&mut batch, statements.into_iter());
            }
            report.commit = Some(self.commit(schema, batch, staged)?);
        }
        let stopped = ordered && !errors.is_empty();
        report.errors.append(&mut errors);
        // Trimming takes the locks of the documents that go.
        drop((guard, _ids, _uniques));
        self.trim_capped()?;
        Ok(stopped)
    }

    /// Edits the documents with these ids under their locks: `edit` sees each as it is now, and says what becomes of
    /// it. All edits are committed together; an error of `edit` or of a unique index abandons them all.
    pub fn edit(
        &self,
        ids: &[Vec<u8>],
        options: WriteOptions<'_>,
        mut edit: impl FnMut(usize, Option<&Record<'_>>) -> Result<Edit>,
    ) -> Result<Written> {
        let guard = self.schema.read();
        let schema: &Schema = &guard;
        if schema.dropped {
            return Err(self.dropped_error());
        }
        let _ids = self.shared.documents.lock_many(ids.iter().map(|id| (self.id.0, id.as_slice())));
        let mut current = Vec::with_capacity(ids.len());
        for id in ids {
            current.push(self.shared.engine.get(Space::Records, &Key::Record(self.id, id).bytes())?);
        }
        let mut edits = Vec::with_capacity(ids.len());
        for (at, bytes) in current.iter().enumerate() {
            let record = bytes.as_deref().map(Record::parse).transpose()?;
            let outcome = edit(at, record.as_ref())?;
            if let Edit::Put(doc) = &outcome {
                check_document(doc.as_doc())?;
                if !options.bypass_validation {
                    check_validator(schema, doc.as_doc(), record.map(|record| record.doc))?;
                }
            }
            edits.push((record, outcome));
        }
        let mut keys = Vec::with_capacity(edits.len());
        for (record, outcome) in &edits {
            let old = match (record, outcome) {
                (Some(record), Edit::Put(_) | Edit::Delete) => Some(index_keys(schema, record.doc)?),
                _ => None,
            };
            let new = match outcome {
                Edit::Put(doc) => Some(index_keys(schema, doc.as_doc())?),
                _ => None,
            };
            keys.push((old, new));
        }
        let both = keys.iter().flat_map(|(old, new)| [old, new]).flatten();
        let _uniques = self.shared.unique_keys.lock_many(both.flat_map(|keys| unique_locks(schema, keys)));
        let mut overlay = Overlay::new();
        let mut batch = Batch::with_capacity(edits.len() * (4 + schema.secondary().len()));
        let mut staged = Vec::with_capacity(edits.len());
        let mut written = Written::default();
        for ((id, (record, outcome)), (old_keys, new_keys)) in ids.iter().zip(&edits).zip(&keys) {
            let described = match outcome {
                Edit::Put(doc) => doc.as_doc(),
                _ => Doc::EMPTY,
            };
            self.stage_index_changes(
                schema,
                id,
                described,
                old_keys.as_deref(),
                new_keys.as_deref(),
                &mut overlay,
                &mut batch,
            )?;
            match (record, outcome) {
                (_, Edit::Keep) | (None, Edit::Delete) => {}
                (None, Edit::Put(doc)) => {
                    staged.push(self.stage_insert(id, doc.as_doc())?);
                    written.inserted += 1;
                }
                (Some(record), Edit::Put(doc)) => {
                    let old = OldState::of(record);
                    let revision = old.revision.child(Some(doc.as_doc()));
                    staged.push(Staged {
                        id,
                        kind: ChangeKind::Update,
                        old: Some(old),
                        new: Some((doc.as_doc(), Some(revision))),
                        tombstone: None,
                        revived: false,
                    });
                    written.replaced += 1;
                }
                (Some(record), Edit::Delete) => {
                    let old = OldState::of(record);
                    let tombstone = Some(old.revision.child(None));
                    staged.push(Staged {
                        id,
                        kind: ChangeKind::Delete,
                        old: Some(old),
                        new: None,
                        tombstone,
                        revived: false,
                    });
                    written.deleted += 1;
                }
            }
        }
        if let Some(retry) = options.retry
            && !staged.is_empty()
        {
            let result = options.retry_result.and_then(|cell| cell.borrow().clone());
            match &result {
                Some(result) => RetryRecord { result: Some(result.as_doc()), ..retry }.write(&mut batch),
                None => retry.write(&mut batch),
            }
        }
        if !batch.is_empty() || !staged.is_empty() {
            written.commit = Some(self.commit(schema, batch, staged)?);
        }
        drop((guard, _ids, _uniques));
        if written.inserted > 0 {
            self.trim_capped()?;
        }
        Ok(written)
    }

    /// A document that is not there yet: its first revision, or the one after its tombstone.
    fn stage_insert<'a>(&self, id: &'a [u8], doc: Doc<'a>) -> Result<Staged<'a>> {
        {
            let mut greatest = self.greatest_id.lock();
            if id > greatest.as_slice() {
                greatest.clear();
                greatest.extend_from_slice(id);
            }
        }
        let mut staged = Staged {
            id,
            kind: ChangeKind::Insert,
            old: None,
            new: Some((doc, None)),
            tombstone: None,
            revived: false,
        };
        if self.sequence.may_have_tombstones()
            && let Some(bytes) =
                self.shared.engine.get(Space::Revisions, &Key::Tombstone(self.id, id).bytes())?
        {
            let tombstone = Tombstone::parse(&bytes)?;
            staged.new = Some((doc, Some(tombstone.revision.child(Some(doc)))));
            staged.old = Some(OldState {
                sequence: tombstone.sequence,
                revision: tombstone.revision,
                position: None,
                bytes: 0,
            });
            staged.revived = true;
        }
        Ok(staged)
    }

    /// Refuses an `_id` that is there already, in the store or earlier in this batch.
    fn check_new_id(&self, id: &[u8], doc: Doc<'_>, key: &[u8], overlay: &Overlay) -> Result<()> {
        // An id above all that ever were is new without a look: most ids that drivers make are.
        if id > self.greatest_id.lock().as_slice() {
            return Ok(());
        }
        if overlay.contains_key(key) || self.shared.engine.get(Space::Records, key)?.is_some() {
            return Err(Error::DuplicateKey(Box::new(DuplicateKey {
                namespace: self.namespace().to_string(),
                index: "_id_".to_owned(),
                key_pattern: diwan_value::doc! { "_id": 1 },
                key_value: diwan_value::doc! { "_id": doc.get("_id").unwrap_or(Value::Null) },
            })));
        }
        Ok(())
    }

    /// Adds the index entries that a change takes away and brings. Checks unique keys first, so that an error leaves
    /// batch and overlay as they were.
    #[allow(clippy::too_many_arguments)]
    fn stage_index_changes(
        &self,
        schema: &Schema,
        id: &[u8],
        doc: Doc<'_>,
        old: Option<&[IndexKeys]>,
        new: Option<&[IndexKeys]>,
        overlay: &mut Overlay,
        batch: &mut Batch,
    ) -> Result<()> {
        if schema.secondary().is_empty() || (old.is_none() && new.is_none()) {
            return Ok(());
        }
        let none = IndexKeys::default();
        let pairs = || {
            schema.secondary().iter().enumerate().map(|(at, index)| {
                let of = |keys: Option<&[IndexKeys]>| keys.map_or(&none, |keys| &keys[at]).clone();
                (index, of(old), of(new))
            })
        };
        for (index, old, new) in pairs().filter(|(index, ..)| index.spec.unique) {
            for (key, _) in new.entries.iter().filter(|(key, _)| !old.contains(key)) {
                self.check_unique(index, key, id, doc, overlay)?;
            }
        }
        for (index, old, new) in pairs() {
            if index.is_news(new.multikey) {
                self.shared.save_multikey(self, index, new.multikey)?;
            }
            let full_key = |key: &[u8]| match index.spec.unique {
                true => Key::UniqueEntry(index.id, key).bytes(),
                false => Key::Entry(index.id, key, id).bytes(),
            };
            for (key, _) in old.entries.iter().filter(|(key, _)| !new.contains(key)) {
                let key = full_key(key);
                if index.spec.unique {
                    overlay.insert(key.clone(), None);
                }
                batch.delete(Space::Indexes, key);
            }
            for (key, types) in &new.entries {
                let unchanged = old.entries.iter().any(|other| &other.0 == key && &other.1 == types);
                if unchanged && index.is_ready() {
                    continue;
                }
                let key = full_key(key);
                if index.spec.unique {
                    overlay.insert(key.clone(), Some(id.to_vec()));
                    batch.put(Space::Indexes, key, unique_value(id, types));
                } else {
                    batch.put(Space::Indexes, key, types.as_slice());
                }
            }
        }
        Ok(())
    }

    fn check_unique(
        &self,
        index: &Index,
        key: &[u8],
        id: &[u8],
        doc: Doc<'_>,
        overlay: &Overlay,
    ) -> Result<()> {
        let full_key = Key::UniqueEntry(index.id, key).bytes();
        let taken = match overlay.get(&full_key) {
            Some(owner) => owner.as_ref().is_some_and(|owner| owner != id),
            None => match self.shared.engine.get(Space::Indexes, &full_key)? {
                Some(value) => split_unique_value(&value)?.0 != id,
                None => false,
            },
        };
        if taken { Err(self.duplicate(index, doc)) } else { Ok(()) }
    }

    /// The error for a document whose key in a unique index is taken.
    pub(crate) fn duplicate(&self, index: &Index, doc: Doc<'_>) -> Error {
        let mut value = DocBuilder::new();
        for field in &index.spec.fields {
            let found = field.path.get(doc).unwrap_or(Value::Null);
            value.append(field.path.as_str(), found);
        }
        Error::DuplicateKey(Box::new(DuplicateKey {
            namespace: self.namespace().to_string(),
            index: index.spec.name.clone(),
            key_pattern: index.spec.key.clone(),
            key_value: value.finish(),
        }))
    }

    /// Gives the changes their sequences and commits the batch.
    fn commit(&self, schema: &Schema, mut batch: Batch, staged: Vec<Staged<'_>>) -> Result<CommitId> {
        let capped = schema.options.capped.is_some();
        let natural = keys::natural_prefix(self.id);
        let mut state = self.sequence.lock();
        let before = State { ..*state };
        for change in staged {
            self.write_change(&mut state, &mut batch, change, capped, &natural);
        }
        match self.shared.engine.commit(batch) {
            Ok(commit) => {
                self.sequence.publish(&state);
                Ok(commit)
            }
            Err(error) => {
                *state = before;
                Err(error.into())
            }
        }
    }

    fn write_change(
        &self,
        state: &mut State,
        batch: &mut Batch,
        change: Staged<'_>,
        capped: bool,
        natural: &[u8],
    ) {
        state.last += 1;
        let record_key = Key::Record(self.id, change.id).bytes();
        if let Some(old) = &change.old {
            batch.delete(Space::Log, Key::Change(self.id, old.sequence).bytes());
            let ancestor = Key::Ancestor(self.id, change.id, old.revision.generation).bytes();
            batch.put(Space::Revisions, ancestor, &old.revision.hash[..]);
            if let Some(stemmed) = old.revision.generation.checked_sub(crate::REVISIONS_LIMIT)
                && stemmed > 0
            {
                batch.delete(Space::Revisions, Key::Ancestor(self.id, change.id, stemmed).bytes());
            }
            state.bytes = state.bytes.saturating_sub(old.bytes as u64);
        }
        if change.revived {
            batch.delete(Space::Revisions, Key::Tombstone(self.id, change.id).bytes());
        }
        match change.kind {
            ChangeKind::Insert => state.count += 1,
            ChangeKind::Delete => state.count = state.count.saturating_sub(1),
            ChangeKind::Update => {}
        }
        let mut position = change.old.as_ref().and_then(|old| old.position);
        if capped && change.kind == ChangeKind::Insert {
            state.position += 1;
            position = Some(state.position);
            batch.put(Space::Indexes, natural_key(natural, state.position), change.id);
        }
        if let Some((doc, revision)) = change.new {
            state.bytes += doc.as_bytes().len() as u64;
            batch.put(
                Space::Records,
                record_key,
                record::encode(state.last, revision.as_ref(), position, doc),
            );
        } else {
            batch.delete(Space::Records, record_key);
            if let Some(position) = position {
                batch.delete(Space::Indexes, natural_key(natural, position));
            }
        }
        if let Some(revision) = change.tombstone {
            let tombstone = Tombstone { sequence: state.last, revision, deleted_at: clock::now_seconds() };
            batch.put(Space::Revisions, Key::Tombstone(self.id, change.id).bytes(), tombstone.encode());
            state.tombstones = true;
        }
        let entry = Change { sequence: state.last, kind: change.kind, count: state.count, id: change.id };
        batch.put(Space::Log, Key::Change(self.id, state.last).bytes(), entry.encode());
    }

    /// The revisions that led to a document's present one, newest first, as far as they are kept.
    pub fn ancestors(&self, id: &[u8]) -> Result<Vec<Revision>> {
        let prefix = [keys::collection_prefix(self.id).as_slice(), id].concat();
        let snapshot = self.shared.engine.snapshot();
        let mut revisions = Vec::new();
        for pair in snapshot.scan(Space::Revisions, KeyRange::prefix(&prefix), Direction::Reverse) {
            let (key, value) = pair?;
            let (generation, _) = key
                .get(prefix.len()..)
                .and_then(keys::read_number)
                .ok_or_else(|| Error::Damaged(keys::describe(Space::Revisions, &key)))?;
            if generation > 0 && value.len() == 16 {
                let mut hash = [0; 16];
                hash.copy_from_slice(&value);
                revisions.push(Revision { generation: generation as u32, hash });
            }
        }
        Ok(revisions)
    }
}

impl OldState {
    fn of(record: &Record<'_>) -> OldState {
        OldState {
            sequence: record.sequence,
            revision: record.revision(),
            position: record.position,
            bytes: record.doc.as_bytes().len(),
        }
    }
}

/// The key of a capped collection's document in the order of insertion.
pub(crate) fn natural_key(prefix: &[u8], position: u64) -> Vec<u8> {
    let mut key = prefix.to_vec();
    keys::write_number(&mut key, position);
    key
}

/// The value of a unique index's entry: the length of the id, the id, the type bytes.
pub(crate) fn unique_value(id: &[u8], types: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(id.len() + types.len() + 2);
    keys::write_number(&mut out, id.len() as u64);
    out.extend_from_slice(id);
    out.extend_from_slice(types);
    out
}

/// The id and the type bytes of a unique index's entry.
pub(crate) fn split_unique_value(value: &[u8]) -> Result<(&[u8], &[u8])> {
    keys::read_number(value)
        .and_then(|(length, rest)| rest.split_at_checked(usize::try_from(length).ok()?))
        .ok_or_else(|| Error::Damaged("an entry of a unique index".to_owned()))
}

/// The entries of a document in all secondary indexes, in their order.
pub(crate) fn index_keys(schema: &Schema, doc: Doc<'_>) -> Result<Vec<IndexKeys>> {
    schema.secondary().iter().map(|index| index.keys_of(doc)).collect()
}

fn unique_locks<'a>(schema: &'a Schema, keys: &'a [IndexKeys]) -> impl Iterator<Item = (u32, &'a [u8])> {
    schema
        .secondary()
        .iter()
        .zip(keys)
        .filter(|(index, _)| index.spec.unique)
        .flat_map(|(index, keys)| keys.entries.iter().map(|(key, _)| (index.id.0, key.as_slice())))
}

/// A document ready to be inserted: with an `_id`, in front.
struct Prepared<'a> {
    borrowed: Doc<'a>,
    rebuilt: Option<DocBuf>,
    id: Vec<u8>,
}

impl Prepared<'_> {
    fn doc(&self) -> Doc<'_> {
        self.rebuilt.as_ref().map_or(self.borrowed, DocBuf::as_doc)
    }
}

fn prepare(doc: Doc<'_>) -> Result<Prepared<'_>> {
    check_document(doc)?;
    let first_is_id = doc.iter().next().is_some_and(|element| element.key == b"_id");
    let rebuilt = (!first_is_id).then(|| with_id_in_front(doc));
    let id = match &rebuilt {
        Some(rebuilt) => document_id(rebuilt.as_doc())?,
        None => document_id(doc)?,
    };
    Ok(Prepared { borrowed: doc, rebuilt, id })
}

/// The document with its `_id`, a new one if it has none, as the first field.
pub fn with_id_in_front(doc: Doc<'_>) -> DocBuf {
    let mut out = DocBuilder::with_buffer(Vec::with_capacity(doc.as_bytes().len() + 17));
    match doc.get_raw("_id") {
        Some(id) => out.append_raw(b"_id", id),
        None => out.append("_id", ObjectId::generate()),
    };
    let mut seen = false;
    for element in doc.iter() {
        if element.key == b"_id" && !std::mem::replace(&mut seen, true) {
            continue;
        }
        out.append_element(element);
    }
    out.finish()
}

/// The key bytes of a document's `_id`.
pub fn document_id(doc: Doc<'_>) -> Result<Vec<u8>> {
    match doc.get("_id") {
        Some(value) => id_key(value),
        None => Err(Error::refused(code::INVALID_ID_FIELD, "the document has no _id")),
    }
}

/// The longest `_id` in key bytes.
const MAX_ID_BYTES: usize = 16 * 1024;

/// The key bytes of an `_id`.
pub fn id_key(value: Value<'_>) -> Result<Vec<u8>> {
    let kind = match value {
        Value::Array(_) => "array",
        Value::Regex { .. } => "regex",
        Value::Undefined => "undefined",
        _ => "",
    };
    if !kind.is_empty() {
        return Err(Error::refused(
            code::INVALID_ID_FIELD,
            format!("The '_id' value cannot be of type {kind}"),
        ));
    }
    let mut out = Vec::with_capacity(16);
    diwan_value::key::encode_order(&mut out, value, diwan_value::key::Direction::Ascending, None);
    if out.len() > MAX_ID_BYTES {
        return Err(Error::refused(
            code::BAD_VALUE,
            format!("The '_id' value takes {} bytes as a key; at most {MAX_ID_BYTES} are allowed", out.len()),
        ));
    }
    Ok(out)
}

/// What every stored document must satisfy, from whichever side it comes.
fn check_document(doc: Doc<'_>) -> Result<()> {
    let size = doc.as_bytes().len();
    if size > MAX_DOCUMENT_BYTES {
        return Err(Error::refused(
            code::BSON_OBJECT_TOO_LARGE,
            format!(
                "BSONObj size: {size} (0x{size:X}) is invalid. Size must be between 0 and {MAX_DOCUMENT_BYTES}(16MB)"
            ),
        ));
    }
    for element in doc.iter() {
        if element.key.first() == Some(&b'$') {
            return Err(Error::refused(
                code::DOLLAR_PREFIXED_FIELD_NAME,
                format!(
                    "The dollar ($) prefixed field '{0}' in '{0}' is not valid for storage.",
                    element.key_str()
                ),
            ));
        }
        if element.key == b"_id"
            && let Value::Document(id) = element.value()
            && let Some(bad) = id.iter().find(|inner| inner.key.first() == Some(&b'$'))
            && !matches!(bad.key, b"$id" | b"$ref" | b"$db")
        {
            return Err(Error::refused(
                code::DOLLAR_PREFIXED_FIELD_NAME,
                format!(
                    "_id fields may not contain '$'-prefixed fields: {} is not valid for storage.",
                    bad.key_str()
                ),
            ));
        }
    }
    Ok(())
}

/// Refuses a document that the validator does not accept.
fn check_validator(schema: &Schema, doc: Doc<'_>, old: Option<Doc<'_>>) -> Result<()> {
    let options = &schema.options;
    let Some(validator) = &options.validator else { return Ok(()) };
    if options.validation_level == ValidationLevel::Off || validator.matches(doc)? {
        return Ok(());
    }
    if options.validation_level == ValidationLevel::Moderate
        && let Some(old) = old
        && !validator.matches(old)?
    {
        return Ok(());
    }
    let details = diwan_value::doc! {
        "failingDocumentId": doc.get("_id").unwrap_or(Value::Null),
        "details": validator.explain_mismatch(doc)?
    };
    if !options.validation_refuses {
        tracing::warn!(details = ?details.as_doc(), "document would fail validation");
        return Ok(());
    }
    Err(Error::DocumentValidation { details })
}

//! Documents on their way from a primary to a follower, or back from one that wrote alone.
//!
//! The primary reads its change log and sends, for each changed document, all leaves of its revision tree with their ancestors
//! and bodies. The follower grafts them, as a replicator does with `new_edits=false`. The bodies are BSON, so that
//! every type survives.
//!
//! A document travels as a header, which is a BSON document, and the bodies of its leaves, each a BSON document:
//! `{s: sequence, i: key bytes of the _id, l: [{g: generation, h: hash, d: deleted, a: hashes of the ancestors, t:
//! attachments}]}`. A document that was purged has no leaves.

use super::Applying;
use crate::blob::{Attachment, attachment};
use crate::change::ChangeKind;
use crate::collection::{Base, Collection, ReadView, RevisionEdit, RevisionOutcome, id_key};
use crate::error::{Error, Result};
use crate::revision::Revision;
use diwan_kv::{CommitId, Direction};
use diwan_query::Interrupt;
use diwan_value::{ArrayBuilder, Doc, DocBuilder, Value, doc};
use std::sync::Arc;

/// The setting of a follower's collection that says how far it has come.
pub const POSITION: &str = "followed";

/// How many rows of the change log are read at a time.
const RUN: usize = 500;

/// Changes of a collection, encoded.
#[derive(Debug)]
pub struct Export {
    /// The changes.
    pub bytes: Vec<u8>,
    /// The sequence from which the next part continues.
    pub last: u64,
    /// Whether the end of the log was reached.
    pub is_end: bool,
    /// Deletions after `since` may be missing, because their tombstones have expired.
    pub has_gap: bool,
}

/// A leaf of the revision tree of a document of another server.
#[derive(Clone, Debug)]
pub struct ForeignLeaf<'a> {
    /// The revision.
    pub revision: Revision,
    /// Whether it is a deletion.
    pub deleted: bool,
    /// The hashes of its ancestors, newest first.
    pub ancestors: Vec<[u8; 16]>,
    /// Its attachments. Their blobs are those of the other server until they are replaced.
    pub attachments: Vec<Attachment>,
    /// The document.
    pub doc: Doc<'a>,
}

/// A document of another server.
#[derive(Clone, Debug)]
pub struct ForeignDocument<'a> {
    /// Its place in the other server's log.
    pub sequence: u64,
    /// The key bytes of its `_id`.
    pub id: Vec<u8>,
    /// The leaves of its revision tree; none if it was purged.
    pub leaves: Vec<ForeignLeaf<'a>>,
}

/// Some revisions of a document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DocumentRevisions {
    /// The key bytes of its `_id`.
    pub id: Vec<u8>,
    /// The revisions.
    pub revisions: Vec<Revision>,
}

/// A part of a change log, without the documents.
#[derive(Debug)]
pub struct Leaves {
    /// The changed documents, with the leaves of their revision trees.
    pub documents: Vec<DocumentRevisions>,
    /// The sequence from which the next part continues.
    pub last: u64,
    /// Whether the end of the log was reached.
    pub is_end: bool,
}

/// A document that could not be stored.
#[derive(Debug)]
pub struct RefusedDocument {
    /// The key bytes of its `_id`.
    pub key: Vec<u8>,
    /// Its `_id`, for people.
    pub id: String,
    /// The revision.
    pub revision: Revision,
    /// The reason.
    pub error: Error,
}

impl Collection {
    /// The changes after sequence `since`, up to about `most_bytes`.
    pub fn export(self: &Arc<Self>, since: u64, most_bytes: usize) -> Result<Export> {
        self.keep_history()?;
        let has_gap = since > 0 && self.sequence.expired() > since;
        let (mut bytes, mut last) = (Vec::new(), since);
        loop {
            let view = self.view();
            let mut run = Vec::new();
            view.changes(last, |change| {
                run.push((change.sequence, change.kind, change.id.to_vec()));
                Ok(run.len() < RUN)
            })?;
            let is_end = run.len() < RUN;
            for (sequence, kind, id) in run {
                write_document(&view, sequence, kind, &id, &mut bytes)?;
                last = sequence;
                if bytes.len() >= most_bytes {
                    return Ok(Export { bytes, last, is_end: false, has_gap });
                }
            }
            if is_end {
                return Ok(Export { bytes, last, is_end, has_gap });
            }
        }
    }

    /// The same for one document, with the leaves that another server lacks and no others.
    pub fn export_document(self: &Arc<Self>, wanted: &DocumentRevisions) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        write_leaves(&self.view(), 0, &wanted.id, |leaf| wanted.revisions.contains(leaf), &mut bytes)?;
        Ok(bytes)
    }

    /// Stores documents of another server with their types. Returns those that could not be stored: a primary checks
    /// them like any others, a follower takes what its primary has.
    pub fn import(
        self: &Arc<Self>,
        documents: &[ForeignDocument<'_>],
        interrupt: &Interrupt,
    ) -> Result<(Vec<RefusedDocument>, Option<CommitId>)> {
        let mut edits = Vec::with_capacity(documents.len());
        for document in documents {
            for leaf in &document.leaves {
                let id =
                    leaf.doc.get("_id").ok_or_else(|| Error::Damaged("a document without _id".into()))?;
                edits.push(RevisionEdit {
                    id,
                    base: Base::Graft { revision: leaf.revision, ancestors: leaf.ancestors.clone() },
                    deleted: leaf.deleted,
                    doc: leaf.doc,
                    attachments: leaf.attachments.clone(),
                });
            }
        }
        let _applying = Applying::begin();
        let report = self.edit_revisions(&edits, false, Some(interrupt))?;
        let mut refused = Vec::new();
        for (edit, outcome) in edits.iter().zip(report.outcomes) {
            if let RevisionOutcome::Refused(error) = outcome {
                let shown = doc! { "_id": edit.id };
                let id = diwan_value::extjson::to_json(shown.as_doc(), diwan_value::extjson::Mode::Relaxed);
                let Base::Graft { revision, .. } = edit.base else { continue };
                refused.push(RefusedDocument { key: id_key(edit.id)?, id, revision, error });
            }
        }
        for document in documents {
            let is_gone = document.leaves.is_empty();
            if is_gone || (self.shared.replica.follows() && self.has_branches(&document.id)?) {
                self.purge_others(document, interrupt)?;
            }
        }
        Ok((refused, report.commit))
    }

    /// Whether a document has several leaves.
    fn has_branches(self: &Arc<Self>, id: &[u8]) -> Result<bool> {
        Ok(self.view().document(id)?.is_some_and(|document| document.has_branches))
    }

    /// Purges the leaves that the other server does not have: they were purged there, or so many edits followed that the
    /// way to the new leaves is forgotten.
    fn purge_others(self: &Arc<Self>, document: &ForeignDocument<'_>, interrupt: &Interrupt) -> Result<()> {
        let Some(tree) = self.view().tree(&document.id)? else { return Ok(()) };
        let is_other = |own: &Revision| document.leaves.iter().all(|leaf| leaf.revision != *own);
        let others: Vec<Revision> = tree.leaves().iter().map(|leaf| leaf.revision).filter(is_other).collect();
        if !others.is_empty() {
            self.purge(&document.id, &others, interrupt)?;
        }
        Ok(())
    }

    /// How far this copy has come in the log of that server's collection.
    pub fn position(&self, member: &str) -> u64 {
        let Some(setting) = self.setting(POSITION) else { return 0 };
        let Value::Document(position) = setting.as_value() else { return 0 };
        let sequence = position.get("sequence").and_then(Value::as_i64_exact).unwrap_or(0);
        if position.get_str("member") == Some(member) { sequence as u64 } else { 0 }
    }

    /// Notes how far this copy has come. A kill may lose the note, never what it tells of.
    pub fn note_position(&self, member: &str, sequence: u64) -> Result<CommitId> {
        let _applying = Applying::begin();
        let position = doc! { "member": member, "sequence": sequence as i64 };
        self.set_setting(POSITION, Some(Value::Document(position.as_doc())))
    }

    /// The documents with changes after sequence `since`, with their leaves.
    pub fn leaves_after(self: &Arc<Self>, since: u64) -> Result<Leaves> {
        let rows = self.changes(since, RUN, Direction::Forward)?;
        let (last, is_end) = (rows.last().map_or(since, |row| row.sequence), rows.len() < RUN);
        let documents = rows.into_iter().map(|row| {
            let revisions = if row.leaves.is_empty() { vec![row.revision] } else { row.leaves };
            DocumentRevisions { id: row.id, revisions }
        });
        Ok(Leaves { documents: documents.collect(), last, is_end })
    }

    /// Those of a document's revisions that this collection does not know.
    pub fn lacks(self: &Arc<Self>, id: &[u8], revisions: &[Revision]) -> Result<Vec<Revision>> {
        let tree = self.view().tree(id)?.unwrap_or_default();
        Ok(revisions.iter().filter(|revision| !tree.contains(revision)).copied().collect())
    }
}

/// Appends a changed document.
fn write_document(
    view: &ReadView,
    sequence: u64,
    kind: ChangeKind,
    id: &[u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    match kind {
        ChangeKind::Purge => {
            write_header(sequence, id, ArrayBuilder::new(), out);
            Ok(())
        }
        _ => write_leaves(view, sequence, id, |_| true, out),
    }
}

fn write_header(sequence: u64, id: &[u8], leaves: ArrayBuilder, out: &mut Vec<u8>) {
    let mut header = DocBuilder::new();
    header.append("s", sequence as i64).append("i", Value::Binary { subtype: 0, bytes: id });
    header.append("l", leaves);
    out.extend_from_slice(header.finish().as_doc().as_bytes());
}

/// Appends a document with the leaves that are chosen.
fn write_leaves(
    view: &ReadView,
    sequence: u64,
    id: &[u8],
    is_chosen: impl Fn(&Revision) -> bool,
    out: &mut Vec<u8>,
) -> Result<()> {
    // A document that was purged since the log was read gets a later row.
    let Some(tree) = view.tree(id)? else { return Ok(()) };
    let (mut leaves, mut bodies) = (ArrayBuilder::new(), Vec::new());
    for leaf in tree.leaves().iter().filter(|leaf| is_chosen(&leaf.revision)) {
        let revision = leaf.revision;
        let stored = view.revision(id, revision)?;
        let stored = stored.ok_or_else(|| Error::Damaged(format!("the body of the revision {revision}")))?;
        let path: Vec<u8> = tree.path(&revision).iter().skip(1).flat_map(|ancestor| ancestor.hash).collect();
        let attachments = match stored.attachments.as_slice() {
            [] => Vec::new(),
            list => attachment::encode(list),
        };
        let binary = |bytes| Value::Binary { subtype: 0, bytes };
        leaves.push(doc! {
            "g": i64::from(revision.generation),
            "h": binary(&revision.hash),
            "d": leaf.deleted,
            "a": binary(&path),
            "t": binary(&attachments)
        });
        bodies.push(stored.doc);
    }
    if bodies.is_empty() {
        return Ok(());
    }
    write_header(sequence, id, leaves, out);
    bodies.iter().for_each(|body| out.extend_from_slice(body.as_doc().as_bytes()));
    Ok(())
}

/// Reads what [`Collection::export`] wrote.
pub fn parse(mut bytes: &[u8]) -> Result<Vec<ForeignDocument<'_>>> {
    let damaged = || Error::Damaged("documents of another server".to_owned());
    let mut documents = Vec::new();
    while !bytes.is_empty() {
        let header = next_doc(&mut bytes).ok_or_else(damaged)?;
        let sequence = header.get("s").and_then(Value::as_i64_exact).ok_or_else(damaged)? as u64;
        let Some(Value::Binary { bytes: id, .. }) = header.get("i") else { return Err(damaged()) };
        let mut leaves = Vec::new();
        for leaf in header.get_array("l").ok_or_else(damaged)?.iter() {
            let leaf = leaf.as_doc().ok_or_else(damaged)?;
            let doc = next_doc(&mut bytes).ok_or_else(damaged)?;
            leaves.push(read_leaf(leaf, doc).ok_or_else(damaged)?);
        }
        documents.push(ForeignDocument { sequence, id: id.to_vec(), leaves });
    }
    Ok(documents)
}

/// Splits a BSON document off.
fn next_doc<'a>(bytes: &mut &'a [u8]) -> Option<Doc<'a>> {
    let length = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    let (first, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Doc::validate(first).ok()
}

fn read_leaf<'a>(leaf: Doc<'_>, doc: Doc<'a>) -> Option<ForeignLeaf<'a>> {
    let binary = |name: &str| match leaf.get(name) {
        Some(Value::Binary { bytes, .. }) => Some(bytes.to_vec()),
        _ => None,
    };
    let generation = u32::try_from(leaf.get("g")?.as_i64_exact()?).ok()?;
    let (ancestors, rest) = {
        let bytes = binary("a")?;
        let (chunks, rest) = bytes.as_chunks::<16>();
        (chunks.to_vec(), rest.len())
    };
    let attachments = binary("t")?;
    let attachments =
        if attachments.is_empty() { Vec::new() } else { attachment::decode(&attachments).ok()? };
    (rest == 0).then_some(())?;
    Some(ForeignLeaf {
        revision: Revision { generation, hash: binary("h")?.try_into().ok()? },
        deleted: leaf.get("d")?.as_bool()?,
        ancestors,
        attachments,
        doc,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Edit, Namespace, Store, WriteOptions, id_key};
    use diwan_kv::MemoryEngine;
    use diwan_value::DocBuf;

    fn collection() -> Arc<Collection> {
        let store = Store::open(Arc::new(MemoryEngine::new())).unwrap();
        store.collection_or_create(&Namespace::parse("shop.persons").unwrap()).unwrap()
    }

    fn put(collection: &Collection, doc: DocBuf) {
        let id = id_key(doc.as_doc().get("_id").unwrap()).unwrap();
        collection.edit(&[id], WriteOptions::default(), |_, _| Ok(Edit::Put(doc.clone()))).unwrap();
    }

    fn state(collection: &Arc<Collection>) -> Vec<(DocumentRevisions, Option<DocBuf>)> {
        let mut leaves = collection.leaves_after(0).unwrap();
        assert!(leaves.is_end);
        leaves.documents.sort();
        let doc = |id: &[u8]| collection.view().document(id).unwrap().map(|found| found.doc);
        leaves.documents.into_iter().map(|one| (one.clone(), doc(&one.id))).collect()
    }

    fn copy(from: &Arc<Collection>, to: &Arc<Collection>, since: u64) -> u64 {
        let _applying = Applying::begin();
        let mut last = since;
        loop {
            let part = from.export(last, 100).unwrap();
            let (refused, _) = to.import(&parse(&part.bytes).unwrap(), &Interrupt::new()).unwrap();
            assert!(refused.is_empty(), "{refused:?}");
            last = part.last;
            if part.is_end {
                return last;
            }
        }
    }

    #[test]
    fn import_gives_the_same_documents_types_and_revisions() {
        let (primary, follower) = (collection(), collection());
        follower.shared.replica.follow_in_test();
        for number in 0..40 {
            put(&primary, doc! { "_id": number, "n": 1i32 });
        }
        let last = copy(&primary, &follower, 0);
        assert_eq!(state(&follower), state(&primary));
        // A change of type alone is a change.
        put(&primary, doc! { "_id": 3, "n": 1i64, "odd": { "$oid": "no id" } });
        primary
            .edit(&[id_key(Value::Int32(4)).unwrap()], WriteOptions::default(), |_, _| Ok(Edit::Delete))
            .unwrap();
        let last = copy(&primary, &follower, last);
        assert_eq!(state(&follower), state(&primary));
        // So many edits that the follower's leaf is forgotten.
        primary.set_revision_limit(2).unwrap();
        follower.set_revision_limit(2).unwrap_err();
        for number in 0..9 {
            put(&primary, doc! { "_id": 7, "n": number });
        }
        let last = copy(&primary, &follower, last);
        assert_eq!(state(&follower), state(&primary));
        let (one, _) = state(&primary).remove(5);
        primary.purge(&one.id, &one.revisions, &Interrupt::new()).unwrap();
        copy(&primary, &follower, last);
        assert_eq!(state(&follower), state(&primary));
        assert_eq!((follower.count(), primary.count()), (38, 38));
    }

    #[test]
    fn parse_refuses_cut_bytes() {
        let primary = collection();
        put(&primary, doc! { "_id": 1, "a": "b" });
        let bytes = primary.export(0, 1000).unwrap().bytes;
        assert_eq!(parse(&bytes).unwrap().len(), 1);
        for cut in 1..bytes.len() {
            assert!(parse(&bytes[..cut]).is_err(), "{cut}");
        }
    }
}

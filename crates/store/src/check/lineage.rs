//! Checks a document's revisions, tombstone and attachments.

use super::collection::{CollectionCheck, Lookup, What, hex, name_of};
use super::report::{FindingKind, Part};
use super::revisions::Group;
use crate::blob::{BlobId, attachment};
use crate::change::ChangeKind;
use crate::error::Result;
use crate::keys::{self, BlobKeys, Key};
use crate::record::{Record, Tombstone};
use crate::revision::Revision;
use crate::revision::tree::Leaf;
use diwan_kv::{KeyRange, Space};
use std::collections::BTreeSet;
use std::sync::Arc;

impl CollectionCheck<'_, '_> {
    /// Checks an existing document: its revisions are consistent, and it has no tombstone.
    pub(super) fn live_revisions(&mut self, id: &Arc<[u8]>, record: &Record<'_>, revisions: Option<&Group>) {
        let none = Group::of(id);
        let group = revisions.unwrap_or(&none);
        let leaf = Leaf { revision: record.revision(), deleted: false };
        let mut faults = group.judge(leaf, record.marks);
        if group.tombstone.is_some() {
            faults.push("it exists and has a tombstone".to_owned());
        }
        for fault in faults {
            self.find(FindingKind::Revision, None, format!("document {}: {fault}", name_of(record.doc)));
        }
        self.count_others(id, group);
        self.expect_references(id, leaf.revision, record.attachments);
    }

    /// Checks revisions without a document: they have a tombstone and are consistent with it.
    pub(super) fn deleted(&mut self, group: &Group) {
        let id: Arc<[u8]> = group.id.as_slice().into();
        self.count_others(&id, group);
        let tombstone = group.tombstone.as_deref().and_then(|bytes| Tombstone::parse(bytes).ok());
        let Some(tombstone) = tombstone else {
            for fault in &group.faults {
                self.find(FindingKind::Revision, None, format!("revisions of {}: {fault}", hex(&id)));
            }
            let detail = format!("{} has revisions, but no document and no tombstone", hex(&id));
            return self.find(FindingKind::Revision, None, detail);
        };
        if tombstone.is_purged() {
            if !group.is_bare() {
                let detail = format!("{} was purged, but has revisions", hex(&id));
                self.find(FindingKind::Revision, None, detail);
            }
            return self.expect_change(&id, tombstone.sequence, &[ChangeKind::Purge]);
        }
        self.report.tombstones += 1;
        let leaf = Leaf { revision: tombstone.revision, deleted: true };
        for fault in group.judge(leaf, tombstone.marks) {
            self.find(FindingKind::Revision, None, format!("the tombstone of {}: {fault}", hex(&id)));
        }
        self.expect_references(&id, leaf.revision, tombstone.attachments);
        self.expect_change(&id, tombstone.sequence, &[ChangeKind::Delete]);
    }

    fn count_others(&mut self, id: &Arc<[u8]>, group: &Group) {
        self.report.ancestors += group.ancestors.len() as u64;
        self.report.other_bodies += group.bodies.len() as u64;
        for body in &group.bodies {
            self.expect_references(id, body.revision, &body.attachments);
            if let Some(superseded_at) = body.superseded_at.filter(|_| self.due_bodies_complete) {
                let (collection, revision) = (self.entry.id, body.revision);
                let key = Key::DueBody { superseded_at, collection, id, revision }.bytes();
                self.lookups.push(Lookup { what: What::DueBody(revision), id: id.clone(), key });
            }
        }
    }

    /// Expects a reference and a blob for each attachment of a stored body.
    fn expect_references(&mut self, id: &Arc<[u8]>, revision: Revision, list: &[u8]) {
        if list.is_empty() {
            return;
        }
        let attachments = match attachment::decode(list) {
            Ok(attachments) => attachments,
            Err(error) => {
                return self.find(FindingKind::Attachment, None, format!("document {}: {error}", hex(id)));
            }
        };
        let collection = self.entry.id;
        let blobs: BTreeSet<BlobId> = attachments.iter().map(|attachment| attachment.blob).collect();
        for blob in blobs {
            let key = Key::BlobReference { collection, blob, revision, id }.bytes();
            self.lookups.push(Lookup { what: What::Reference(blob), id: id.clone(), key });
            let key = Key::Blob(collection, blob).bytes();
            self.lookups.push(Lookup { what: What::Blob(blob), id: id.clone(), key });
        }
    }

    /// Every reference to a blob is one that a stored body has.
    pub(super) fn references(&mut self) -> Result<()> {
        let range = KeyRange::prefix(&keys::blobs_prefix(self.entry.id, BlobKeys::References));
        let total = self.count(Space::Meta, range, Part::Documents)?;
        if total > self.confirmed_references {
            let strays = total - self.confirmed_references;
            let detail = format!("{strays} references to blobs belong to no document's attachments");
            self.find(FindingKind::Attachment, None, detail);
        }
        Ok(())
    }
}

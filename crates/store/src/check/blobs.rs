//! Checks the blobs of a collection: each is complete, has the content that its head describes, and has a reference or
//! a loose mark. The references themselves are checked with the documents.

use super::collection::CollectionCheck;
use super::report::{FindingKind, Part};
use crate::blob::{BlobId, Head};
use crate::error::Result;
use crate::keys::{self, BlobKeys, Key, read_number};
use diwan_kv::{Direction, KeyRange, Space};
use md5::{Digest, Md5};
use std::ops::{Bound, ControlFlow};

impl CollectionCheck<'_, '_> {
    /// Checks every blob.
    pub(super) fn blobs(&mut self) -> Result<()> {
        let prefix = keys::blobs_prefix(self.entry.id, BlobKeys::Heads);
        let (mut heads, mut named) = (0, 0);
        for pair in self.snapshot.scan(Space::Meta, KeyRange::prefix(&prefix), Direction::Forward) {
            let (key, value) = pair?;
            self.watch.step(self.namespace, Part::Attachments, heads, None)?;
            heads += 1;
            let Ok(blob) = <[u8; 16]>::try_from(&key[prefix.len()..]).map(BlobId) else {
                self.find_blob(format!("no blob has such a key: {}", keys::describe(Space::Meta, &key)));
                continue;
            };
            match Head::parse(&value) {
                Err(error) => self.find_blob(format!("blob {blob}: {error}")),
                Ok(head) => {
                    named += u64::from(self.is_named(blob, &head)?);
                    self.content(blob, &head)?;
                }
            }
            if !self.is_referred_to(blob)? && !self.is_loose(blob)? {
                self.find_blob(format!("blob {blob} has neither a reference nor a loose mark"));
            }
        }
        let contents = KeyRange::prefix(&keys::blobs_prefix(self.entry.id, BlobKeys::Contents));
        let contents = self.count(Space::Meta, contents, Part::Attachments)?;
        if contents != named {
            self.find_blob(format!(
                "{contents} contents are named, but {named} of {heads} blobs have theirs"
            ));
        }
        self.strays()
    }

    /// Whether a lookup by content finds the blob.
    fn is_named(&mut self, blob: BlobId, head: &Head) -> Result<bool> {
        let key = Key::BlobContent(self.entry.id, &head.hash).bytes();
        let named = self.snapshot.get(Space::Meta, &key)?.is_some_and(|value| *value == blob.0);
        if !named {
            self.find_blob(format!("a lookup by its content does not find blob {blob}"));
        }
        Ok(named)
    }

    /// Checks a blob's chunks against its head.
    fn content(&mut self, blob: BlobId, head: &Head) -> Result<()> {
        let prefix = self.chunks_prefix(blob);
        let (mut hash, mut md5) = (blake3::Hasher::new(), Md5::new());
        let (mut length, mut next) = (0, 0);
        let mut fault = None;
        self.snapshot.visit(Space::Attachments, KeyRange::prefix(&prefix), &mut |key, value| {
            let expected = head.chunk_bytes.min(head.length.saturating_sub(length));
            if read_number(&key[prefix.len()..]) != Some((next, &[])) || value.len() as u64 != expected {
                fault = Some(format!("blob {blob} has a wrong chunk at byte {length}"));
                return ControlFlow::Break(());
            }
            hash.update(value);
            md5.update(value);
            length += expected;
            next += 1;
            ControlFlow::Continue(())
        })?;
        if fault.is_none() && length != head.length {
            fault = Some(format!("blob {blob} has {length} of {} bytes", head.length));
        }
        let digest: [u8; 16] = md5.finalize().into();
        if fault.is_none() && (*hash.finalize().as_bytes() != head.hash || digest != head.md5) {
            fault = Some(format!("blob {blob} has another content than its head describes"));
        }
        fault.into_iter().for_each(|fault| self.find_blob(fault));
        Ok(())
    }

    /// Checks that each blob that has chunks but no head, because its upload is running or abandoned, has a loose mark.
    fn strays(&mut self) -> Result<()> {
        let mut rest = KeyRange::prefix(&keys::collection_prefix(self.entry.id));
        while let Some(pair) = self.snapshot.scan(Space::Attachments, rest.clone(), Direction::Forward).next()
        {
            let (key, _) = pair?;
            let name = read_number(&key).and_then(|(_, name)| name.first_chunk::<16>());
            let Some(blob) = name.copied().map(BlobId) else {
                self.find_blob(format!(
                    "no chunk has such a key: {}",
                    keys::describe(Space::Attachments, &key)
                ));
                rest.start = Bound::Excluded(key);
                continue;
            };
            let has_head = self.snapshot.get(Space::Meta, &Key::Blob(self.entry.id, blob).bytes())?.is_some();
            if !has_head && !self.is_loose(blob)? {
                self.find_blob(format!("chunks of blob {blob}, which has neither a head nor a loose mark"));
            }
            match KeyRange::prefix(&self.chunks_prefix(blob)).end {
                Bound::Excluded(end) => rest.start = Bound::Included(end),
                _ => break,
            }
        }
        Ok(())
    }

    fn chunks_prefix(&self, blob: BlobId) -> Vec<u8> {
        [keys::collection_prefix(self.entry.id).as_slice(), &blob.0].concat()
    }

    fn is_referred_to(&self, blob: BlobId) -> Result<bool> {
        self.has_any(&[keys::blobs_prefix(self.entry.id, BlobKeys::References).as_slice(), &blob.0].concat())
    }

    fn is_loose(&self, blob: BlobId) -> Result<bool> {
        self.has_any(&[keys::loose_prefix(Some(self.entry.id)).as_slice(), &blob.0].concat())
    }

    fn has_any(&self, prefix: &[u8]) -> Result<bool> {
        let mut pairs = self.snapshot.scan(Space::Meta, KeyRange::prefix(prefix), Direction::Forward);
        Ok(pairs.next().transpose()?.is_some())
    }

    fn find_blob(&mut self, detail: String) {
        self.find(FindingKind::Attachment, None, detail);
    }
}

#[cfg(test)]
mod tests {
    use crate::blob::{BlobSource, CHUNK_BYTES};
    use crate::check::{FindingKind, check_engine};
    use crate::keys::{self, BlobKeys};
    use crate::{Base, Namespace, RevisionEdit, Store};
    use diwan_kv::{Batch, Bytes, Direction, Engine, KeyRange, MemoryEngine, Space};
    use diwan_value::{Value, doc};
    use std::io::Write;
    use std::sync::Arc;

    type Pair = (Bytes, Bytes);

    /// The findings of a check after damage to a store with one attachment of several chunks.
    fn findings(damage: impl FnOnce(&dyn Fn(Space, &[u8]) -> Vec<Pair>, &mut Batch)) -> Vec<String> {
        let engine = Arc::new(MemoryEngine::new());
        let store = Store::open(engine.clone()).unwrap();
        let files = store.collection_or_create(&Namespace::new("test", "files").unwrap()).unwrap();
        let mut writer = files.blob_writer(BlobSource::Plain).unwrap();
        writer.write_all(&vec![7; 3 * CHUNK_BYTES + 5]).unwrap();
        let staged = writer.finish().unwrap();
        let body = doc! { "_id": "a" };
        let edit = RevisionEdit {
            id: Value::String("a"),
            base: Base::New,
            deleted: false,
            doc: body.as_doc(),
            attachments: vec![staged.attachment("a", "x/y", 1)],
        };
        files.edit_revisions(&[edit], true, None).unwrap();
        drop(staged);
        crate::blob::sweep(&files.shared, || false).unwrap();
        let pairs = |space, prefix: &[u8]| {
            engine
                .snapshot()
                .scan(space, KeyRange::prefix(prefix), Direction::Forward)
                .map(Result::unwrap)
                .collect()
        };
        let mut batch = Batch::new();
        damage(&pairs, &mut batch);
        engine.commit(batch).unwrap();
        let report = check_engine(engine.as_ref(), &mut |_| {}).unwrap();
        let listed = report.findings.listed.into_iter();
        listed
            .inspect(|finding| assert_eq!(finding.kind, FindingKind::Attachment))
            .map(|f| f.detail)
            .collect()
    }

    #[test]
    fn check_finds_damaged_blobs() {
        let id = keys::CollectionId(1);
        let meta = |kind| keys::blobs_prefix(id, kind);
        assert_eq!(findings(|_, _| {}), [""; 0]);
        let found = |what: &str, all: Vec<String>| {
            assert!(all.iter().any(|detail| detail.contains(what)), "{what}: {all:?}");
        };
        for (at, what) in [(0, "wrong chunk at byte 0"), (2, "wrong chunk"), (3, "of 393221 bytes")] {
            found(
                what,
                findings(|pairs, batch| {
                    batch.delete(Space::Attachments, pairs(Space::Attachments, &[1])[at].0.clone());
                }),
            );
        }
        found(
            "another content",
            findings(|pairs, batch| {
                let (key, value) = pairs(Space::Attachments, &[1]).swap_remove(1);
                let mut value = value.to_vec();
                value[100] ^= 1;
                batch.put(Space::Attachments, key, value);
            }),
        );
        found(
            "does not find blob",
            findings(|pairs, batch| {
                batch.delete(Space::Meta, pairs(Space::Meta, &meta(BlobKeys::Contents))[0].0.clone());
            }),
        );
        found(
            "neither a reference nor a loose mark",
            findings(|pairs, batch| {
                batch.delete(Space::Meta, pairs(Space::Meta, &meta(BlobKeys::References))[0].0.clone());
            }),
        );
        found(
            "neither a head nor a loose mark",
            findings(|pairs, batch| {
                batch.delete(Space::Meta, pairs(Space::Meta, &meta(BlobKeys::Heads))[0].0.clone());
            }),
        );
        found(
            "a blob's head",
            findings(|pairs, batch| {
                batch.put(Space::Meta, pairs(Space::Meta, &meta(BlobKeys::Heads))[0].0.clone(), vec![1]);
            }),
        );
        found(
            "2 contents",
            findings(|_, batch| {
                batch.put(Space::Meta, [meta(BlobKeys::Contents).as_slice(), &[5; 32]].concat(), vec![1; 16]);
            }),
        );
        found(
            "no chunk has such a key",
            findings(|_, batch| {
                batch.put(Space::Attachments, vec![1, 2, 3], vec![1]);
            }),
        );
    }
}

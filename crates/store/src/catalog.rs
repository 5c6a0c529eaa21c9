//! Catalog entries: the stored description of a collection or view.

use crate::error::{Error, Result};
use crate::index::{Index, IndexSpec};
use crate::keys::{CollectionId, IndexId};
use crate::options::CollectionOptions;
use diwan_value::{Doc, DocBuf, DocBuilder, Value};
use std::sync::Arc;

/// The version of the key layout and the record formats; a store of another version is refused.
pub const FORMAT_VERSION: i32 = 1;

/// The catalog's entry of one collection or view.
#[derive(Clone, Debug)]
pub struct CatalogEntry {
    /// The number that prefixes its keys.
    pub id: CollectionId,
    /// The identifier that clients see; never reused, kept by a rename.
    pub uuid: [u8; 16],
    /// When it was created, in microseconds since the Unix epoch; entries of earlier versions do not tell.
    pub created: Option<i64>,
    /// Its options.
    pub options: Arc<CollectionOptions>,
    /// Its indexes, the one on `_id` first; none for a view.
    pub indexes: Vec<Arc<Index>>,
    /// Whether ancestors of revisions and tombstones are kept. Entries of earlier versions do not tell: there they are.
    pub history: bool,
}

impl CatalogEntry {
    /// The entry as it is stored.
    pub fn encode(&self) -> DocBuf {
        let mut out = DocBuilder::new();
        out.append("id", i64::from(self.id.0));
        out.append("uuid", Value::Binary { subtype: 4, bytes: &self.uuid });
        if let Some(created) = self.created {
            out.append("created", created);
        }
        if !self.history {
            out.append("history", false);
        }
        out.append("options", self.options.to_doc());
        let mut indexes = diwan_value::ArrayBuilder::new();
        for index in &self.indexes {
            indexes.push(diwan_value::doc! {
                "id": i64::from(index.id.0),
                "ready": index.is_ready(),
                "multikey": index.multikey() as i64,
                "spec": index.spec.to_doc()
            });
        }
        out.append("indexes", indexes);
        out.finish()
    }

    /// The identifier in a stored entry.
    pub fn uuid_of(bytes: &[u8]) -> Option<[u8; 16]> {
        match Doc::validate(bytes).ok()?.get("uuid") {
            Some(Value::Binary { bytes, .. }) => bytes.try_into().ok(),
            _ => None,
        }
    }

    /// Reads a stored entry.
    pub fn decode(bytes: &[u8]) -> Result<CatalogEntry> {
        let doc = Doc::validate(bytes).map_err(|error| damaged(&error.to_string()))?;
        let number = |doc: Doc<'_>, name: &str| {
            doc.get(name)
                .and_then(Value::as_i64_exact)
                .and_then(|number| u32::try_from(number).ok())
                .ok_or_else(|| damaged(name))
        };
        let uuid = CatalogEntry::uuid_of(bytes).ok_or_else(|| damaged("uuid"))?;
        let options = CollectionOptions::parse(doc.get_doc("options").ok_or_else(|| damaged("options"))?)?;
        let mut indexes = Vec::new();
        for stored in doc.get_array("indexes").ok_or_else(|| damaged("indexes"))?.iter() {
            let stored = stored.as_doc().ok_or_else(|| damaged("indexes"))?;
            let spec = stored.get_doc("spec").ok_or_else(|| damaged("spec"))?;
            let ready = stored.get("ready") == Some(Value::Boolean(true));
            let multikey = stored.get("multikey").and_then(Value::as_i64_exact).unwrap_or(0) as u64;
            let id = IndexId(number(stored, "id")?);
            indexes.push(Arc::new(Index::new(id, IndexSpec::parse(spec, None)?, ready, multikey)));
        }
        let created = doc.get("created").and_then(Value::as_i64_exact);
        let (id, options) = (CollectionId(number(doc, "id")?), Arc::new(options));
        let history = doc.get("history") != Some(Value::Boolean(false));
        Ok(CatalogEntry { id, uuid, created, options, indexes, history })
    }
}

fn damaged(what: &str) -> Error {
    Error::Damaged(format!("a catalog document: {what}"))
}

/// A random UUID of version 4.
pub fn random_uuid() -> [u8; 16] {
    let mut bytes = [0; 16];
    for half in bytes.chunks_exact_mut(8) {
        let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0u8);
        half.copy_from_slice(&random.to_le_bytes());
    }
    bytes[6] = bytes[6] & 0x0F | 0x40;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    bytes
}

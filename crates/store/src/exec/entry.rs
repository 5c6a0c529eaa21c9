//! From index entries to documents: fetches the document, or rebuilds it from a covering index.

use super::scan::Current;
use crate::collection::{RawEntry, ReadView, damaged_entry};
use crate::error::Result;
use crate::index::IndexField;
use crate::plan::{IndexScan, shared_objects};
use diwan_value::{DocBuf, DocBuilder, Path, key};

/// The document of an index entry: rebuilt from the entry if the index covers the query, else fetched.
pub(super) fn from_entry(
    view: &ReadView,
    scan: &IndexScan,
    bounded: usize,
    raw: &[u8],
    value: &[u8],
    spare: Vec<u8>,
) -> Result<Current> {
    let entry = RawEntry::new(&scan.index, raw, value)?;
    if !scan.admits(entry.key, bounded) {
        return Ok(Current::None);
    }
    let fetched = || {
        let (_, id) = entry.split(&scan.index)?;
        Ok(view.get(id)?.map_or(Current::None, Current::Stored))
    };
    let Some(told) = scan.covered else { return fetched() };
    match rebuilt(scan, told, entry.key, entry.types, spare).ok_or_else(|| damaged_entry(raw))? {
        Some(doc) => Ok(Current::Built(doc)),
        None => fetched(),
    }
}

/// Rebuilds the covered fields of a document from an index key, in the buffer `spare`. The inner `None` means that a
/// field is null or missing, which the key does not distinguish. The outer `None` means that the key is damaged.
fn rebuilt(scan: &IndexScan, told: u64, key: &[u8], types: &[u8], spare: Vec<u8>) -> Option<Option<DocBuf>> {
    let mut decoder = key::Decoder::new(key, types);
    let mut doc = DocBuilder::with_buffer(spare);
    let mut before: Option<&Path> = None;
    for (at, IndexField { path, .. }) in scan.index.spec.fields.iter().enumerate() {
        if told >> at == 0 {
            break;
        }
        let direction = scan.field_direction(at);
        if told >> at & 1 == 0 {
            decoder.skip(direction)?;
            continue;
        }
        // Ends the embedded documents of the previous field that do not contain this one.
        let last = path.depth() - 1;
        let around = before.map_or(0, |before| before.depth() - 1);
        let shared = before.map_or(0, |before| shared_objects(before, path));
        for _ in shared..around {
            doc.end();
        }
        for depth in shared..last {
            doc.begin_document(path.name(depth));
        }
        before = Some(path);
        let is_null = decoder.append_next(direction, path.name(last), &mut doc)?;
        if is_null {
            return Some(None);
        }
    }
    Some(Some(doc.finish()))
}

/// The values of an entry's key, under the names of the index's fields.
pub(super) fn entry_document(scan: &IndexScan, raw: &[u8], value: &[u8]) -> Result<DocBuf> {
    let entry = RawEntry::new(&scan.index, raw, value)?;
    let mut decoder = key::Decoder::new(entry.key, entry.types);
    let mut doc = DocBuilder::new();
    for (at, name) in scan.field_names().enumerate() {
        decoder.append_next(scan.field_direction(at), name, &mut doc).ok_or_else(|| damaged_entry(raw))?;
    }
    Ok(doc.finish())
}

//! Selectors and lists of fields, applied to documents as HTTP shows them.

use crate::document::{self, Output, Show};
use crate::error::{Error, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use diwan_query::filter::Filter;
use diwan_query::mango;
use diwan_store::{ReadView, RevisedDocument};
use diwan_value::json::{self, Limits, Mode};
use diwan_value::{ArrayBuilder, Doc, DocBuf, DocBuilder, Value};
use std::sync::Arc;

/// The prefix of design documents, which queries exclude.
const DESIGN: &str = "_design/";

/// A parsed selector.
#[derive(Clone)]
pub(crate) struct Selector {
    parsed: mango::Selector,
}

impl From<mango::Error> for Error {
    fn from(error: mango::Error) -> Error {
        Error::new(error.status, error.error, error.reason)
    }
}

impl Selector {
    /// Parses a selector.
    pub(crate) fn parse(selector: Value<'_>) -> Result<Selector> {
        Ok(Selector { parsed: mango::Selector::parse_value(selector)? })
    }

    /// Parses a selector from JSON.
    pub(crate) fn read(selector: &serde_json::Value) -> Result<Selector> {
        let text = selector.to_string();
        let value = json::parse_value(text.as_bytes(), Limits::default())
            .map_err(|error| Error::bad_request(error.to_string()))?;
        Selector::parse(value.as_value())
    }

    /// The part of the selector that can be evaluated on stored documents.
    pub(crate) fn stored(&self) -> Filter {
        self.parsed.stored()
    }

    /// Whether the selector refers to metadata that stored documents do not contain.
    pub(crate) fn names_metadata(&self) -> bool {
        self.parsed.names_metadata()
    }

    /// Whether a document matches. `conflicts` is only called if the document has branches.
    pub(crate) fn matches_document(
        &self,
        found: &RevisedDocument,
        conflicts: impl FnOnce() -> Result<Vec<String>>,
    ) -> Result<bool> {
        if !self.parsed.names_metadata() {
            return Ok(self.parsed.filter().matches(found.doc.as_doc())?);
        }
        let conflicts = if found.has_branches { conflicts()? } else { Vec::new() };
        Ok(self.parsed.filter().matches(with_metadata(found, &conflicts).as_doc())?)
    }
}

/// Returns the revisions in conflict with the winner.
pub(crate) fn conflicts_of(view: &ReadView, id: &[u8]) -> Result<Vec<String>> {
    let tree = view.tree(id)?;
    Ok(tree.iter().flat_map(|tree| tree.conflicts()).map(|revision| revision.to_string()).collect())
}

/// A filter that excludes design documents.
pub(super) fn no_design_documents() -> Result<Filter> {
    let begins = diwan_value::doc! { "$beginsWith": DESIGN };
    let selector = diwan_value::doc! { "_id": diwan_value::doc! { "$not": begins } };
    Ok(mango::Selector::parse(selector.as_doc())?.stored())
}

/// A filter for the documents of a partition.
pub(super) fn in_partition(partition: &str) -> Result<Filter> {
    let begins = diwan_value::doc! { "$beginsWith": format!("{partition}:") };
    let selector = diwan_value::doc! { "_id": begins };
    Ok(mango::Selector::parse(selector.as_doc())?.stored())
}

/// Adds the metadata to the document, under the names that selectors and lists of fields use.
fn with_metadata(found: &RevisedDocument, conflicts: &[String]) -> DocBuf {
    let mut out = DocBuilder::new();
    out.append_all(found.doc.as_doc());
    out.append("$_rev", found.revision.to_string());
    if found.deleted {
        out.append("$_deleted", true);
    }
    if !conflicts.is_empty() {
        let mut list = ArrayBuilder::new();
        for conflict in conflicts {
            list.push(conflict.as_str());
        }
        out.append("$_conflicts", list);
    }
    if !found.attachments.is_empty() {
        out.begin_document("$_attachments");
        for attachment in &found.attachments {
            out.begin_document(&attachment.name);
            out.append("content_type", attachment.content_type.as_str());
            out.append("revpos", i64::from(attachment.revpos));
            out.append("digest", format!("md5-{}", STANDARD.encode(attachment.md5)));
            out.append("length", attachment.length as i64);
            out.append("stub", true);
            out.end();
        }
        out.end();
    }
    out.finish()
}

/// The fields of documents to return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    parsed: mango::Fields,
}

impl Fields {
    /// Parses a list of fields; `None` means whole documents.
    pub(crate) fn parse(fields: Value<'_>) -> Result<Option<Fields>> {
        Ok(mango::Fields::parse(fields)?.map(|parsed| Fields { parsed }))
    }

    /// Parses a list of fields from JSON.
    pub(crate) fn read(fields: &serde_json::Value) -> Result<Option<Arc<Fields>>> {
        let text = fields.to_string();
        let value = json::parse_value(text.as_bytes(), Limits::default())
            .map_err(|error| Error::bad_request(error.to_string()))?;
        Ok(Fields::parse(value.as_value())?.map(Arc::new))
    }

    /// Whether stored documents contain all of the fields.
    pub(crate) fn are_stored(&self) -> bool {
        !self.parsed.names_metadata()
    }

    /// Appends these fields of a stored document.
    pub(crate) fn write_stored(&self, out: &mut Vec<u8>, doc: Doc<'_>) {
        write_projected(out, self.parsed.project(doc).as_doc());
    }

    /// Appends these fields of a document, including metadata.
    pub(crate) fn write(
        &self,
        out: &mut Vec<u8>,
        view: &ReadView,
        id: &[u8],
        found: &RevisedDocument,
        show: &Show,
    ) -> Result<()> {
        if self.are_stored() {
            self.write_stored(out, found.doc.as_doc());
            return Ok(());
        }
        let conflicts =
            if show.conflicts && found.has_branches { conflicts_of(view, id)? } else { Vec::new() };
        let doc = with_metadata(found, &conflicts);
        write_projected(out, self.parsed.project(doc.as_doc()).as_doc());
        Ok(())
    }
}

/// Appends a projected document with the field names of HTTP.
fn write_projected(out: &mut Vec<u8>, doc: Doc<'_>) {
    out.push(b'{');
    for (at, element) in doc.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let name = element.key_str();
        let value = element.value();
        match name.strip_prefix('$').filter(|rest| rest.starts_with('_')) {
            _ if name == "_id" => {
                out.extend_from_slice(b"\"_id\":");
                document::write_id(out, value);
                continue;
            }
            Some(metadata) => json::write_string(out, metadata),
            None if json::is_metadata_member(name) => json::write_string(out, &format!("${name}")),
            None => json::write_string(out, name),
        }
        out.push(b':');
        json::write_value(out, value, Mode::Exchange);
    }
    out.push(b'}');
}

/// Appends a document of a query's answer.
pub(super) fn write_found(
    out: &mut impl Output,
    view: &ReadView,
    found: &RevisedDocument,
    id: &[u8],
    fields: Option<&Fields>,
    show: &Show,
) -> Result<()> {
    match fields {
        None => document::write_doc(out, view, id, found, show),
        Some(fields) => fields.write(out.buffer(), view, id, found, show),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_store::Revision;
    use diwan_value::{array, doc};

    fn found(doc: DocBuf, deleted: bool) -> RevisedDocument {
        RevisedDocument {
            revision: Revision { generation: 2, hash: [0xab; 16] },
            deleted,
            sequence: 1,
            doc,
            attachments: Vec::new(),
            has_branches: false,
        }
    }

    #[test]
    fn selectors_and_fields_can_use_metadata() {
        let live = found(doc! { "_id": "a", "n": 1, "__v": 0 }, false);
        let gone = found(doc! { "_id": "a" }, true);
        let selector = |json: serde_json::Value| Selector::read(&json).unwrap();
        let matches = |selector: &Selector, found: &RevisedDocument| {
            selector.matches_document(found, || Ok(vec!["1-x".to_owned()])).unwrap()
        };
        let not_deleted = selector(serde_json::json!({"_deleted": {"$exists": false}}));
        assert!(matches(&not_deleted, &live) && !matches(&not_deleted, &gone));
        assert!(matches(&selector(serde_json::json!({"$__v": 0, "n": 1})), &live));
        assert!(matches(&selector(serde_json::json!({"_id": "a"})), &gone));
        let torn = RevisedDocument { has_branches: true, ..live.clone() };
        let conflicted = selector(serde_json::json!({"_conflicts": ["1-x"]}));
        assert!(matches(&conflicted, &torn) && !matches(&conflicted, &live));
        let show = |fields: DocBuf, doc: &RevisedDocument| {
            let fields = Fields::parse(fields.as_doc().get("f").unwrap()).unwrap().unwrap();
            let mut out = Vec::new();
            write_projected(&mut out, fields.parsed.project(with_metadata(doc, &[]).as_doc()).as_doc());
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            show(doc! { "f": array!["n", "_id", "$__v", "x"] }, &live),
            r#"{"n":1,"_id":"a","$__v":0}"#
        );
        let hash = "ab".repeat(16);
        assert_eq!(show(doc! { "f": array!["_rev"] }, &live), format!(r#"{{"_rev":"2-{hash}"}}"#));
        let error = Selector::read(&serde_json::json!([1])).err().unwrap();
        assert_eq!((error.status, error.error.as_ref()), (400, "invalid_selector_json"));
    }

    #[test]
    fn id_filters_match_design_documents_and_partitions() {
        let filter = no_design_documents().unwrap();
        let one = |id: Value<'_>| doc! { "_id": id };
        assert!(!filter.matches(one(Value::String("_design/x")).as_doc()).unwrap());
        assert!(filter.matches(one(Value::String("x")).as_doc()).unwrap());
        assert!(filter.matches(one(Value::Int32(1)).as_doc()).unwrap());
        let filter = in_partition("p").unwrap();
        assert!(filter.matches(one(Value::String("p:1")).as_doc()).unwrap());
        assert!(!filter.matches(one(Value::String("pp:1")).as_doc()).unwrap());
    }
}

//! Mango indexes as CouchDB stores them: views in design documents whose language is `query`.
//!
//! These documents are authoritative. Whoever writes one, over HTTP, by replication or as a MongoDB client, thereby
//! creates and drops indexes. The `map` member of a view holds the index's fields and selector.

use super::indexes::shown_name;
use super::request::IndexRequest;
use crate::document::Attaching;
use crate::edit::{Author, Draft, edit_one};
use crate::error::{Error, Result};
use crate::server::Couch;
use diwan_script::design_documents;
use diwan_store::{Base, Collection, RevisedDocument, id_key};
use diwan_value::key::Direction as Order;
use diwan_value::{ArrayBuilder, Doc, DocBuf, DocBuilder, Value, doc};
use std::sync::Arc;

/// The `language` of such design documents.
const LANGUAGE: &str = "query";

/// Returns the indexes that a database's design documents define. Malformed definitions are logged and skipped,
/// because a design document may contain anything.
pub(super) fn defined(collection: &Arc<Collection>) -> Result<Vec<IndexRequest>> {
    let mut all = Vec::new();
    design_documents(&collection.view(), &mut |record| all.extend(indexes_of(record.doc)))?;
    Ok(all)
}

fn indexes_of(design: Doc<'_>) -> Vec<IndexRequest> {
    let (Some(id), Some(LANGUAGE)) = (design.get_str("_id"), design.get_str("language")) else {
        return Vec::new();
    };
    let partitioned = design.get_doc("options").and_then(|options| options.get("partitioned"));
    let views = design.get_doc("views").into_iter().flat_map(|views| views.iter());
    views
        .filter_map(|view| {
            let map = view.value().as_doc()?.get_doc("map")?;
            let request = request_of(id, view.key_str(), map, partitioned);
            let read = IndexRequest::read(request.as_doc());
            read.inspect_err(|error| {
                tracing::warn!(%error, id, view = view.key_str(), "an index definition in a design document is invalid");
            })
            .ok()
        })
        .collect()
}

/// Builds the body with which `POST _index` would create the same index.
fn request_of(id: &str, name: &str, map: Doc<'_>, partitioned: Option<Value<'_>>) -> DocBuf {
    let mut index = DocBuilder::new();
    match map.get("fields") {
        Some(Value::Document(fields)) => {
            let mut list = ArrayBuilder::new();
            for field in fields.iter() {
                let mut one = DocBuilder::new();
                one.append(field.key_str(), field.value());
                list.push(one.finish());
            }
            index.append("fields", list);
        }
        Some(other) => {
            index.append("fields", other);
        }
        None => {}
    }
    if let Some(selector) = map.get("partial_filter_selector") {
        index.append("partial_filter_selector", selector);
    }
    let mut request = DocBuilder::new();
    request.append("index", index.finish()).append("ddoc", id).append("name", name);
    if let Some(flag @ Value::Boolean(_)) = partitioned {
        request.append("partitioned", flag);
    }
    request.finish()
}

/// Builds the view that defines an index.
fn view_of(request: &IndexRequest) -> DocBuf {
    let mut fields = DocBuilder::new();
    for part in request.fields.parts() {
        fields.append(
            &shown_name(part.path.as_str()),
            if part.direction == Order::Ascending { "asc" } else { "desc" },
        );
    }
    let partial = request.partial.clone().unwrap_or_default();
    doc! {
        "map": { "fields": fields.finish(), "partial_filter_selector": partial },
        "reduce": "_count",
        "options": { "def": &request.definition }
    }
}

/// A pending change of a design document.
pub(super) struct Edit {
    found: Option<RevisedDocument>,
    id: String,
    /// The new body; `None` deletes the document.
    body: Option<DocBuf>,
}

/// Adds an index to a design document, which is created if necessary.
pub(super) fn with_index(
    collection: &Arc<Collection>,
    id: &str,
    name: &str,
    request: &IndexRequest,
) -> Result<Edit> {
    let found = find(collection, id)?;
    let old = found.as_ref().map_or(Doc::EMPTY, |found| found.doc.as_doc());
    let mut options = old.get_doc("options").unwrap_or_default().to_owned();
    match (&found, request.partitioned) {
        (Some(_), wanted) => {
            let language = old.get_str("language").unwrap_or("javascript");
            if language != LANGUAGE {
                let reason = format!("Existing design doc has an invalid language: {language}");
                return Err(Error::new(400, "invalid_ddoc_lang", reason));
            }
            if options.as_doc().get("partitioned") != wanted.map(Value::Boolean) {
                let reason = format!(
                    "Requested partitioned option does not match existing value on design document {id}"
                );
                return Err(Error::new(400, "invalid_partitioned_option", reason));
            }
        }
        (None, Some(wanted)) => options = doc! { "partitioned": wanted },
        (None, None) => {}
    }
    let mut views = without(old.get_doc("views").unwrap_or_default(), &[name]);
    views.append(name, view_of(request));
    let mut body = without(old, &["_id", "language", "views", "options"]);
    body.append("language", LANGUAGE).append("views", views.finish());
    if !options.as_doc().is_empty() {
        body.append("options", options);
    }
    Ok(Edit { found, id: id.to_owned(), body: Some(body.finish()) })
}

/// Removes an index from a design document; `None` if it does not define the index. The document is deleted if
/// nothing else remains in it.
pub(super) fn without_index(collection: &Arc<Collection>, id: &str, name: &str) -> Result<Option<Edit>> {
    let Some(found) = find(collection, id)? else { return Ok(None) };
    let old = found.doc.as_doc();
    let views = old.get_doc("views").filter(|views| views.contains_key(name));
    let (Some(LANGUAGE), Some(views)) = (old.get_str("language"), views) else { return Ok(None) };
    let views = without(views, &[name]);
    let mut body = without(old, &["_id", "views"]);
    if !views.is_empty() {
        body.append("views", views.finish());
    }
    let body = body.finish();
    let is_empty = body.as_doc().iter().all(|element| element.key_str() == "language");
    Ok(Some(Edit { found: Some(found), id: id.to_owned(), body: Some(body).filter(|_| !is_empty) }))
}

fn find(collection: &Arc<Collection>, ddoc: &str) -> Result<Option<RevisedDocument>> {
    let key = id_key(Value::String(ddoc))?;
    Ok(collection.view().document(&key)?.filter(|found| !found.deleted))
}

fn without(doc: Doc<'_>, names: &[&str]) -> DocBuilder {
    let mut out = DocBuilder::new();
    for element in doc.iter().filter(|element| !names.contains(&element.key_str())) {
        out.append_element(element);
    }
    out
}

impl Edit {
    /// Stores the change. Fails with a conflict if the document has changed since it was read.
    pub(super) fn write(self, couch: &Couch, collection: &Arc<Collection>) -> Result<()> {
        let Edit { found, id, body } = self;
        let base = found.as_ref().map_or(Base::New, |found| Base::Leaf(found.revision));
        let deleted = body.is_none();
        let mut attaching = Attaching::default();
        for attachment in found.filter(|_| !deleted).into_iter().flat_map(|found| found.attachments) {
            attaching.keep(collection, attachment)?;
        }
        let draft = Draft::new(id, Some(base), deleted, body.unwrap_or_default(), attaching)?;
        let written = edit_one(couch, collection, &Author::server(), draft)?;
        if let Some(commit) = written.commit {
            couch.store.engine().wait_durable(commit)?;
        }
        Ok(())
    }
}

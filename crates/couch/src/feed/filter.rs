//! Which changes a feed reports.

use super::row::Leaves;
use crate::design::ScriptFilter;
use crate::document;
use crate::error::{Error, Result};
use crate::http::Request;
use crate::mango::{Fields, Selector, conflicts_of};
use diwan_store::{ChangeRow, Collection, ReadView, RevisedDocument};
use diwan_value::Value as Bson;
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::sync::Arc;

/// The filter of a feed.
pub(crate) struct Filter {
    wanted: Wanted,
    all_leaves: bool,
}

/// What a filter lets through.
pub(super) enum Wanted {
    /// Every change.
    All,
    /// Changes of these documents, given by the key bytes of their ids.
    Ids(HashSet<Vec<u8>>),
    /// Changes of design documents.
    Design,
    /// Documents that match a selector; the second field is the list of fields to show.
    Selector(Selector, Option<Arc<Fields>>),
    /// Documents that a function of a design document accepts.
    Script(ScriptFilter),
}

impl Filter {
    /// Parses the filter that a request names.
    pub(crate) fn read(
        request: &Request,
        collection: &Arc<Collection>,
        body: Option<&Map<String, Value>>,
        all_leaves: bool,
    ) -> Result<Filter> {
        let wanted = match request.query.get("filter") {
            None | Some("") => Wanted::All,
            Some("_doc_ids") => {
                let ids = match body {
                    Some(body) => body.get("doc_ids").cloned(),
                    None => request.query.json("doc_ids")?,
                };
                Wanted::Ids(read_ids(ids.as_ref())?)
            }
            Some("_design") => Wanted::Design,
            Some("_selector") => {
                let Some(body) = body else {
                    return Err(Error::bad_request("Selector must be specified in POST payload"));
                };
                let Some(selector @ Value::Object(_)) = body.get("selector") else {
                    return Err(Error::bad_request("Selector error: expected a JSON object"));
                };
                let plain = |error: Error| Error::bad_request(error.reason);
                let fields = match body.get("fields") {
                    None | Some(Value::Null) => None,
                    Some(fields @ Value::Array(_)) => Fields::read(fields).map_err(plain)?,
                    Some(_) => return Err(Error::bad_request("Selector error: fields must be JSON array")),
                };
                Wanted::Selector(Selector::read(selector).map_err(plain)?, fields)
            }
            Some("_view") => Wanted::Script(ScriptFilter::view(request, collection)?),
            Some(name) if name.starts_with('_') => {
                return Err(Error::bad_request("unknown builtin filter name"));
            }
            Some(name) => Wanted::Script(ScriptFilter::function(request, collection, name, body)?),
        };
        Ok(Filter { wanted, all_leaves })
    }

    /// The fields to show, if the filter restricts them.
    pub(crate) fn fields(&self) -> Option<Arc<Fields>> {
        match &self.wanted {
            Wanted::Selector(_, fields) => fields.clone(),
            _ => None,
        }
    }

    /// Whether the filter lets every change through, so that a limited feed needs to read no more rows than its
    /// limit.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.wanted, Wanted::All)
    }

    /// Whether the filter is a JavaScript function, which may throw.
    pub(crate) fn is_script(&self) -> bool {
        matches!(self.wanted, Wanted::Script(_))
    }

    /// Whether the filter needs the documents and not only their ids.
    pub(crate) fn needs_documents(&self) -> bool {
        matches!(self.wanted, Wanted::Selector(..) | Wanted::Script(_))
    }

    /// The key bytes of the wanted ids, if the filter is a list of ids: the feed looks these up one by one.
    pub(crate) fn ids(&self) -> Option<impl Iterator<Item = &[u8]>> {
        match &self.wanted {
            Wanted::Ids(ids) => Some(ids.iter().map(Vec::as_slice)),
            _ => None,
        }
    }

    /// Returns the leaves to report for a change, or `None` if the filter rejects it.
    pub(crate) fn apply(&self, view: Option<&ReadView>, row: &ChangeRow) -> Result<Option<Leaves>> {
        let all = || if self.all_leaves { Leaves::All } else { Leaves::Winner };
        Ok(match &self.wanted {
            Wanted::All => Some(all()),
            Wanted::Ids(ids) => ids.contains(&row.id).then(all),
            Wanted::Design => {
                matches!(row.id_value.as_value(), Bson::String(id) if id.starts_with("_design/")).then(all)
            }
            Wanted::Selector(selector, _) => self.choose(view, row, &mut |view, found, alone| {
                selector.matches_document(found, || match alone {
                    true => Ok(Vec::new()),
                    false => conflicts_of(view, &row.id),
                })
            })?,
            Wanted::Script(script) => {
                self.choose(view, row, &mut |view, found, alone| script.passes(view, &row.id, found, !alone))?
            }
        })
    }

    /// Applies the test to each leaf that the row would name. With `style=all_docs` every leaf is tested on its own,
    /// without its conflicts.
    fn choose(
        &self,
        view: Option<&ReadView>,
        row: &ChangeRow,
        passes: &mut dyn FnMut(&ReadView, &RevisedDocument, bool) -> Result<bool>,
    ) -> Result<Option<Leaves>> {
        let Some(view) = view else { return Ok(None) };
        if !self.all_leaves || row.leaves.len() <= 1 {
            // The document may have changed after this row; its newer change is reported later.
            let Some(found) = view.document(&row.id)? else { return Ok(None) };
            return Ok(passes(view, &found, false)?.then_some(Leaves::Winner));
        }
        let mut chosen = Vec::new();
        for revision in &row.leaves {
            if let Some(found) = view.revision(&row.id, *revision)?
                && passes(view, &found, true)?
            {
                chosen.push(*revision);
            }
        }
        Ok((!chosen.is_empty()).then_some(Leaves::Chosen(chosen)))
    }
}

fn read_ids(ids: Option<&Value>) -> Result<HashSet<Vec<u8>>> {
    let refuse = || Error::bad_request("`doc_ids` filter parameter is not a list of doc ids.");
    let Some(Value::Array(ids)) = ids else { return Err(refuse()) };
    let mut out = HashSet::with_capacity(ids.len());
    for id in ids {
        // Text that is not a valid id matches no document.
        if let Ok(id) = document::parse_id(id.as_str().ok_or_else(refuse)?) {
            out.insert(id.key);
        }
    }
    Ok(out)
}

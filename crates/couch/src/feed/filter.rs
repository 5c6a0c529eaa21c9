//! Which changes a feed tells.

use super::row::Leaves;
use crate::document;
use crate::error::{Error, Result};
use crate::http::Request;
use crate::mango::{Fields, Selector, conflicts_of};
use crate::script_filter::ScriptFilter;
use diwan_store::{ChangeRow, Collection, ReadView, RevisedDocument};
use diwan_value::Value as Bson;
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::sync::Arc;

/// A feed's filter.
pub struct Filter {
    wanted: Wanted,
    all_leaves: bool,
}

/// What a filter lets through.
pub enum Wanted {
    /// Everything.
    All,
    /// These documents, by the key bytes of their ids.
    Ids(HashSet<Vec<u8>>),
    /// Design documents.
    Design,
    /// Documents that a selector finds, and which of their fields are shown.
    Selector(Selector, Option<Arc<Fields>>),
    /// What a function of a design document says.
    Script(ScriptFilter),
}

impl Filter {
    /// Reads the filter that a request names.
    pub fn read(
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

    /// The fields that documents are shown with, where the filter says.
    pub fn fields(&self) -> Option<Arc<Fields>> {
        match &self.wanted {
            Wanted::Selector(_, fields) => fields.clone(),
            _ => None,
        }
    }

    /// Whether nearly every change is let through, so that asking for a few of them is enough.
    pub fn is_open(&self) -> bool {
        matches!(self.wanted, Wanted::All)
    }

    /// Whether it is a function, which may fail.
    pub fn is_script(&self) -> bool {
        matches!(self.wanted, Wanted::Script(_))
    }

    /// Whether documents have to be read to say what is let through.
    pub fn needs_documents(&self) -> bool {
        matches!(self.wanted, Wanted::Selector(..) | Wanted::Script(_))
    }

    /// The key bytes of the only ids that are let through, if there are so few that they are looked up one by one.
    pub fn ids(&self) -> Option<impl Iterator<Item = &[u8]>> {
        match &self.wanted {
            Wanted::Ids(ids) => Some(ids.iter().map(Vec::as_slice)),
            _ => None,
        }
    }

    /// Whether a change is let through, and which of its leaves are named.
    pub fn apply(&self, view: Option<&ReadView>, row: &ChangeRow) -> Result<Option<Leaves>> {
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

    /// Asks of each leaf that would be named. One of several is asked about alone: it has no conflicts.
    fn choose(
        &self,
        view: Option<&ReadView>,
        row: &ChangeRow,
        passes: &mut dyn FnMut(&ReadView, &RevisedDocument, bool) -> Result<bool>,
    ) -> Result<Option<Leaves>> {
        let Some(view) = view else { return Ok(None) };
        if !self.all_leaves || row.leaves.len() <= 1 {
            // The document may have changed since: then the change to come will be told in its turn.
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
        // What can be no document's id is no document's.
        if let Ok(id) = document::parse_id(id.as_str().ok_or_else(refuse)?) {
            out.insert(id.key);
        }
    }
    Ok(out)
}

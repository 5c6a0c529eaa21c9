//! Filters of feeds that are functions of design documents.

use crate::error::{Error, Result};
use crate::http::Request;
use diwan_store::{Collection, ReadView, RevisedDocument};
use serde_json::{Map, Value};
use std::sync::Arc;

/// A filter that is a function of a design document.
pub struct ScriptFilter {}

impl ScriptFilter {
    /// `filter=_view&view=ddoc/view`: what the view's map function emits something for.
    pub fn view(request: &Request, _collection: &Arc<Collection>) -> Result<ScriptFilter> {
        match request.query.get("view") {
            None | Some("") => Err(Error::bad_request("`view` filter parameter is not provided.")),
            Some(_) => Err(unsupported()),
        }
    }

    /// `filter=ddoc/name`.
    pub fn function(
        _request: &Request,
        _collection: &Arc<Collection>,
        _name: &str,
        _body: Option<&Map<String, Value>>,
    ) -> Result<ScriptFilter> {
        Err(unsupported())
    }

    /// Whether the function lets a document through.
    pub fn passes(&self, _view: Option<&ReadView>, _id: &[u8], _found: &RevisedDocument) -> Result<bool> {
        Err(unsupported())
    }
}

fn unsupported() -> Error {
    Error::new(501, "not_implemented", "Functions of design documents are not supported")
}

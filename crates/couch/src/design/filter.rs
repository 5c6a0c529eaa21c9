//! Feed filters that are functions of design documents.

use super::{load, request_object};
use crate::document::{self, Show};
use crate::error::{Error, Result};
use crate::http::Request;
use diwan_script::{Design, Sandbox};
use diwan_store::{Collection, ReadView, RevisedDocument};
use serde_json::{Map, Value};
use std::sync::Arc;

/// A compiled filter function with the request that it sees.
pub(crate) struct ScriptFilter {
    sandbox: Arc<Sandbox>,
    /// The design document as of the start of the feed.
    design: Design,
    function: Function,
    /// The request as JSON, as the function receives it.
    request: String,
}

enum Function {
    /// The function of this name in `filters`.
    Filter(String),
    /// The map function of the view of this name: a document passes if the function emits something for it.
    View(String),
}

impl ScriptFilter {
    /// Parses `filter=_view&view=ddoc/view`.
    pub(crate) fn view(request: &Request, collection: &Arc<Collection>) -> Result<ScriptFilter> {
        let name = match request.query.get("view") {
            None | Some("") => return Err(Error::bad_request("`view` filter parameter is not provided.")),
            Some(name) => name,
        };
        let (ddoc, view) = split(name)
            .ok_or_else(|| Error::bad_request("`view` must be of the form `designname/viewname`"))?;
        let design = load(collection, ddoc)?;
        if !design.has_function(&["views", view, "map"]) {
            return Err(missing_key(view));
        }
        let function = Function::View(view.to_owned());
        let sandbox = request.couch.scripts.clone();
        ScriptFilter { sandbox, design, function, request: String::new() }.compiled()
    }

    /// Parses `filter=ddoc/name`.
    pub(crate) fn function(
        request: &Request,
        collection: &Arc<Collection>,
        name: &str,
        body: Option<&Map<String, Value>>,
    ) -> Result<ScriptFilter> {
        let (ddoc, filter) = split(name)
            .ok_or_else(|| Error::bad_request("`filter` must be of the form `designname/filtername`"))?;
        let design = load(collection, ddoc)?;
        if !design.has_function(&["filters", filter]) {
            return Err(missing_key(filter));
        }
        let body = body.map(|body| Value::Object(body.clone()).to_string()).unwrap_or_default();
        let filter = ScriptFilter {
            sandbox: request.couch.scripts.clone(),
            design,
            function: Function::Filter(filter.to_owned()),
            request: request_object(request, collection, None, body.as_bytes())?,
        };
        filter.compiled()
    }

    /// Compiles the function now, so that a syntax error is reported before the feed's head is sent.
    fn compiled(self) -> Result<ScriptFilter> {
        self.ask(&[])?;
        Ok(self)
    }

    /// Whether the function accepts a document. With `conflicts` the document is passed with its `_conflicts`.
    pub(crate) fn passes(
        &self,
        view: &ReadView,
        id: &[u8],
        found: &RevisedDocument,
        conflicts: bool,
    ) -> Result<bool> {
        let mut text = Vec::new();
        let show = Show { conflicts, ..Show::default() };
        document::write_doc(&mut text, view, id, found, &show)?;
        Ok(self.ask(&[&String::from_utf8_lossy(&text)])?.first() == Some(&true))
    }

    /// Runs the function on each document and returns its verdicts.
    fn ask(&self, docs: &[&str]) -> Result<Vec<bool>> {
        Ok(match &self.function {
            Function::Filter(name) => self.sandbox.filter(&self.design, name, docs, &self.request)?,
            Function::View(name) => self.sandbox.filter_by_view(&self.design, name, docs)?,
        })
    }
}

/// Splits `ddoc/function`.
fn split(name: &str) -> Option<(&str, &str)> {
    name.split_once('/')
        .filter(|(ddoc, function)| !ddoc.is_empty() && !function.is_empty() && !function.contains('/'))
}

/// CouchDB's error for a missing function.
fn missing_key(name: &str) -> Error {
    Error::not_found(format!("missing json key: {name}"))
}

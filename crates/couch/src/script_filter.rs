//! Filters of feeds that are functions of design documents.

use crate::design;
use crate::document::{self, Show};
use crate::error::{Error, Result};
use crate::http::Request;
use diwan_script::{Design, Sandbox};
use diwan_store::{Collection, ReadView, RevisedDocument};
use serde_json::{Map, Value};
use std::sync::Arc;

/// A filter that is a function of a design document.
pub struct ScriptFilter {
    sandbox: Arc<Sandbox>,
    /// As it was when the feed began.
    design: Design,
    function: Function,
    /// What the function sees of the request.
    request: String,
}

enum Function {
    /// Of `filters`.
    Filter(String),
    /// The map function of a view: it lets through what it emits something for.
    View(String),
}

impl ScriptFilter {
    /// `filter=_view&view=ddoc/view`.
    pub fn view(request: &Request, collection: &Arc<Collection>) -> Result<ScriptFilter> {
        let name = match request.query.get("view") {
            None | Some("") => return Err(Error::bad_request("`view` filter parameter is not provided.")),
            Some(name) => name,
        };
        let (ddoc, view) = split(name)
            .ok_or_else(|| Error::bad_request("`view` must be of the form `designname/viewname`"))?;
        let design = design::load(collection, ddoc)?;
        if !design.has_function(&["views", view, "map"]) {
            return Err(missing_key(view));
        }
        let function = Function::View(view.to_owned());
        let sandbox = request.couch.scripts.clone();
        ScriptFilter { sandbox, design, function, request: String::new() }.compiled()
    }

    /// `filter=ddoc/name`.
    pub fn function(
        request: &Request,
        collection: &Arc<Collection>,
        name: &str,
        body: Option<&Map<String, Value>>,
    ) -> Result<ScriptFilter> {
        let (ddoc, filter) = split(name)
            .ok_or_else(|| Error::bad_request("`filter` must be of the form `designname/filtername`"))?;
        let design = design::load(collection, ddoc)?;
        if !design.has_function(&["filters", filter]) {
            return Err(missing_key(filter));
        }
        let body = body.map(|body| Value::Object(body.clone()).to_string()).unwrap_or_default();
        let filter = ScriptFilter {
            sandbox: request.couch.scripts.clone(),
            design,
            function: Function::Filter(filter.to_owned()),
            request: design::request_object(request, collection, None, body.as_bytes())?,
        };
        filter.compiled()
    }

    /// Refuses a function that does not compile, before there is a feed that it would break off.
    fn compiled(self) -> Result<ScriptFilter> {
        self.ask(&[])?;
        Ok(self)
    }

    /// Whether the function lets a document through, which it sees with its conflicts or without.
    pub fn passes(
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

    /// What the function says of each document.
    fn ask(&self, docs: &[&str]) -> Result<Vec<bool>> {
        Ok(match &self.function {
            Function::Filter(name) => self.sandbox.filter(&self.design, name, docs, &self.request)?,
            Function::View(name) => self.sandbox.filter_by_view(&self.design, name, docs)?,
        })
    }
}

/// The two parts of a name.
fn split(name: &str) -> Option<(&str, &str)> {
    name.split_once('/')
        .filter(|(ddoc, function)| !ddoc.is_empty() && !function.is_empty() && !function.contains('/'))
}

/// CouchDB's error for a function that is not there.
fn missing_key(name: &str) -> Error {
    Error::not_found(format!("missing json key: {name}"))
}

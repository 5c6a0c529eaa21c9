//! Design documents: loading them, building the request object for their functions, filtering feeds, and writing view
//! results.

mod answer;
mod filter;
mod request_object;
mod view;

pub(crate) use answer::{answer, sandboxed, with_headers};
pub(crate) use filter::ScriptFilter;
pub(crate) use request_object::{REQUESTED_PATH, request_object};
pub(crate) use view::{Reading, ViewDocuments, body_text, read_one_query, read_query, read_temporary_query};

use crate::document::{parse_id, write_record};
use crate::error::{Error, Result};
use crate::http::Request;
use crate::partition;
use diwan_script::Design;
use diwan_store::Collection;
use std::sync::Arc;

/// Loads a design document by its name without `_design/`.
pub(crate) fn load(collection: &Arc<Collection>, name: &str) -> Result<Design> {
    let id = parse_id(&format!("_design/{name}"))?;
    let stored = collection.get(&id.key)?.ok_or_else(Error::missing)?;
    let mut text = Vec::new();
    write_record(&mut text, &stored.record())?;
    Ok(Design::parse(&text)?)
}

impl Request {
    /// Loads the design document that the path names.
    pub(crate) fn design(&self, collection: &Arc<Collection>) -> Result<Design> {
        load(collection, self.param("ddoc"))
    }

    /// Returns the partition that the path names, if any.
    pub(crate) fn view_partition(&self) -> Result<Option<String>> {
        if self.param("partition").is_empty() { Ok(None) } else { partition::of(self).map(Some) }
    }
}

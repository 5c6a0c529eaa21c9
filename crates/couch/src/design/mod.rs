//! Design documents as handlers use them: read from the database, and their functions called with what a request is.

mod answer;
mod request_object;
mod view;

pub use answer::{answer, sandboxed, with_headers};
pub use request_object::{REQUESTED_PATH, request_object};
pub use view::{Reading, ViewDocuments, body_text, read_one_query, read_query, read_temporary_query};

use crate::document::{parse_id, write_record};
use crate::error::{Error, Result};
use crate::http::Request;
use crate::partition;
use diwan_script::Design;
use diwan_store::Collection;
use std::sync::Arc;

/// The design document of that name, without `_design/`.
pub fn load(collection: &Arc<Collection>, name: &str) -> Result<Design> {
    let id = parse_id(&format!("_design/{name}"))?;
    let stored = collection.get(&id.key)?.ok_or_else(Error::missing)?;
    let mut text = Vec::new();
    write_record(&mut text, &stored.record())?;
    Ok(Design::parse(&text)?)
}

impl Request {
    /// The design document that the path names.
    pub fn design(&self, collection: &Arc<Collection>) -> Result<Design> {
        load(collection, self.param("ddoc"))
    }

    /// The partition that the path names, if it names one.
    pub fn view_partition(&self) -> Result<Option<String>> {
        if self.param("partition").is_empty() { Ok(None) } else { partition::of(self).map(Some) }
    }
}

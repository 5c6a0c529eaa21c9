//! The changes of a database, as they were made and as they are being made.
//!
//! A feed that only tells what there is (`normal`) is written like any answer, a chunk at a time. One that waits
//! (`longpoll`, `continuous`, `eventsource`) is a task without a thread: all feeds of a database hang on one [`hub`],
//! which reads each new change once and hands the same rows to all of them.

mod db_updates;
mod filter;
mod hub;
mod normal;
mod parameters;
mod row;
mod waiting;

pub use db_updates::answer as answer_db_updates;
pub use filter::Filter;
pub use hub::Hubs;
pub use parameters::{Kind, Parameters};
pub use waiting::READERS;

use crate::error::Result;
use crate::handlers::purge;
use crate::http::{Request, Response};
use crate::sequence::{self, SequenceWriter};
use diwan_store::Collection;
use row::RowWriting;
use std::fmt::Write;
use std::sync::Arc;

/// A feed, with all that was asked of it.
pub struct Feed {
    /// The database.
    pub collection: Arc<Collection>,
    /// What was asked.
    pub parameters: Parameters,
    /// Which changes are told.
    pub filter: Filter,
    /// How rows are written.
    pub writing: RowWriting,
}

impl Feed {
    /// What tells an answer from a later one.
    fn tag(&self) -> String {
        let collection = &self.collection;
        let mut tag = sequence::text(collection, collection.last_sequence());
        // Writing to a string cannot fail.
        let _ = write!(tag, "-{}", purge::count(collection));
        tag
    }
}

/// Answers a request for changes.
pub fn answer(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let body = match request.method {
        hyper::Method::POST => {
            request.require_json()?;
            request.read_object_if_any()?
        }
        _ => None,
    };
    let parameters = Parameters::read(request, &collection)?;
    let filter = Filter::read(request, &collection, body.as_ref(), parameters.all_leaves)?;
    let writing = RowWriting {
        sequences: SequenceWriter::new(&collection),
        include_docs: parameters.include_docs,
        show: parameters.show.clone(),
        fields: filter.fields(),
    };
    let feed = Feed { collection, parameters, filter, writing };
    match feed.parameters.kind {
        Kind::Normal => {
            // The tag is the database's: every change of it, or purge, may change the answer.
            let tag = feed.tag();
            match request.not_modified(&tag) {
                Some(response) => Ok(response),
                None => Ok(normal::answer(feed)?.with_etag(&tag)),
            }
        }
        // It begins with what there is, and where there is something that is all.
        Kind::Longpoll if feed.parameters.descending && feed.collection.last_sequence() > 0 => {
            normal::answer(feed)
        }
        _ => waiting::answer(&request.couch, feed),
    }
}

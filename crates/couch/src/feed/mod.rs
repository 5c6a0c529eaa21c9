//! The changes feeds of a database.
//!
//! A `normal` feed reports the existing changes and is written like any streamed answer, a chunk at a time. A feed
//! that waits for new changes (`longpoll`, `continuous`, `eventsource`) is a task without a thread. All waiting feeds
//! of a database share one [`hub`], which reads each new change once and hands the same rows to all of them.

mod db_updates;
mod filter;
mod hub;
mod normal;
mod parameters;
mod row;
mod waiting;

pub(crate) use db_updates::answer as answer_db_updates;
pub(crate) use filter::Filter;
pub(crate) use hub::Hubs;
pub(crate) use parameters::{Kind, Parameters};

use crate::database;
use crate::error::Result;
use crate::http::{Request, Response};
use crate::sequence::{self, SequenceWriter};
use diwan_access::{Access, Action, Caller, Resource};
use diwan_store::{Collection, Namespace};
use row::RowWriting;
use std::fmt::Write;
use std::sync::Arc;

/// A feed with its parsed parameters.
pub(crate) struct Feed {
    /// The database.
    pub(crate) collection: Arc<Collection>,
    /// The request's parameters.
    pub(crate) parameters: Parameters,
    /// The filter of the feed.
    pub(crate) filter: Filter,
    /// How rows are formatted.
    pub(crate) writing: RowWriting,
    /// Who reads the feed.
    pub(crate) reader: Reader,
}

/// Who reads a feed. He may lose his rights while it waits.
pub(crate) struct Reader {
    access: Arc<Access>,
    caller: Caller,
    namespace: Namespace,
}

impl Reader {
    fn of(request: &Request, collection: &Collection) -> Reader {
        Reader {
            access: request.couch.access.clone(),
            caller: request.caller.clone(),
            namespace: collection.namespace(),
        }
    }

    /// Whether he may still read the database.
    fn may_go_on(&self) -> bool {
        let renewed = self.access.renew(&self.caller);
        renewed.is_ok_and(|caller| {
            self.access.allows(&caller, Action::Find, Resource::collection(&self.namespace))
        })
    }
}

impl Feed {
    /// The `ETag` of the answer.
    fn tag(&self) -> String {
        let collection = &self.collection;
        let mut tag = sequence::text(collection, collection.last_sequence());
        // Writing to a string cannot fail.
        let _ = write!(tag, "-{}", database::purged(collection));
        tag
    }
}

/// Answers a request for `_changes`.
pub(crate) fn answer(request: &mut Request) -> Result<Response> {
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
    let reader = Reader::of(request, &collection);
    let feed = Feed { collection, parameters, filter, writing, reader };
    match feed.parameters.kind {
        Kind::Normal => {
            // The tag covers the whole database: any change or purge may alter the answer.
            let tag = feed.tag();
            match request.not_modified(&tag) {
                Some(response) => Ok(response),
                None => Ok(normal::answer(feed)?.with_etag(&tag)),
            }
        }
        // A descending longpoll feed reports what exists; it only waits if the database is empty.
        Kind::Longpoll if feed.parameters.descending && feed.collection.last_sequence() > 0 => {
            normal::answer(feed)
        }
        _ => waiting::answer(&request.couch, feed),
    }
}

//! Documents as HTTP shows them: ids and revisions as text, request parameters, a document's JSON, attachments.
//!
//! Everything that shows documents (single reads, lists, changes, views) formats them here, so that they look the
//! same everywhere.

mod attachments;
mod ids;
mod location;
mod options;
mod packing;
mod related;
mod revs;
mod write;

pub(crate) use attachments::{
    Attaching, Incoming, Parts, check_name, forget_length, known_since, open, stream,
};
pub(crate) use ids::{IdKey, check_new, id_error, local_name, parse_id, write_id};
pub(crate) use location::{forwarded, location, own_origin};
pub(crate) use options::{DocOptions, OpenRevs, Show};
pub(crate) use related::{Related, send_related};
pub(crate) use revs::{Rev, parse_list, push_rev, write_rev};
pub(crate) use write::{Output, write_doc, write_record, write_stubs};

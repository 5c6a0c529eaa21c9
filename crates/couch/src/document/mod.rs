//! Documents as HTTP sees them: ids and revisions as text, parameters, a document's JSON, edits.
//!
//! Everything that shows documents (single ones, lists, changes, views) writes them here, so that they look the same
//! everywhere.

mod attachments;
mod edit;
mod ids;
mod options;
mod related;
mod revs;
mod validate;
mod write;

pub use attachments::{Attaching, check_name, forget_length, known_since, open, stream};
pub use edit::{
    Context, Draft, Named, Written, edit_all, edit_one, error_of, local_count, location, own_origin,
};
pub use ids::{IdKey, check_new, local_name, parse_id, write_id};
pub use options::{DocOptions, OpenRevs, Show};
pub use related::{Related, send_related};
pub use revs::{Rev, parse_list, push_rev, write_rev};
pub use validate::{Validation, Validators};
pub use write::{Output, write_doc, write_record};

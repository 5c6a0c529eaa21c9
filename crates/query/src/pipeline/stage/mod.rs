//! The stages, one file each, with their parsers and the sources that run them.
//!
//! `bucket_auto` uses `granularity`; `lookup` and `unwind` use `set_path`. [`super::table`] lists the stages.

pub(super) mod add_fields;
pub(super) mod bucket;
pub(super) mod bucket_auto;
pub(super) mod change_stream;
pub(super) mod counting;
pub(super) mod documents;
pub(super) mod facet;
pub(super) mod granularity;
pub(super) mod group;
pub(super) mod lookup;
pub(super) mod match_filter;
pub(super) mod merge;
pub(super) mod out;
pub(super) mod redact;
pub(super) mod sample;
pub(super) mod set_path;
pub(super) mod sort;
pub(super) mod stats;
pub(super) mod transform;
pub(super) mod union_with;
pub(super) mod unwind;

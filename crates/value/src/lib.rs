//! Documents as raw BSON: views that read without decoding, writers, comparison, keys and Extended JSON.
//!
//! [`Doc::validate`] checks a document once, when it enters Diwan. From then on every layer works on views of its bytes
//! ([`Doc`], [`Value`]), which are `Copy` and borrow. There is no tree of owned values: computed documents are written
//! as BSON again, by a [`DocBuilder`] into a [`DocBuf`] or into an arena.
//!
//! Invariant: iterating over a [`Doc`] of validated bytes never fails. A view of damaged bytes never panics; iteration
//! ends early.

mod builder;
pub mod collation;
mod compare;
pub mod decimal;
mod element;
pub mod extjson;
mod hash;
pub mod json;
pub mod key;
mod macros;
mod number;
mod owned;
mod path;
#[cfg(test)]
mod random;
mod scalar;
mod validate;
mod view;

pub use builder::{Append, ArrayBuilder, DocBuilder};
pub use collation::{Collation, CollationError, Collator};
pub use compare::{compare, compare_docs, compare_with, type_rank};
pub use element::{Element, Elements, RawValue, Type};
pub use hash::hash_value;
pub use owned::{DocBuf, ValueBuf};
pub use path::Path;
pub use scalar::{Decimal128, ObjectId, Timestamp};
pub use validate::{MAX_DEPTH, MAX_DOCUMENT_BYTES, ValidationError};
pub use view::{Array, Doc, Value};

//! Mango: CouchDB's selectors, sorts and field lists, parsed into the same filters that MongoDB's syntax gives.
//!
//! A selector becomes a [`Filter`] of `And`s and `Or`s over conditions on paths; negations are pushed down to the
//! conditions, as CouchDB does. So the planner treats both languages alike. What differs stands in the conditions
//! ([`Condition`]):
//!
//! - Arrays are never entered; only a number in a path leads into one. `$in` alone looks at an array's elements.
//! - Values of all types compare, in CouchDB's order of types ([`compare`]).
//! - A field that is missing satisfies nothing but `$exists: false`: not `$ne`, nor `$nin`, nor a negation.
//!
//! Differences from CouchDB: strings compare by their bytes (there by ICU's collation); values that JSON has no type
//! for come after objects in the order, and their `$type` is "object" as well as their own name. Names are those that
//! documents have over HTTP: `_id` is the id's text (an id that is a string orders as itself), `$_class` is the field
//! `_class`, and `_rev`, `_deleted`, `_attachments` and the like are metadata, which stored documents do not contain:
//! see [`Selector::names_metadata`].

mod condition;
mod element;
mod error;
mod field;
mod fields;
mod order;
mod parse;
mod serialize;
mod sort;
#[cfg(test)]
mod tests;

pub use condition::{Condition, Test};
pub use element::Element;
pub use error::{Error, Result};
pub(crate) use field::value_at;
pub use fields::Fields;
pub use order::compare;
pub(crate) use order::encode;
pub use sort::parse_sort;

use crate::filter::Filter;
use diwan_value::{Doc, Value};

/// A selector, parsed.
#[derive(Clone, Debug)]
pub struct Selector {
    filter: Filter,
    metadata: bool,
}

impl Selector {
    /// Parses a selector.
    pub fn parse(selector: Doc<'_>) -> Result<Selector> {
        parse::selector(selector)
    }

    /// Parses a request's `selector`.
    pub fn parse_value(selector: Value<'_>) -> Result<Selector> {
        match selector {
            Value::Document(doc) => Selector::parse(doc),
            other => {
                Err(Error::about("invalid_selector_json", "Selector must be a JSON object, not: ", other))
            }
        }
    }

    /// The whole filter.
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Whether there are conditions on metadata. The filter then finds `_rev` under the name `$_rev`, and so on:
    /// whoever asks it adds such members to the document first.
    pub fn names_metadata(&self) -> bool {
        self.metadata
    }

    /// What of the filter can be asked of stored documents: all of it, but for conditions on metadata.
    pub fn stored(&self) -> Filter {
        if self.metadata { without_metadata(&self.filter) } else { self.filter.clone() }
    }
}

/// Conditions on metadata taken as true. There is no negation above a condition, so that no match is lost.
fn without_metadata(filter: &Filter) -> Filter {
    match filter {
        Filter::And(all) => Filter::and(all.children().iter().map(without_metadata).collect()),
        Filter::Or(any) => Filter::Or(any.iter().map(without_metadata).collect()),
        Filter::Path(condition) if field::is_metadata(&condition.path) => Filter::AlwaysTrue,
        other => other.clone(),
    }
}

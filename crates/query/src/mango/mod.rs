//! Mango: CouchDB's selectors, sorts and field lists, parsed into the same filters as MongoDB's syntax.
//!
//! A selector becomes a [`Filter`] of `And`s and `Or`s over conditions on paths. As in CouchDB, negations are pushed
//! down to the conditions. So the planner treats both languages alike. The differences are in the conditions
//! ([`Condition`]):
//!
//! - Matching never enters arrays; only a number in a path selects an element. `$in` and `$nin` alone test the elements
//!   of an array.
//! - Values of all types compare, in CouchDB's order of types ([`compare`]).
//! - A missing field satisfies only `$exists: false`: not `$ne`, `$nin` or a negation.
//!
//! Differences from CouchDB: strings compare by their bytes (CouchDB uses ICU's collation). Values of types that JSON
//! lacks come after objects in the order, and their `$type` is "object" as well as their own name. Selectors use the
//! names that documents have over HTTP: `_id` is the id's text (string ids order as themselves), `$_class` is the field
//! `_class`, and `_rev`, `_deleted`, `_attachments` and so on are metadata, which stored documents do not contain: see
//! [`Selector::names_metadata`].

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

/// A parsed selector.
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

    /// Whether there are conditions on metadata. The filter expects `_rev` under the name `$_rev`, and so on: the
    /// caller adds such members to the document before it matches.
    pub fn names_metadata(&self) -> bool {
        self.metadata
    }

    /// The part of the filter that applies to stored documents: the filter with conditions on metadata taken as true.
    pub fn stored(&self) -> Filter {
        if self.metadata { without_metadata(&self.filter) } else { self.filter.clone() }
    }
}

/// Replaces conditions on metadata by true. Negations are only inside conditions, so the result matches at least as
/// many documents.
fn without_metadata(filter: &Filter) -> Filter {
    match filter {
        Filter::And(all) => Filter::and(all.children().iter().map(without_metadata).collect()),
        Filter::Or(any) => Filter::Or(any.iter().map(without_metadata).collect()),
        Filter::Path(condition) if field::is_metadata(&condition.path) => Filter::AlwaysTrue,
        other => other.clone(),
    }
}

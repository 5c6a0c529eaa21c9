//! The place of a change during a rewrite, and the result of the change.

use super::array_filters::ArrayFilters;
use crate::display::ShownField;
use crate::expr::Context;
use diwan_value::{Collator, Doc, Timestamp};

/// The result of applying a change to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing was written: the value does not change.
    Untouched,
    /// The value was written unchanged.
    Unchanged,
    /// A different value was written.
    Changed,
    /// Nothing was written: the field is removed.
    Removed,
}

/// The place of a change in the document, with the context of the update.
#[derive(Clone, Copy)]
pub(super) struct Scope<'s> {
    /// The document before the update.
    pub root: Doc<'s>,
    /// The operation's clock and collation.
    pub context: &'s Context,
    /// Whether an upsert is building the document.
    pub insert: bool,
    /// The array filters of the update.
    pub filters: &'s ArrayFilters,
    outer: Option<&'s Scope<'s>>,
    /// The name of the field or element.
    pub name: &'s str,
    /// How many path parts lead to it.
    pub level: usize,
}

impl<'s> Scope<'s> {
    /// The scope of the whole document.
    pub fn new(root: Doc<'s>, context: &'s Context, insert: bool, filters: &'s ArrayFilters) -> Scope<'s> {
        Scope { root, context, insert, filters, outer: None, name: "", level: 0 }
    }

    /// The scope of the field or element `name`.
    pub fn inside<'i>(&'i self, name: &'i str) -> Scope<'i> {
        Scope {
            root: self.root,
            context: self.context,
            insert: self.insert,
            filters: self.filters,
            outer: Some(self),
            name,
            level: self.level + 1,
        }
    }

    /// The operation's collation.
    pub fn collator(&self) -> Option<&'s Collator> {
        self.context.collator.as_deref()
    }

    /// The timestamp of the operation.
    pub fn timestamp(&self) -> Timestamp {
        super::replacement::timestamp(self.context)
    }

    /// The path of this scope.
    pub fn path(&self) -> String {
        match self.outer {
            Some(outer) if outer.level > 0 => format!("{}.{}", outer.path(), self.name),
            _ => self.name.to_owned(),
        }
    }

    /// The name of the top-level field that contains this scope.
    pub fn top(&self) -> &'s str {
        match self.outer {
            Some(outer) if self.level > 1 => outer.top(),
            _ => self.name,
        }
    }

    /// The document's `_id`, formatted for messages.
    pub fn shown_id(&self) -> String {
        match self.root.get("_id") {
            Some(id) => ShownField("_id", id).to_string(),
            None => "no id".to_owned(),
        }
    }
}

//! Filters: the query language's `{field: {$gt: 5}, $or: […]}`.
//!
//! [`Filter::parse`] turns a document into a tree that the planner can inspect; [`Filter::matches`] tests a document's
//! raw bytes. [`reach`] implements array semantics, [`operand`] comparison and [`operators`] the operators of a field.
//! [`conjunction`] evaluates several conditions in one pass over the document.
//!
//! Invariants: the parser checks everything that does not depend on a document, so matching fails only in `$expr` or on
//! a regular expression that takes too long. A filter is immutable and shared between threads.

mod array_filter;
mod bits;
mod conjunction;
mod elem_match;
mod equality;
mod explain;
mod expr;
mod integer;
mod operand;
mod operators;
mod parse;
mod predicate;
mod reach;
mod regex;
mod schema;
mod serialize;
mod set;
mod type_set;
mod value_filter;

pub use array_filter::ArrayFilter;
pub use bits::{BitCondition, BitTest};
pub use conjunction::Conjunction;
pub use elem_match::ElemMatch;
pub use equality::equality_fields;
pub use expr::{Comparison, ExprFilter, Relation};
pub use operand::Operand;
pub use predicate::Predicate;
pub use regex::Pattern;
pub use schema::Schema;
pub use set::ValueSet;
pub use type_set::TypeSet;
pub use value_filter::ValueFilter;

use crate::error::Result;
use crate::expr::{Context, ParseEnv};
use diwan_value::{Collator, Doc, Path};
use std::sync::Arc;

/// The environment of the filter parser.
#[derive(Clone, Default)]
pub struct FilterEnv<'p> {
    /// Values that are the same for all documents of the operation: collation, clock, variables of `let`.
    pub context: Arc<Context>,
    /// The variables that `$expr` may use; if absent, only the system variables.
    pub scope: Option<&'p ParseEnv<'p>>,
}

impl FilterEnv<'_> {
    /// An environment without variables.
    pub fn new(context: Arc<Context>) -> FilterEnv<'static> {
        FilterEnv { context, scope: None }
    }

    /// An environment with only a collation.
    pub fn with_collator(collator: Option<Arc<Collator>>) -> FilterEnv<'static> {
        FilterEnv::new(Arc::new(Context { collator, ..Context::default() }))
    }

    fn collator(&self) -> Option<&Arc<Collator>> {
        self.context.collator.as_ref()
    }
}

/// A filter: a tree of conditions on a document.
#[derive(Clone, Debug)]
pub enum Filter {
    /// Every document matches: `{}`, `{$alwaysTrue: 1}`.
    AlwaysTrue,
    /// No document matches: `{$alwaysFalse: 1}`.
    AlwaysFalse,
    /// All filters match: `$and`, several fields, several operators on a field.
    And(Conjunction),
    /// At least one filter matches.
    Or(Vec<Filter>),
    /// No filter matches.
    Nor(Vec<Filter>),
    /// A predicate on the values at a path.
    Path(PathFilter),
    /// `$expr`.
    Expr(Box<ExprFilter>),
    /// `$jsonSchema`.
    JsonSchema(Arc<Schema>),
    /// `$sampleRate`: true with this probability.
    SampleRate(f64),
}

/// A predicate on the values at a path.
#[derive(Clone, Debug)]
pub struct PathFilter {
    /// The path.
    pub path: Path,
    /// The condition on the values at the path.
    pub predicate: Arc<Predicate>,
}

/// The result of matching one document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// Whether the document matches.
    pub matched: bool,
    /// The index of the array element that made the document match: the value of the positional `$`.
    pub array_index: Option<usize>,
}

impl Filter {
    /// Parses a filter.
    pub fn parse(doc: Doc<'_>, env: &FilterEnv<'_>) -> Result<Filter> {
        parse::filter(doc, env)
    }

    /// The conjunction of `children`.
    pub fn and(children: Vec<Filter>) -> Filter {
        match <[Filter; 1]>::try_from(children) {
            Ok([only]) => only,
            Err(children) if children.is_empty() => Filter::AlwaysTrue,
            Err(children) => Filter::And(Conjunction::new(children)),
        }
    }

    /// A filter with one predicate on one path.
    pub fn path(path: Path, predicate: Predicate) -> Filter {
        Filter::Path(PathFilter { path, predicate: Arc::new(predicate) })
    }

    /// Whether a document matches.
    #[inline]
    pub fn matches(&self, doc: Doc<'_>) -> Result<bool> {
        self.test(doc, None)
    }

    /// Whether a document matches, using the variables, clock and interrupt of `context` instead of those from parsing.
    /// The collation from parsing stays in effect.
    pub fn matches_in(&self, doc: Doc<'_>, context: &Context) -> Result<bool> {
        self.test(doc, Some(context))
    }

    /// This filter with the variables, clock and interrupt of `context` instead of those from parsing. A pipeline that
    /// runs once for each of many documents, with other variables each time, passes such a filter to a scan.
    pub fn in_context(&self, context: &Arc<Context>) -> Filter {
        let all = |children: &[Filter]| children.iter().map(|child| child.in_context(context)).collect();
        match self {
            Filter::And(conjunction) => Filter::and(all(conjunction.children())),
            Filter::Or(children) => Filter::Or(all(children)),
            Filter::Nor(children) => Filter::Nor(all(children)),
            Filter::Expr(expr) => Filter::Expr(Box::new(expr.in_context(context))),
            _ => self.clone(),
        }
    }

    /// Whether a document matches, and through which array element.
    pub fn matches_with_position(&self, doc: Doc<'_>) -> Result<Match> {
        let hit = self.hit(doc)?;
        Ok(Match { matched: hit.is_some(), array_index: hit.flatten() })
    }

    fn test(&self, doc: Doc<'_>, context: Option<&Context>) -> Result<bool> {
        Ok(match self {
            Filter::And(conjunction) => return conjunction.test(doc, context),
            Filter::Path(filter) => return filter.test(doc),
            Filter::AlwaysTrue => true,
            Filter::AlwaysFalse => false,
            Filter::Or(children) => any(children, |child| child.test(doc, context))?,
            Filter::Nor(children) => !any(children, |child| child.test(doc, context))?,
            Filter::Expr(expr) => expr.test(doc, context)?,
            Filter::JsonSchema(schema) => schema.matches(doc)?,
            Filter::SampleRate(rate) => fastrand::f64() < *rate,
        })
    }

    fn hit(&self, doc: Doc<'_>) -> Result<Option<predicate::Hit>> {
        match self {
            Filter::And(conjunction) => {
                let mut last = None;
                for child in conjunction.children() {
                    match child.hit(doc)? {
                        Some(index) => last = index.or(last),
                        None => return Ok(None),
                    }
                }
                Ok(Some(last))
            }
            Filter::Or(children) => {
                for child in children {
                    let hit = child.hit(doc)?;
                    if hit.is_some() {
                        return Ok(hit);
                    }
                }
                Ok(None)
            }
            Filter::Path(filter) => {
                let first = doc.get_raw(filter.path.name(0));
                filter.predicate.at_path(&filter.path, first, 1)
            }
            _ => Ok(self.test(doc, None)?.then_some(None)),
        }
    }
}

impl PathFilter {
    #[inline]
    fn test(&self, doc: Doc<'_>) -> Result<bool> {
        let first = doc.get_raw(self.path.name(0));
        if self.path.depth() == 1 {
            return self.predicate.at_end_of_path(first);
        }
        Ok(self.predicate.at_path(&self.path, first, 1)?.is_some())
    }
}

fn any(filters: &[Filter], mut matches: impl FnMut(&Filter) -> Result<bool>) -> Result<bool> {
    for filter in filters {
        if matches(filter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests;

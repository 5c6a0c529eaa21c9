//! `count`: the number of documents that match a filter.

use super::aggregate::Aggregate;
use super::scope::Scope;
use crate::collection::Collection;
use crate::error::Result;
use crate::exec::{Scan, count_matches};
use crate::namespace::Namespace;
use crate::plan::{Hint, Planner};
use crate::store::{Entry, Store};
use diwan_query::filter::Filter;
use diwan_value::{Array, ArrayBuilder, Doc, Value, doc};
use std::sync::Arc;

/// A count.
#[derive(Clone, Default)]
pub struct Count<'a> {
    /// The filter.
    pub filter: Doc<'a>,
    /// How many matches are skipped.
    pub skip: u64,
    /// The number at which counting ends.
    pub limit: Option<u64>,
    /// The access to use.
    pub hint: Hint,
    /// Collation, variables, interrupt.
    pub scope: Scope<'a>,
}

impl Store {
    /// Runs a count. A collection that does not exist is empty.
    pub fn count(self: &Arc<Self>, namespace: &Namespace, request: &Count<'_>) -> Result<u64> {
        let total = match self.entry(namespace) {
            None => {
                request.scope.ready(None)?.filter(request.filter)?;
                0
            }
            Some(Entry::Collection(collection)) => return collection.count_filtered(request),
            Some(Entry::View(_)) => {
                let mut stages = ArrayBuilder::new();
                stages.push(doc! { "$match": request.filter }).push(doc! { "$count": "n" });
                let stages = stages.finish();
                let aggregate = Aggregate {
                    pipeline: Array::trusted(&stages),
                    hint: request.hint.clone(),
                    scope: request.scope.clone(),
                    bypass_validation: false,
                };
                let mut source = self.aggregate(Some(namespace), &namespace.database, &aggregate)?;
                match source.advance(&request.scope.interrupt)? {
                    true => source.current().get("n").and_then(Value::as_i64_exact).unwrap_or(0) as u64,
                    false => 0,
                }
            }
        };
        Ok(window(total, request))
    }
}

impl Collection {
    /// Counts the matches, after skip and limit.
    pub fn count_filtered(self: &Arc<Self>, request: &Count<'_>) -> Result<u64> {
        let ready = request.scope.ready(self.schema().options.collator.as_ref())?;
        let filter = ready.filter(request.filter)?;
        let view = self.view();
        let planner = Planner {
            view: &view,
            filter: filter.clone(),
            sort: None,
            collator: ready.collator(),
            hint: request.hint.clone(),
            tailable: false,
            needed: Some(Vec::new()),
        };
        let plan = planner.plan()?;
        if matches!(*filter, Filter::AlwaysTrue) && request.hint == Hint::None {
            return Ok(window(self.count(), request));
        }
        if request.limit.is_none()
            && let Some(total) = count_matches(&view, &plan, &ready.interrupt)?
        {
            return Ok(window(total, request));
        }
        let most = request.limit.map(|limit| limit.saturating_add(request.skip));
        let mut scan = Scan::new(view, &plan);
        let mut total = 0;
        while most.is_none_or(|most| total < most) && scan.step(&ready.interrupt)? {
            total += 1;
        }
        Ok(window(total, request))
    }
}

/// Applies skip and limit to a total.
fn window(total: u64, request: &Count<'_>) -> u64 {
    let left = total.saturating_sub(request.skip);
    request.limit.map_or(left, |limit| left.min(limit))
}

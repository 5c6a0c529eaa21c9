//! `find`: filters, sorts, windows and projects the documents of a collection or view.

use super::aggregate::Aggregate;
use super::scope::{Ready, Scope};
use super::target::{note_look_up, only_id};
use crate::collection::Collection;
use crate::error::{Error, Result};
use crate::events::is_oplog;
use crate::exec::{FoundKeys, Keys, Projected, Scan, Single, Sorted, Window};
use crate::namespace::Namespace;
use crate::plan::{Access, Hint, IndexLimits, Plan, Planner};
use crate::store::{Entry, Store};
use bumpalo::Bump;
use diwan_query::code;
use diwan_query::expr::EvalEnv;
use diwan_query::filter::{Filter, FilterEnv};
use diwan_query::pipeline::{DocList, DocSource};
use diwan_query::projection::{Projection, ProjectionEnv};
use diwan_query::sort::Sort;
use diwan_value::{Array, ArrayBuilder, Doc, DocBuf, doc};
use std::sync::Arc;

/// A find.
#[derive(Clone, Default)]
pub struct Find<'a> {
    /// The filter.
    pub filter: Doc<'a>,
    /// The order.
    pub sort: Option<Doc<'a>>,
    /// The projection.
    pub projection: Option<Doc<'a>>,
    /// How many documents are skipped.
    pub skip: u64,
    /// How many documents are returned at most.
    pub limit: Option<u64>,
    /// The access to use.
    pub hint: Hint,
    /// The part of the hinted index to scan (`min` and `max`).
    pub limits: IndexLimits<'a>,
    /// Whether index keys are returned instead of documents.
    pub return_key: bool,
    /// Whether the source of a capped collection continues after its end with later inserts.
    pub tailable: bool,
    /// Collation, variables, interrupt.
    pub scope: Scope<'a>,
}

/// A parsed and planned find.
pub(super) struct Prepared {
    pub filter: Arc<Filter>,
    pub sort: Option<Sort>,
    pub projection: Option<Projection>,
    pub plan: Plan,
    pub ready: Ready,
    pub view: crate::collection::ReadView,
}

impl Find<'_> {
    pub(super) fn prepare(&self, collection: &Arc<Collection>) -> Result<Prepared> {
        let ready = self.scope.ready(collection.schema().options.collator.as_ref())?;
        let filter = ready.filter(self.filter)?;
        let sort = self.sort.map(Sort::parse).transpose()?;
        let sort = sort.filter(|sort| !sort.is_empty() || sort.natural().is_some());
        let parse_env = ready.parse_env();
        let filter_env = FilterEnv { context: ready.context.clone(), scope: Some(&parse_env) };
        let projection = self
            .projection
            .filter(|projection| !projection.is_empty())
            .map(|projection| {
                let env = ProjectionEnv { scope: &parse_env, filter: &filter_env, query: Some(self.filter) };
                Projection::parse(projection, &env)
            })
            .transpose()?;
        let mut needed = projection.as_ref().and_then(Projection::covered_paths);
        if let (Some(needed), Some(sort)) = (&mut needed, &sort) {
            needed.extend(sort.parts().iter().map(|part| part.path.clone()));
        }
        let view = collection.view();
        let planner = Planner {
            view: &view,
            filter: filter.clone(),
            sort: sort.as_ref(),
            collator: ready.collator(),
            hint: self.hint.clone(),
            tailable: self.tailable,
            needed,
        };
        let plan = match self.limits.is_some() {
            true => planner.plan_within(self.limits)?,
            false => planner.plan()?,
        };
        if self.return_key && has_collated_keys(&plan.access) {
            return Err(Error::refused(
                code::NOT_IMPLEMENTED,
                "returnKey is not supported by Diwan for an index with a collation",
            ));
        }
        Ok(Prepared { filter, sort, projection, plan, ready, view })
    }

    /// The key of the `_id` if the request is a plain lookup by `_id`. This most frequent find needs no plan.
    fn only_id(&self, collated: bool) -> Option<Vec<u8>> {
        let plain = self.sort.is_none_or(|sort| sort.is_empty())
            && self.projection.is_none_or(|projection| projection.is_empty())
            && self.skip == 0
            && self.hint == Hint::None
            && !self.limits.is_some()
            && !self.return_key
            && !self.tailable
            && self.scope.collation.is_none()
            && self.scope.variables.is_none();
        plain.then(|| only_id(self.filter, collated)).flatten()
    }

    /// The keys that a scan by `plan` must keep for `returnKey`.
    fn keys(&self, plan: &Plan) -> Keys {
        if !self.return_key {
            return Keys::None;
        }
        // Whether MongoDB would use its `_id` index: for bounds on ids, for their order, or by a hint.
        let by_id = match &plan.access {
            Access::Ids(_) | Access::Union(_) => true,
            Access::Collection { ids, .. } => match &self.hint {
                Hint::Natural(_) => false,
                Hint::Name(_) | Hint::Key(_) => true,
                Hint::None => {
                    !ids.is_all() || (plan.sorted && self.sort.is_some_and(|sort| !sort.is_empty()))
                }
            },
            _ => false,
        };
        if by_id { Keys::All } else { Keys::Secondary }
    }

    /// Refuses options that a pipeline over a view does not support.
    pub(super) fn check_for_view(&self) -> Result<()> {
        let asked = [
            ("min", self.limits.min.is_some()),
            ("max", self.limits.max.is_some()),
            ("returnKey", self.return_key),
            ("tailable", self.tailable),
        ];
        match asked.iter().find(|(_, asked)| *asked) {
            None => Ok(()),
            Some((option, _)) => Err(Error::refused(
                code::INVALID_PIPELINE_OPERATOR,
                format!("Option {option} not supported in aggregation."),
            )),
        }
    }

    /// The find as the stages of a pipeline, for a view.
    pub(crate) fn to_pipeline(&self) -> Vec<u8> {
        let mut stages = ArrayBuilder::new();
        if !self.filter.is_empty() {
            stages.push(doc! { "$match": self.filter });
        }
        if let Some(sort) = self.sort.filter(|sort| !sort.is_empty()) {
            stages.push(doc! { "$sort": sort });
        }
        if self.skip > 0 {
            stages.push(doc! { "$skip": self.skip as i64 });
        }
        if let Some(limit) = self.limit {
            stages.push(doc! { "$limit": limit as i64 });
        }
        if let Some(projection) = self.projection.filter(|projection| !projection.is_empty()) {
            stages.push(doc! { "$project": projection });
        }
        stages.finish()
    }
}

impl Store {
    /// Runs a find. A collection that does not exist is empty.
    pub fn find(self: &Arc<Self>, namespace: &Namespace, request: &Find<'_>) -> Result<Box<dyn DocSource>> {
        let collection = match self.entry(namespace) {
            Some(Entry::Collection(collection)) => collection,
            Some(Entry::View(_)) => {
                request.check_for_view()?;
                let stages = request.to_pipeline();
                return self.aggregate(
                    Some(namespace),
                    &namespace.database,
                    &Aggregate {
                        pipeline: Array::trusted(&stages),
                        hint: request.hint.clone(),
                        scope: request.scope.clone(),
                        bypass_validation: false,
                    },
                );
            }
            None if is_oplog(namespace) => return Ok(self.open_oplog(request)?.source),
            None => {
                // Invalid arguments are refused even if the collection does not exist.
                let ready = request.scope.ready(None)?;
                ready.filter(request.filter)?;
                request.sort.map(Sort::parse).transpose()?;
                return Ok(Box::new(DocList::empty()));
            }
        };
        if request.tailable && collection.schema().options.capped.is_none() {
            return Err(Error::refused(
                code::BAD_VALUE,
                format!(
                    "error processing query: ns={namespace} planner returned error :: caused by :: tailable cursor \
                     requested on non capped collection"
                ),
            ));
        }
        let collated = collection.schema().options.collator.is_some();
        if let Some(id) = request.only_id(collated) {
            let found = collection.get(&id)?.filter(|_| request.limit != Some(0));
            note_look_up(request.scope.interrupt.tally(), found.is_some());
            return Ok(Box::new(Single::new(found)));
        }
        let prepared = request.prepare(&collection)?;
        Ok(prepared.open(request))
    }
}

impl Prepared {
    /// Opens the plan's scan with the sort, window and projection that follow it.
    fn open(self, request: &Find<'_>) -> Box<dyn DocSource> {
        let Prepared { filter, sort, projection, plan, ready, view } = self;
        let mut scan = Scan::new(view, &plan);
        scan.set_tailable(request.tailable);
        if ready.budget.directory.is_none() {
            scan.forbid_disk_use();
        }
        scan.remember_keys(request.keys(&plan));
        let windowed = request.skip > 0 || request.limit.is_some();
        let mut source: Box<dyn DocSource> = match sort {
            Some(sort) if !plan.sorted => {
                let limit =
                    request.limit.and_then(|limit| usize::try_from(limit.checked_add(request.skip)?).ok());
                let sorted = Sorted::new(scan, sort, ready.collator(), ready.budget.clone(), limit);
                Box::new(if request.return_key { sorted.keeping(Scan::key) } else { sorted })
            }
            _ if request.return_key => Box::new(FoundKeys::new(scan)),
            _ => Box::new(scan),
        };
        if windowed {
            source = Box::new(Window::new(source, request.skip, request.limit));
        }
        // A projection does not apply to returned keys.
        let projection = projection.filter(|projection| !projection.is_identity() && !request.return_key);
        let Some(projection) = projection else {
            return source;
        };
        let context = ready.context;
        let mut arena = Bump::new();
        Box::new(Projected::new(source, move |doc: Doc<'_>| -> diwan_query::Result<DocBuf> {
            let index = match projection.needs_array_index() {
                true => filter.matches_with_position(doc)?.array_index,
                false => None,
            };
            arena.reset();
            let env = EvalEnv::new(&arena, doc, &context);
            projection.project(doc, index, &env)
        }))
    }
}

/// Whether the access uses an index with a collation, whose keys hold collation keys instead of strings.
fn has_collated_keys(access: &Access) -> bool {
    match access {
        Access::Index(scan) => scan.index.spec.collator.is_some(),
        Access::Union(branches) => branches.iter().any(has_collated_keys),
        _ => false,
    }
}

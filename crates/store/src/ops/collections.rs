//! The store behind the trait [`Collections`], through which aggregation pipelines access it.

use super::replace::NewContents;
use super::scope::not_on_view;
use crate::collection::DesignGuard;
use crate::collection::{Collection, Edit, WriteOptions, with_id_in_front};
use crate::error::{DuplicateKey, Error, Result};
use crate::events::{Position, is_oplog};
use crate::exec::{Scan, as_query_error, count_matches};
use crate::namespace::Namespace;
use crate::plan::{Access, Hint, Plan, Planner};
use crate::stats;
use crate::store::{Entry, Store, ViewEntry};
use diwan_query::code;
use diwan_query::filter::{Filter, FilterEnv};
use diwan_query::pipeline::{
    self as query, Collections, DocList, DocSource, Execution, MergeDecision, MergeWrite, Operation,
    Pipeline, PipelineEnv, Replacement, count_document,
};
use diwan_value::{Doc, DocBuf, DocBuilder, Path, Value, doc};
use std::cell::RefCell;
use std::sync::Arc;

/// How many views may be stacked.
const MAX_VIEW_DEPTH: usize = 20;

/// How often a `$merge` of one document is retried after concurrent changes.
const ATTEMPTS: usize = 100;

/// A store as a [`Collections`].
pub(super) struct StoreCollections {
    store: Arc<Store>,
    /// Decides whether `$out` and `$merge` may change design documents.
    designs: Option<DesignGuard>,
}

impl StoreCollections {
    pub fn new(store: Arc<Store>, designs: Option<DesignGuard>) -> StoreCollections {
        StoreCollections { store, designs }
    }

    /// Like [`Collections::open`], with a hint.
    pub(crate) fn open_planned(
        &self,
        namespace: &query::Namespace,
        pipeline: &Pipeline,
        execution: &Execution,
        hint: &Hint,
    ) -> Result<Box<dyn DocSource>> {
        let name = own_name(namespace);
        let (name, pipeline) = self.through_views(name, pipeline.clone(), execution)?;
        match self.store.entry(&name) {
            Some(Entry::Collection(collection)) => open_collection(&collection, &pipeline, execution, hint),
            None if is_oplog(&name) => {
                let (source, _) = self.store.oplog_source(Position::default(), false)?;
                Ok(pipeline.open(source, execution)?)
            }
            _ => Ok(pipeline.open(Box::new(DocList::empty()), execution)?),
        }
    }

    /// Resolves views: prepends their stages to the pipeline until the name is that of a collection.
    pub(crate) fn through_views(
        &self,
        mut name: Namespace,
        mut pipeline: Pipeline,
        execution: &Execution,
    ) -> Result<(Namespace, Pipeline)> {
        for _ in 0..MAX_VIEW_DEPTH {
            let Some(Entry::View(view)) = self.store.entry(&name) else { return Ok((name, pipeline)) };
            let mut stages = view_pipeline(&view, execution)?.stages;
            stages.append(&mut pipeline.stages);
            pipeline = Pipeline { stages };
            name = Namespace { database: name.database, collection: view.view.on.clone() };
        }
        Err(Error::refused(165, format!("View depth limit exceeded; maximum depth is {MAX_VIEW_DEPTH}")))
    }

    fn collection(&self, namespace: &query::Namespace) -> Result<Option<Arc<Collection>>> {
        match self.store.entry(&own_name(namespace)) {
            Some(Entry::Collection(collection)) => Ok(Some(collection)),
            Some(Entry::View(_)) => Err(not_on_view(&own_name(namespace))),
            None => Ok(None),
        }
    }

    fn merge_into(
        &self,
        namespace: &query::Namespace,
        key: Option<Doc<'_>>,
        decide: &mut MergeDecision<'_>,
        replaces: bool,
        execution: &Execution,
    ) -> Result<()> {
        let name = Namespace::new(&namespace.database, &namespace.collection)?;
        let filter = match key {
            None => Arc::new(Filter::AlwaysFalse),
            Some(key) => Arc::new(key_filter(key, execution)?),
        };
        for _ in 0..ATTEMPTS {
            let merged = self.store.on_collection(&name, |collection| {
                self.try_merge(collection, key, &filter, decide, replaces, execution)
            })?;
            if merged {
                return Ok(());
            }
        }
        Err(Error::refused(
            code::WRITE_CONFLICT,
            "$merge gave up after repeated concurrent changes of the document",
        ))
    }
}

impl StoreCollections {
    /// Merges one document. Returns false if a concurrent change interfered.
    fn try_merge(
        &self,
        collection: &Arc<Collection>,
        key: Option<Doc<'_>>,
        filter: &Arc<Filter>,
        decide: &mut MergeDecision<'_>,
        replaces: bool,
        execution: &Execution,
    ) -> Result<bool> {
        let options = WriteOptions {
            bypass_validation: execution.bypass_document_validation,
            replaces,
            designs: self.designs.as_ref(),
            ..WriteOptions::default()
        };
        let view = collection.view();
        let planner = Planner {
            view: &view,
            filter: filter.clone(),
            sort: None,
            collator: execution.context.collator.clone(),
            hint: Hint::None,
            tailable: false,
            needed: None,
        };
        let plan = planner.plan()?;
        let mut scan = Scan::new(view, &plan);
        // The match may be gone or changed once its lock is held. Then the caller tries again.
        if scan.step(&execution.context.interrupt)? {
            let id = crate::collection::document_id(scan.current())?;
            let (mut decided, mut duplicate) = (false, false);
            let (interrupt, id) = (&execution.context.interrupt, [id]);
            collection.shared.waiters.admit(Some(interrupt), || {
                (decided, duplicate) = (false, false);
                collection.edit(&id, options, |_, record| {
                    let Some(record) = record.filter(|record| filter.matches(record.doc).unwrap_or(false))
                    else {
                        return Ok(Edit::Keep);
                    };
                    decided = true;
                    Ok(match decide(Some(record.doc))? {
                        MergeWrite::Duplicate => {
                            duplicate = true;
                            Edit::Keep
                        }
                        MergeWrite::Put(doc) if doc.as_doc() != record.doc => Edit::Put(doc),
                        _ => Edit::Keep,
                    })
                })
            })?;
            if duplicate {
                return Err(duplicate_key(collection, key.unwrap_or(Doc::EMPTY)));
            }
            return Ok(decided);
        }
        // No document matches, so one may have to be inserted.
        let MergeWrite::Put(doc) = decide(None)? else { return Ok(true) };
        let doc = with_id_in_front(doc.as_doc());
        let result = RefCell::new(None);
        let (collator, interrupt) = (execution.context.collator.clone(), &execution.context.interrupt);
        let inserted = collection.insert_new(
            doc,
            WriteOptions { retry_result: Some(&result), ..options },
            filter,
            collator,
            interrupt,
        )?;
        Ok(inserted.is_some())
    }
}

impl Collections for StoreCollections {
    fn open(
        &self,
        namespace: &query::Namespace,
        pipeline: &Pipeline,
        execution: &Execution,
    ) -> diwan_query::Result<Box<dyn DocSource>> {
        self.open_planned(namespace, pipeline, execution, &Hint::None).map_err(as_query_error)
    }

    fn finds_by(&self, namespace: &query::Namespace, path: &Path, execution: &Execution) -> bool {
        let Ok(Some(collection)) = self.collection(namespace) else { return false };
        if path.as_str() == "_id" {
            return execution.context.collator.is_none();
        }
        let collation = execution.context.collator.as_ref().map(|collator| collator.collation().to_doc());
        collection.schema().indexes.iter().any(|index| {
            let spec = &index.spec;
            index.is_ready()
                && !spec.hidden
                && !spec.sparse
                && spec.partial_filter.is_none()
                && spec.fields[0].path == *path
                && spec.collation.as_ref().map(|own| own.to_doc()) == collation
        })
    }

    fn collection_stats(
        &self,
        namespace: &query::Namespace,
        spec: Doc<'_>,
    ) -> diwan_query::Result<Vec<DocBuf>> {
        let collection = self.collection(namespace).map_err(as_query_error)?.ok_or_else(|| {
            diwan_query::Error::new(
                code::NAMESPACE_NOT_FOUND,
                format!("$collStats stage is unable to find the collection {namespace}"),
            )
        })?;
        Ok(vec![stats::collection_stats_document(&collection, self.store.server_state(), spec)])
    }

    fn index_stats(&self, namespace: &query::Namespace) -> diwan_query::Result<Vec<DocBuf>> {
        let Some(collection) = self.collection(namespace).map_err(as_query_error)? else {
            return Ok(Vec::new());
        };
        let host = self.store.server_state().map(|server| server.host());
        let show = |index| stats::index_stats_document(index, host.as_deref());
        Ok(collection.schema().indexes.iter().map(|index| show(index)).collect())
    }

    fn current_operations(&self, spec: Doc<'_>) -> diwan_query::Result<Vec<DocBuf>> {
        Ok(self.store.server_state().map_or_else(Vec::new, |server| server.operations(spec)))
    }

    fn sessions(&self) -> diwan_query::Result<Vec<DocBuf>> {
        Ok(self.store.server_state().map_or_else(Vec::new, |server| server.sessions()))
    }

    fn replace(
        &self,
        namespace: &query::Namespace,
        execution: &Execution,
    ) -> diwan_query::Result<Box<dyn Replacement>> {
        NewContents::begin(self.store.clone(), &own_name(namespace), execution, self.designs.clone())
            .map(|contents| Box::new(contents) as Box<dyn Replacement>)
            .map_err(as_query_error)
    }

    fn check_merge_key(&self, namespace: &query::Namespace, on: &[Path]) -> diwan_query::Result<()> {
        if let [only] = on
            && only.as_str() == "_id"
        {
            return Ok(());
        }
        let found = match self.collection(namespace).map_err(as_query_error)? {
            None => false,
            Some(collection) => collection.schema().indexes.iter().any(|index| {
                let spec = &index.spec;
                index.is_ready()
                    && spec.unique
                    && spec.partial_filter.is_none()
                    && spec.fields.len() == on.len()
                    && spec.fields.iter().all(|field| on.contains(&field.path))
            }),
        };
        match found {
            true => Ok(()),
            false => Err(diwan_query::Error::new(
                51183,
                "Cannot find index to verify that join fields will be unique",
            )),
        }
    }

    fn merge(
        &self,
        namespace: &query::Namespace,
        key: Option<Doc<'_>>,
        decide: &mut MergeDecision<'_>,
        replaces: bool,
        execution: &Execution,
    ) -> diwan_query::Result<()> {
        self.merge_into(namespace, key, decide, replaces, execution).map_err(as_query_error)
    }
}

fn own_name(namespace: &query::Namespace) -> Namespace {
    Namespace { database: namespace.database.clone(), collection: namespace.collection.clone() }
}

/// A view's stages.
fn view_pipeline(view: &ViewEntry, execution: &Execution) -> Result<Pipeline> {
    let stages = view.view.pipeline.as_doc().get_array("pipeline").unwrap_or(diwan_value::Array::EMPTY);
    let on = query::Namespace::new(view.namespace.database.clone(), view.view.on.clone());
    Ok(Pipeline::parse(stages, &PipelineEnv::new(&on, execution.context.clone()))?)
}

/// The filter for documents whose fields equal those of `key`.
fn key_filter(key: Doc<'_>, execution: &Execution) -> Result<Filter> {
    let mut filter = DocBuilder::new();
    for element in key.iter() {
        filter.append(element.key_str(), doc! { "$eq": element.value() });
    }
    Ok(Filter::parse(filter.finish().as_doc(), &FilterEnv::new(execution.context.clone()))?)
}

/// The error of a `$merge` with `whenMatched: "fail"` that found a document with `key`.
fn duplicate_key(collection: &Collection, key: Doc<'_>) -> Error {
    let schema = collection.schema();
    let spec = schema.indexes.iter().map(|index| &index.spec).find(|spec| {
        (spec.unique || spec.is_id_index())
            && spec.fields.len() == key.count()
            && spec.fields.iter().all(|field| key.contains_key(field.path.as_str()))
    });
    let mut key_value = DocBuilder::new();
    for element in spec.map_or(key, |spec| spec.key.as_doc()).iter() {
        key_value.append(element.key_str(), key.get(element.key_str()));
    }
    Error::DuplicateKey(Box::new(DuplicateKey {
        namespace: collection.namespace().to_string(),
        index: spec.map_or_else(String::new, |spec| spec.name.clone()),
        key_pattern: spec.map_or_else(DocBuf::new, |spec| spec.key.clone()),
        key_value: key_value.finish(),
    }))
}

/// Plans the leading stages over a collection, and opens the other stages over its documents.
pub(super) fn open_collection(
    collection: &Arc<Collection>,
    pipeline: &Pipeline,
    execution: &Execution,
    hint: &Hint,
) -> Result<Box<dyn DocSource>> {
    let mut leading = Leading::of(pipeline);
    if !execution.context.variables.is_empty() {
        // Variables have new values for each document of an outer pipeline. The parsed filter does not hold them.
        leading.filter = Arc::new(leading.filter.in_context(&execution.context));
    }
    let (plan, view) = leading.plan(collection, pipeline, execution, hint)?;
    // A count needs no documents, only their number.
    if leading.sort.is_none()
        && let Some(counting) = pipeline.stages.get(leading.matches).and_then(Counting::of)
    {
        let total = match (&*leading.filter, &plan.access) {
            (Filter::AlwaysTrue, Access::Collection { .. }) => Some(collection.count()),
            _ => count_matches(&view, &plan, &execution.context.interrupt)?,
        };
        if let Some(total) = total {
            let found = (total > 0).then(|| counting.document(total));
            let source = Box::new(DocList::new(found.into_iter().collect()));
            return Ok(pipeline.after(leading.matches + 1).open(source, execution)?);
        }
    }
    let done = leading.matches + usize::from(leading.sort.is_some() && plan.sorted);
    Ok(pipeline.after(done).open(Box::new(Scan::new(view, &plan)), execution)?)
}

/// The stages at the beginning of a pipeline that a plan can execute.
pub(super) struct Leading {
    /// The number of leading `$match` stages.
    pub matches: usize,
    /// The conjunction of their filters.
    pub filter: Arc<Filter>,
    /// The `$sort` that follows them.
    pub sort: Option<diwan_query::sort::Sort>,
}

impl Leading {
    pub fn of(pipeline: &Pipeline) -> Leading {
        let mut filters = Vec::new();
        for stage in &pipeline.stages {
            let Operation::Match(filter) = &stage.operation else { break };
            filters.push(filter.clone());
        }
        let sort = match pipeline.stages.get(filters.len()).map(|stage| &stage.operation) {
            Some(Operation::Sort(sort)) => Some(sort.sort.clone()),
            _ => None,
        };
        let matches = filters.len();
        let filter = match <[Arc<Filter>; 1]>::try_from(filters) {
            Ok([only]) => only,
            Err(several) => {
                Arc::new(Filter::and(several.iter().map(|filter| Filter::clone(filter)).collect()))
            }
        };
        Leading { matches, filter, sort }
    }

    pub fn plan(
        &self,
        collection: &Arc<Collection>,
        pipeline: &Pipeline,
        execution: &Execution,
        hint: &Hint,
    ) -> Result<(Plan, crate::collection::ReadView)> {
        let view = collection.view();
        // Without conditions or a sort, a scan of the collection is faster than a covering index.
        let is_bound = self.sort.is_some() || !matches!(*self.filter, Filter::AlwaysTrue);
        let counts = pipeline.stages.get(self.matches).and_then(Counting::of).is_some();
        let plan = Planner {
            view: &view,
            filter: self.filter.clone(),
            sort: self.sort.as_ref(),
            collator: execution.context.collator.clone(),
            hint: hint.clone(),
            tailable: false,
            needed: match counts {
                true => Some(Vec::new()),
                false if is_bound => pipeline.needed_paths(self.matches),
                false => None,
            },
        }
        .plan()?;
        Ok((plan, view))
    }
}

/// A stage that only counts: `$count`, or the `$group` that drivers send for `countDocuments`.
enum Counting {
    Field(Arc<str>),
    Group { id: diwan_value::ValueBuf, field: String },
}

impl Counting {
    fn of(stage: &query::Stage) -> Option<Counting> {
        match &stage.operation {
            Operation::Count(field) => Some(Counting::Field(field.clone())),
            Operation::Group(_) => {
                let group = stage.spec.as_doc().get_doc("$group")?;
                let mut fields = group.iter();
                let (id, sum) = (fields.next()?, fields.next()?);
                let constant =
                    matches!(id.value(), Value::Null | Value::Boolean(_)) || id.value().is_number();
                let one = matches!(sum.value(), Value::Document(sum) if sum.count() == 1
                    && sum.get("$sum") == Some(Value::Int32(1)));
                (id.key == b"_id" && constant && one && fields.next().is_none())
                    .then(|| Counting::Group { id: id.value().to_owned(), field: sum.key_str().to_owned() })
            }
            _ => None,
        }
    }

    fn document(&self, total: u64) -> DocBuf {
        match self {
            Counting::Field(field) => count_document(field, total as i64),
            Counting::Group { id, field } => {
                let mut out = doc! { "_id": id }.into_builder();
                out.append_all(count_document(field, total as i64).as_doc());
                out.finish()
            }
        }
    }
}

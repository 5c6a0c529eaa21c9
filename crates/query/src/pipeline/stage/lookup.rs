//! `$lookup`: adds to each document the matching documents of another collection.
//!
//! The stage has three ways to find them. If the result does not depend on the document, it is computed once and kept.
//! If the join is on fields and the store has an index, each document runs a query with an equality. Otherwise the
//! second document makes the stage read the whole other collection into a hash table keyed by the joined field, if it
//! fits the budget; candidates from the table are checked with the same equality.

use super::set_path::set_path;
use super::union_with::{begins_with_documents, open_source};
use crate::display::ShownField;
use crate::error::{Error, Result};
use crate::expr::{Context, EvalEnv, Expr, check_new_variable, field_path};
use crate::filter::{Filter, FilterEnv};
use crate::interrupt::Interrupt;
use crate::memory::Reservation;
use crate::pipeline::source::{DocList, DocSource};
use crate::pipeline::{Execution, Namespace, Operation, Pipeline, PipelineEnv, Stage};
use bumpalo::Bump;
use diwan_value::key::{Direction, encode_order};
use diwan_value::{Array, ArrayBuilder, Doc, DocBuf, DocBuilder, Path, Value, ValueBuf};
use std::collections::HashMap;
use std::sync::Arc;

/// A parsed `$lookup`.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// Absent if the pipeline generates its documents.
    from: Option<Namespace>,
    as_path: Path,
    /// The local and the foreign field of the join.
    join: Option<(Path, Path)>,
    variables: Vec<(String, Expr)>,
    pipeline: Pipeline,
}

impl Lookup {
    /// Parses the stage's argument.
    pub(crate) fn parse(spec: Value<'_>, env: &PipelineEnv) -> Result<Lookup> {
        let Value::Document(doc) = spec else {
            let text = format!(
                "the $lookup stage specification must be an object, but found {}",
                spec.tag().alias()
            );
            return Err(Error::failed_to_parse(text));
        };
        let (mut from, mut as_field, mut local, mut foreign) = (None, None, None, None);
        let (mut stages, mut bindings) = (None, None);
        for element in doc.iter() {
            let (name, value) = (element.key_str(), element.value());
            match name {
                "pipeline" => {
                    let Value::Array(array) = value else {
                        return Err(Error::type_mismatch("'pipeline' option must be specified as an array"));
                    };
                    stages = Some(array);
                    continue;
                }
                "let" => {
                    let Value::Document(doc) = value else {
                        let text = format!(
                            "$lookup argument '{}' must be an object, is type {}",
                            ShownField("let", value),
                            value.tag().alias()
                        );
                        return Err(Error::failed_to_parse(text));
                    };
                    bindings = Some(doc);
                    continue;
                }
                _ => {}
            }
            let place = match name {
                "from" => &mut from,
                "as" => &mut as_field,
                "localField" => &mut local,
                "foreignField" => &mut foreign,
                _ => return Err(Error::failed_to_parse(format!("unknown argument to $lookup: {name}"))),
            };
            let Value::String(text) = value else {
                let text = format!(
                    "$lookup argument '{}' must be a string, is type {}",
                    ShownField(name, value),
                    value.tag().alias()
                );
                return Err(Error::failed_to_parse(text));
            };
            *place = Some(text);
        }
        // Arguments are checked after the loop, because each check depends on several of them.
        if from.is_none() && !begins_with_documents(stages) {
            let text = if stages.is_some() {
                "$lookup stage without explicit collection must have a pipeline with $documents as first stage"
            } else {
                "must specify 'pipeline' when 'from' is empty"
            };
            return Err(Error::failed_to_parse(text));
        }
        let as_field =
            as_field.ok_or_else(|| Error::failed_to_parse("must specify 'as' field for a $lookup"))?;
        let join = match (local, foreign) {
            (Some(local), Some(foreign)) => Some((field_path(local)?, field_path(foreign)?)),
            (None, None) if stages.is_some() => None,
            _ => {
                let text = if stages.is_some() {
                    "$lookup requires both or neither of 'localField' and 'foreignField' to be specified"
                } else {
                    "$lookup requires either 'pipeline' or both 'localField' and 'foreignField' to be specified"
                };
                return Err(Error::failed_to_parse(text));
            }
        };
        if bindings.is_some() && stages.is_none() {
            let text = "$lookup with a 'let' argument must also specify 'pipeline'";
            return Err(Error::failed_to_parse(text));
        }
        let (variables, inner) = bind(bindings, from, env)?;
        Ok(Lookup {
            from: from.map(|name| env.namespace(name)),
            as_path: field_path(as_field)?,
            join,
            variables,
            pipeline: Pipeline::parse(stages.unwrap_or(Array::EMPTY), &inner)?,
        })
    }

    /// The other collection, unless the pipeline generates its documents.
    pub fn from(&self) -> Option<&Namespace> {
        self.from.as_ref()
    }

    /// Runs the stage over `input`.
    pub(crate) fn open(
        self: &Arc<Lookup>,
        input: Box<dyn DocSource>,
        execution: &Execution,
    ) -> Box<dyn DocSource> {
        Box::new(LookupSource {
            lookup: self.clone(),
            execution: execution.clone(),
            input,
            arena: Bump::new(),
            memory: JoinCache::None,
            out: Vec::new(),
        })
    }

    /// The execution of the other pipeline for one document, with its variables bound.
    fn bind<'a>(&'a self, env: &EvalEnv<'a>, execution: &Execution) -> Result<Execution> {
        if self.variables.is_empty() {
            return Ok(execution.clone());
        }
        let mut context = Context::clone(&execution.context);
        for (_, expr) in &self.variables {
            context.variables.push(expr.eval(env)?.map(ValueBuf::new));
        }
        Ok(Execution { context: Arc::new(context), ..execution.clone() })
    }
}

/// Parses the `let`, and makes the environment of the pipeline with its variables.
fn bind(
    bindings: Option<Doc<'_>>,
    from: Option<&str>,
    env: &PipelineEnv,
) -> Result<(Vec<(String, Expr)>, PipelineEnv)> {
    let mut inner = env.nested("$lookup", from)?;
    let scope = env.scope();
    let mut variables = Vec::new();
    for element in bindings.unwrap_or(Doc::EMPTY).iter() {
        let name = element.key_str();
        check_new_variable(name)?;
        variables.push((name.to_owned(), Expr::parse(element.value(), &scope)?));
        inner.variables.push(name.to_owned());
    }
    Ok((variables, inner))
}

/// The running stage.
struct LookupSource {
    lookup: Arc<Lookup>,
    execution: Execution,
    input: Box<dyn DocSource>,
    arena: Bump,
    memory: JoinCache,
    out: Vec<u8>,
}

/// State kept between documents.
enum JoinCache {
    None,
    /// The result, which is the same for all documents.
    Result(Vec<u8>),
    /// One document has run a query without an index.
    Asked,
    /// The other collection as a hash table.
    Table(Table),
    /// Every document runs a query: the store has an index, or the other collection does not fit.
    Ask,
}

impl DocSource for LookupSource {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        // Neither the input nor a result that is kept has to check it, and each document may be large.
        interrupt.check()?;
        if !self.input.advance(interrupt)? {
            self.out.clear();
            return Ok(false);
        }
        self.arena.reset();
        let doc = self.input.current();
        let lookup = self.lookup.clone();
        let env = EvalEnv::new(&self.arena, doc, &self.execution.context);
        let inner = lookup.bind(&env, &self.execution)?;
        let found = match &lookup.join {
            None => {
                if let JoinCache::Result(found) = &self.memory {
                    found.clone()
                } else {
                    let source = open_source(lookup.from.as_ref(), &lookup.pipeline, &inner)?;
                    let found = collect(source, interrupt)?;
                    if lookup.variables.is_empty() {
                        self.memory = JoinCache::Result(found.clone());
                    }
                    found
                }
            }
            Some((local, foreign)) => {
                let values = local_values(doc, local);
                let filter = equality(foreign, &values);
                let source = self.memory.find(&lookup, foreign, &values, filter, &inner, interrupt)?;
                collect(source, interrupt)?
            }
        };
        self.out.clear();
        let found = Value::Array(Array::trusted(&found));
        self.out = set_path(doc, &lookup.as_path, Some(found), std::mem::take(&mut self.out));
        Ok(true)
    }

    fn current(&self) -> Doc<'_> {
        Doc::trusted(&self.out)
    }

    fn suspend(&mut self) {
        self.input.suspend();
    }
}

impl JoinCache {
    /// Runs the other pipeline for the documents that match one of `values`.
    fn find(
        &mut self,
        lookup: &Lookup,
        foreign: &Path,
        values: &[Value<'_>],
        equality: DocBuf,
        execution: &Execution,
        interrupt: &Interrupt,
    ) -> Result<Box<dyn DocSource>> {
        *self = match std::mem::replace(self, JoinCache::Ask) {
            JoinCache::None => match &lookup.from {
                Some(from) if !execution.collections.finds_by(from, foreign, execution) => JoinCache::Asked,
                _ => JoinCache::Ask,
            },
            JoinCache::Asked => match Table::read(lookup, foreign, execution, interrupt)? {
                Some(table) => JoinCache::Table(table),
                None => JoinCache::Ask,
            },
            other => other,
        };
        let filter = Filter::parse(equality.as_doc(), &FilterEnv::new(execution.context.clone()))?;
        if let JoinCache::Table(table) = self {
            let docs = table.find(values, &filter, execution.context.collator.as_deref())?;
            return lookup.pipeline.open(Box::new(DocList::new(docs)), execution);
        }
        let spec = DocBuilder::new().append("$match", equality).clone().finish();
        let mut stages = vec![Stage {
            name: "$match",
            spec: Arc::new(spec),
            operation: Operation::Match(Arc::new(filter)),
        }];
        // If the pipeline generates its documents, the filter comes after the first stage.
        let at = if lookup.from.is_some() { 0 } else { 1 };
        let mut pipeline = lookup.pipeline.clone();
        pipeline.stages.splice(at..at, stages.drain(..));
        open_source(lookup.from.as_ref(), &pipeline, execution)
    }
}

/// Collects all documents of `source` as the bytes of an array.
fn collect(mut source: Box<dyn DocSource>, interrupt: &Interrupt) -> Result<Vec<u8>> {
    let mut found = ArrayBuilder::new();
    while source.advance(interrupt)? {
        found.push(source.current());
    }
    Ok(found.finish())
}

/// The values that a document is joined by: the values at the end of the path, the elements of an array there, or null
/// if there is none.
fn local_values<'a>(doc: Doc<'a>, path: &Path) -> Vec<Value<'a>> {
    let mut values = Vec::new();
    add_values(Value::Document(doc), path, 0, &mut values);
    if values.is_empty() {
        values.push(Value::Null);
    }
    values
}

fn add_values<'a>(value: Value<'a>, path: &Path, at: usize, values: &mut Vec<Value<'a>>) {
    if at == path.depth() {
        match value {
            Value::Array(items) => values.extend(items.iter()),
            single => values.push(single),
        }
        return;
    }
    match value {
        Value::Document(doc) => {
            if let Some(inner) = doc.get(path.name(at)) {
                add_values(inner, path, at + 1, values);
            }
        }
        Value::Array(items) => {
            if let Some(item) = path.index(at).and_then(|index| items.get(index)) {
                add_values(item, path, at + 1, values);
            }
            for item in items.iter().filter(|item| item.as_doc().is_some()) {
                add_values(item, path, at, values);
            }
        }
        _ => {}
    }
}

/// The filter that finds documents with one of `values` at `path`.
fn equality(path: &Path, values: &[Value<'_>]) -> DocBuf {
    let mut filter = DocBuilder::new();
    let is = |value: Value<'_>| DocBuilder::new().append("$eq", value).clone().finish();
    if let [value] = values {
        filter.append(path.as_str(), is(*value));
    } else if values.iter().any(|value| matches!(value, Value::Regex { .. })) {
        // `$in` would use a regular expression as a pattern instead of a value.
        let mut any = ArrayBuilder::new();
        for value in values {
            any.push(DocBuilder::new().append(path.as_str(), is(*value)).clone().finish());
        }
        filter.append("$or", any);
    } else {
        let mut list = ArrayBuilder::new();
        for value in values {
            list.push(*value);
        }
        filter.append(path.as_str(), DocBuilder::new().append("$in", list).clone().finish());
    }
    filter.finish()
}

/// Another collection in memory, indexed by the values of one field.
struct Table {
    docs: Vec<DocBuf>,
    by_value: HashMap<Vec<u8>, Vec<usize>>,
    reservation: Reservation,
}

impl Table {
    /// Reads the collection; `None` if it does not fit the budget or the path cannot be hashed.
    fn read(
        lookup: &Lookup,
        path: &Path,
        execution: &Execution,
        interrupt: &Interrupt,
    ) -> Result<Option<Table>> {
        if (0..path.depth()).any(|at| path.index(at).is_some()) {
            return Ok(None);
        }
        let collator = execution.context.collator.as_deref();
        let mut source = open_source(lookup.from.as_ref(), &Pipeline::default(), execution)?;
        let reservation = execution.budget.pool.reservation(true);
        let mut table = Table { docs: Vec::new(), by_value: HashMap::new(), reservation };
        let mut bytes = 0;
        while source.advance(interrupt)? {
            let doc = source.current();
            let mut values = Vec::new();
            add_reached(Value::Document(doc), path, 0, &mut values);
            for value in &values {
                let mut key = Vec::new();
                encode_order(&mut key, *value, Direction::Ascending, collator);
                bytes += key.len() + 2 * size_of::<Vec<usize>>();
                let numbers = table.by_value.entry(key).or_default();
                if numbers.last() != Some(&table.docs.len()) {
                    numbers.push(table.docs.len());
                }
            }
            bytes += doc.as_bytes().len() + size_of::<DocBuf>();
            if bytes > execution.budget.limit || !table.reservation.cover(bytes) {
                return Ok(None);
            }
            table.docs.push(doc.to_owned());
        }
        Ok(Some(table))
    }

    /// The documents that match `filter` among those with one of `values`, in the collection's order.
    fn find(
        &self,
        values: &[Value<'_>],
        filter: &Filter,
        collator: Option<&diwan_value::Collator>,
    ) -> Result<Vec<DocBuf>> {
        let mut numbers: Vec<usize> = Vec::new();
        let mut key = Vec::new();
        for value in values {
            key.clear();
            encode_order(&mut key, *value, Direction::Ascending, collator);
            numbers.extend(self.by_value.get(&key).into_iter().flatten());
        }
        numbers.sort_unstable();
        numbers.dedup();
        let mut docs = Vec::with_capacity(numbers.len());
        for doc in numbers.into_iter().map(|number| &self.docs[number]) {
            if filter.matches(doc.as_doc())? {
                docs.push(doc.clone());
            }
        }
        Ok(docs)
    }
}

/// Adds all values by which an equality at `path` can find a document, and possibly more: for an array its elements and
/// the array itself, and null wherever a field may be missing.
fn add_reached<'a>(value: Value<'a>, path: &Path, at: usize, values: &mut Vec<Value<'a>>) {
    match value {
        Value::Array(items) => {
            values.push(Value::Null);
            if at == path.depth() {
                values.push(value);
                values.extend(items.iter());
            } else {
                items.iter().for_each(|item| add_reached(item, path, at, values));
            }
        }
        end if at == path.depth() => values.push(end),
        Value::Document(doc) => match doc.get(path.name(at)) {
            Some(inner) => add_reached(inner, path, at + 1, values),
            None => values.push(Value::Null),
        },
        _ => values.push(Value::Null),
    }
}

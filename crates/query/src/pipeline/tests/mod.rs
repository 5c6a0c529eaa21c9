//! Pipelines over collections in memory.

mod errors;
mod inline;
mod joins;
mod limits;
mod stages;
mod suspension;
mod writes;

use super::*;
use crate::expr::Context;
use crate::interrupt::Interrupt;
use crate::memory::MemoryBudget;
use diwan_value::{ArrayBuilder, Doc, DocBuf, Path, doc};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Collections in memory, by name.
#[derive(Default)]
struct Memory {
    collections: Mutex<BTreeMap<String, Vec<DocBuf>>>,
    /// Whether every path claims to have an index.
    indexed: bool,
    /// How many times a collection was opened.
    opened: Mutex<usize>,
}

impl Memory {
    fn with(collections: &[(&str, &[DocBuf])]) -> Arc<Memory> {
        let collections = collections.iter().map(|(name, docs)| (name.to_string(), docs.to_vec())).collect();
        Arc::new(Memory { collections: Mutex::new(collections), ..Memory::default() })
    }

    fn docs(&self, name: &str) -> Vec<DocBuf> {
        self.collections.lock().unwrap().get(name).cloned().unwrap_or_default()
    }
}

impl Collections for Arc<Memory> {
    fn open(
        &self,
        namespace: &Namespace,
        pipeline: &Pipeline,
        execution: &Execution,
    ) -> Result<Box<dyn DocSource>> {
        *self.opened.lock().unwrap() += 1;
        pipeline.open(Box::new(DocList::new(self.docs(&namespace.collection))), execution)
    }

    fn finds_by(&self, _: &Namespace, _: &Path, _: &Execution) -> bool {
        self.indexed
    }

    fn collection_stats(&self, namespace: &Namespace, _: Doc<'_>) -> Result<Vec<DocBuf>> {
        Ok(vec![diwan_value::doc! { "ns": (namespace.to_string()) }])
    }

    fn index_stats(&self, _: &Namespace) -> Result<Vec<DocBuf>> {
        Ok(vec![diwan_value::doc! { "name": "_id_" }])
    }

    fn current_operations(&self, _: Doc<'_>) -> Result<Vec<DocBuf>> {
        Ok(vec![diwan_value::doc! { "type": "op" }])
    }

    fn sessions(&self) -> Result<Vec<DocBuf>> {
        Ok(vec![doc! { "_id": 1 }])
    }

    fn replace(&self, namespace: &Namespace, _: &Execution) -> Result<Box<dyn Replacement>> {
        Ok(Box::new(Replacing { memory: self.clone(), name: namespace.collection.clone(), docs: Vec::new() }))
    }

    fn check_merge_key(&self, _: &Namespace, on: &[Path]) -> Result<()> {
        if on.iter().any(|path| path.as_str() == "unknown") {
            return Err(Error::new(51183, "Cannot find index to verify that join fields will be unique"));
        }
        Ok(())
    }

    fn merge(
        &self,
        namespace: &Namespace,
        key: Option<Doc<'_>>,
        decide: &mut MergeDecision<'_>,
        _: bool,
        _: &Execution,
    ) -> Result<()> {
        let mut collections = self.collections.lock().unwrap();
        let docs = collections.entry(namespace.collection.clone()).or_default();
        let matches = |doc: &DocBuf| {
            key.is_some_and(|key| {
                key.iter().all(|part| Path::new(part.key_str()).get(doc.as_doc()) == Some(part.value()))
            })
        };
        let found = docs.iter().position(matches);
        let decided = decide(found.map(|at| docs[at].as_doc()))?;
        if decided == MergeWrite::Duplicate {
            return Err(Error::new(code::DUPLICATE_KEY, "the key is there"));
        }
        if let MergeWrite::Put(new) = decided {
            match found {
                Some(at) => docs[at] = new,
                None => docs.push(new),
            }
        }
        Ok(())
    }
}

struct Replacing {
    memory: Arc<Memory>,
    name: String,
    docs: Vec<DocBuf>,
}

impl Replacement for Replacing {
    fn insert(&mut self, doc: Doc<'_>) -> Result<()> {
        self.docs.push(doc.to_owned());
        Ok(())
    }

    fn commit(self: Box<Self>) -> Result<()> {
        self.memory.collections.lock().unwrap().insert(self.name, self.docs);
        Ok(())
    }
}

/// A source whose document becomes empty when it is suspended.
struct Vanishing {
    docs: DocList,
    suspended: bool,
}

impl DocSource for Vanishing {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        self.suspended = false;
        self.docs.advance(interrupt)
    }

    fn current(&self) -> Doc<'_> {
        if self.suspended { Doc::EMPTY } else { self.docs.current() }
    }

    fn suspend(&mut self) {
        self.suspended = true;
    }
}

fn env() -> PipelineEnv {
    PipelineEnv::new(&Namespace::new("test", "input"), Arc::new(Context::default()))
}

fn execution(memory: &Arc<Memory>, budget: MemoryBudget) -> Execution {
    Execution {
        collections: Arc::new(memory.clone()),
        context: Arc::new(Context::default()),
        budget,
        namespace: Namespace::new("test", "input"),
        bypass_document_validation: false,
    }
}

fn parse(stages: &ArrayBuilder) -> Result<Pipeline> {
    Pipeline::parse(Array::trusted(&stages.clone().finish()), &env())
}

fn drain(mut source: Box<dyn DocSource>) -> Result<Vec<DocBuf>> {
    let interrupt = Interrupt::new();
    let mut docs = Vec::new();
    while source.advance(&interrupt)? {
        docs.push(source.current().to_owned());
        source.suspend();
    }
    assert!(!source.advance(&interrupt)?, "the end stays the end");
    Ok(docs)
}

/// Runs a pipeline over the collection `input` of `memory`.
fn run_in(memory: &Arc<Memory>, stages: &ArrayBuilder, budget: MemoryBudget) -> Result<Vec<DocBuf>> {
    let pipeline = parse(stages)?;
    let input = Vanishing { docs: DocList::new(memory.docs("input")), suspended: false };
    drain(pipeline.open(Box::new(input), &execution(memory, budget))?)
}

/// Runs a pipeline over some documents.
fn run_stages(stages: &ArrayBuilder, docs: &[DocBuf]) -> Result<Vec<DocBuf>> {
    run_in(&Memory::with(&[("input", docs)]), stages, MemoryBudget::default())
}

/// Checks the result of a pipeline over some documents.
fn check(stages: ArrayBuilder, docs: &[DocBuf], expected: &[DocBuf]) {
    match run_stages(&stages, docs) {
        Ok(found) => assert_eq!(found, expected, "{:?}", Array::trusted(&stages.clone().finish())),
        Err(error) => panic!("{:?}: {error:?}", Array::trusted(&stages.clone().finish())),
    }
}

//! Measures the cost of aggregation stages per document, over documents in memory.
//!
//! `cargo bench -p diwan-query --bench pipeline [-- NUMBER_OF_DOCUMENTS]`

use diwan_query::MemoryBudget;
use diwan_query::expr::Context;
use diwan_query::pipeline::{
    Collections, DocList, DocSource, Execution, MergeDecision, Namespace, Pipeline, PipelineEnv, Replacement,
};
use diwan_query::{Error, Interrupt, Result};
use diwan_value::{Array, ArrayBuilder, Doc, DocBuf, Path, array, doc};
use std::sync::Arc;
use std::time::Instant;

fn main() {
    let count = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(500_000);
    let docs: Vec<DocBuf> = (0..count).map(person).collect();
    let pipelines = [
        ("count", array![{ "$count": "n" }]),
        ("match one field in ten", array![{ "$match": { "city": "city 3" } }, { "$count": "n" }]),
        (
            "group by nothing, sum",
            array![{ "$group": { "_id": null, "n": { "$sum": 1 }, "age": { "$sum": "$age" } } }],
        ),
        ("group into 10, count", array![{ "$group": { "_id": "$city", "n": { "$sum": 1 } } }]),
        (
            "group into 10, five accumulators",
            array![{ "$group": {
                "_id": "$city",
                "n": { "$sum": 1 },
                "sum": { "$sum": "$age" },
                "avg": { "$avg": "$age" },
                "min": { "$min": "$name" },
                "max": { "$max": "$age" },
            } }],
        ),
        (
            "group into as many",
            array![{ "$group": { "_id": "$_id", "n": { "$sum": 1 } } }, { "$count": "n" }],
        ),
        ("sort all", array![{ "$sort": { "name": 1 } }, { "$count": "n" }]),
        ("sort, first ten", array![{ "$sort": { "name": 1 } }, { "$limit": 10 }]),
        ("add a field", array![{ "$set": { "next": { "$add": ["$age", 1] } } }, { "$count": "n" }]),
        ("project two fields", array![{ "$project": { "name": 1, "age": 1 } }, { "$count": "n" }]),
        ("unwind three elements", array![{ "$unwind": "$tags" }, { "$count": "n" }]),
    ];
    for (name, stages) in pipelines {
        report(name, &stages, &docs);
    }
}

fn person(n: usize) -> DocBuf {
    doc! {
        "_id": (n as i64),
        "name": (format!("name {}", n.wrapping_mul(2_654_435_761) % 1_000_003)),
        "age": ((n % 97) as i32),
        "city": (format!("city {}", n % 10)),
        "tags": ["a", "b", "c"],
    }
}

fn report(name: &str, stages: &ArrayBuilder, docs: &[DocBuf]) {
    let namespace = Namespace::new("bench", "persons");
    let context = Arc::new(Context::default());
    let stages = stages.clone().finish();
    let pipeline = Pipeline::parse(Array::trusted(&stages), &PipelineEnv::new(&namespace, context.clone()))
        .expect("the pipeline is valid");
    let execution = Execution {
        collections: Arc::new(NoCollections),
        context,
        budget: MemoryBudget { directory: Some(std::env::temp_dir()), ..MemoryBudget::default() },
        namespace,
        bypass_document_validation: false,
    };
    let input = Box::new(DocList::new(docs.to_vec()));
    let interrupt = Interrupt::new();
    let start = Instant::now();
    let mut source = pipeline.open(input, &execution).expect("the pipeline opens");
    let mut results = 0;
    while source.advance(&interrupt).expect("the pipeline runs") {
        results += 1;
    }
    let nanos = start.elapsed().as_nanos() as usize / docs.len().max(1);
    println!("{name:40} {nanos:6} ns a document, {results} results");
}

/// No collections.
struct NoCollections;

impl Collections for NoCollections {
    fn open(&self, _: &Namespace, _: &Pipeline, _: &Execution) -> Result<Box<dyn DocSource>> {
        Ok(Box::new(DocList::empty()))
    }

    fn finds_by(&self, _: &Namespace, _: &Path, _: &Execution) -> bool {
        false
    }

    fn collection_stats(&self, _: &Namespace, _: Doc<'_>) -> Result<Vec<DocBuf>> {
        Ok(Vec::new())
    }

    fn index_stats(&self, _: &Namespace) -> Result<Vec<DocBuf>> {
        Ok(Vec::new())
    }

    fn sessions(&self) -> Result<Vec<DocBuf>> {
        Ok(Vec::new())
    }

    fn current_operations(&self, _: Doc<'_>) -> Result<Vec<DocBuf>> {
        Ok(Vec::new())
    }

    fn replace(&self, _: &Namespace, _: &Execution) -> Result<Box<dyn Replacement>> {
        Err(Error::bad_value("nothing can be written here"))
    }

    fn check_merge_key(&self, _: &Namespace, _: &[Path]) -> Result<()> {
        Ok(())
    }

    fn merge(
        &self,
        _: &Namespace,
        _: Option<Doc<'_>>,
        _: &mut MergeDecision<'_>,
        _: bool,
        _: &Execution,
    ) -> Result<()> {
        Err(Error::bad_value("nothing can be written here"))
    }
}

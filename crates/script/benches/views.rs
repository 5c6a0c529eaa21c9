//! Measures the cost of views: the benchmark suite's five queries as temporary views, building an index, a sum over
//! ranges of it, and updating it after changes.
//!
//! `cargo bench -p diwan-script --bench views [-- NUMBER_OF_DOCUMENTS]`

use diwan_script::{
    Design, Documents, Limits, Queried, Result, Row, Sandbox, TemporaryView, ViewAnswer, ViewHead, ViewQuery,
    ViewSink, Views,
};
use diwan_store::{Collection, Edit, Namespace, ReadView, Store, WriteOptions, id_key};
use diwan_value::{DocBuf, DocBuilder, Value, doc};
use std::sync::Arc;
use std::time::Instant;

const QUERIES: [(&str, &str); 5] = [
    ("Q1", "doc.salary > 18500 && doc.salary < 35000"),
    ("Q2", "doc.salary > 18500 && doc.salary < 35000 && doc.age > 25"),
    ("Q3", "doc.salary > 18500 && doc.salary < 35000 && doc.age > 25 && doc.fax"),
    ("Q4", "doc.salary > 18500 && doc.salary < 35000 && doc.age > 25 && doc.fax && doc.pet == 'Penguin'"),
    (
        "Q5",
        "doc.salary > 18500 && doc.salary < 35000 && doc.age > 25 && \
         (doc['jedi power'] == 'Force Choke' || doc['jedi power'] == 'Force Insanity')",
    ),
];

fn main() {
    let count: i32 = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(500_000);
    let directory = tempfile::tempdir().expect("a directory");
    let engine = diwan_kv::open(directory.path(), &diwan_kv::Options::default()).expect("an engine");
    let store = Store::open(engine.into()).expect("a store");
    let name = Namespace { database: "test".to_owned(), collection: "persons".to_owned() };
    let collection = store.collection_or_create(&name).expect("a collection");
    let persons: Vec<DocBuf> = (0..count).map(person).collect();
    let bytes: usize = persons.iter().map(|person| person.as_doc().as_bytes().len()).sum();
    for run in persons.chunks(1000) {
        let docs: Vec<_> = run.iter().map(DocBuf::as_doc).collect();
        collection.insert(&docs, true, WriteOptions::default()).expect("inserted");
    }
    println!("{count} persons, {} bytes each", bytes / persons.len().max(1));
    let views = Views::new(Sandbox::new(Limits::default()));
    for (name, condition) in QUERIES {
        for (what, emit) in [("ids", "emit(doc._id, null)"), ("documents", "emit(doc._id, doc)")] {
            let map = format!("function (doc) {{ if ({condition}) {emit}; }}");
            let view = TemporaryView::parse(&format!(r#"{{"map":{}}}"#, quoted(&map))).expect("a view");
            measure(&format!("{name}, {what}"), count, |rows| {
                read(&collection, views.temporary(&collection, &view, &ViewQuery::default())?, rows)
            });
        }
    }
    let sum = r#"{"map":"function (doc) { emit(doc.age, doc.salary); }","reduce":"_sum"}"#;
    let view = TemporaryView::parse(sum).expect("a view");
    measure("a sum, kept nowhere", count, |rows| {
        read(&collection, views.temporary(&collection, &view, &ViewQuery::default())?, rows)
    });
    let design = r#"{"_id":"_design/d","views":{"v":{"map":"function (doc) { emit([doc.age, doc.name], doc.salary); }","reduce":"_sum"}}}"#;
    let design = Design::parse(design.as_bytes()).expect("a design");
    measure("an index built", count, |_| views.refresh(&collection, &design));
    for parameters in
        [&[("startkey", "[20,\"b\"]"), ("endkey", "[60,\"y\"]")][..], &[("group_level", "1")], &[]]
    {
        let mut query = ViewQuery::default();
        for (name, value) in parameters {
            query.set_url(name, value).expect("a parameter");
        }
        let begun = Instant::now();
        let mut rows = Rows::default();
        for _ in 0..20 {
            read(&collection, answer(&views, &collection, &design, &query).expect("an index"), &mut rows)
                .expect("an answer");
        }
        println!(
            "{:40} {:8.2} ms",
            format!("sum {parameters:?}"),
            begun.elapsed().as_secs_f64() * 1000.0 / 20.0
        );
    }
    let mut query = ViewQuery { reduce: Some(false), ..ViewQuery::default() };
    measure("all rows read", count, |rows| {
        read(&collection, answer(&views, &collection, &design, &query)?, rows)
    });
    query.reduce = None;
    let changed = count.min(10_000);
    change(&collection, changed, count);
    measure("changes followed", changed, |rows| {
        read(&collection, answer(&views, &collection, &design, &query)?, rows)
    });
}

/// Begins to answer a query once the index is up to date.
fn answer(
    views: &Arc<Views>,
    collection: &Arc<Collection>,
    design: &Design,
    query: &ViewQuery,
) -> Result<ViewAnswer> {
    loop {
        let queried = views.query(collection, design, "v", query, &mut || Arc::new(collection.view()))?;
        if let Queried::Answer(answer) = queried {
            return Ok(*answer);
        }
    }
}

fn read(collection: &Arc<Collection>, mut answer: ViewAnswer, rows: &mut Rows) -> Result<()> {
    let view = collection.view();
    while answer.go_on(&view, &NoDocuments, rows)? {}
    Ok(())
}

fn change(collection: &Collection, changed: i32, count: i32) {
    for _ in 0..changed {
        let number = fastrand::i32(0..count);
        let key = id_key(Value::Int32(number)).expect("a key");
        collection
            .edit(&[key], WriteOptions::default(), |_, _| Ok(Edit::Put(person(number))))
            .expect("edited");
    }
}

fn measure(name: &str, count: i32, work: impl FnOnce(&mut Rows) -> Result<()>) {
    let (begun, used) = (Instant::now(), processor_seconds());
    let mut rows = Rows::default();
    if let Err(error) = work(&mut rows) {
        println!("{name}: {error}");
        return;
    }
    let (wall, used) = (begun.elapsed().as_secs_f64(), processor_seconds() - used);
    let each = used * 1e6 / f64::from(count);
    println!(
        "{name:40} {:8} rows {wall:6.2} s {each:6.2} us of CPU each, {:8.0}/s",
        rows.0,
        f64::from(count) / wall
    );
}

/// The CPU time of the process on all processors, in seconds, as reported by Linux.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// A source of documents that no query here uses.
struct NoDocuments;

impl Documents for NoDocuments {
    fn write(&self, _: &ReadView, _: &str, _: Option<&str>, _: &ViewQuery, _: &mut Vec<u8>) -> Result<bool> {
        Ok(false)
    }
}

#[derive(Default)]
struct Rows(u64);

impl ViewSink for Rows {
    fn head(&mut self, _: &ViewHead) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, _: &Row<'_>) -> Result<bool> {
        self.0 += 1;
        Ok(true)
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\\\""))
}

/// A document like those of the benchmark suite.
fn person(number: i32) -> DocBuf {
    let mut random = fastrand::Rng::with_seed(1337 + number as u64);
    let mut person = DocBuilder::new();
    let letters: String = (0..random.usize(5..16)).map(|_| random.lowercase()).collect();
    person.append("_id", number);
    person.append("name", letters.as_str());
    person.append("salary", random.i32(9000..40000));
    person.append("age", random.i32(18..70));
    if random.bool() {
        person.append("fax", random.i32(1_000_000..9_999_999));
    }
    if random.u8(0..3) == 0 {
        person.append("pet", ["Dog", "Cat", "Penguin", "Parrot"][random.usize(0..4)]);
    }
    if random.u8(0..3) == 0 {
        let powers = ["Force Choke", "Force Insanity", "Force Push", "Mind Trick", "Telekinesis"];
        person.append("jedi power", powers[random.usize(0..5)]);
    }
    person.append("address", doc! { "city": "city" });
    person.finish()
}

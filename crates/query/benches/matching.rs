//! Measures the cost of matching per document: the filters of the benchmark suite over documents that lie consecutively
//! in memory, as a scan reads them.
//!
//! `cargo bench -p diwan-query --bench matching [-- NUMBER_OF_DOCUMENTS]`

use diwan_query::filter::{Filter, FilterEnv};
use diwan_value::{Doc, DocBuf, DocBuilder, ObjectId, Value, array, doc};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 5;

fn main() {
    let count = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(500_000);
    let persons = Documents::of((0..count).map(person));
    println!("{count} persons, {} bytes each", persons.bytes.len() / persons.ends.len().max(1));
    let salary = || doc! { "$gt": 18500, "$lt": 35000 };
    let filters = [
        ("nothing asked", doc! {}),
        ("Q1: salary", doc! { "salary": salary() }),
        ("Q2: salary, age", doc! { "salary": salary(), "age": { "$gt": 25 } }),
        ("Q3: a fax too", doc! { "salary": salary(), "age": { "$gt": 25 }, "fax": { "$exists": true } }),
        ("Q4: a certain pet", doc! { "salary": salary(), "age": { "$gt": 25 }, "pet": "Penguin" }),
        (
            "Q5: one of two powers",
            doc! { "salary": salary(), "age": { "$gt": 25 }, "jedi power": { "$in": ["Force Choke", "Force Insanity"] } },
        ),
        ("bounds as doubles", doc! { "salary": { "$gt": 18500.5, "$lt": 35000.0 } }),
        ("name by expression", doc! { "name": { "$regex": "^name 12" } }),
        ("one of two", doc! { "$or": [{ "age": 30 }, { "salary": { "$lt": 10000 } }] }),
        ("a nested field", doc! { "address.zip": { "$gte": 500 }, "address.city": "B" }),
        ("an array's element", doc! { "tags": "t3" }),
        (
            "an aggregation expression",
            doc! { "$expr": { "$gt": ["$salary", { "$multiply": ["$age", 500] }] } },
        ),
    ];
    for (name, filter) in filters {
        report(name, &filter, &persons);
    }
}

/// Documents in one block of memory.
struct Documents {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Documents {
    fn of(documents: impl Iterator<Item = DocBuf>) -> Documents {
        let mut all = Documents { bytes: Vec::new(), ends: Vec::new() };
        for document in documents {
            all.bytes.extend_from_slice(document.as_doc().as_bytes());
            all.ends.push(all.bytes.len());
        }
        all
    }

    fn iter(&self) -> impl Iterator<Item = Doc<'_>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| Doc::trusted(&self.bytes[start..*end]))
    }
}

/// A document like those of the benchmark suite, in one of four shapes; one in eight has additional fields.
fn person(n: u32) -> DocBuf {
    let scrambled = n.wrapping_mul(2_654_435_761);
    let mut id = [7; 12];
    id[..4].copy_from_slice(&n.to_be_bytes());
    let mut builder = DocBuilder::new();
    builder
        .append("_id", ObjectId(id))
        .append("name", format!("name {scrambled}").as_str())
        .append("salary", (9000 + scrambled % 31_001) as i32)
        .append("age", (18 + (scrambled >> 8) % 73) as i32)
        .append("telephone", format!("{scrambled:010}").as_str());
    match (scrambled >> 20) % 8 {
        0 | 1 => builder.append("pet", if n.is_multiple_of(7) { "Penguin" } else { "Cat" }),
        2 | 3 => builder.append("fax", "0123456789"),
        4 | 5 => builder.append("jedi power", if n.is_multiple_of(3) { "Force Choke" } else { "Force Push" }),
        6 => builder.append("address", doc! { "zip": ((n % 1000) as i32), "city": "B" }),
        _ => builder.append("tags", array!["t1", "t2", "t3", Value::Null]),
    };
    builder.finish()
}

fn report(name: &str, filter: &DocBuf, persons: &Documents) {
    let filter = Filter::parse(filter.as_doc(), &FilterEnv::default()).expect("a valid filter");
    let mut best = (f64::MAX, f64::MAX);
    let mut found = 0;
    for _ in 0..ROUNDS {
        let (started, cpu) = (Instant::now(), thread_cpu_nanos());
        found = persons
            .iter()
            .filter(|person| filter.matches(black_box(*person)).expect("matching succeeds"))
            .count();
        let documents = persons.ends.len().max(1) as f64;
        let wall = started.elapsed().as_nanos() as f64 / documents;
        best = (best.0.min(wall), best.1.min((thread_cpu_nanos() - cpu) / documents));
    }
    println!("{name:28} {:7.1} ns/doc wall {:7.1} ns/doc CPU   {found} found", best.0, best.1);
}

/// The CPU time of this thread so far; zero if the system does not report it.
fn thread_cpu_nanos() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0.0)
}

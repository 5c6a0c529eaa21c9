//! Slow operations of both faces, grouped by the shape of the query.

use crate::namespace::Namespace;
use diwan_query::Examined;
use diwan_value::{Array, ArrayBuilder, Doc, DocBuf, DocBuilder, Value};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

/// How many shapes are kept.
const SHAPES: usize = 200;
/// The longest query that is kept as an example.
const EXAMPLE_BYTES: usize = 4096;
/// How many stages or conditions of a list a shape shows.
const LISTED: usize = 20;

/// A slow operation that has ended.
pub struct SlowOperation<'a> {
    /// The collection.
    pub namespace: &'a Namespace,
    /// The command's or the request's name.
    pub operation: &'a str,
    /// The query: the command without what names its collection and session.
    pub query: Doc<'a>,
    /// How long it took.
    pub took: Duration,
    /// What it read.
    pub read: Examined,
    /// How many documents it returned.
    pub returned: u64,
    /// The plan in short.
    pub plan: Option<String>,
}

/// The operations of one shape. Sums are over all of them.
#[derive(Clone, Debug)]
pub struct SlowShape {
    /// The collection.
    pub namespace: Namespace,
    /// The command's or the request's name.
    pub operation: String,
    /// The query with `?` for each value.
    pub shape: DocBuf,
    /// How many operations there were.
    pub count: u64,
    /// How long they took.
    pub total: Duration,
    /// How long the longest took.
    pub max: Duration,
    /// What they read.
    pub read: Examined,
    /// How many documents they returned.
    pub returned: u64,
    /// The plan of the last one.
    pub plan: Option<String>,
    /// When the last one ended.
    pub last: SystemTime,
    /// The query of the last one.
    pub example: DocBuf,
}

/// What one shape is known by: the collection, the command and the query without its values.
type ShapeKey = (Namespace, String, Vec<u8>);

/// The slow operations since the start.
pub struct SlowOperations {
    threshold_millis: AtomicI64,
    shapes: Mutex<HashMap<ShapeKey, SlowShape>>,
}

impl Default for SlowOperations {
    fn default() -> SlowOperations {
        SlowOperations { threshold_millis: AtomicI64::new(100), shapes: Mutex::default() }
    }
}

impl SlowOperations {
    /// The time in milliseconds from which on an operation is slow.
    pub fn threshold_millis(&self) -> i64 {
        self.threshold_millis.load(Ordering::Relaxed)
    }

    /// Sets the threshold.
    pub fn set_threshold_millis(&self, millis: i64) {
        self.threshold_millis.store(millis, Ordering::Relaxed);
    }

    /// Whether an operation that took so long is slow.
    pub fn includes(&self, took: Duration) -> bool {
        i64::try_from(took.as_millis()).unwrap_or(i64::MAX) >= self.threshold_millis()
    }

    /// Adds an operation. If there are too many shapes, the one that was seen longest ago is forgotten.
    pub fn record(&self, slow: &SlowOperation<'_>) {
        let shape = shape_of(slow.query);
        let key = (slow.namespace.clone(), slow.operation.to_owned(), shape.as_doc().as_bytes().to_vec());
        let mut shapes = self.shapes.lock();
        if shapes.len() >= SHAPES && !shapes.contains_key(&key) {
            let oldest = shapes.iter().min_by_key(|(_, kept)| kept.last).map(|(key, _)| key.clone());
            oldest.map(|oldest| shapes.remove(&oldest));
        }
        let kept = shapes.entry(key).or_insert_with(|| SlowShape {
            namespace: slow.namespace.clone(),
            operation: slow.operation.to_owned(),
            shape,
            count: 0,
            total: Duration::ZERO,
            max: Duration::ZERO,
            read: Examined::default(),
            returned: 0,
            plan: None,
            last: SystemTime::UNIX_EPOCH,
            example: DocBuf::new(),
        });
        kept.count += 1;
        kept.total += slow.took;
        kept.max = kept.max.max(slow.took);
        kept.read.keys += slow.read.keys;
        kept.read.documents += slow.read.documents;
        kept.returned += slow.returned;
        kept.plan.clone_from(&slow.plan);
        kept.last = SystemTime::now();
        kept.example = match slow.query.as_bytes().len() <= EXAMPLE_BYTES {
            true => slow.query.to_owned(),
            false => diwan_value::doc! { "$truncated": true },
        };
    }

    /// All shapes, the most expensive first.
    pub fn list(&self) -> Vec<SlowShape> {
        let mut found: Vec<SlowShape> = self.shapes.lock().values().cloned().collect();
        found.sort_by_key(|shape| std::cmp::Reverse(shape.total));
        found
    }

    /// Forgets all shapes.
    pub fn clear(&self) {
        self.shapes.lock().clear();
    }
}

/// Members whose numbers are directions or choices, and so part of the shape.
const SIGNS: [&str; 8] = ["$project", "$sort", "fields", "hint", "key", "keyPattern", "projection", "sort"];

/// The query with `?` for each value. A list of values becomes one `?`, since its length says little.
fn shape_of(query: Doc<'_>) -> DocBuf {
    shape(query, false)
}

fn shape(query: Doc<'_>, keeps_signs: bool) -> DocBuf {
    let mut out = DocBuilder::new();
    for element in query.iter() {
        let keeps_signs = keeps_signs || SIGNS.contains(&element.key_str());
        match element.value() {
            Value::Document(inner) => out.append(element.key_str(), shape(inner, keeps_signs)),
            Value::Array(list) => out.append(element.key_str(), shape_of_list(list, keeps_signs)),
            value @ (Value::Int32(-1..=1) | Value::Boolean(_)) if keeps_signs => {
                out.append(element.key_str(), value)
            }
            _ => out.append(element.key_str(), "?"),
        };
    }
    out.finish()
}

fn shape_of_list(list: Array<'_>, keeps_signs: bool) -> ArrayBuilder {
    let mut out = ArrayBuilder::new();
    let mut has_value = false;
    for item in list.iter().take(LISTED) {
        match item {
            Value::Document(inner) => {
                out.push(shape(inner, keeps_signs));
            }
            _ if has_value => {}
            _ => {
                has_value = true;
                out.push("?");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_value::doc;

    fn slow(operations: &SlowOperations, collection: &str, query: &DocBuf, millis: u64) {
        let namespace = Namespace { database: "test".to_owned(), collection: collection.to_owned() };
        operations.record(&SlowOperation {
            namespace: &namespace,
            operation: "find",
            query: query.as_doc(),
            took: Duration::from_millis(millis),
            read: Examined { keys: 0, documents: 10 },
            returned: 1,
            plan: None,
        });
    }

    #[test]
    fn queries_that_differ_in_values_have_one_shape() {
        let operations = SlowOperations::default();
        for (name, list) in [("ada", vec![1, 2]), ("bob", vec![7, 8, 9])] {
            let filter = doc! { "name": name, "age": { "$in": list } };
            slow(&operations, "people", &doc! { "filter": filter, "sort": { "age": -1 } }, 200);
        }
        slow(&operations, "people", &doc! { "filter": { "name": "ada" } }, 900);
        let listed = operations.list();
        assert_eq!(listed.len(), 2);
        assert_eq!((listed[0].count, listed[1].count), (1, 2));
        let expected = doc! { "filter": { "name": "?", "age": { "$in": ["?"] } }, "sort": { "age": -1 } };
        assert_eq!(listed[1].shape, expected);
        assert_eq!(listed[1].read.documents, 20);
    }

    #[test]
    fn the_oldest_shape_is_forgotten_when_there_are_too_many() {
        let operations = SlowOperations::default();
        for number in 0..=SHAPES {
            slow(&operations, &format!("c{number}"), &doc! { "filter": {} }, 100);
        }
        let listed = operations.list();
        assert_eq!(listed.len(), SHAPES);
        assert!(listed.iter().all(|shape| shape.namespace.collection != "c0"));
    }
}

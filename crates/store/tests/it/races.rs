//! Readers beside those who build and drop indexes.

use crate::setup::{collection, find_ids, index, insert, store};
use diwan_value::{DocBuf, doc};
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn an_index_that_comes_and_goes_hides_no_document() {
    let store = store();
    let things = collection(&store);
    insert(
        &things,
        &(0..400).map(|id| doc! { "_id": id, "a": id % 4, "b": [id, 1] }).collect::<Vec<DocBuf>>(),
    );
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for value in 0..3 {
            let (store, done) = (&store, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(find_ids(store, &doc! { "a": value }).len(), 100);
                }
            });
        }
        for _ in 0..150 {
            index(&things, doc! { "key": { "a": 1, "b": 1 }, "name": "i" });
            things.remove_indexes(|index| index.spec.name == "i").unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
}

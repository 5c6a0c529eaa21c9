//! Readers beside those who build and drop indexes.

use crate::setup::{collection, index, insert, store};
use diwan_query::Interrupt;
use diwan_query::filter::{Filter, FilterEnv};
use diwan_query::pipeline::DocSource;
use diwan_store::exec::Scan;
use diwan_store::plan::{Hint, Planner};
use diwan_value::{DocBuf, doc};
use std::sync::Arc;

#[test]
fn an_index_that_was_incomplete_in_a_view_hides_no_document_from_it() {
    let store = store();
    let things = collection(&store);
    insert(&things, &(0..20_000).map(|id| doc! { "_id": id, "a": id % 4 }).collect::<Vec<DocBuf>>());
    // A view in the middle of the build, planned when the index is ready.
    let view = std::thread::scope(|scope| {
        let build = scope.spawn(|| index(&things, doc! { "key": { "a": 1 }, "name": "i" }));
        let view = loop {
            let view = things.view();
            if view.schema.indexes.len() == 2 || build.is_finished() {
                break view;
            }
        };
        build.join().unwrap();
        view
    });
    let filter = Arc::new(Filter::parse(doc! { "a": 1 }.as_doc(), &FilterEnv::default()).unwrap());
    let plan = Planner {
        view: &view,
        filter,
        sort: None,
        collator: None,
        hint: Hint::None,
        tailable: false,
        needed: None,
    }
    .plan()
    .unwrap();
    let mut scan = Scan::new(view, &plan);
    let mut found = 0;
    while scan.advance(&Interrupt::new()).unwrap() {
        found += 1;
    }
    assert_eq!(found, 5000);
}

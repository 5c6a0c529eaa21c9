//! Readers beside index builds.

use crate::setup::{collection, index, insert, store};
use diwan_query::Interrupt;
use diwan_query::filter::{Filter, FilterEnv};
use diwan_query::pipeline::DocSource;
use diwan_store::exec::Scan;
use diwan_store::plan::{Hint, Planner};
use diwan_value::{DocBuf, doc};
use std::sync::Arc;

#[test]
fn a_view_from_before_the_end_of_a_build_does_not_use_the_index() {
    let store = store();
    let things = collection(&store);
    insert(&things, &(0..20_000).map(|id| doc! { "_id": id, "a": id % 4 }).collect::<Vec<DocBuf>>());
    // The view is taken during the build. The query is planned after the index is ready.
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

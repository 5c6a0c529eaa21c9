//! Full scans that read ahead of their matches.

use crate::setup::{collection, delete, insert, store};
use diwan_query::Interrupt;
use diwan_query::filter::{Filter, FilterEnv};
use diwan_query::pipeline::DocSource;
use diwan_store::Collection;
use diwan_store::exec::Scan;
use diwan_store::ops::{Position, Query};
use diwan_store::plan::{Hint, Planner};
use diwan_value::{Doc, DocBuf, doc};
use std::sync::Arc;

/// Enough documents for a parallel scan.
const MANY: i32 = 60_000;

/// Ids with gaps, so that the parts of the key range differ in size.
fn id(number: i32) -> i32 {
    number + number / 1000 * 7919
}

fn things(more: impl Fn(i32) -> i32) -> Arc<Collection> {
    let things = collection(&store());
    // Some documents are so large that a part of the key range holds more matches than a scan buffers.
    let large = "x".repeat(2000);
    let pad = |number| if (40_000..41_000).contains(&number) { large.as_str() } else { "" };
    let docs = (0..MANY)
        .map(|number| doc! { "_id": id(number), "n": number, "m": more(number), "pad": pad(number) });
    insert(&things, &docs.collect::<Vec<DocBuf>>());
    things
}

fn scan(things: &Arc<Collection>, filter: &DocBuf) -> Scan {
    let view = things.view();
    let filter = Arc::new(Filter::parse(filter.as_doc(), &FilterEnv::default()).unwrap());
    let planner = Planner {
        view: &view,
        filter,
        sort: None,
        collator: None,
        hint: Hint::None,
        tailable: false,
        needed: None,
    };
    let plan = planner.plan().unwrap();
    Scan::new(view, &plan)
}

fn number(doc: Doc<'_>) -> i32 {
    doc.get("n").unwrap().as_i64_exact().unwrap() as i32
}

type Matches = fn(i32) -> bool;

/// Filters whose matches are spread, adjacent, at either end, everywhere or nowhere, each with the numbers that match.
fn filters() -> Vec<(DocBuf, Matches)> {
    vec![
        (doc! { "m": 3 }, |n| n % 1000 == 3),
        (doc! { "m": { "$lt": 100 } }, |n| n % 1000 < 100),
        (doc! { "n": { "$gte": 40_000, "$lt": 40_900 } }, |n| (40_000..40_900).contains(&n)),
        (doc! { "n": { "$gte": 59_999 } }, |n| n == 59_999),
        (doc! { "n": { "$in": [0, 59_998] } }, |n| [0, 59_998].contains(&n)),
        (doc! { "n": { "$lt": 2000 } }, |n| n < 2000),
        (doc! { "n": { "$gte": 58_000 } }, |n| n >= 58_000),
        (doc! { "x": 1 }, |_| false),
    ]
}

#[test]
fn a_scan_finds_every_match_once_in_order_and_examines_every_document_once() {
    let things = things(|number| number % 1000);
    for (filter, matches) in filters() {
        let mut scan = scan(&things, &filter);
        for expected in (0..MANY).filter(|n| matches(*n)) {
            assert!(scan.step(&Interrupt::new()).unwrap());
            assert_eq!(number(scan.current()), expected);
            assert_eq!(scan.stats().docs_examined, expected as u64 + 1, "{filter:?}");
        }
        assert!(!scan.step(&Interrupt::new()).unwrap());
        assert!(!scan.step(&Interrupt::new()).unwrap());
        assert_eq!(scan.stats().docs_examined, MANY as u64);
        assert_eq!(scan.stats().returned, (0..MANY).filter(|n| matches(*n)).count() as u64);
    }
}

#[test]
fn a_suspended_scan_resumes_after_its_last_match() {
    for stride in [1, 7, 150] {
        let things = things(|number| number % 1000);
        for (filter, matches) in filters() {
            let mut scan = scan(&things, &filter);
            let mut found = Vec::new();
            while scan.step(&Interrupt::new()).unwrap() {
                found.push(number(scan.current()));
                if found.len() % stride == 0 {
                    scan.suspend();
                }
            }
            let expected: Vec<i32> = (0..MANY).filter(|n| matches(*n)).collect();
            assert!(found == expected, "{filter:?} by {stride}: {} of {}", found.len(), expected.len());
        }
    }
}

#[test]
fn a_suspended_scan_does_not_find_a_document_deleted_meanwhile() {
    let things = things(|number| number % 100);
    let mut scan = scan(&things, &doc! { "m": 3 });
    for _ in 0..50 {
        assert!(scan.step(&Interrupt::new()).unwrap());
    }
    assert_eq!(number(scan.current()), 4903);
    scan.suspend();
    delete(&things, &doc! { "n": 5003 }, false);
    assert!(scan.step(&Interrupt::new()).unwrap());
    assert_eq!(number(scan.current()), 5103);
}

#[test]
fn a_query_resumes_after_a_match() {
    let things = things(|number| number % 1000);
    let mut after: Option<Position> = None;
    let mut found = Vec::new();
    loop {
        let query = Query {
            filter: Arc::new(Filter::parse(doc! { "m": 3 }.as_doc(), &FilterEnv::default()).unwrap()),
            sort: None,
            hint: Hint::None,
            after: after.take(),
            most: None,
            interrupt: Interrupt::new(),
            temporary: None,
        };
        let mut running = things.query(&query).unwrap();
        for _ in 0..7 {
            if running.advance().unwrap() {
                found.push(number(running.current().unwrap().doc()));
                after = Some(running.position());
            }
        }
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found, (0..MANY).filter(|n| n % 1000 == 3).collect::<Vec<i32>>());
}

#[test]
fn a_scan_returns_the_matches_before_a_failure_first() {
    // 45,500 is the only number whose `m` is zero.
    let things = things(|number| if number == 45_500 { 0 } else { number % 1000 + 1 });
    let filter = doc! { "m": { "$in": [0, 4] }, "$expr": { "$gte": [{ "$divide": ["$n", "$m"] }, 0] } };
    let mut scan = scan(&things, &filter);
    let mut found = 0;
    let failure = loop {
        match scan.step(&Interrupt::new()) {
            Ok(true) => found += 1,
            Ok(false) => panic!("no failure after {found}"),
            Err(failure) => break failure,
        }
    };
    assert!(failure.to_string().contains("can't $divide by zero"), "{failure}");
    assert_eq!(found, 46);
}

#[test]
fn a_killed_scan_ends_while_it_reads_ahead() {
    let things = things(|number| number % 1000);
    let mut scan = scan(&things, &doc! { "m": 3 });
    let interrupt = Interrupt::new();
    assert!(scan.step(&interrupt).unwrap());
    interrupt.kill();
    let failure = (0..MANY).find_map(|_| scan.step(&interrupt).err());
    assert!(failure.is_some_and(|failure| failure.to_string().contains("interrupted")));
}

//! Suspending a pipeline releases the resources of every input.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// A source that holds a resource from the start and after each step, until it is suspended or dropped.
struct Holding {
    docs: DocList,
    holds: Arc<AtomicBool>,
}

impl DocSource for Holding {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        self.holds.store(true, Ordering::Relaxed);
        self.docs.advance(interrupt)
    }

    fn current(&self) -> Doc<'_> {
        self.docs.current()
    }

    fn suspend(&mut self) {
        self.holds.store(false, Ordering::Relaxed);
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.holds.store(false, Ordering::Relaxed);
    }
}

#[test]
fn suspend_is_passed_on_by_every_stage() {
    let stages = [
        doc! { "$match": { "n": { "$gte": 0 } } },
        doc! { "$addFields": { "m": 1 } },
        doc! { "$project": { "n": 1 } },
        doc! { "$replaceRoot": { "newRoot": { "n": "$n" } } },
        doc! { "$unset": "m" },
        doc! { "$skip": 1 },
        doc! { "$limit": 2 },
        doc! { "$count": "n" },
        doc! { "$sort": { "n": -1 } },
        doc! { "$sortByCount": "$n" },
        doc! { "$group": { "_id": "$n" } },
        doc! { "$bucket": { "groupBy": "$n", "boundaries": [0, 10] } },
        doc! { "$bucketAuto": { "groupBy": "$n", "buckets": 2 } },
        doc! { "$facet": { "a": [{ "$count": "n" }] } },
        doc! { "$sample": { "size": 2 } },
        doc! { "$unwind": "$list" },
        doc! { "$lookup": { "from": "other", "localField": "n", "foreignField": "n", "as": "found" } },
        doc! { "$unionWith": "other" },
        doc! { "$out": "target" },
        doc! { "$merge": "target" },
    ];
    let memory = Memory::with(&[("other", &[doc! { "n": 1 }][..])]);
    let docs: Vec<DocBuf> = (0..5).map(|n: i32| doc! { "_id": n, "n": n, "list": [1, 2] }).collect();
    for stage in stages {
        let mut list = ArrayBuilder::new();
        list.push(stage.clone());
        let holds = Arc::new(AtomicBool::new(true));
        let input = Holding { docs: DocList::new(docs.clone()), holds: holds.clone() };
        let pipeline = parse(&list).unwrap();
        let mut source =
            pipeline.open(Box::new(input), &execution(&memory, MemoryBudget::default())).unwrap();
        let interrupt = Interrupt::new();
        // An empty first batch, then batches of one document.
        loop {
            source.suspend();
            assert!(!holds.load(Ordering::Relaxed), "{:?}", stage.as_doc());
            if !source.advance(&interrupt).unwrap() {
                break;
            }
        }
    }
}

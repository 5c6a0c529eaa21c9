//! What an operation has read so far, and by which plans: for the profiler, the log and `currentOp`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An operation may look things up once for each document of another scan: so many different plans are told.
const MOST_PLANS: usize = 8;

/// The tally of one operation. It counts for show: where several threads read at once, a count may get lost.
#[derive(Debug, Default)]
pub struct Tally {
    keys: AtomicU64,
    documents: AtomicU64,
    plans: Mutex<Plans>,
}

/// Mostly there is one plan, and noting it takes no memory.
#[derive(Debug, Default)]
struct Plans {
    first: Option<Arc<str>>,
    more: Vec<Arc<str>>,
}

impl Plans {
    fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.first.iter().chain(&self.more)
    }
}

/// How much was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Examined {
    /// Entries of indexes.
    pub keys: u64,
    /// Documents.
    pub documents: u64,
}

impl Examined {
    /// What was read since `before`.
    pub fn since(self, before: Examined) -> Examined {
        Examined {
            keys: self.keys.saturating_sub(before.keys),
            documents: self.documents.saturating_sub(before.documents),
        }
    }
}

impl Tally {
    /// Notes that so much was read.
    pub fn add(&self, read: Examined) {
        // An atomic addition would cost each document of a scan more than all else here.
        let add = |to: &AtomicU64, count: u64| {
            if count > 0 {
                to.store(to.load(Ordering::Relaxed) + count, Ordering::Relaxed);
            }
        };
        add(&self.keys, read.keys);
        add(&self.documents, read.documents);
    }

    /// Notes by which plan documents are found: as MongoDB's `planSummary` says it.
    pub fn note_plan(&self, plan: &Arc<str>) {
        let mut plans = self.plans();
        if plans.first.is_none() {
            plans.first = Some(plan.clone());
        } else if plans.more.len() + 1 < MOST_PLANS && !plans.iter().any(|known| known == plan) {
            plans.more.push(plan.clone());
        }
    }

    /// Forgets the plans so far: another statement of the command begins.
    pub fn forget_plans(&self) {
        *self.plans() = Plans::default();
    }

    /// What was read so far.
    pub fn examined(&self) -> Examined {
        Examined {
            keys: self.keys.load(Ordering::Relaxed),
            documents: self.documents.load(Ordering::Relaxed),
        }
    }

    /// The plans so far, `None` if documents were looked for by none.
    pub fn plan_summary(&self) -> Option<String> {
        let plans = self.plans();
        let all: Vec<&str> = plans.iter().map(|plan| &**plan).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    fn plans(&self) -> MutexGuard<'_, Plans> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_adds_up_and_plans_are_told_once() {
        let tally = Tally::default();
        assert_eq!(tally.plan_summary(), None);
        tally.add(Examined { keys: 2, documents: 1 });
        let before = tally.examined();
        tally.add(Examined { keys: 0, documents: 5 });
        assert_eq!(tally.examined(), Examined { keys: 2, documents: 6 });
        assert_eq!(tally.examined().since(before), Examined { keys: 0, documents: 5 });
        for plan in ["COLLSCAN", "IXSCAN { a: 1 }", "COLLSCAN"] {
            tally.note_plan(&plan.into());
        }
        assert_eq!(tally.plan_summary().unwrap(), "COLLSCAN, IXSCAN { a: 1 }");
        tally.forget_plans();
        assert_eq!(tally.plan_summary(), None);
        (0..20).for_each(|number| tally.note_plan(&number.to_string().into()));
        assert_eq!(tally.plan_summary().unwrap().split(", ").count(), MOST_PLANS);
    }
}

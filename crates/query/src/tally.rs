//! Counts what an operation has read, and records its plans, for the profiler, the log and `currentOp`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The maximum number of distinct plans to report. An operation may run one lookup for each document of a scan.
const MOST_PLANS: usize = 8;

/// The tally of one operation. The counts are informational: when several threads read at once, an increment may be
/// lost.
#[derive(Debug, Default)]
pub struct Tally {
    keys: AtomicU64,
    documents: AtomicU64,
    plans: Mutex<Plans>,
}

/// Usually there is one plan; recording it needs no allocation.
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

/// How many keys and documents were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Examined {
    /// Index entries.
    pub keys: u64,
    /// Documents.
    pub documents: u64,
}

impl Examined {
    /// The difference to `before`.
    pub fn since(self, before: Examined) -> Examined {
        Examined {
            keys: self.keys.saturating_sub(before.keys),
            documents: self.documents.saturating_sub(before.documents),
        }
    }
}

impl Tally {
    /// Adds to the counts.
    pub fn add(&self, read: Examined) {
        // An atomic addition would cost each document of a scan more than the rest of this function.
        let add = |to: &AtomicU64, count: u64| {
            if count > 0 {
                to.store(to.load(Ordering::Relaxed) + count, Ordering::Relaxed);
            }
        };
        add(&self.keys, read.keys);
        add(&self.documents, read.documents);
    }

    /// Records the plan that found documents, in the form of MongoDB's `planSummary`.
    pub fn note_plan(&self, plan: &Arc<str>) {
        let mut plans = self.plans();
        if plans.first.is_none() {
            plans.first = Some(plan.clone());
        } else if plans.more.len() + 1 < MOST_PLANS && !plans.iter().any(|known| known == plan) {
            plans.more.push(plan.clone());
        }
    }

    /// Removes the recorded plans, because the next statement of the command begins.
    pub fn forget_plans(&self) {
        *self.plans() = Plans::default();
    }

    /// The counts so far.
    pub fn examined(&self) -> Examined {
        Examined {
            keys: self.keys.load(Ordering::Relaxed),
            documents: self.documents.load(Ordering::Relaxed),
        }
    }

    /// The plans so far; `None` if no plan was recorded.
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
    fn tally_sums_reads_and_lists_each_plan_once() {
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

//! Builds and updates in progress, for `_active_tasks`.

use super::Task;
use diwan_store::{BuildProgress, Namespace};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

/// The progress of one task.
pub struct Progress {
    namespace: Namespace,
    design: String,
    /// How many documents or changes have been read.
    pub work: BuildProgress,
    /// How many documents or changes there are.
    pub total: AtomicU64,
    started: u64,
    /// The last reported progress and its time.
    seen: Mutex<(u64, u64)>,
}

/// All tasks in progress.
#[derive(Default)]
pub struct Tasks {
    running: Mutex<Vec<Weak<Progress>>>,
}

impl Tasks {
    /// Starts a task, which lasts until the result is dropped.
    pub fn begin(&self, namespace: Namespace, design: &str, done: u64, total: u64) -> Arc<Progress> {
        let started = now();
        let progress = Arc::new(Progress {
            namespace,
            design: design.to_owned(),
            work: BuildProgress { done: AtomicU64::new(done) },
            total: AtomicU64::new(total),
            started,
            seen: Mutex::new((done, started)),
        });
        let mut running = self.running.lock();
        running.retain(|task| task.strong_count() > 0);
        running.push(Arc::downgrade(&progress));
        progress
    }

    /// The tasks in progress.
    pub fn list(&self) -> Vec<Task> {
        self.running.lock().iter().filter_map(Weak::upgrade).map(|progress| progress.task()).collect()
    }
}

impl Progress {
    fn task(&self) -> Task {
        let done = self.work.done.load(Ordering::Relaxed);
        let mut seen = self.seen.lock();
        if seen.0 != done {
            *seen = (done, now());
        }
        Task {
            namespace: self.namespace.clone(),
            design_document: self.design.clone(),
            changes_done: done,
            total_changes: self.total.load(Ordering::Relaxed).max(done),
            started_on: self.started,
            updated_on: seen.1,
        }
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_contains_tasks_until_they_are_dropped() {
        let tasks = Tasks::default();
        let namespace = Namespace::new("test", "db").unwrap();
        let one = tasks.begin(namespace.clone(), "_design/a", 0, 200);
        let other = tasks.begin(namespace, "_design/b", 0, 10);
        one.work.done.store(50, Ordering::Relaxed);
        let listed = tasks.list();
        let told: Vec<_> =
            listed.iter().map(|task| (task.design_document.as_str(), task.progress())).collect();
        assert_eq!(told, [("_design/a", 25), ("_design/b", 0)]);
        drop(one);
        assert_eq!(tasks.list().len(), 1);
        drop(other);
        assert!(tasks.list().is_empty());
    }
}

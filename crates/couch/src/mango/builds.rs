//! The indexes that are being built for design documents, for `_active_tasks`.

use diwan_script::Task;
use diwan_store::{BuildProgress, Collection, Namespace};
use parking_lot::Mutex;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

/// All builds under way.
#[derive(Default)]
pub struct Builds {
    running: Mutex<Vec<Weak<Build>>>,
}

/// A build, under way as long as somebody holds it.
pub struct Build {
    namespace: Namespace,
    design_document: String,
    documents: u64,
    started_on: u64,
    /// How far it has come.
    pub progress: BuildProgress,
}

impl Builds {
    /// Notes a build of an index of a collection.
    pub fn begin(&self, collection: &Collection, design_document: &str) -> Arc<Build> {
        self.note(collection.namespace(), design_document, collection.count())
    }

    fn note(&self, namespace: Namespace, design_document: &str, documents: u64) -> Arc<Build> {
        let build = Arc::new(Build {
            namespace,
            design_document: design_document.to_owned(),
            documents,
            started_on: now(),
            progress: BuildProgress::default(),
        });
        let mut running = self.running.lock();
        running.retain(|build| build.strong_count() > 0);
        running.push(Arc::downgrade(&build));
        build
    }

    /// What is under way.
    pub fn tasks(&self) -> Vec<Task> {
        self.running.lock().iter().filter_map(Weak::upgrade).map(|build| build.task()).collect()
    }
}

impl Build {
    fn task(&self) -> Task {
        let changes_done = self.progress.done.load(Ordering::Relaxed);
        Task {
            namespace: self.namespace.clone(),
            design_document: self.design_document.clone(),
            changes_done,
            total_changes: self.documents.max(changes_done),
            started_on: self.started_on,
            updated_on: now(),
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
    fn builds_are_told_while_they_last() {
        let builds = Builds::default();
        let namespace = Namespace::new("test", "db").unwrap();
        let one = builds.note(namespace.clone(), "_design/a", 200);
        let other = builds.note(namespace, "_design/b", 10);
        one.progress.done.store(50, Ordering::Relaxed);
        let tasks = builds.tasks();
        let told: Vec<_> =
            tasks.iter().map(|task| (task.design_document.as_str(), task.progress())).collect();
        assert_eq!(told, [("_design/a", 25), ("_design/b", 0)]);
        drop(one);
        assert_eq!(builds.tasks().len(), 1);
        drop(other);
        assert!(builds.tasks().is_empty());
    }
}

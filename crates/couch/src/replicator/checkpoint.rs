//! Checkpoints: a local document with the same history of sessions in the source and in the target.
//!
//! The next run starts after the newest session that both documents contain. If one document was lost or restored
//! from a backup, the run starts earlier, never later.

use super::failure::Failure;
use super::progress::{Counts, Progress};
use super::protocol::{Database, LocalWrite, text_of};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use serde_json::{Map, Value, json};

/// How many sessions are kept.
const SESSIONS: usize = 50;
/// The version of CouchDB's algorithm for replication ids.
const ID_VERSION: u64 = 4;

/// The checkpoint documents of one replication.
pub(super) struct Checkpoints {
    id: String,
    enabled: bool,
    by_ids: bool,
    session: String,
    started: String,
    /// The sequence where this session began.
    pub(crate) start: Value,
    committed: Value,
    history: Vec<Value>,
    /// The revisions of the source's and the target's document.
    revs: [Option<String>; 2],
    instances: [Option<Value>; 2],
    /// The content of the source's document.
    latest: Map<String, Value>,
}

/// The names of the databases in messages.
const ENDS: [&str; 2] = ["source", "target"];

impl Checkpoints {
    /// Reads both documents and determines where to start.
    pub(super) fn load(
        ends: [&Database; 2],
        id: &str,
        session: String,
        enabled: bool,
        by_ids: bool,
    ) -> Result<Checkpoints, Failure> {
        let mut notes = [Map::new(), Map::new()];
        let mut revs = [None, None];
        for (end, database) in ends.into_iter().enumerate() {
            if let Some(mut note) = database.local(id)? {
                revs[end] = note.get("_rev").and_then(Value::as_str).map(str::to_owned);
                note.remove("_id");
                note.remove("_rev");
                notes[end] = note;
            }
        }
        let (start, history) = common(&notes[0], &notes[1]);
        let [latest, _] = notes;
        Ok(Checkpoints {
            id: id.to_owned(),
            enabled,
            by_ids,
            session,
            started: now(),
            committed: start.clone(),
            start,
            history,
            revs,
            instances: [None, None],
            latest,
        })
    }

    /// Overrides the start.
    pub(super) fn start_at(&mut self, start: Value) {
        self.start = start.clone();
        self.committed = start;
    }

    /// Records when the databases were created, to detect that one is deleted and created again.
    pub(super) fn set_instances(&mut self, source: Option<Value>, target: Option<Value>) {
        self.instances = [source, target];
    }

    /// Fails if a database is no longer the same. A database that does not respond is skipped: the next request that
    /// needs it reports the failure.
    pub(super) fn check_instances(&self, ends: [&Database; 2]) -> Result<(), Failure> {
        for (end, database) in ends.into_iter().enumerate() {
            if let Ok(Some(instance)) = database.instance() {
                self.check_instance(end, &instance)?;
            }
        }
        Ok(())
    }

    fn check_instance(&self, end: usize, now: &Value) -> Result<(), Failure> {
        match &self.instances[end] {
            Some(before) if is_other_instance(before, now) => Err(Failure::passing(
                "checkpoint_commit_failure",
                format!("instance_start_time on {} database has changed since last checkpoint.", ENDS[end]),
            )),
            _ => Ok(()),
        }
    }

    /// The counters at the end of the last session.
    pub(super) fn counts(&self) -> Counts {
        self.history.first().and_then(Value::as_object).map(Counts::from_history).unwrap_or_default()
    }

    /// The sequence of the last checkpoint.
    pub(super) fn committed(&self) -> &Value {
        &self.committed
    }

    /// Writes a checkpoint: all changes up to `through` are durable in the target.
    pub(super) fn save(
        &mut self,
        ends: [&Database; 2],
        through: &Value,
        progress: &Progress,
    ) -> Result<(), Failure> {
        if !self.enabled || *through == self.committed {
            return Ok(());
            // The commit makes the target durable before the checkpoint says so.
        }
        for (end, database) in ends.into_iter().enumerate() {
            self.check_instance(end, &database.ensure_full_commit()?)?;
        }
        let stats = progress.counts();
        let mut entry = json!({
            "session_id": self.session,
            "start_time": self.started,
            "end_time": now(),
            "start_last_seq": self.start,
            "end_last_seq": through,
            "recorded_seq": through,
        });
        if let Value::Object(entry) = &mut entry {
            entry.extend(stats.history());
        }
        let mut note = Map::new();
        note.insert("session_id".into(), json!(self.session));
        note.insert("source_last_seq".into(), through.clone());
        note.insert("replication_id_version".into(), json!(ID_VERSION));
        if self.by_ids {
            note.insert("start_time".into(), json!(self.started));
            note.insert("end_time".into(), json!(now()));
            for name in ["docs_read", "docs_written", "doc_write_failures"] {
                note.insert(name.into(), entry[name].clone());
            }
        }
        let history: Vec<Value> =
            std::iter::once(entry).chain(self.history.iter().cloned()).take(SESSIONS).collect();
        note.insert("history".into(), Value::Array(history));
        for (end, database) in ends.into_iter().enumerate() {
            self.revs[end] = Some(self.write(end, database, &note)?);
        }
        self.withdraw_from_recreated(ends)?;
        self.latest = note;
        self.committed = through.clone();
        Ok(())
    }

    /// Empties the checkpoint in a database that was recreated after the commit and before its checkpoint was written: the
    /// new database has none of the documents. The failure lets the replication start from the beginning.
    fn withdraw_from_recreated(&self, ends: [&Database; 2]) -> Result<(), Failure> {
        for (end, database) in ends.into_iter().enumerate() {
            if let Ok(Some(instance)) = database.instance()
                && let Err(changed) = self.check_instance(end, &instance)
            {
                self.write(end, database, &Map::from_iter([("history".to_owned(), json!([]))]))?;
                return Err(changed);
            }
        }
        Ok(())
    }

    fn write(&self, end: usize, database: &Database, note: &Map<String, Value>) -> Result<String, Failure> {
        let mut body = note.clone();
        if let Some(rev) = &self.revs[end] {
            body.insert("_rev".into(), json!(rev));
        }
        if let LocalWrite::Written(rev) = database.put_local(&self.id, &body)? {
            return Ok(rev);
        }
        // On a conflict, either the same document was written and the response lost, or source and target are the
        // same database. Otherwise another replicator uses the same id.
        if let Some(mut there) = database.local(&self.id)? {
            let rev = there.remove("_rev");
            there.remove("_id");
            if there == *note
                && let Some(Value::String(rev)) = rev
            {
                return Ok(rev);
            }
        }
        Err(Failure::new(
            "checkpoint_commit_failure",
            format!("Error updating the {} checkpoint document: conflict", ENDS[end]),
        ))
    }

    /// Builds the answer to `_replicate`. `began` are the counters at the start of the run.
    pub(super) fn result(&self, through: &Value, progress: &Progress, began: Counts) -> Map<String, Value> {
        if !self.enabled {
            return Map::from_iter([("use_checkpoints".to_owned(), json!(false))]);
        }
        let mut result = self.latest.clone();
        // A run that read only rejected changes counts as one without changes.
        if *through == self.start || progress.counts() == began {
            result.insert("no_changes".into(), json!(true));
        }
        result
    }
}

/// Whether a database states another creation time than before. Old servers state 0 for every database.
pub(super) fn is_other_instance(before: &Value, now: &Value) -> bool {
    let is_known = |instance: &Value| !instance.is_null() && text_of(instance) != "0";
    is_known(before) && is_known(now) && before != now
}

/// Returns the newest sequence that both documents contain, and the sessions up to it.
fn common(source: &Map<String, Value>, target: &Map<String, Value>) -> (Value, Vec<Value>) {
    let history = |note: &Map<String, Value>| -> Vec<Value> {
        note.get("history").and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let session = |value: &Value| value.get("session_id").and_then(Value::as_str).map(str::to_owned);
    let (ours, theirs) = (history(source), history(target));
    let same = source.get("session_id").is_some_and(|id| Some(id) == target.get("session_id"));
    if same {
        return (source.get("source_last_seq").cloned().unwrap_or_else(|| json!(0)), ours);
    }
    let recorded = |entry: &Value| entry.get("recorded_seq").cloned().unwrap_or_else(|| json!(0));
    for position in 0..ours.len().min(theirs.len()) {
        let known = |entry: &Value, rest: &[Value]| {
            session(entry).is_some_and(|id| rest.iter().any(|other| session(other).as_ref() == Some(&id)))
        };
        if known(&ours[position], &theirs[position..]) {
            return (recorded(&ours[position]), ours[position + 1..].to_vec());
        }
        if known(&theirs[position], &ours[position + 1..]) {
            return (recorded(&theirs[position]), theirs[position + 1..].to_vec());
        }
    }
    (json!(0), Vec::new())
}

/// The current time in HTTP's format.
fn now() -> String {
    DateTimePrinter::new().timestamp_to_rfc9110_string(&Timestamp::now()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(sessions: &[(&str, u64)]) -> Map<String, Value> {
        let history: Vec<Value> =
            sessions.iter().map(|(id, seq)| json!({ "session_id": id, "recorded_seq": seq })).collect();
        let mut note = Map::new();
        if let Some((id, seq)) = sessions.first() {
            note.insert("session_id".into(), json!(id));
            note.insert("source_last_seq".into(), json!(seq));
        }
        note.insert("history".into(), Value::Array(history));
        note
    }

    #[test]
    fn is_other_instance_compares_known_times_only() {
        let other = |before: Value, now: Value| is_other_instance(&before, &now);
        assert!(other(json!("5"), json!("6")) && other(json!(5), json!(6)));
        assert!(!other(json!("5"), json!("5")));
        for unknown in [json!("0"), json!(0), json!(null)] {
            assert!(!other(json!("5"), unknown.clone()) && !other(unknown, json!("5")));
        }
    }

    #[test]
    fn common_returns_the_newest_common_session() {
        let find = |source: &[(&str, u64)], target: &[(&str, u64)]| common(&note(source), &note(target));
        assert_eq!(find(&[], &[]), (json!(0), vec![]));
        assert_eq!(find(&[("a", 5)], &[]).0, json!(0));
        let (seq, history) = find(&[("b", 9), ("a", 5)], &[("b", 9), ("a", 5)]);
        assert_eq!((seq, history.len()), (json!(9), 2));
        // The last checkpoint is missing in the target, or in the source.
        assert_eq!(find(&[("c", 12), ("b", 9), ("a", 5)], &[("b", 9), ("a", 5)]).0, json!(9));
        assert_eq!(find(&[("b", 9), ("a", 5)], &[("c", 12), ("b", 9), ("a", 5)]).0, json!(9));
        assert_eq!(find(&[("x", 9), ("a", 5)], &[("y", 12), ("z", 9), ("a", 5)]).0, json!(5));
        assert_eq!(find(&[("x", 9)], &[("y", 12)]), (json!(0), vec![]));
    }
}

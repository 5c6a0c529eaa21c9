//! Reads the source's changes feed, once or continuously.

use super::checkpoint::is_other_instance;
use super::failure::Failure;
use super::peer::{Answer, Call};
use super::protocol::{Database, escape, text_of};
use super::spec::{Choice, Spec};
use serde_json::{Map, Value, json};
use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

/// How many heartbeats are requested within the allowed silence.
const BEATS: u128 = 3;
/// The longest line of a feed.
const LINE: u64 = 64 << 20;
/// The largest number of rows that are passed on together.
const TOGETHER: usize = 1024;

/// A changed document.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// The source's sequence.
    pub(crate) seq: Value,
    /// The document's id.
    pub(crate) id: String,
    /// All leaf revisions, or only the winner.
    pub(crate) revs: Vec<String>,
}

/// Receives rows that are available together; returns false if no more are wanted.
type Push<'a> = &'a mut dyn FnMut(Vec<Row>) -> bool;

/// Reads the changes after `since` and returns the last sequence. A continuous feed only ends with a failure. Before
/// each repeated request the source must still be the same `instance`, because the sequences of another one mean
/// something else.
pub(super) fn read(
    source: &Database,
    spec: &Spec,
    since: Value,
    instance: Option<&Value>,
    push: Push<'_>,
) -> Result<Value, Failure> {
    let mut since = since;
    let mut is_first = true;
    loop {
        if !std::mem::take(&mut is_first)
            && let (Some(before), Some(now)) = (instance, source.info()?.get("instance_start_time"))
            && is_other_instance(before, now)
        {
            let reason = "instance_start_time on source database has changed since last checkpoint.";
            return Err(Failure::passing("checkpoint_commit_failure", reason));
        }
        // Any progress resets the number of retries.
        let before = since.clone();
        let result = source.patiently(|| {
            let before = since.clone();
            let result = read_once(source, spec, &mut since, push);
            match result {
                Err(failure) if failure.is_passing() && since != before => Ok(None),
                result => result,
            }
        });
        match result? {
            Some(last) if !spec.continuous => return Ok(last),
            _ => {}
        }
        if spec.continuous && since == before {
            // The peer ended the feed without a row. Pause before requesting it again.
            source.pause()?;
        }
    }
}

/// Makes one request; returns the last sequence if the feed was complete.
fn read_once(
    source: &Database,
    spec: &Spec,
    since: &mut Value,
    push: Push<'_>,
) -> Result<Option<Value>, Failure> {
    let answer = source.demand(call(spec, since))?;
    if spec.continuous { follow(source, answer, since, push) } else { list(source, answer, since, push) }
}

/// Builds the request for the changes after `since`.
fn call(spec: &Spec, since: &Value) -> Call {
    let style = if spec.winning_revs_only { "main_only" } else { "all_docs" };
    let feed = if spec.continuous { "continuous" } else { "normal" };
    let beat = (spec.silence.as_millis() / BEATS).max(1);
    let mut path =
        format!("_changes?style={style}&feed={feed}&heartbeat={beat}&since={}", escape(&text_of(since)));
    let mut call = match &spec.choice {
        Choice::All => Call::get(path),
        Choice::Ids(ids) => Call::post(path + "&filter=_doc_ids", json!({ "doc_ids": ids }).to_string()),
        Choice::Selector(selector) => {
            Call::post(path + "&filter=_selector", json!({ "selector": selector }).to_string())
        }
        Choice::Filter(name) => {
            path.push_str(&format!("&filter={}", escape(name)));
            for (name, value) in &spec.query_params {
                path.push_str(&format!("&{}={}", escape(name), escape(&text_of(value))));
            }
            Call::get(path)
        }
    };
    // Compression would delay the lines of a continuous feed.
    call.gzip = !spec.continuous;
    call
}

/// A changed document's id, and its body unless it was deleted.
pub(super) type Written = (String, Option<Map<String, Value>>);

/// Reads documents as they change, until the feed ends, `take` returns false, or the job is stopped. While nothing
/// changes, each heartbeat calls `take` with `None`.
pub(super) fn follow_documents(
    source: &Database,
    since: &mut Value,
    beat: Duration,
    take: &mut dyn FnMut(Option<Written>) -> bool,
) -> Result<(), Failure> {
    let path = format!(
        "_changes?feed=continuous&include_docs=true&heartbeat={}&since={}",
        beat.as_millis(),
        escape(&text_of(since))
    );
    let answer = source.demand(Call { gzip: false, ..Call::get(path) })?;
    let mut lines = Lines::new(source, answer);
    while let Some(text) = lines.next()? {
        if text.is_empty() {
            if take(None) {
                continue;
            }
            return Ok(());
        }
        let Ok(Value::Object(mut row)) = serde_json::from_slice(text) else { return Ok(()) };
        let Some(Value::String(id)) = row.remove("id") else { return Ok(()) };
        let deleted = row.get("deleted") == Some(&Value::Bool(true));
        let document = match row.remove("doc") {
            Some(Value::Object(document)) if !deleted => Some(document),
            _ => None,
        };
        if !take(Some((id, document))) {
            return Ok(());
        }
        *since = row.remove("seq").unwrap_or_default();
    }
    Ok(())
}

/// The lines of a feed, without line ends. A heartbeat is an empty line.
struct Lines<'a> {
    source: &'a Database,
    reader: BufReader<Box<dyn Read + Send>>,
    line: Vec<u8>,
}

impl Lines<'_> {
    fn new(source: &Database, answer: Answer) -> Lines<'_> {
        Lines { source, reader: BufReader::with_capacity(32 << 10, answer.body), line: Vec::new() }
    }

    /// Returns the next line; `None` at the end of the feed. An incomplete last line is an error.
    fn next(&mut self) -> Result<Option<&[u8]>, Failure> {
        self.line.clear();
        let read = (&mut self.reader).take(LINE).read_until(b'\n', &mut self.line);
        if read.map_err(|error| self.source.broken(&error))? == 0 {
            return Ok(None);
        }
        if self.line.last() != Some(&b'\n') {
            let reason = format!("{}: the feed ended within a line", self.source.uri());
            return Err(Failure::passing("connection_closed", reason));
        }
        Ok(Some(self.line.trim_ascii()))
    }

    /// Whether a complete line is buffered.
    fn is_next_there(&self) -> bool {
        memchr::memchr(b'\n', self.reader.buffer()).is_some()
    }
}

/// Parses a `normal` feed: `{"results":[…],"last_seq":…}`.
fn list(
    source: &Database,
    answer: Answer,
    since: &mut Value,
    push: Push<'_>,
) -> Result<Option<Value>, Failure> {
    let mut wanted = true;
    let others = source.elements(answer, "results", |element| {
        if let Some(row) = row(source, element)? {
            let seq = row.seq.clone();
            if !push(vec![row]) {
                wanted = false;
                return Err(Failure::stopped());
            }
            *since = seq;
        }
        Ok(())
    });
    match others {
        Ok(others) => Ok(Some(others.get("last_seq").cloned().unwrap_or_else(|| since.clone()))),
        Err(failure) if wanted => Err(failure),
        Err(_) => Err(Failure::stopped()),
    }
}

/// Parses a `continuous` feed, one row per line, until it ends.
fn follow(
    source: &Database,
    answer: Answer,
    since: &mut Value,
    push: Push<'_>,
) -> Result<Option<Value>, Failure> {
    let mut lines = Lines::new(source, answer);
    let mut rows = Vec::new();
    let mut ended = false;
    while !ended {
        match lines.next()? {
            None => ended = true,
            Some([]) => {}
            Some(text) => match row(source, text)? {
                Some(row) => rows.push(row),
                // The peer ended the feed because of its timeout or because the database was deleted.
                None => ended = true,
            },
            // Pass rows on as soon as the next line would have to be waited for.
        }
        if (ended || rows.len() == TOGETHER || !lines.is_next_there())
            && let Some(last) = rows.last()
        {
            let seq = last.seq.clone();
            if !push(std::mem::take(&mut rows)) {
                return Err(Failure::stopped());
            }
            *since = seq;
        }
    }
    Ok(None)
}

/// Parses a row; `None` for another object, such as the last line of a feed.
fn row(source: &Database, text: &[u8]) -> Result<Option<Row>, Failure> {
    let value: Value = serde_json::from_slice(text)
        .map_err(|error| Failure::new("invalid_json", format!("{}: _changes: {error}", source.uri())))?;
    let Some(id) = value.get("id").and_then(Value::as_str) else {
        return match value.get("error").and_then(Value::as_str) {
            Some(error) => {
                let reason = value.get("reason").and_then(Value::as_str).unwrap_or_default();
                Err(Failure::new(error, format!("{}: _changes: {reason}", source.uri())))
            }
            None => Ok(None),
        };
    };
    let changes = value.get("changes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    Ok(Some(Row {
        seq: value.get("seq").cloned().unwrap_or_default(),
        id: id.to_owned(),
        revs: changes.iter().filter_map(|change| change.get("rev")?.as_str().map(str::to_owned)).collect(),
    }))
}

//! Copies the revisions that the target lacks, for a batch of changed documents.

use super::attachments::{self, Sent};
use super::changes::Row;
use super::failure::{Failure, Kind};
use super::members::Members;
use super::progress::{Count, Progress};
use super::protocol::{Database, Fetched, Missing, Refused, doc_path, escape};
use super::spec::Spec;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How many bytes of documents are sent in one request.
const SEND_BYTES: usize = 2 << 20;
/// How many documents are sent in one request.
const SEND_DOCS: usize = 500;
/// Attachments of up to this many bytes per document are sent inline, unless they are compressed.
const SMALL: u64 = 64 << 10;
/// The longest document with inline attachments, for peers that do not accept `multipart/related`.
const INLINE: usize = 48 << 20;
/// How many bytes of small attachments are fetched with one request.
const SMALL_BYTES: u64 = 4 << 20;
/// The longest list of revisions in a URL.
const REVS_BYTES: usize = 4 << 10;

/// The state that the workers of a run share.
pub(super) struct Transfer {
    /// The source.
    pub(crate) source: Arc<Database>,
    /// The target.
    pub(crate) target: Arc<Database>,
    /// The counters.
    pub(crate) progress: Arc<Progress>,
    /// Whether the target accepts compressed attachments.
    takes_encoded: bool,
    /// Whether checkpoints ensure durability, so that writes need not wait for it.
    relaxed: bool,
    /// Whether the source supports `_bulk_get`.
    bulk_get: AtomicBool,
}

impl Transfer {
    /// Creates the state of a run.
    pub(super) fn new(
        source: Arc<Database>,
        target: Arc<Database>,
        spec: &Spec,
        takes_encoded: bool,
        progress: Arc<Progress>,
    ) -> Transfer {
        Transfer {
            source,
            target,
            progress,
            takes_encoded,
            relaxed: spec.use_checkpoints,
            bulk_get: AtomicBool::new(spec.use_bulk_get),
        }
    }

    /// Copies what the target lacks of these documents. On return the target has stored everything that it accepts.
    pub(super) fn copy(&self, rows: &[Row]) -> Result<(), Failure> {
        let mut counted = false;
        self.target.patiently(|| {
            let result = self.attempt(rows, counted);
            counted = true;
            result
        })
    }

    /// Makes one attempt. Revisions that an earlier attempt wrote are no longer missing.
    fn attempt(&self, rows: &[Row], counted: bool) -> Result<(), Failure> {
        let mut wanted: HashMap<&str, Vec<&str>> = HashMap::new();
        for row in rows {
            wanted.entry(&row.id).or_default().extend(row.revs.iter().map(String::as_str));
        }
        let missing = self.target.revs_diff(&wanted)?;
        if !counted {
            self.progress.add(Count::Checked, wanted.values().map(|revs| revs.len() as u64).sum());
            self.progress
                .add(Count::Missing, missing.values().map(|missing| missing.revs.len() as u64).sum());
        }
        if missing.is_empty() {
            return Ok(());
        }
        let mut run = Run {
            transfer: self,
            missing: &missing,
            docs: Vec::new(),
            bytes: 0,
            small: Vec::new(),
            small_bytes: 0,
            failures: 0,
        };
        let mut pairs = Vec::new();
        // A document may have several rows in the batch; fetch its revisions once.
        let mut seen = HashSet::new();
        for row in rows {
            if let Some(lacks) = missing.get(&row.id)
                && seen.insert(row.id.as_str())
            {
                pairs.extend(lacks.revs.iter().map(|rev| (row.id.clone(), rev.clone())));
            }
        }
        let result = run.gather(pairs);
        match &result {
            Ok(()) => self.progress.add(Count::Failures, run.failures),
            Err(failure) if failure.kind == Kind::Stopped => {}
            // Write what was read, even if other documents could not be.
            Err(_) => drop(run.flush()),
        }
        result
    }
}

/// One attempt to copy a batch.
struct Run<'a> {
    transfer: &'a Transfer,
    missing: &'a HashMap<String, Missing>,
    docs: Vec<Vec<u8>>,
    bytes: usize,
    /// Documents whose small attachments are still to be fetched.
    small: Vec<(String, String)>,
    small_bytes: u64,
    /// How many revisions the target refused.
    failures: u64,
}

impl Run<'_> {
    /// Reads and writes these revisions.
    fn gather(&mut self, pairs: Vec<(String, String)>) -> Result<(), Failure> {
        let Transfer { source, progress, bulk_get, .. } = self.transfer;
        if bulk_get.load(Ordering::Relaxed) {
            progress.add(Count::BulkAttempts, pairs.len() as u64);
            let mut lacking: HashMap<&str, usize> = HashMap::new();
            for (id, _) in &pairs {
                *lacking.entry(id).or_default() += 1;
            }
            let done = source.bulk_get(&pairs, false, |Fetched { id, document }| {
                let Ok(text) = document else { return Ok(()) };
                if let Some(count) = lacking.get_mut(id.as_str()) {
                    *count = count.saturating_sub(1);
                }
                progress.add(Count::BulkDocs, 1);
                self.take(id, text)
            })?;
            if done.is_none() {
                bulk_get.store(false, Ordering::Relaxed);
                self.one_by_one(&pairs)?;
            } else {
                // A separate request may find revisions that `_bulk_get` did not return.
                let again: Vec<_> =
                    pairs.iter().filter(|pair| lacking[pair.0.as_str()] > 0).cloned().collect();
                self.one_by_one(&again)?;
            }
        } else {
            self.one_by_one(&pairs)?;
        }
        self.fetch_small()?;
        self.flush()
    }

    /// Handles a document that was read.
    fn take(&mut self, id: String, text: Vec<u8>) -> Result<(), Failure> {
        match attachments::list(&text) {
            None => self.keep(text),
            Some(list) => {
                let rev = Members::parse(&text).ok().and_then(|members| members.string("_rev"));
                let Some(rev) = rev else { return self.keep(text) };
                let total = attachments::total(&list);
                let carried = self.transfer.takes_encoded && attachments::has_packed(&list);
                if total <= SMALL && !carried {
                    self.small.push((id, rev));
                    self.small_bytes += total;
                    if self.small_bytes >= SMALL_BYTES { self.fetch_small() } else { Ok(()) }
                } else {
                    self.stream(&id, &rev)
                }
            }
        }
    }

    /// Queues a complete document for writing.
    fn keep(&mut self, text: Vec<u8>) -> Result<(), Failure> {
        self.transfer.progress.add(Count::Read, 1);
        self.bytes += text.len();
        self.docs.push(text);
        if self.bytes >= SEND_BYTES || self.docs.len() >= SEND_DOCS { self.flush() } else { Ok(()) }
    }

    /// Fetches each document with its own request.
    fn one_by_one(&mut self, pairs: &[(String, String)]) -> Result<(), Failure> {
        for same in pairs.chunk_by(|a, b| a.0 == b.0) {
            let id = &same[0].0;
            let (mut revs, mut bytes) = (Vec::new(), 0);
            for (_, rev) in same {
                bytes += escape(rev).len() + "%22%2C%22".len();
                if bytes > REVS_BYTES && !revs.is_empty() {
                    self.fetch(id, &std::mem::take(&mut revs))?;
                    bytes = 0;
                }
                revs.push(rev.clone());
            }
            self.fetch(id, &revs)?;
        }
        Ok(())
    }

    fn fetch(&mut self, id: &str, revs: &[String]) -> Result<(), Failure> {
        let source = self.transfer.source.clone();
        let mut lacking = Vec::new();
        source.open_revs(id, revs, |fetched| {
            match fetched.document {
                Ok(text) => self.take(fetched.id, text)?,
                Err(Some(rev)) => lacking.push(rev),
                Err(None) => lacking.extend_from_slice(revs),
            }
            Ok(())
        })?;
        self.check_gone(id, &lacking)
    }

    /// Checks that revisions which the source did not return are unknown to it, for instance after a purge. A
    /// revision that it knows but did not return may be found later.
    fn check_gone(&self, id: &str, revs: &[String]) -> Result<(), Failure> {
        if revs.is_empty() {
            return Ok(());
        }
        let source = &self.transfer.source;
        let asked = HashMap::from([(id, revs.iter().map(String::as_str).collect())]);
        let unknown = source.revs_diff(&asked)?.remove(id).unwrap_or_default().revs;
        match revs.iter().find(|rev| !unknown.contains(rev)) {
            None => {
                tracing::debug!(
                    source = source.uri(),
                    id,
                    ?revs,
                    "a revision no longer exists at the source"
                );
                Ok(())
            }
            Some(rev) => {
                let reason = format!("{}{}: the revision {rev} was not found", source.uri(), doc_path(id));
                Err(Failure::passing("not_found", reason))
            }
        }
    }

    /// Fetches documents with their small attachments inline.
    fn fetch_small(&mut self) -> Result<(), Failure> {
        let pairs = std::mem::take(&mut self.small);
        self.small_bytes = 0;
        if pairs.is_empty() {
            return Ok(());
        }
        let source = self.transfer.source.clone();
        let mut streamed = Vec::new();
        // Documents that come back with stubs are streamed instead: some peers ignore `attachments=true`.
        if self.transfer.bulk_get.load(Ordering::Relaxed) {
            let rev_of: HashMap<&str, &str> =
                pairs.iter().map(|(id, rev)| (id.as_str(), rev.as_str())).collect();
            let mut answered = HashSet::new();
            let done = source.bulk_get(&pairs, true, |Fetched { id, document }| {
                answered.insert(id.clone());
                match document {
                    Ok(text) => match attachments::list(&text) {
                        Some(list) if list.values().any(|entry| entry.get("data").is_none()) => {
                            let rev = Members::parse(&text).ok().and_then(|members| members.string("_rev"));
                            let rev = rev.or_else(|| rev_of.get(id.as_str()).map(|rev| (*rev).to_owned()));
                            streamed.extend(rev.map(|rev| (id, rev)));
                            Ok(())
                        }
                        _ => self.keep(text),
                    },
                    Err(_) => {
                        streamed.extend(pairs.iter().filter(|pair| pair.0 == id).cloned());
                        Ok(())
                    }
                }
            })?;
            // The peer may omit documents from its answer.
            streamed.extend(pairs.iter().filter(|pair| !answered.contains(&pair.0)).cloned());
            if done.is_none() {
                streamed = pairs;
            }
        } else {
            streamed = pairs;
        }
        for (id, rev) in streamed {
            self.stream(&id, &rev)?;
        }
        Ok(())
    }

    /// Copies a document and streams its attachments.
    fn stream(&mut self, id: &str, rev: &str) -> Result<(), Failure> {
        let Transfer { source, target, progress, takes_encoded, .. } = self.transfer;
        let ancestors = self.missing.get(id).map(|missing| missing.ancestors.as_slice()).unwrap_or_default();
        match attachments::copy(source, target, id, rev, ancestors, *takes_encoded)? {
            Sent::Written(bytes) => {
                progress.add(Count::Read, 1);
                progress.add(Count::Written, 1);
                progress.add(Count::Bytes, bytes);
            }
            // Some peers do not accept `multipart/related`, or not with replicated edits.
            Sent::Refused(why)
                if ["bad_content_type", "conflict", "method_not_allowed"].contains(&why.error.as_str()) =>
            {
                return self.keep_inline(id, rev, &why);
            }
            Sent::Unnamed => {
                let why = Refused {
                    rev: Some(rev.to_owned()),
                    error: "too_large".into(),
                    reason: "an attachment without a name is too large".into(),
                };
                return self.keep_inline(id, rev, &why);
            }
            Sent::Refused(why) => {
                progress.add(Count::Read, 1);
                self.unwritten(Some(id), &why);
            }
            Sent::Gone => self.check_gone(id, &[rev.to_owned()])?,
        }
        Ok(())
    }

    /// Fetches a document with inline attachments; if it is too large, logs `why` it was not copied otherwise.
    fn keep_inline(&mut self, id: &str, rev: &str, why: &Refused) -> Result<(), Failure> {
        match self.transfer.source.inline(id, rev)? {
            Some(text) if text.len() <= INLINE => self.keep(text),
            _ => {
                self.transfer.progress.add(Count::Read, 1);
                self.unwritten(Some(id), why);
                Ok(())
            }
        }
    }

    /// Writes the queued documents.
    fn flush(&mut self) -> Result<(), Failure> {
        let docs = std::mem::take(&mut self.docs);
        self.bytes = 0;
        if docs.is_empty() { Ok(()) } else { self.write(&docs) }
    }

    /// Writes documents; a list that is too large is split in halves.
    fn write(&mut self, docs: &[Vec<u8>]) -> Result<(), Failure> {
        match self.transfer.target.bulk_docs(docs, self.transfer.relaxed)? {
            Some(refused) => {
                let failures = refused.len().min(docs.len()) as u64;
                let progress = &self.transfer.progress;
                progress.add(Count::Written, docs.len() as u64 - failures);
                progress.add(Count::Bytes, docs.iter().map(|doc| doc.len() as u64).sum());
                for why in &refused {
                    self.unwritten(None, why);
                }
                Ok(())
            }
            None if docs.len() > 1 => {
                let (left, right) = docs.split_at(docs.len() / 2);
                self.write(left)?;
                self.write(right)
            }
            None => {
                let why = Refused {
                    rev: None,
                    error: "too_large".into(),
                    reason: "the document is too large".into(),
                };
                self.unwritten(None, &why);
                Ok(())
            }
        }
    }

    fn unwritten(&mut self, id: Option<&str>, why: &Refused) {
        self.failures += 1;
        let Refused { rev, error, reason } = why;
        tracing::warn!(
            target_database = self.transfer.target.uri(),
            id,
            ?rev,
            error,
            reason,
            "the target refused a revision"
        );
    }
}

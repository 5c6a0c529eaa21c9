//! One round of the follower: a report of the primary, and everything that it names.

use super::client::{Part, Report, Target};
use super::{Follower, PAUSE, WAIT, failed};
use crate::replicator::failure::Failure;
use diwan_kv::Batch;
use diwan_store::blob::{Attachment, BlobHold, BlobSource, StagedBlob};
use diwan_store::replica::Applying;
use diwan_store::replica::copy::{self, ForeignDocument};
use diwan_store::replica::news::{Described, Description, Kind, News};
use diwan_store::replica::reconcile::Reconciled;
use diwan_store::{Collection, Entry, Namespace};
use diwan_value::Timestamp;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How many collections are copied at a time.
const COPIERS: usize = 4;

/// Keeps the blobs of attachments until their documents are stored.
#[derive(Default)]
struct Held {
    _staged: Vec<StagedBlob>,
    _holds: Vec<BlobHold>,
}

impl Follower {
    /// Waits for a report and applies it.
    pub(super) fn round(&self) -> Result<(), Failure> {
        let position = self.position.load(Ordering::Relaxed);
        let report = self.client.news(&self.greeting(true), position, WAIT)?;
        self.recognize(&report)?;
        let _working = self.working.lock();
        // It may have been promoted while it waited.
        self.stop.sleep(Duration::ZERO)?;
        if !report.news.names.is_empty() {
            self.store.replica().note_behind();
        }
        self.apply(report)
    }

    /// Applies a report, and remembers the sequences that the next request acknowledges.
    pub(super) fn apply(&self, report: Report) -> Result<(), Failure> {
        let Report { news, number, time, .. } = report;
        let (news, unbuilt) = match self.store.reconcile(&news, &self.interrupt).map_err(failed)? {
            Reconciled::Done(unbuilt) => (news, unbuilt),
            Reconciled::NeedsAll => {
                let all = self.client.news(&self.greeting(true), 0, Duration::ZERO)?;
                match self.store.reconcile(&all.news, &self.interrupt).map_err(failed)? {
                    Reconciled::Done(unbuilt) => (all.news, unbuilt),
                    Reconciled::NeedsAll => {
                        return Err(Failure::passing("catalog", "the catalog is not complete"));
                    }
                }
            }
        };
        self.copy_all(&news)?;
        let engine = self.store.engine();
        engine.commit(Batch::new()).and_then(|last| engine.wait_durable(last)).map_err(failed)?;
        // An index that cannot be built yet is tried again with everything else.
        let next = if unbuilt.is_empty() { news.position } else { 0 };
        self.position.store(next, Ordering::Relaxed);
        self.acknowledged.store(number, Ordering::Relaxed);
        let replica = self.store.replica();
        if !replica.identity().complete {
            self.store.identify(|identity| identity.complete = true).map_err(failed)?;
            tracing::info!(primary = self.client.shown(), "the copy is complete");
        }
        self.store.clock().advance(Timestamp::from_bits(time));
        replica.note_applied(time);
        // The next report comes at once, because it tells everything.
        if next == 0 { self.stop.sleep(PAUSE) } else { Ok(()) }
    }

    /// Copies the collections whose change logs have moved, several at a time.
    pub(super) fn copy_all(&self, news: &News) -> Result<(), Failure> {
        let named = news.names.iter().filter_map(|description| match &description.kind {
            Kind::Collection(described) => Some((&description.namespace, &**described)),
            _ => None,
        });
        let member = self.store.replica().identity().followed;
        let behind = |(namespace, described): &(&Namespace, &Described)| {
            self.own(namespace, described).is_ok_and(|own| own.position(&member) != described.sequence)
        };
        let queue: Vec<(&Namespace, &Described)> = named.filter(behind).collect();
        if let [(namespace, described)] = queue.as_slice() {
            return self.copy(&Target { namespace, described }, &member);
        }
        let queue = Mutex::new(queue.into_iter());
        let outcome = Mutex::new(Ok(()));
        let work = || {
            while let Some((namespace, described)) = { queue.lock().next() } {
                if let Err(failure) = self.copy(&Target { namespace, described }, &member) {
                    *outcome.lock() = Err(failure);
                    return;
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..COPIERS.min(queue.lock().len()) {
                let copier = std::thread::Builder::new().name("diwan-copier".to_owned());
                // Without further threads this one does all.
                let _ = copier.spawn_scoped(scope, work);
            }
            work();
        });
        outcome.into_inner()
    }

    /// The copy of a collection.
    fn own(&self, namespace: &Namespace, described: &Described) -> Result<Arc<Collection>, Failure> {
        match self.store.entry(namespace) {
            Some(Entry::Collection(own)) if own.uuid() == described.uuid => Ok(own),
            _ => Err(Failure::passing("catalog", format!("{namespace} is not there yet"))),
        }
    }

    /// Copies what a collection of the primary has and its copy does not.
    fn copy(&self, target: &Target<'_>, member: &str) -> Result<(), Failure> {
        let mut own = self.own(target.namespace, target.described)?;
        let mut since = own.position(member);
        if since > target.described.sequence {
            let reason = format!(
                "{} has fewer changes on the primary than were copied from there: it lost some, or was restored from a \
                 backup. Start this follower with --rejoin to give it what only this one has, or with an empty directory",
                target.namespace
            );
            return Err(Failure::new("shorter_log", reason));
        }
        while since < target.described.sequence {
            self.stop.sleep(Duration::ZERO)?;
            let part = match self.client.changes(target, since) {
                // It was dropped or renamed since the report, so the next report tells of it.
                Err(failure) if failure.error == "not_found" => return Ok(()),
                part => part?,
            };
            if part.has_gap {
                tracing::warn!(
                    collection = %target.namespace,
                    "the follower was away so long that deletions are forgotten: copying the collection anew"
                );
                own = self.begin_anew(target)?;
                since = 0;
                continue;
            }
            self.import(&own, target, &part)?;
            since = part.last.max(if part.is_end { target.described.sequence } else { 0 });
            own.note_position(member, since).map_err(failed)?;
        }
        Ok(())
    }

    fn begin_anew(&self, target: &Target<'_>) -> Result<Arc<Collection>, Failure> {
        self.store.discard_copy(target.namespace).map_err(failed)?;
        let described = Box::new(target.described.clone());
        let description =
            Description { namespace: target.namespace.clone(), kind: Kind::Collection(described) };
        let news = News { names: vec![description], ..News::default() };
        self.store.reconcile(&news, &self.interrupt).map_err(failed)?;
        self.own(target.namespace, target.described)
    }

    /// Stores a part of the change log.
    fn import(&self, own: &Arc<Collection>, target: &Target<'_>, part: &Part) -> Result<(), Failure> {
        let _applying = Applying::begin();
        let mut documents = copy::parse(part.documents()).map_err(failed)?;
        let mut held = Held::default();
        for document in &mut documents {
            self.fetch_attachments(own, target, document, &mut held)?;
        }
        let (refused, _) = own.import(&documents, &self.interrupt).map_err(failed)?;
        match refused.first() {
            None => Ok(()),
            Some(first) => Err(Failure::new(
                "refused",
                format!("{} {} cannot be stored: {}", target.namespace, first.id, first.error),
            )),
        }
    }

    /// Replaces the blobs of the primary by own ones, and fetches those that are not here.
    fn fetch_attachments(
        &self,
        own: &Arc<Collection>,
        target: &Target<'_>,
        document: &mut ForeignDocument<'_>,
        held: &mut Held,
    ) -> Result<(), Failure> {
        if document.leaves.iter().all(|leaf| leaf.attachments.is_empty()) {
            return Ok(());
        }
        let known: Vec<Attachment> =
            own.view().document(&document.id).map_err(failed)?.map_or_else(Vec::new, |doc| doc.attachments);
        for attachment in document.leaves.iter_mut().flat_map(|leaf| &mut leaf.attachments) {
            let is_same = |one: &&Attachment| {
                (one.md5, one.encoded_length, one.encoding)
                    == (attachment.md5, attachment.encoded_length, attachment.encoding)
            };
            if let Some(same) = known.iter().find(is_same)
                && let Some(hold) = own.hold_blob(same.blob).map_err(failed)?
            {
                attachment.blob = same.blob;
                held._holds.push(hold);
                continue;
            }
            let source = if attachment.encoding.is_some() { BlobSource::Packed } else { BlobSource::Plain };
            let mut writer = own.blob_writer(source).map_err(failed)?;
            let mut reader = self.client.blob(target, attachment)?;
            std::io::copy(&mut reader, &mut writer)
                .map_err(|error| Failure::passing("http_request_failed", error.to_string()))?;
            let staged = writer.finish().map_err(failed)?;
            if (staged.md5, staged.encoded_length) != (attachment.md5, attachment.encoded_length) {
                let reason =
                    format!("the attachment {} of {} arrived damaged", attachment.name, target.namespace);
                return Err(Failure::passing("content_md5_mismatch", reason));
            }
            attachment.blob = staged.blob();
            held._staged.push(staged);
        }
        Ok(())
    }
}

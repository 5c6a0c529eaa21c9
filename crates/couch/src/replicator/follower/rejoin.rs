//! How a server that wrote alone follows again without losing what it wrote.
//!
//! For each of its collections it asks the primary which of its revisions are unknown there, and offers those with their
//! bodies. On the primary they become documents, or conflicts of documents, as in every replication. What the primary
//! has no place for is set aside: a collection that it does not have, and documents that it refuses, go to the database
//! `set_aside` of this server.

use super::client::{Refused, Report, Target};
use super::{Follower, failed};
use crate::handlers::follow::PART;
use crate::replicator::failure::Failure;
use diwan_store::blob::{Attachment, BlobForm};
use diwan_store::replica::Applying;
use diwan_store::replica::copy::{self, ForeignDocument, Leaves};
use diwan_store::replica::news::{Described, Kind};
use diwan_store::replica::reconcile::SET_ASIDE;
use diwan_store::{Collection, Edit, Namespace, Revision, WriteOptions};
use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

impl Follower {
    /// Gives the primary what only this server has.
    pub(super) fn rejoin(&self, report: &Report) -> Result<(), Failure> {
        // A follower may rejoin another primary. Nobody else writes: the server does not listen yet.
        let _applying = Applying::begin();
        let mut by_uuid: HashMap<[u8; 16], (&Namespace, &Described)> = HashMap::new();
        let mut by_name: HashMap<&Namespace, &Described> = HashMap::new();
        for description in &report.news.names {
            if let Kind::Collection(described) = &description.kind {
                by_uuid.insert(described.uuid, (&description.namespace, described));
                by_name.insert(&description.namespace, described);
            }
        }
        for (namespace, own) in self.store.copied_collections() {
            let same_name = || by_name.get_key_value(&namespace).map(|(name, described)| (*name, *described));
            match by_uuid.get(&own.uuid()).copied().or_else(same_name) {
                Some((name, described)) => self.offer(&own, &Target { namespace: name, described })?,
                None => self.set_collection_aside(&namespace)?,
            }
        }
        Ok(())
    }

    /// Offers the revisions of one collection that the primary does not know.
    fn offer(&self, own: &Arc<Collection>, target: &Target<'_>) -> Result<(), Failure> {
        let (mut since, mut offered) = (0, 0);
        loop {
            let Leaves { documents: leaves, last, is_end } = own.leaves_after(since).map_err(failed)?;
            let lacking = if leaves.is_empty() { Vec::new() } else { self.client.lacks(target, &leaves)? };
            offered += lacking.len();
            let mut bytes = Vec::new();
            for wanted in &lacking {
                bytes.append(&mut own.export_document(wanted).map_err(failed)?);
                if bytes.len() >= PART {
                    self.offer_some(own, target, std::mem::take(&mut bytes))?;
                }
            }
            if !bytes.is_empty() {
                self.offer_some(own, target, bytes)?;
            }
            since = last;
            if is_end {
                break;
            }
        }
        if offered > 0 {
            tracing::info!(
                collection = %target.namespace,
                documents = offered,
                "the primary got what only this server had"
            );
        }
        Ok(())
    }

    fn offer_some(&self, own: &Arc<Collection>, target: &Target<'_>, bytes: Vec<u8>) -> Result<(), Failure> {
        let documents = copy::parse(&bytes).map_err(failed)?;
        let mut blobs: Vec<(Attachment, Box<dyn Read + Send>)> = Vec::new();
        let leaves = documents.iter().flat_map(|document| &document.leaves);
        for attachment in leaves.flat_map(|leaf| &leaf.attachments) {
            if blobs.iter().any(|(known, _)| known.blob == attachment.blob) {
                continue;
            }
            let reader = own.read_blob(attachment, BlobForm::Stored, None).map_err(failed)?;
            let reader =
                reader.ok_or_else(|| failed(format!("the attachment {} is missing", attachment.name)))?;
            blobs.push((attachment.clone(), Box::new(reader)));
        }
        for refused in self.client.offer(target, blobs, bytes.clone())? {
            let lone = documents.iter().find(|document| document.id == refused.key);
            if let Some(lone) = lone {
                self.set_document_aside(own, lone, &refused)?;
            }
        }
        Ok(())
    }

    /// Keeps a document that the primary refused, and forgets its revisions here.
    fn set_document_aside(
        &self,
        own: &Arc<Collection>,
        lone: &ForeignDocument<'_>,
        refused: &Refused,
    ) -> Result<(), Failure> {
        let namespace = aside(&own.namespace());
        tracing::warn!(
            collection = %own.namespace(),
            id = refused.id,
            reason = refused.reason,
            kept = %namespace,
            "the primary refuses a document that only this server has: it is kept aside"
        );
        let keeper = self.store.collection_or_create(&namespace).map_err(failed)?;
        if let Some(leaf) = lone.leaves.iter().find(|leaf| !leaf.deleted) {
            let put = || Ok(Edit::Put(leaf.doc.to_owned()));
            keeper
                .edit(std::slice::from_ref(&lone.id), WriteOptions::default(), |_, _| put())
                .map_err(failed)?;
        }
        let revisions: Vec<Revision> = lone.leaves.iter().map(|leaf| leaf.revision).collect();
        own.purge(&lone.id, &revisions, &self.interrupt).map(drop).map_err(failed)
    }

    /// Keeps a collection that the primary does not have.
    fn set_collection_aside(&self, namespace: &Namespace) -> Result<(), Failure> {
        let mut kept = aside(namespace);
        while self.store.entry(&kept).is_some() {
            kept.collection.push('+');
        }
        tracing::warn!(
            collection = %namespace,
            %kept,
            "the primary does not have a collection that this server has: it is kept aside"
        );
        self.store.rename(namespace, &kept, false).map_err(failed)
    }
}

/// The name under which a collection, or documents of it, are kept aside.
fn aside(namespace: &Namespace) -> Namespace {
    Namespace {
        database: SET_ASIDE.to_owned(),
        collection: format!("{}.{}", namespace.database, namespace.collection),
    }
}

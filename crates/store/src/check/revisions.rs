//! Reads the revisions of a collection, grouped by document, in the order of the documents.

use crate::error::Result;
use crate::keys::{self, RevisionKey};
use crate::record::{Body, Marks, Tombstone};
use crate::revision::Revision;
use crate::revision::tree::{Leaf, RevisionTree};
use diwan_kv::{Bytes, Direction, KeyRange, Pairs, Snapshot, Space};
use diwan_value::Doc;

/// The keys in `Revisions` of one document.
pub(super) struct Group {
    /// The key bytes of its `_id`.
    pub id: Vec<u8>,
    /// If it is deleted, its tombstone.
    pub tombstone: Option<Bytes>,
    /// The hashes of the winner's ancestors, oldest first.
    pub ancestors: Vec<[u8; 16]>,
    /// The generation of the newest of them, 0 if there are none.
    newest: u32,
    branches: Option<Bytes>,
    /// The bodies of other revisions.
    pub bodies: Vec<OtherBody>,
    /// Descriptions of keys and values that cannot be parsed.
    pub faults: Vec<String>,
}

/// The body of a revision that does not win.
pub(super) struct OtherBody {
    pub revision: Revision,
    deleted: bool,
    /// When another took its place, in seconds since 1970, if one did.
    pub superseded_at: Option<u64>,
    /// The list of its attachments.
    pub attachments: Vec<u8>,
}

/// Reads groups one after another.
pub(super) struct Groups {
    pairs: Pairs,
    prefix: usize,
    /// The first pair of the next group.
    ahead: Option<(Bytes, Bytes)>,
    /// Keys that are no revision's, in words.
    pub strays: Vec<String>,
}

impl Groups {
    pub fn new(snapshot: &dyn Snapshot, prefix: &[u8]) -> Groups {
        let pairs = snapshot.scan(Space::Revisions, KeyRange::prefix(prefix), Direction::Forward);
        Groups { pairs, prefix: prefix.len(), ahead: None, strays: Vec::new() }
    }

    /// The next group, if it is of a document up to and including `id`; of any document if there is none.
    pub fn next_up_to(&mut self, id: Option<&[u8]>) -> Result<Option<Group>> {
        let mut group: Option<Group> = None;
        loop {
            if self.ahead.is_none() {
                self.ahead = self.pairs.next().transpose()?;
            }
            let Some((key, value)) = &self.ahead else { return Ok(group) };
            let Some((own, kind)) = key.get(self.prefix..).and_then(RevisionKey::split) else {
                self.strays.push(keys::describe(Space::Revisions, key));
                self.ahead = None;
                continue;
            };
            let fits = match &group {
                Some(group) => own == group.id,
                None => id.is_none_or(|id| own <= id),
            };
            if !fits {
                return Ok(group);
            }
            group.get_or_insert_with(|| Group::of(own)).add(kind, value);
            self.ahead = None;
        }
    }
}

impl Group {
    /// One with nothing in it.
    pub fn of(id: &[u8]) -> Group {
        Group {
            id: id.to_vec(),
            tombstone: None,
            ancestors: Vec::new(),
            newest: 0,
            branches: None,
            bodies: Vec::new(),
            faults: Vec::new(),
        }
    }

    fn add(&mut self, kind: RevisionKey, value: &Bytes) {
        match kind {
            RevisionKey::Tombstone => match Tombstone::parse(value) {
                Ok(tombstone) => {
                    self.check_doc("tombstone", tombstone.doc);
                    self.tombstone = Some(value.clone());
                }
                Err(error) => self.faults.push(error.to_string()),
            },
            RevisionKey::Ancestor(generation) => {
                match <[u8; 16]>::try_from(&**value) {
                    Ok(hash) => self.ancestors.push(hash),
                    Err(_) => {
                        self.faults.push(format!("revision {generation} has a hash of {} bytes", value.len()))
                    }
                }
                if self.newest > 0 && generation != self.newest + 1 {
                    self.faults.push(format!("no revision lies between {} and {generation}", self.newest));
                }
                self.newest = generation;
            }
            RevisionKey::Branches => self.branches = Some(value.clone()),
            RevisionKey::Body(revision) => match Body::parse(value) {
                Ok(body) => {
                    self.check_doc("body", body.doc);
                    self.bodies.push(OtherBody {
                        revision,
                        deleted: body.deleted,
                        superseded_at: body.superseded_at,
                        attachments: body.attachments.to_vec(),
                    });
                }
                Err(error) => self.faults.push(format!("revision {revision}: {error}")),
            },
        }
    }

    fn check_doc(&mut self, what: &str, doc: Option<Doc<'_>>) {
        if let Some(Err(error)) = doc.map(|doc| Doc::validate(doc.as_bytes())) {
            self.faults.push(format!("the BSON of a {what} is damaged: {error}"));
        }
    }

    /// The inconsistencies between these keys and the winner, which the record or the tombstone holds.
    pub fn judge(&self, winner: Leaf, marks: Marks) -> Vec<String> {
        let mut faults = self.faults.clone();
        let parent = winner.revision.generation.saturating_sub(1);
        let expected = if marks.root { 0 } else { parent };
        if self.newest != expected {
            faults.push(match expected {
                0 => format!("no revision should come before {}, but {} does", winner.revision, self.newest),
                _ => format!("revision {expected} should be its parent, not {}", self.newest),
            });
        }
        if marks.branches != self.branches.is_some() {
            let which =
                if marks.branches { "its branches are missing" } else { "it should have no branches" };
            faults.push(which.to_owned());
        }
        let ancestors: Vec<[u8; 16]> = self.ancestors.iter().rev().copied().collect();
        let mut tree = RevisionTree::of_path(winner, &ancestors);
        if let Some(branches) = &self.branches {
            match tree.add_branches(branches) {
                Err(error) => faults.push(error.to_string()),
                Ok(()) if tree.winner() != Some(winner) => {
                    faults.push(format!("a branch wins against {}", winner.revision));
                }
                Ok(()) if tree.encode_branches().as_deref() != Some(branches) => {
                    faults.push("its branches are not in canonical form".to_owned());
                }
                Ok(()) => {}
            }
        }
        self.judge_bodies(winner, &tree, &mut faults);
        faults
    }

    /// Every leaf that is no deletion has a body, and what has one is a leaf or was superseded.
    fn judge_bodies(&self, winner: Leaf, tree: &RevisionTree, faults: &mut Vec<String>) {
        for body in &self.bodies {
            let leaf = tree.leaf(&body.revision).filter(|leaf| *leaf != winner);
            let fits = match leaf {
                Some(leaf) => body.superseded_at.is_none() && body.deleted == leaf.deleted,
                None => body.superseded_at.is_some() && body.revision != winner.revision,
            };
            if !fits {
                faults.push(format!("the body of revision {} does not belong to its tree", body.revision));
            }
        }
        for leaf in tree.leaves().into_iter().filter(|leaf| !leaf.deleted && *leaf != winner) {
            if !self.bodies.iter().any(|body| body.revision == leaf.revision) {
                faults.push(format!("the body of revision {} is missing", leaf.revision));
            }
        }
    }

    /// What is there of a purged document beside its tombstone.
    pub fn is_bare(&self) -> bool {
        self.ancestors.is_empty() && self.branches.is_none() && self.bodies.is_empty()
    }
}

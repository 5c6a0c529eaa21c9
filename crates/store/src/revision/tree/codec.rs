//! The stored form of a tree. The winner and its ancestors have keys of their own; all other branches are encoded under
//! one key.
//!
//! Encoded form, for each leaf but the winner: its generation; flags (1: a deletion, 2: the branch forks from a
//! revision on the winner's path or on an earlier branch); the number of hashes; the hashes, newest first, down to the
//! first revision of the branch, and with flag 2 also the hash of the revision that it forks from. Numbers are encoded
//! by [`write_number`].

use super::{Leaf, Merge, RevisionTree};
use crate::error::{Error, Result};
use crate::keys::{read_number, write_number};
use crate::revision::Revision;
use std::collections::BTreeSet;

const DELETED: u8 = 1;
const ATTACHED: u8 = 2;

impl RevisionTree {
    /// A tree of one path: the winner and the hashes of its ancestors, newest first.
    pub fn of_path(winner: Leaf, ancestors: &[[u8; 16]]) -> RevisionTree {
        let mut tree = RevisionTree::new();
        tree.merge(winner.revision, winner.deleted, ancestors);
        tree
    }

    /// Encodes all branches except the winner's; `None` if there is no other.
    pub fn encode_branches(&self) -> Option<Vec<u8>> {
        let leaves = self.leaves();
        let (winner, others) = leaves.split_first()?;
        if others.is_empty() {
            return None;
        }
        let mut seen: BTreeSet<Revision> = self.path(&winner.revision).into_iter().collect();
        let mut out = Vec::new();
        for leaf in others {
            let mut attached = false;
            let mut hashes = Vec::new();
            for revision in self.path(&leaf.revision) {
                hashes.push(revision.hash);
                if !seen.insert(revision) {
                    attached = true;
                    break;
                }
            }
            write_number(&mut out, leaf.revision.generation.into());
            out.push(if leaf.deleted { DELETED } else { 0 } | if attached { ATTACHED } else { 0 });
            write_number(&mut out, hashes.len() as u64);
            out.extend_from_slice(hashes.as_flattened());
        }
        Some(out)
    }

    /// Adds the branches that [`RevisionTree::encode_branches`] wrote to the winner's path.
    pub fn add_branches(&mut self, bytes: &[u8]) -> Result<()> {
        self.try_add_branches(bytes).ok_or_else(|| Error::Damaged("the branches of a document".to_owned()))
    }

    fn try_add_branches(&mut self, mut rest: &[u8]) -> Option<()> {
        while !rest.is_empty() {
            let (generation, after) = read_number(rest)?;
            let (&flags, after) = after.split_first()?;
            let (count, after) = read_number(after)?;
            let length = usize::try_from(count).ok()?.checked_mul(16)?;
            let (hashes, after) = after.split_at_checked(length)?;
            rest = after;
            let (hashes, _) = hashes.as_chunks::<16>();
            let (&hash, ancestors) = hashes.split_first()?;
            let generation =
                u32::try_from(generation).ok().filter(|&generation| count <= generation.into())?;
            if let Some(parent) = ancestors.last().filter(|_| flags & ATTACHED != 0) {
                let generation = generation.checked_sub(ancestors.len() as u32)?;
                self.nodes.get(&Revision { generation, hash: *parent })?;
            }
            let leaf = Revision { generation, hash };
            if self.merge(leaf, flags & DELETED != 0, ancestors) != Merge::Added {
                return None;
            }
        }
        Some(())
    }
}

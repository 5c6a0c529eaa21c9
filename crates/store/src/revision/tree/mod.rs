//! The revision tree of one document, in memory. It does no I/O.
//!
//! Each revision has its parent, unless the parent is unknown: histories arrive in parts (a replicator sends the newest
//! revisions, and old ones are stemmed), so a tree may have several roots. A revision without children is a leaf. Only
//! leaves can be edited. Merging a history adds its new revisions. If all histories are consistent, the order of the
//! merges does not matter. If two histories give one revision different parents, the first parent stays; no server that
//! computes its revisions sends such histories.
//!
//! The winner is the leaf with the greatest generation, then hash, among the leaves that are no deletions. If all
//! leaves are deletions, it is chosen among all.

mod codec;
#[cfg(test)]
mod tests;

use crate::revision::Revision;
use std::collections::{BTreeMap, BTreeSet};

/// A revision without children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Leaf {
    /// The revision.
    pub revision: Revision,
    /// Whether the revision is a deletion.
    pub deleted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    parent: Option<[u8; 16]>,
    children: u32,
    /// Whether the revision is a deletion. Known only for revisions that are or were leaves here.
    deleted: bool,
}

/// The known revisions of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevisionTree {
    nodes: BTreeMap<Revision, Node>,
}

/// The effect of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// None: the revision and its ancestors were known.
    Known,
    /// The revision was known, but some of its ancestors were not.
    Extended,
    /// The revision is a new leaf.
    Added,
}

impl RevisionTree {
    /// An empty tree.
    pub fn new() -> RevisionTree {
        RevisionTree::default()
    }

    /// Whether the tree has no revision.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The number of revisions.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether the tree holds the revision, as a leaf or as an ancestor.
    pub fn contains(&self, revision: &Revision) -> bool {
        self.nodes.contains_key(revision)
    }

    /// The revision, if it is a leaf.
    pub fn leaf(&self, revision: &Revision) -> Option<Leaf> {
        let node = self.nodes.get(revision).filter(|node| node.children == 0)?;
        Some(Leaf { revision: *revision, deleted: node.deleted })
    }

    /// All leaves. The winner is the first; each leaf precedes those that it wins against.
    pub fn leaves(&self) -> Vec<Leaf> {
        let mut leaves: Vec<Leaf> = self.each_leaf().collect();
        leaves.sort_by_key(|leaf| std::cmp::Reverse(rank(leaf)));
        leaves
    }

    fn each_leaf(&self) -> impl Iterator<Item = Leaf> + '_ {
        self.nodes
            .iter()
            .filter(|(_, node)| node.children == 0)
            .map(|(revision, node)| Leaf { revision: *revision, deleted: node.deleted })
    }

    /// The leaf that readers see.
    pub fn winner(&self) -> Option<Leaf> {
        self.each_leaf().max_by_key(rank)
    }

    /// The leaves except the winner that are no deletions, in the order of [`RevisionTree::leaves`].
    pub fn conflicts(&self) -> Vec<Revision> {
        self.leaves().iter().skip(1).filter(|leaf| !leaf.deleted).map(|leaf| leaf.revision).collect()
    }

    /// The leaves except the winner that are deletions, in the order of [`RevisionTree::leaves`].
    pub fn deleted_conflicts(&self) -> Vec<Revision> {
        self.leaves().iter().skip(1).filter(|leaf| leaf.deleted).map(|leaf| leaf.revision).collect()
    }

    /// The revision and its known ancestors, newest first; empty if the revision is unknown.
    pub fn path(&self, revision: &Revision) -> Vec<Revision> {
        let mut path = Vec::new();
        let mut next = Some(*revision);
        while let Some(revision) = next
            && let Some(node) = self.nodes.get(&revision)
        {
            path.push(revision);
            next = parent_of(&revision, node);
        }
        path
    }

    /// The leaves that descend from the revision, in the order of [`RevisionTree::leaves`]. Includes itself if it is a
    /// leaf.
    pub fn leaves_of(&self, revision: &Revision) -> Vec<Leaf> {
        let mut leaves = self.leaves();
        leaves.retain(|leaf| self.descends(&leaf.revision, revision));
        leaves
    }

    fn descends(&self, revision: &Revision, from: &Revision) -> bool {
        let mut next = Some(*revision);
        while let Some(at) = next.filter(|at| at.generation >= from.generation) {
            if at == *from {
                return true;
            }
            next = self.nodes.get(&at).and_then(|node| parent_of(&at, node));
        }
        false
    }

    /// Merges a history: a revision and the hashes of its ancestors, newest first. `deleted` says whether the revision
    /// is a deletion. Ancestors whose generation would be below 1 are ignored.
    pub fn merge(&mut self, revision: Revision, deleted: bool, ancestors: &[[u8; 16]]) -> Merge {
        let mut outcome = Merge::Known;
        if !self.contains(&revision) {
            self.nodes.insert(revision, Node { parent: None, children: 0, deleted });
            outcome = Merge::Added;
        }
        let mut child = revision;
        for &hash in ancestors {
            let Some(parent) = before(&child, hash) else { break };
            let known = self.nodes.get(&child).and_then(|node| node.parent);
            if known.is_some_and(|known| known != hash) {
                break;
            }
            if known.is_none() {
                if let Some(node) = self.nodes.get_mut(&child) {
                    node.parent = Some(hash);
                }
                let node =
                    self.nodes.entry(parent).or_insert(Node { parent: None, children: 0, deleted: false });
                node.children += 1;
                if outcome == Merge::Known {
                    outcome = Merge::Extended;
                }
            }
            child = parent;
        }
        outcome
    }

    /// Removes the revisions that are not among the newest `limit` (at least one) of any leaf's path.
    pub fn stem(&mut self, limit: u32) {
        let limit = limit.max(1);
        let longest = |tree: &RevisionTree| {
            let first = tree.nodes.keys().next().map_or(0, |revision| revision.generation);
            let last = tree.nodes.keys().next_back().map_or(0, |revision| revision.generation);
            last - first + 1
        };
        if self.nodes.len() <= limit as usize || longest(self) <= limit {
            return;
        }
        // For each kept revision, the greatest number of revisions that a path keeps from it downwards.
        let mut kept: BTreeMap<Revision, u32> = BTreeMap::new();
        for leaf in self.leaves() {
            let (mut next, mut left) = (Some(leaf.revision), limit);
            while let Some(revision) = next.filter(|_| left > 0) {
                let before = kept.entry(revision).or_insert(0);
                if *before >= left {
                    break;
                }
                *before = left;
                left -= 1;
                next = self.nodes.get(&revision).and_then(|node| parent_of(&revision, node));
            }
        }
        self.nodes.retain(|revision, _| kept.contains_key(revision));
        for (revision, node) in &mut self.nodes {
            if parent_of(revision, node).is_some_and(|parent| !kept.contains_key(&parent)) {
                node.parent = None;
            }
        }
    }

    /// Removes leaves, and the ancestors that lead to no other leaf. Returns those of `revisions` that were leaves.
    pub fn remove_leaves(&mut self, revisions: &[Revision]) -> Vec<Revision> {
        let wanted: BTreeSet<Revision> = revisions.iter().copied().collect();
        let removed: Vec<Revision> =
            wanted.into_iter().filter(|revision| self.leaf(revision).is_some()).collect();
        for revision in &removed {
            let mut next = Some(*revision);
            while let Some(revision) = next {
                let Some(node) = self.nodes.get(&revision).filter(|node| node.children == 0) else { break };
                next = parent_of(&revision, node);
                self.nodes.remove(&revision);
                if let Some(parent) = next.and_then(|parent| self.nodes.get_mut(&parent)) {
                    parent.children -= 1;
                }
            }
        }
        removed
    }
}

/// The order by which leaves win.
fn rank(leaf: &Leaf) -> (bool, Revision) {
    (!leaf.deleted, leaf.revision)
}

/// The revision with this hash in the generation before; `None` in generation 1.
fn before(revision: &Revision, hash: [u8; 16]) -> Option<Revision> {
    let generation = revision.generation.checked_sub(1).filter(|&generation| generation > 0)?;
    Some(Revision { generation, hash })
}

fn parent_of(revision: &Revision, node: &Node) -> Option<Revision> {
    before(revision, node.parent?)
}

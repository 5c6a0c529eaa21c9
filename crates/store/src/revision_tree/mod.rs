//! The tree of a document's revisions: pure, in memory, of one document at a time.
//!
//! A revision knows its parent, or that none is known: histories come in pieces (a replicator sends the newest part,
//! old parts are cut off), so there may be several roots. A revision that is nobody's parent is a leaf, and is the only
//! kind that can be edited. Merging a history adds what is new of it; when all that was told is consistent, the order in
//! which histories arrive does not matter. Where two histories name different parents of one revision, which no server
//! that computes its revisions does, the first stands.
//!
//! Winner: of the leaves that are no deletions, else of all, the one with the greatest generation, then hash.

mod codec;
#[cfg(test)]
mod tests;

use crate::revision::Revision;
use std::collections::{BTreeMap, BTreeSet};

/// A revision without children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Leaf {
    /// Which one.
    pub revision: Revision,
    /// Whether it is a deletion.
    pub deleted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    parent: Option<[u8; 16]>,
    children: u32,
    /// Whether it is a deletion; known of leaves and of what was a leaf here.
    deleted: bool,
}

/// What is known of a document's revisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevisionTree {
    nodes: BTreeMap<Revision, Node>,
}

/// What a merge did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Nothing: all of it was known.
    Known,
    /// The revision was known, but not all that came before it.
    Extended,
    /// The revision is a new leaf.
    Added,
}

impl RevisionTree {
    /// A tree of nothing.
    pub fn new() -> RevisionTree {
        RevisionTree::default()
    }

    /// Whether there is no revision.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many revisions there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether the revision is known, as a leaf or not.
    pub fn contains(&self, revision: &Revision) -> bool {
        self.nodes.contains_key(revision)
    }

    /// The revision, if it is a leaf.
    pub fn leaf(&self, revision: &Revision) -> Option<Leaf> {
        let node = self.nodes.get(revision).filter(|node| node.children == 0)?;
        Some(Leaf { revision: *revision, deleted: node.deleted })
    }

    /// All leaves, the winner first, each before those it wins against.
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

    /// The leaves that are no deletions, without the winner, in the order of [`RevisionTree::leaves`].
    pub fn conflicts(&self) -> Vec<Revision> {
        self.leaves().iter().skip(1).filter(|leaf| !leaf.deleted).map(|leaf| leaf.revision).collect()
    }

    /// The deletions among the leaves, without the winner, in the order of [`RevisionTree::leaves`].
    pub fn deleted_conflicts(&self) -> Vec<Revision> {
        self.leaves().iter().skip(1).filter(|leaf| leaf.deleted).map(|leaf| leaf.revision).collect()
    }

    /// The revision and those that led to it, newest first, as far as they are known; empty if it is not.
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

    /// The leaves that the revision led to, in the order of [`RevisionTree::leaves`]; itself, if it is one.
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

    /// Merges a history: a revision and the hashes of those before it, newest first. `deleted` says whether the
    /// revision is a deletion. Ancestors of generation 0 or less are left out.
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

    /// Keeps of each leaf's path the newest `limit` revisions (at least one). What another leaf's path keeps stays.
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
        // How many revisions are kept from here down, by the most generous path.
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

    /// Removes leaves as if they had never been, with what led to them alone. Gives those that were leaves.
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

/// What decides between leaves.
fn rank(leaf: &Leaf) -> (bool, Revision) {
    (!leaf.deleted, leaf.revision)
}

/// The revision of the generation before, if there is such a generation.
fn before(revision: &Revision, hash: [u8; 16]) -> Option<Revision> {
    let generation = revision.generation.checked_sub(1).filter(|&generation| generation > 0)?;
    Some(Revision { generation, hash })
}

fn parent_of(revision: &Revision, node: &Node) -> Option<Revision> {
    before(revision, node.parent?)
}

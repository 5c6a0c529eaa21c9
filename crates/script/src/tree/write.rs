//! Applies a sorted list of changes to a tree, visiting each node once.

use super::node::{self, Child, ChildBuf, Entry, Node};
use super::{FEWEST_CHILDREN, GOOD_BYTES, Layout, MOST_BYTES, NodesMut, Tree};
use crate::error::{Error, Result};
use crate::reduce::{Reduce, ReduceRow};
use std::cmp::Ordering;

/// A change of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// The place of the row.
    pub place: Vec<u8>,
    /// The row's new key and value; `None` removes the row.
    pub row: Option<(String, String)>,
}

impl Tree {
    /// Applies changes, which are sorted by place, with at most one for each place.
    pub fn apply(
        &mut self,
        nodes: &mut dyn NodesMut,
        layout: Layout,
        reduce: Option<&Reduce>,
        changes: &[Change],
    ) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        let mut writer = TreeWriter { tree: *self, nodes, layout, reduce };
        let changed = match self.root {
            Some(root) => writer.change_node(root, changes)?,
            None => writer.change_leaf(None, &[], changes)?,
        };
        let Some(mut level) = changed else { return Ok(()) };
        while level.len() > 1 {
            level = writer.write_inner(None, &level)?;
        }
        let mut root = level.first().map(|child| child.node);
        // Removes root nodes that have a single child.
        while let Some(top) = root {
            let bytes = writer.nodes.read(top)?;
            match Node::parse(&bytes)? {
                Node::Inner(children) if children.len() == 1 => {
                    root = Some(children[0].node);
                    writer.nodes.remove(top)?;
                }
                _ => break,
            }
        }
        writer.tree.root = root;
        *self = writer.tree;
        Ok(())
    }
}

pub(super) struct TreeWriter<'a> {
    pub tree: Tree,
    pub nodes: &'a mut dyn NodesMut,
    pub layout: Layout,
    pub reduce: Option<&'a Reduce>,
}

impl TreeWriter<'_> {
    /// Changes a node and the nodes below it. Returns the entries that replace it in its parent, or `None` if no row
    /// changed.
    fn change_node(&mut self, number: u64, changes: &[Change]) -> Result<Option<Vec<ChildBuf>>> {
        let bytes = self.nodes.read(number)?;
        match Node::parse(&bytes)? {
            Node::Leaf(entries) => self.change_leaf(Some(number), &entries, changes),
            Node::Inner(children) => self.change_inner(number, &children, changes),
        }
    }

    fn change_inner(
        &mut self,
        number: u64,
        children: &[Child<'_>],
        mut changes: &[Change],
    ) -> Result<Option<Vec<ChildBuf>>> {
        let mut is_changed = false;
        let mut level = Vec::with_capacity(children.len() + 4);
        // Whether each entry's node has lost rows.
        let mut shrunk = Vec::with_capacity(children.len() + 4);
        for (index, child) in children.iter().enumerate() {
            // Changes after all places go into the last child.
            let is_last = index + 1 == children.len();
            let own = if is_last {
                changes.len()
            } else {
                changes.partition_point(|change| change.place.as_slice() <= child.last)
            };
            let (below, rest) = changes.split_at(own);
            changes = rest;
            let changed = if below.is_empty() { None } else { self.change_node(child.node, below)? };
            match changed {
                Some(mut entries) => {
                    is_changed = true;
                    let is_less = entries.iter().map(|entry| entry.rows).sum::<u64>() < child.rows;
                    shrunk.resize(shrunk.len() + entries.len(), is_less);
                    level.append(&mut entries);
                }
                None => {
                    shrunk.push(false);
                    level.push(child.to_buf());
                }
            }
        }
        if !is_changed {
            return Ok(None);
        }
        if level.is_empty() {
            self.nodes.remove(number)?;
            return Ok(Some(level));
        }
        let level = self.join(level, &shrunk)?;
        self.write_inner(Some(number), &level).map(Some)
    }

    /// Merges neighbours of which one has shrunk, if both fit into one node. Without this, a tree that loses most of
    /// its rows would keep most of its nodes.
    fn join(&mut self, level: Vec<ChildBuf>, shrunk: &[bool]) -> Result<Vec<ChildBuf>> {
        let mut joined: Vec<ChildBuf> = Vec::with_capacity(level.len());
        let mut before_shrunk = false;
        for (child, &is_shrunk) in level.into_iter().zip(shrunk) {
            if let Some(before) = joined.last_mut()
                && self.join_two(before, before_shrunk, &child, is_shrunk)?
            {
                before_shrunk = true;
            } else {
                joined.push(child);
                before_shrunk = is_shrunk;
            }
        }
        Ok(joined)
    }

    /// Merges a node into the previous one if one of the two has shrunk and become small. Returns whether it did.
    fn join_two(
        &mut self,
        one: &mut ChildBuf,
        one_shrunk: bool,
        other: &ChildBuf,
        other_shrunk: bool,
    ) -> Result<bool> {
        // A node that was not changed is read only if the other one is small.
        let is_small = |writer: &Self, child: &ChildBuf, shrunk: bool| {
            Ok::<_, Error>(shrunk && node::is_small(&writer.nodes.read(child.node)?)?)
        };
        if !is_small(self, one, one_shrunk)? && !is_small(self, other, other_shrunk)? {
            return Ok(false);
        }
        let Some(both) = node::joined(&self.nodes.read(one.node)?, &self.nodes.read(other.node)?)? else {
            return Ok(false);
        };
        if let Some(reduce) = self.reduce {
            one.reduction = reduce.merge(&[&one.reduction, &other.reduction])?;
        }
        one.last.clone_from(&other.last);
        one.rows += other.rows;
        self.nodes.remove(other.node)?;
        self.nodes.write(one.node, both)?;
        Ok(true)
    }

    fn change_leaf(
        &mut self,
        number: Option<u64>,
        entries: &[Entry<'_>],
        changes: &[Change],
    ) -> Result<Option<Vec<ChildBuf>>> {
        let before = entries;
        let mut merged: Vec<Entry<'_>> = Vec::with_capacity(entries.len() + changes.len());
        let (mut entries, mut changes) = (entries.iter().peekable(), changes.iter().peekable());
        // Merges the old rows and the changes, both sorted by place.
        loop {
            let order = match (entries.peek(), changes.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(entry), Some(change)) => entry.place.cmp(&change.place),
            };
            let old = if order.is_le() { entries.next() } else { None };
            if order.is_lt() {
                merged.extend(old);
                continue;
            }
            if let Some(old) = old {
                self.tree.rows -= 1;
                self.tree.bytes = self.tree.bytes.saturating_sub(size_of(old));
            }
            if let Some(Change { place, row: Some((key, value)) }) = changes.next() {
                let entry = Entry { place, key, value };
                self.tree.rows += 1;
                self.tree.bytes += size_of(&entry);
                merged.push(entry);
            }
        }
        // If no row changed, the nodes above keep their entries and nothing is written.
        if merged == before {
            return Ok(None);
        }
        if merged.is_empty() {
            if let Some(number) = number {
                self.nodes.remove(number)?;
            }
            return Ok(Some(Vec::new()));
        }
        let sizes = merged.iter().map(|entry| entry.place.len() + entry.key.len() + entry.value.len() + 6);
        let mut level = Vec::new();
        // The first part keeps the node's number; further parts get new numbers.
        let mut number = number;
        let mut rest = merged.as_slice();
        for count in split(sizes, 1) {
            let (part, after) = rest.split_at(count);
            rest = after;
            let node = number.take().unwrap_or_else(|| self.next());
            let mut bytes = node::begin_leaf();
            part.iter().for_each(|entry| node::write_entry(&mut bytes, *entry));
            level.push(self.leaf_child(node, part)?);
            self.nodes.write(node, bytes)?;
        }
        Ok(Some(level))
    }

    /// Makes the entry for a leaf.
    pub fn leaf_child(&self, node: u64, rows: &[Entry<'_>]) -> Result<ChildBuf> {
        let reduction = match self.reduce {
            Some(reduce) => reduce_entries(reduce, self.layout, rows)?,
            None => Vec::new(),
        };
        let last = rows.last().map(|entry| entry.place.to_vec()).unwrap_or_default();
        Ok(ChildBuf { node, last, rows: rows.len() as u64, reduction })
    }

    /// Writes inner nodes with these entries, the first one under the given number. Returns the entries for them.
    pub fn write_inner(&mut self, mut number: Option<u64>, children: &[ChildBuf]) -> Result<Vec<ChildBuf>> {
        let mut level = Vec::new();
        let mut rest = children;
        for count in split(children.iter().map(|child| child.view().size()), FEWEST_CHILDREN) {
            let (part, after) = rest.split_at(count);
            rest = after;
            let node = number.take().unwrap_or_else(|| self.next());
            let reduction = match self.reduce {
                Some(reduce) => {
                    let parts: Vec<&[u8]> = part.iter().map(|child| child.reduction.as_slice()).collect();
                    reduce.merge(&parts)?
                }
                None => Vec::new(),
            };
            let last = part.last().map(|child| child.last.clone()).unwrap_or_default();
            level.push(ChildBuf { node, last, rows: part.iter().map(|child| child.rows).sum(), reduction });
            self.nodes.write(node, node::inner(part))?;
        }
        Ok(level)
    }

    pub fn next(&mut self) -> u64 {
        let number = self.tree.next;
        self.tree.next += 1;
        number
    }
}

/// Reduces rows.
pub(super) fn reduce_entries(reduce: &Reduce, layout: Layout, rows: &[Entry<'_>]) -> Result<Vec<u8>> {
    let ids: Vec<_> = match reduce {
        // Only script functions need ids.
        Reduce::Script(..) => rows.iter().map(|entry| layout.id(entry.place)).collect(),
        Reduce::Builtin(..) => Vec::new(),
    };
    let mut rows = rows.iter().enumerate().map(|(index, entry)| ReduceRow {
        place: entry.place,
        key: entry.key,
        id: ids.get(index).map_or("", |id| id),
        value: entry.value,
    });
    reduce.rows(&mut rows)
}

fn size_of(entry: &Entry<'_>) -> u64 {
    (entry.key.len() + entry.value.len()) as u64
}

/// How many entries go into each node when entries of these sizes are split over several nodes.
fn split(sizes: impl Iterator<Item = usize> + Clone, fewest: usize) -> Vec<usize> {
    let total: usize = sizes.clone().sum();
    let count = sizes.clone().count();
    if total <= MOST_BYTES || count < 2 * fewest {
        return vec![count];
    }
    let parts = total.div_ceil(GOOD_BYTES);
    let good = total.div_ceil(parts);
    let mut counts = Vec::with_capacity(parts);
    let (mut bytes, mut entries, mut left) = (0, 0, count);
    for size in sizes {
        bytes += size;
        entries += 1;
        left -= 1;
        if bytes >= good && entries >= fewest && left >= fewest {
            counts.push(entries);
            (bytes, entries) = (0, 0);
        }
    }
    if entries > 0 {
        counts.push(entries);
    }
    counts
}

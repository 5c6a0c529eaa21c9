//! A B-tree of rows. Every entry of an inner node has the number of rows below it and their reduction.
//!
//! Nodes are byte strings with numbers, read and written through [`Nodes`] and [`NodesMut`]: in the store, where a
//! snapshot gives a consistent view, or in memory. A node has a few kilobytes. A change rewrites the leaf and the nodes
//! above it. Node numbers are not reused, and a rewritten node keeps its number.
//!
//! Invariants:
//! - Rows are ordered by place, and places are unique. All leaves have the same depth. No node is empty.
//! - When a node loses rows and becomes small, it is merged with a neighbour under the same parent if both fit into one
//!   node.
//! - An entry of an inner node has the greatest place below it, the number of rows and, if the view has a reduce
//!   function, their reduction.

mod build;
mod node;
mod place;
mod read;
mod write;

pub(crate) use build::TreeBuilder;
pub(crate) use node::{Entry, read_entry, write_entry};
pub(crate) use place::{ABOVE, Layout, write_id, write_partition};
pub(crate) use read::{GroupFold, Grouping, Range};
pub(crate) use write::Change;

use crate::error::{Error, Result};
use diwan_kv::Bytes;
use diwan_store::keys::{read_number, write_number};
use std::collections::HashMap;

/// The size at which a node is split, and the intended size of the parts.
const MOST_BYTES: usize = 6 << 10;
const GOOD_BYTES: usize = 4 << 10;
/// The minimum number of entries of a split inner node, regardless of their size, which keeps the tree shallow.
const FEWEST_CHILDREN: usize = 8;

/// A source of nodes.
pub(crate) trait Nodes {
    /// Reads the node with this number.
    fn read(&self, node: u64) -> Result<Bytes>;
}

/// A store for nodes.
pub(crate) trait NodesMut: Nodes {
    /// Writes a node.
    fn write(&mut self, node: u64, bytes: Vec<u8>) -> Result<()>;

    /// Removes a node.
    fn remove(&mut self, node: u64) -> Result<()>;
}

/// Nodes in memory.
#[derive(Default)]
pub(crate) struct MemoryNodes {
    nodes: HashMap<u64, Bytes>,
}

impl Nodes for MemoryNodes {
    fn read(&self, node: u64) -> Result<Bytes> {
        self.nodes.get(&node).cloned().ok_or_else(damaged)
    }
}

impl NodesMut for MemoryNodes {
    fn write(&mut self, node: u64, bytes: Vec<u8>) -> Result<()> {
        self.nodes.insert(node, bytes.into());
        Ok(())
    }

    fn remove(&mut self, node: u64) -> Result<()> {
        self.nodes.remove(&node);
        Ok(())
    }
}

/// A tree: its root, and totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    /// The root; `None` if there are no rows.
    pub root: Option<u64>,
    /// The number for the next node.
    pub next: u64,
    /// The number of rows.
    pub rows: u64,
    /// The total size of keys and values in bytes.
    pub bytes: u64,
}

impl Tree {
    /// Appends the tree's fields to a header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_number(out, self.root.map_or(0, |root| root + 1));
        write_number(out, self.next);
        write_number(out, self.rows);
        write_number(out, self.bytes);
    }

    /// Decodes a tree. Returns it with the remaining bytes.
    pub fn decode(bytes: &[u8]) -> Option<(Tree, &[u8])> {
        let (root, rest) = read_number(bytes)?;
        let (next, rest) = read_number(rest)?;
        let (rows, rest) = read_number(rest)?;
        let (bytes, rest) = read_number(rest)?;
        Some((Tree { root: root.checked_sub(1), next, rows, bytes }, rest))
    }
}

fn damaged() -> Error {
    Error::Store(diwan_store::Error::Damaged("a node of a view".to_owned()))
}

#[cfg(test)]
mod tests;

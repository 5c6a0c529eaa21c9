//! A B-tree of rows, with the number of rows and a reduction of them in every inner node.
//!
//! Nodes are byte strings under numbers, read and written through [`Nodes`] and [`NodesMut`]: in the store, where a
//! snapshot shows one state of all of them, or in memory. A node is some kilobytes. A change rewrites the leaf and the
//! nodes above it; numbers of nodes are given out once, but a node that is rewritten keeps its own.
//!
//! Invariants:
//! - Rows are ordered by their places, which are unique. All leaves are at the same depth. No node is empty.
//! - A node that loses rows and becomes small is joined with a neighbour under the same parent, if both fit into one.
//! - An entry of an inner node holds the greatest place below it, the number of rows and, if the view is reduced, their
//!   reduction.

mod build;
mod node;
mod place;
mod read;
mod write;

pub(crate) use build::Builder;
pub(crate) use node::{Entry, read_entry, write_entry};
pub(crate) use place::{ABOVE, Layout, write_id, write_partition};
pub(crate) use read::{GroupFold, Grouping, Range};
pub(crate) use write::Change;

use crate::error::{Error, Result};
use diwan_kv::Bytes;
use diwan_store::keys::{read_number, write_number};
use std::collections::HashMap;

/// How large a node may become before it is split, and how large the parts are meant to be.
const MOST_BYTES: usize = 6 << 10;
const GOOD_BYTES: usize = 4 << 10;
/// How few entries an inner node is made of, however large they are: the tree's height must stay small.
const FEWEST_CHILDREN: usize = 8;

/// Where nodes are read.
pub(crate) trait Nodes {
    /// The node with this number.
    fn read(&self, node: u64) -> Result<Bytes>;
}

/// Where nodes are read and written.
pub(crate) trait NodesMut: Nodes {
    /// Sets a node.
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

/// A tree: where it begins, and sums over it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    /// The topmost node; none if there are no rows.
    pub root: Option<u64>,
    /// The next number for a node.
    pub next: u64,
    /// The number of rows.
    pub rows: u64,
    /// The bytes of all keys and values.
    pub bytes: u64,
}

impl Tree {
    /// Appends the tree to a header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_number(out, self.root.map_or(0, |root| root + 1));
        write_number(out, self.next);
        write_number(out, self.rows);
        write_number(out, self.bytes);
    }

    /// Reads a tree and gives the rest.
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

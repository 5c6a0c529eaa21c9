//! Builds a tree from sorted rows, writing every node once.

use super::node::{self, ChildBuf, Entry, Node};
use super::write::TreeWriter;
use super::{FEWEST_CHILDREN, GOOD_BYTES, Layout, NodesMut, Tree};
use crate::error::Result;
use crate::reduce::Reduce;

/// A builder that appends to a tree.
pub(crate) struct TreeBuilder<'a> {
    writer: TreeWriter<'a>,
    leaf: Vec<u8>,
    /// The entries that are not yet in a node, for each level, starting with the level above the leaves.
    levels: Vec<Vec<ChildBuf>>,
    sizes: Vec<usize>,
}

impl<'a> TreeBuilder<'a> {
    /// A builder with an empty tree.
    pub fn new(nodes: &'a mut dyn NodesMut, layout: Layout, reduce: Option<&'a Reduce>) -> TreeBuilder<'a> {
        let writer = TreeWriter { tree: Tree::default(), nodes, layout, reduce };
        TreeBuilder { writer, leaf: node::begin_leaf(), levels: Vec::new(), sizes: Vec::new() }
    }

    /// Adds a row. Its place must be greater than that of the previous row.
    pub fn push(&mut self, row: Entry<'_>) -> Result<()> {
        node::write_entry(&mut self.leaf, row);
        self.writer.tree.rows += 1;
        self.writer.tree.bytes += (row.key.len() + row.value.len()) as u64;
        if self.leaf.len() >= GOOD_BYTES { self.end_leaf() } else { Ok(()) }
    }

    /// Finishes the tree after the last row.
    pub fn finish(mut self) -> Result<Tree> {
        if self.leaf.len() > 1 {
            self.end_leaf()?;
        }
        let mut level = 0;
        while level < self.levels.len() {
            let rest = std::mem::take(&mut self.levels[level]);
            let is_top = level + 1 == self.levels.len();
            if is_top && rest.len() == 1 {
                self.writer.tree.root = Some(rest[0].node);
                break;
            }
            if !rest.is_empty() {
                self.end_inner(level, &rest)?;
            }
            level += 1;
        }
        Ok(self.writer.tree)
    }

    fn end_leaf(&mut self) -> Result<()> {
        let bytes = std::mem::replace(&mut self.leaf, node::begin_leaf());
        let number = self.writer.next();
        if let Node::Leaf(rows) = Node::parse(&bytes)? {
            let child = self.writer.leaf_child(number, &rows)?;
            self.add(0, child)?;
        }
        self.writer.nodes.write(number, bytes)
    }

    fn add(&mut self, level: usize, child: ChildBuf) -> Result<()> {
        if self.levels.len() == level {
            self.levels.push(Vec::new());
            self.sizes.push(0);
        }
        self.sizes[level] += child.view().size();
        self.levels[level].push(child);
        if self.sizes[level] >= GOOD_BYTES && self.levels[level].len() >= FEWEST_CHILDREN {
            let full = std::mem::take(&mut self.levels[level]);
            self.end_inner(level, &full)?;
        }
        Ok(())
    }

    fn end_inner(&mut self, level: usize, children: &[ChildBuf]) -> Result<()> {
        self.sizes[level] = 0;
        for child in self.writer.write_inner(None, children)? {
            self.add(level + 1, child)?;
        }
        Ok(())
    }
}

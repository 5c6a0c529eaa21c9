//! The binary form of nodes. The first byte distinguishes leaves from inner nodes; the entries follow.
//!
//! An entry of a leaf has place, key and value, each preceded by its length. An entry of an inner node has the child's
//! number, its greatest place preceded by the length, the number of its rows, and their reduction preceded by its
//! length.

use super::{FEWEST_CHILDREN, GOOD_BYTES, damaged};
use crate::error::Result;
use diwan_store::keys::{read_number, write_number};

const LEAF: u8 = 0;
const INNER: u8 = 1;

/// A row in a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// The place of the row in the order.
    pub place: &'a [u8],
    /// The key, as JSON.
    pub key: &'a str,
    /// The value, as JSON.
    pub value: &'a str,
}

/// An entry of an inner node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Child<'a> {
    pub node: u64,
    pub last: &'a [u8],
    pub rows: u64,
    pub reduction: &'a [u8],
}

/// An owned entry of an inner node.
#[derive(Clone, Debug)]
pub(super) struct ChildBuf {
    pub node: u64,
    pub last: Vec<u8>,
    pub rows: u64,
    pub reduction: Vec<u8>,
}

impl ChildBuf {
    pub fn view(&self) -> Child<'_> {
        Child { node: self.node, last: &self.last, rows: self.rows, reduction: &self.reduction }
    }
}

impl Child<'_> {
    pub fn to_buf(self) -> ChildBuf {
        ChildBuf {
            node: self.node,
            last: self.last.to_vec(),
            rows: self.rows,
            reduction: self.reduction.to_vec(),
        }
    }

    /// The approximate size of the entry in bytes.
    pub fn size(&self) -> usize {
        self.last.len() + self.reduction.len() + 16
    }
}

/// A parsed view of a node.
pub(super) enum Node<'a> {
    Leaf(Vec<Entry<'a>>),
    Inner(Vec<Child<'a>>),
}

impl<'a> Node<'a> {
    /// Parses a node.
    pub fn parse(bytes: &'a [u8]) -> Result<Node<'a>> {
        let read = || {
            let (kind, mut rest) = bytes.split_first()?;
            match *kind {
                LEAF => {
                    let mut entries = Vec::with_capacity(64);
                    while !rest.is_empty() {
                        let (entry, after) = read_entry(rest)?;
                        entries.push(entry);
                        rest = after;
                    }
                    Some(Node::Leaf(entries))
                }
                INNER => {
                    let mut children = Vec::with_capacity(64);
                    while !rest.is_empty() {
                        let (node, after) = read_number(rest)?;
                        let (last, after) = read_bytes(after)?;
                        let (rows, after) = read_number(after)?;
                        let (reduction, after) = read_bytes(after)?;
                        children.push(Child { node, last, rows, reduction });
                        rest = after;
                    }
                    Some(Node::Inner(children))
                }
                _ => None,
            }
        };
        read().ok_or_else(damaged)
    }
}

/// Starts a leaf with its first byte. Entries are appended to it.
pub(super) fn begin_leaf() -> Vec<u8> {
    vec![LEAF]
}

/// Appends an entry to a leaf or to a sorted run.
pub(crate) fn write_entry(out: &mut Vec<u8>, entry: Entry<'_>) {
    for part in [entry.place, entry.key.as_bytes(), entry.value.as_bytes()] {
        write_number(out, part.len() as u64);
        out.extend_from_slice(part);
    }
}

/// Reads an entry. Returns it with the remaining bytes.
pub(crate) fn read_entry(bytes: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let (place, rest) = read_bytes(bytes)?;
    let (key, rest) = read_bytes(rest)?;
    let (value, rest) = read_bytes(rest)?;
    Some((
        Entry { place, key: std::str::from_utf8(key).ok()?, value: std::str::from_utf8(value).ok()? },
        rest,
    ))
}

/// Makes an inner node with these entries.
pub(super) fn inner(children: &[ChildBuf]) -> Vec<u8> {
    let mut out = vec![INNER];
    for child in children {
        write_number(&mut out, child.node);
        write_number(&mut out, child.last.len() as u64);
        out.extend_from_slice(&child.last);
        write_number(&mut out, child.rows);
        write_number(&mut out, child.reduction.len() as u64);
        out.extend_from_slice(&child.reduction);
    }
    out
}

/// Whether a node is small enough to be merged with a neighbour.
pub(super) fn is_small(bytes: &[u8]) -> Result<bool> {
    Ok(bytes.len() < GOOD_BYTES / 2 || child_count(bytes)?.is_some_and(|count| count < FEWEST_CHILDREN / 2))
}

/// Merges two nodes of the same kind; `None` if the result would be too large.
pub(super) fn joined(one: &[u8], other: &[u8]) -> Result<Option<Vec<u8>>> {
    let counts = child_count(one)?.zip(child_count(other)?);
    let is_short = counts.is_some_and(|(one, other)| one + other <= FEWEST_CHILDREN);
    if one.len() + other.len() > GOOD_BYTES && !is_short {
        return Ok(None);
    }
    let [kind, entries @ ..] = other else { return Err(damaged()) };
    if one.first() != Some(kind) {
        return Err(damaged());
    }
    Ok(Some([one, entries].concat()))
}

/// The number of entries of an inner node.
fn child_count(bytes: &[u8]) -> Result<Option<usize>> {
    Ok(match Node::parse(bytes)? {
        Node::Inner(children) => Some(children.len()),
        Node::Leaf(_) => None,
    })
}

fn read_bytes(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = read_number(bytes)?;
    rest.split_at_checked(usize::try_from(length).ok()?)
}

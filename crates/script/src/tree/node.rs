//! Nodes as bytes. The first byte tells leaves from inner nodes; the entries follow until the end.
//!
//! An entry of a leaf: place, key, value, each with its length in front. Of an inner node: the child's number, its
//! greatest place with its length, the number of its rows, their reduction with its length.

use super::{FEWEST_CHILDREN, GOOD_BYTES, damaged};
use crate::error::Result;
use diwan_store::keys::{read_number, write_number};

const LEAF: u8 = 0;
const INNER: u8 = 1;

/// A row in a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// Where it stands.
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

/// The same, owned.
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

    /// About how many bytes the entry takes.
    pub fn size(&self) -> usize {
        self.last.len() + self.reduction.len() + 16
    }
}

/// A node, viewed.
pub(super) enum Node<'a> {
    Leaf(Vec<Entry<'a>>),
    Inner(Vec<Child<'a>>),
}

impl<'a> Node<'a> {
    /// Reads a node.
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

/// The first byte of a leaf, to which entries are appended.
pub(super) fn begin_leaf() -> Vec<u8> {
    vec![LEAF]
}

/// Appends an entry to a leaf, or to a run.
pub(crate) fn write_entry(out: &mut Vec<u8>, entry: Entry<'_>) {
    for part in [entry.place, entry.key.as_bytes(), entry.value.as_bytes()] {
        write_number(out, part.len() as u64);
        out.extend_from_slice(part);
    }
}

/// Reads an entry and gives the rest.
pub(crate) fn read_entry(bytes: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let (place, rest) = read_bytes(bytes)?;
    let (key, rest) = read_bytes(rest)?;
    let (value, rest) = read_bytes(rest)?;
    Some((
        Entry { place, key: std::str::from_utf8(key).ok()?, value: std::str::from_utf8(value).ok()? },
        rest,
    ))
}

/// An inner node of these entries.
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

/// Whether a node is so small that it is joined with a neighbour, if both fit into one.
pub(super) fn is_small(bytes: &[u8]) -> Result<bool> {
    Ok(bytes.len() < GOOD_BYTES / 2 || child_count(bytes)?.is_some_and(|count| count < FEWEST_CHILDREN / 2))
}

/// A node with the entries of both, of the same kind, if it is not too large to be one.
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

/// How many entries an inner node has.
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

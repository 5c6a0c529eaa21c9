//! Reads a tree: the rows of a range, the number of rows before a place, and reductions of ranges and groups.

use super::node::{Child, Entry, Node};
use super::write::reduce_entries;
use super::{Layout, Nodes, Tree};
use crate::error::Result;
use crate::json;
use crate::reduce::Reduce;

/// The rows from `from` up to, but not including, `to`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    /// The lowest place. The empty place is below all others.
    pub from: Vec<u8>,
    /// The exclusive upper bound; `None` means no bound.
    pub to: Option<Vec<u8>>,
}

impl Range {
    /// Whether the range contains a place.
    pub fn contains(&self, place: &[u8]) -> bool {
        place >= self.from.as_slice() && self.to.as_ref().is_none_or(|to| place < to.as_slice())
    }

    fn bounds(&self) -> Bounds<'_> {
        let from = (!self.from.is_empty()).then_some(self.from.as_slice());
        Bounds { from, to: self.to.as_deref() }
    }
}

/// The part of a range that still has to be checked below a node.
#[derive(Clone, Copy)]
struct Bounds<'a> {
    from: Option<&'a [u8]>,
    to: Option<&'a [u8]>,
}

impl<'a> Bounds<'a> {
    /// The bounds for a child; `None` if none of its rows can be within them. All its places are greater than `before`.
    fn below(self, before: Option<&[u8]>, child: &Child<'_>) -> Option<Bounds<'a>> {
        if self.from.is_some_and(|from| child.last < from)
            || self.to.is_some_and(|to| before.is_some_and(|before| before >= to))
        {
            return None;
        }
        Some(Bounds {
            from: self.from.filter(|from| before.is_none_or(|before| before < *from)),
            to: self.to.filter(|to| child.last >= *to),
        })
    }

    fn is_all(self) -> bool {
        self.from.is_none() && self.to.is_none()
    }

    /// The rows of a leaf within the bounds.
    fn rows<'e, 'r>(self, entries: &'r [Entry<'e>]) -> &'r [Entry<'e>] {
        let start = self.from.map_or(0, |from| entries.partition_point(|entry| entry.place < from));
        let end = self.to.map_or(entries.len(), |to| entries.partition_point(|entry| entry.place < to));
        entries.get(start..end).unwrap_or_default()
    }
}

impl Tree {
    /// Calls `show` with the rows of a range, in ascending or descending order, after skipping the first `skip` rows,
    /// until `show` returns false.
    pub fn scan(
        &self,
        nodes: &dyn Nodes,
        range: &Range,
        descending: bool,
        mut skip: u64,
        show: &mut dyn FnMut(Entry<'_>) -> Result<bool>,
    ) -> Result<()> {
        match self.root {
            Some(root) => scan(nodes, root, range.bounds(), descending, &mut skip, show).map(drop),
            None => Ok(()),
        }
    }

    /// How many rows have a place below this one.
    pub fn rows_before(&self, nodes: &dyn Nodes, place: &[u8]) -> Result<u64> {
        let mut count = 0;
        let mut next = self.root;
        while let Some(number) = next.take() {
            let bytes = nodes.read(number)?;
            match Node::parse(&bytes)? {
                Node::Leaf(entries) => count += entries.partition_point(|entry| entry.place < place) as u64,
                Node::Inner(children) => {
                    for child in &children {
                        if child.last >= place {
                            next = Some(child.node);
                            break;
                        }
                        count += child.rows;
                    }
                }
            }
        }
        Ok(count)
    }

    /// How many rows a range contains.
    pub fn rows_in(&self, nodes: &dyn Nodes, range: &Range) -> Result<u64> {
        let end = match &range.to {
            Some(to) => self.rows_before(nodes, to)?,
            None => self.rows,
        };
        Ok(end.saturating_sub(self.rows_before(nodes, &range.from)?))
    }
}

/// Scans a subtree. Returns whether to continue.
fn scan(
    nodes: &dyn Nodes,
    number: u64,
    bounds: Bounds<'_>,
    descending: bool,
    skip: &mut u64,
    show: &mut dyn FnMut(Entry<'_>) -> Result<bool>,
) -> Result<bool> {
    let bytes = nodes.read(number)?;
    match Node::parse(&bytes)? {
        Node::Leaf(entries) => {
            let rows = bounds.rows(&entries);
            let left_out = usize::try_from(*skip).unwrap_or(usize::MAX).min(rows.len());
            *skip -= left_out as u64;
            for at in left_out..rows.len() {
                let row = rows[if descending { rows.len() - 1 - at } else { at }];
                if !show(row)? {
                    return Ok(false);
                }
            }
        }
        Node::Inner(children) => {
            for at in 0..children.len() {
                let index = if descending { children.len() - 1 - at } else { at };
                let child = &children[index];
                let before = index.checked_sub(1).map(|index| children[index].last);
                let Some(below) = bounds.below(before, child) else { continue };
                if below.is_all() && *skip >= child.rows {
                    *skip -= child.rows;
                } else if !scan(nodes, child.node, below, descending, skip, show)? {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

/// Which rows are reduced together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grouping {
    /// All rows.
    All,
    /// Rows whose keys have the same first elements; the number tells how many.
    Level(usize),
}

/// Receives a group: the common prefix of its places, its key and its reduction. Returns whether to continue.
pub(crate) type ShowGroup<'a> = dyn FnMut(&[u8], &str, &[u8]) -> Result<bool> + 'a;

/// Reduces the groups of several ranges, one after another.
pub(crate) struct GroupFold<'a> {
    nodes: &'a dyn Nodes,
    layout: Layout,
    reduce: &'a Reduce,
    grouping: Grouping,
    descending: bool,
    /// The group being collected: the common prefix of its places, and its key as JSON.
    current: Option<(Vec<u8>, String)>,
    parts: Vec<Vec<u8>>,
}

/// How many reductions of a group are collected before they are merged.
const MOST_PARTS: usize = 128;

impl<'a> GroupFold<'a> {
    /// A fold over trees of one view.
    pub fn new(
        nodes: &'a dyn Nodes,
        layout: Layout,
        reduce: &'a Reduce,
        grouping: Grouping,
        descending: bool,
    ) -> Self {
        GroupFold { nodes, layout, reduce, grouping, descending, current: None, parts: Vec::new() }
    }

    /// Calls `show` with each group of a range (common prefix, key and reduction) until `show` returns false.
    pub fn fold_range(&mut self, tree: &Tree, range: &Range, show: &mut ShowGroup<'_>) -> Result<bool> {
        if self.grouping == Grouping::All {
            self.current = Some((Vec::new(), "null".to_owned()));
        }
        let wants_more = match tree.root {
            Some(root) => self.node(root, range.bounds(), None, show)?,
            None => true,
        };
        Ok(wants_more && self.end_group(show)?)
    }

    fn group<'p>(&self, place: &'p [u8]) -> &'p [u8] {
        match self.grouping {
            Grouping::All => &[],
            Grouping::Level(level) => self.layout.group(place, level),
        }
    }

    /// Folds a subtree. All its places are greater than `before`.
    fn node(
        &mut self,
        number: u64,
        bounds: Bounds<'_>,
        before: Option<&[u8]>,
        show: &mut ShowGroup<'_>,
    ) -> Result<bool> {
        let bytes = self.nodes.read(number)?;
        match Node::parse(&bytes)? {
            Node::Leaf(entries) => self.leaf(bounds.rows(&entries), show),
            Node::Inner(children) => {
                for at in 0..children.len() {
                    let index = if self.descending { children.len() - 1 - at } else { at };
                    let child = &children[index];
                    let own_before = index.checked_sub(1).map(|index| children[index].last).or(before);
                    let Some(below) = bounds.below(own_before, child) else { continue };
                    if below.is_all() && self.is_within_group(own_before, child) {
                        self.add(child.reduction.to_vec())?;
                    } else if !self.node(child.node, below, own_before, show)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    /// Whether all rows below a child belong to the group being collected.
    fn is_within_group(&self, before: Option<&[u8]>, child: &Child<'_>) -> bool {
        let Some((group, _)) = &self.current else { return false };
        let is_same = |place: &[u8]| self.group(place) == group;
        self.grouping == Grouping::All || is_same(child.last) && before.is_some_and(is_same)
    }

    fn leaf(&mut self, rows: &[Entry<'_>], show: &mut ShowGroup<'_>) -> Result<bool> {
        let mut rest = rows;
        while let Some(first) = if self.descending { rest.last() } else { rest.first() } {
            let group = self.group(first.place);
            let same = if self.descending {
                let start =
                    rest.iter().rposition(|entry| self.group(entry.place) != group).map_or(0, |at| at + 1);
                let (before, same) = rest.split_at(start);
                rest = before;
                same
            } else {
                let end =
                    rest.iter().position(|entry| self.group(entry.place) != group).unwrap_or(rest.len());
                let (same, after) = rest.split_at(end);
                rest = after;
                same
            };
            if self.current.as_ref().is_none_or(|(current, _)| current != group) {
                if !self.end_group(show)? {
                    return Ok(false);
                }
                self.current = Some((group.to_vec(), self.group_key(first.key)));
            }
            self.add(reduce_entries(self.reduce, self.layout, same)?)?;
        }
        Ok(true)
    }

    fn add(&mut self, part: Vec<u8>) -> Result<()> {
        self.parts.push(part);
        if self.parts.len() >= MOST_PARTS {
            let merged = self.merge()?;
            self.parts.push(merged);
        }
        Ok(())
    }

    fn merge(&mut self) -> Result<Vec<u8>> {
        let parts = std::mem::take(&mut self.parts);
        match <[Vec<u8>; 1]>::try_from(parts) {
            Ok([only]) => Ok(only),
            Err(parts) => self.reduce.merge(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>()),
        }
    }

    fn end_group(&mut self, show: &mut ShowGroup<'_>) -> Result<bool> {
        let current = self.current.take();
        let Some((group, key)) = current.filter(|_| !self.parts.is_empty()) else { return Ok(true) };
        let reduction = self.merge()?;
        show(&group, &key, &reduction)
    }

    /// The key of the group that contains a row with this key.
    fn group_key(&self, key: &str) -> String {
        match self.grouping {
            Grouping::All => "null".to_owned(),
            Grouping::Level(level) if json::kind(key) == Some(json::Kind::Array) => {
                format!("[{}]", json::elements(key).take(level).collect::<Vec<_>>().join(","))
            }
            Grouping::Level(_) => key.to_owned(),
        }
    }
}

//! The tree of changes: modifiers keyed by the parts of their paths, so that one pass rewrites a document.
//!
//! Invariants: the children of an object node are sorted by [`compare_names`], the order in which new fields are
//! appended; no path of the tree is a prefix of another one; `$` occurs only in [`ObjectNode::positional`].

use super::modifier::Modifier;
use super::path::{PathPart, check_path, compare_names};
use crate::error::{Error, Result, code};
use std::collections::HashSet;
use std::sync::Arc;

/// A node of the tree.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// Continues by field name or array index.
    Object(ObjectNode),
    /// Continues in the array elements that the array filters select.
    Array(ArrayNode),
    /// Changes the value at this path.
    Leaf(Arc<Leaf>),
}

/// Changes of the fields of a document, or of array elements by index.
#[derive(Clone, Debug, Default)]
pub(super) struct ObjectNode {
    /// Changes by name, sorted by [`compare_names`].
    pub children: Vec<(String, Node)>,
    /// The change of the element that the query matched.
    pub positional: Option<Box<Node>>,
}

/// Changes of the elements that filters select. `$[]` has the empty identifier.
#[derive(Clone, Debug, Default)]
pub(super) struct ArrayNode {
    /// Changes by identifier.
    pub children: Vec<(String, Node)>,
}

/// A modifier in the tree.
#[derive(Debug)]
pub(super) struct Leaf {
    /// The modifier.
    pub modifier: Modifier,
    /// The depth of a document after the modifier wrote its value at this path, including the document itself.
    pub depth: usize,
}

impl ObjectNode {
    /// Adds `modifier` at `path`. `known` has the identifiers of the array filters; those that the path uses are added
    /// to `used`.
    pub fn insert(
        &mut self,
        path: &str,
        modifier: Modifier,
        known: &HashSet<&str>,
        used: &mut HashSet<String>,
    ) -> Result<()> {
        let parts = check_path(path, known, used)?;
        let leaf = Leaf { depth: parts.len() + modifier.value_depth(), modifier };
        insert(self, &parts, path, leaf)
    }

    /// The position of the child `name`.
    #[inline]
    pub fn position(&self, name: &[u8]) -> Option<usize> {
        // For few names a linear search is faster.
        if self.children.len() <= 8 {
            return self.children.iter().position(|(child, _)| child.as_bytes() == name);
        }
        let name = std::str::from_utf8(name).ok()?;
        self.children.binary_search_by(|(child, _)| compare_names(child, name)).ok()
    }

    fn child(&mut self, part: &PathPart<'_>) -> Option<&mut Node> {
        match part {
            PathPart::Positional => self.positional.as_deref_mut(),
            PathPart::Name(name) | PathPart::Filtered(name) => {
                let at = self.position(name.as_bytes())?;
                Some(&mut self.children[at].1)
            }
        }
    }

    fn set_child(&mut self, part: &PathPart<'_>, node: Node) {
        match part {
            PathPart::Positional => self.positional = Some(Box::new(node)),
            PathPart::Name(name) | PathPart::Filtered(name) => {
                let at = self.children.partition_point(|(child, _)| compare_names(child, name).is_lt());
                self.children.insert(at, ((*name).to_owned(), node));
            }
        }
    }
}

fn insert(root: &mut ObjectNode, parts: &[&str], path: &str, leaf: Leaf) -> Result<()> {
    let conflict = |length: usize| {
        let at = parts[..length].join(".");
        let text = format!("Updating the path '{path}' would create a conflict at '{at}'");
        Error::new(code::CONFLICTING_UPDATE_OPERATORS, text)
    };
    let mut current = InsertionPoint::Object(root);
    for (at, part) in parts.iter().enumerate() {
        let part = PathPart::new(part);
        let Some(next) = parts.get(at + 1) else {
            if current.child(&part).is_some() {
                return Err(conflict(parts.len()));
            }
            current.set_child(&part, Node::Leaf(Arc::new(leaf)));
            return Ok(());
        };
        let array = matches!(PathPart::new(next), PathPart::Filtered(_));
        if current.child(&part).is_none() {
            let node =
                if array { Node::Array(ArrayNode::default()) } else { Node::Object(ObjectNode::default()) };
            current.set_child(&part, node);
        }
        current = match current.into_child(&part) {
            Some(Node::Array(node)) if array => InsertionPoint::Array(node),
            Some(Node::Object(node)) if !array => InsertionPoint::Object(node),
            _ => return Err(conflict(at + 1)),
        };
    }
    Ok(())
}

/// An inner node during the insertion of a path.
enum InsertionPoint<'a> {
    Object(&'a mut ObjectNode),
    Array(&'a mut ArrayNode),
}

impl<'a> InsertionPoint<'a> {
    fn child(&mut self, part: &PathPart<'_>) -> Option<&mut Node> {
        match self {
            InsertionPoint::Object(node) => node.child(part),
            InsertionPoint::Array(node) => node.child(part),
        }
    }

    fn into_child(self, part: &PathPart<'_>) -> Option<&'a mut Node> {
        match self {
            InsertionPoint::Object(node) => node.child(part),
            InsertionPoint::Array(node) => node.child(part),
        }
    }

    fn set_child(&mut self, part: &PathPart<'_>, child: Node) {
        match (self, part) {
            (InsertionPoint::Object(node), part) => node.set_child(part, child),
            (InsertionPoint::Array(node), PathPart::Name(name) | PathPart::Filtered(name)) => {
                node.children.push(((*name).to_owned(), child));
            }
            (InsertionPoint::Array(_), PathPart::Positional) => {}
        }
    }
}

impl ArrayNode {
    fn child(&mut self, part: &PathPart<'_>) -> Option<&mut Node> {
        let PathPart::Filtered(identifier) = part else { return None };
        self.children.iter_mut().find(|(child, _)| child == identifier).map(|(_, node)| node)
    }
}

/// Merges two nodes at `path` into one that makes both changes.
pub(super) fn merge(left: &Node, right: &Node, path: &str) -> Result<Node> {
    match (left, right) {
        (Node::Object(left), Node::Object(right)) => {
            let mut merged = left.clone();
            for (name, node) in &right.children {
                match merged.position(name.as_bytes()) {
                    Some(at) => {
                        merged.children[at].1 =
                            merge(&merged.children[at].1, node, &format!("{path}.{name}"))?;
                    }
                    None => merged.set_child(&PathPart::Name(name), node.clone()),
                }
            }
            merged.positional = match (&left.positional, &right.positional) {
                (Some(left), Some(right)) => Some(Box::new(merge(left, right, &format!("{path}.$"))?)),
                (left, right) => left.clone().or_else(|| right.clone()),
            };
            Ok(Node::Object(merged))
        }
        (Node::Array(left), Node::Array(right)) => {
            let mut merged = left.clone();
            for (identifier, node) in &right.children {
                match merged.children.iter_mut().find(|(known, _)| known == identifier) {
                    Some((_, child)) => *child = merge(child, node, &format!("{path}.$[{identifier}]"))?,
                    None => merged.children.push((identifier.clone(), node.clone())),
                }
            }
            Ok(Node::Array(merged))
        }
        _ => {
            let text = format!("Update created a conflict at '{path}'");
            Err(Error::new(code::CONFLICTING_UPDATE_OPERATORS, text))
        }
    }
}

/// The tree with `$` replaced by `index`, the index of the element that the query matched.
pub(super) fn resolve_positional(root: &ObjectNode, index: Option<usize>) -> Result<ObjectNode> {
    resolve_object(root, index, "")
}

fn resolve(node: &Node, index: Option<usize>, path: &str) -> Result<Node> {
    Ok(match node {
        Node::Leaf(leaf) => Node::Leaf(leaf.clone()),
        Node::Object(node) => Node::Object(resolve_object(node, index, path)?),
        Node::Array(node) => {
            let mut children = Vec::with_capacity(node.children.len());
            for (identifier, child) in &node.children {
                let child = resolve(child, index, &join(path, &format!("$[{identifier}]")))?;
                children.push((identifier.clone(), child));
            }
            Node::Array(ArrayNode { children })
        }
    })
}

fn resolve_object(node: &ObjectNode, index: Option<usize>, path: &str) -> Result<ObjectNode> {
    let mut resolved = ObjectNode::default();
    for (name, child) in &node.children {
        resolved.children.push((name.clone(), resolve(child, index, &join(path, name))?));
    }
    if let Some(positional) = &node.positional {
        let Some(index) = index else {
            return Err(Error::bad_value(
                "The positional operator did not find the match needed from the query.",
            ));
        };
        let name = index.to_string();
        let path = join(path, &name);
        let child = resolve(positional, Some(index), &path)?;
        match resolved.position(name.as_bytes()) {
            Some(at) => resolved.children[at].1 = merge(&child, &resolved.children[at].1, &path)?,
            None => resolved.set_child(&PathPart::Name(&name), child),
        }
    }
    Ok(resolved)
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

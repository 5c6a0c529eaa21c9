//! The tree of changes: modifiers keyed by the parts of their paths, so that a document is rewritten in one pass.
//!
//! Invariants: the children of an object node are sorted by [`compare_names`], which is the order in which new fields
//! are appended; no path of the tree is a prefix of another one; `$` stands only in [`ObjectNode::positional`].

use super::modifier::Modifier;
use crate::error::{Error, Result, code};
use diwan_value::MAX_DEPTH;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

/// A node of the tree.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// Goes on by field name or array index.
    Object(ObjectNode),
    /// Goes on into the elements of an array that the array filters choose.
    Array(ArrayNode),
    /// Changes the value here.
    Leaf(Arc<Leaf>),
}

/// Changes of the fields of a document, or of an array's elements by index.
#[derive(Clone, Debug, Default)]
pub(super) struct ObjectNode {
    /// By name, sorted by [`compare_names`].
    pub children: Vec<(String, Node)>,
    /// What happens to the element that the query matched.
    pub positional: Option<Box<Node>>,
}

/// Changes of the elements that filters choose: `$[]` has the empty identifier.
#[derive(Clone, Debug, Default)]
pub(super) struct ArrayNode {
    /// By identifier.
    pub children: Vec<(String, Node)>,
}

/// A modifier at its place.
#[derive(Debug)]
pub(super) struct Leaf {
    /// What to do.
    pub modifier: Modifier,
    /// How many levels a document has in which the modifier wrote its value, the document counted.
    pub depth: usize,
}

/// One part of an update path.
enum PathPart<'a> {
    Name(&'a str),
    Positional,
    Filtered(&'a str),
}

impl<'a> PathPart<'a> {
    fn new(part: &'a str) -> PathPart<'a> {
        if part == "$" {
            return PathPart::Positional;
        }
        match part.strip_prefix("$[").and_then(|rest| rest.strip_suffix(']')) {
            Some(identifier) => PathPart::Filtered(identifier),
            None => PathPart::Name(part),
        }
    }
}

/// Whether `part` is `$`, `$[]` or `$[identifier]`.
pub(super) fn is_dynamic(part: &str) -> bool {
    !matches!(PathPart::new(part), PathPart::Name(_))
}

/// The order of field names in an update: array indexes by their number, everything else by its bytes.
pub(super) fn compare_names(a: &str, b: &str) -> Ordering {
    let digits = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    if digits(a) && digits(b) {
        let (trimmed_a, trimmed_b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
        let by_number = trimmed_a.len().cmp(&trimmed_b.len()).then_with(|| trimmed_a.cmp(trimmed_b));
        return by_number.then_with(|| a.cmp(b));
    }
    a.cmp(b)
}

/// The order of paths by their parts.
pub(super) fn compare_paths(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.split('.'), b.split('.'));
    loop {
        match (a.next(), b.next()) {
            (Some(a), Some(b)) => match compare_names(a, b) {
                Ordering::Equal => {}
                unequal => return unequal,
            },
            (a, b) => return a.is_some().cmp(&b.is_some()),
        }
    }
}

impl ObjectNode {
    /// Adds `modifier` at `path`. `known` are the identifiers that have an array filter; those used go to `used`.
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

    /// The place of the child called `name`.
    #[inline]
    pub fn position(&self, name: &[u8]) -> Option<usize> {
        // A few names are found faster by looking at each.
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

/// Splits a path and checks that it can be updated.
fn check_path<'p>(path: &'p str, known: &HashSet<&str>, used: &mut HashSet<String>) -> Result<Vec<&'p str>> {
    if path.is_empty() {
        return Err(Error::new(code::EMPTY_FIELD_NAME, "An empty update path is not valid."));
    }
    let parts: Vec<&str> = path.split('.').collect();
    if parts.iter().any(|part| part.is_empty()) {
        let text = format!("The update path '{path}' contains an empty field name, which is not allowed.");
        return Err(Error::new(code::EMPTY_FIELD_NAME, text));
    }
    if parts.len() > MAX_DEPTH {
        return Err(too_deep());
    }
    let mut positionals = 0;
    for (at, part) in parts.iter().enumerate() {
        match PathPart::new(part) {
            PathPart::Name(_) => {}
            PathPart::Positional => {
                positionals += 1;
                if at == 0 {
                    return Err(Error::bad_value(format!(
                        "Cannot have positional (i.e. '$') element in the first position in path '{path}'"
                    )));
                }
            }
            PathPart::Filtered(_) if at == 0 => {
                return Err(Error::bad_value(format!(
                    "Cannot have array filter identifier (i.e. '$[<id>]') element in the first position in path '{path}'"
                )));
            }
            PathPart::Filtered("") => {}
            PathPart::Filtered(identifier) => {
                if !known.contains(identifier) {
                    return Err(Error::bad_value(format!(
                        "No array filter found for identifier '{identifier}' in path '{path}'"
                    )));
                }
                used.insert(identifier.to_owned());
            }
        }
    }
    if positionals > 1 {
        return Err(Error::bad_value(format!(
            "Too many positional (i.e. '$') elements found in path '{path}'"
        )));
    }
    Ok(parts)
}

/// The refusal of a document that nests too deep.
pub(super) fn too_deep() -> Error {
    Error::new(code::OVERFLOW, format!("Document exceeds maximum nesting depth of {MAX_DEPTH}"))
}

fn insert(root: &mut ObjectNode, parts: &[&str], path: &str, leaf: Leaf) -> Result<()> {
    let conflict = |length: usize| {
        let at = parts[..length].join(".");
        let text = format!("Updating the path '{path}' would create a conflict at '{at}'");
        Error::new(code::CONFLICTING_UPDATE_OPERATORS, text)
    };
    let mut current = Slot::Object(root);
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
            Some(Node::Array(node)) if array => Slot::Array(node),
            Some(Node::Object(node)) if !array => Slot::Object(node),
            _ => return Err(conflict(at + 1)),
        };
    }
    Ok(())
}

/// An inner node while a path is inserted.
enum Slot<'a> {
    Object(&'a mut ObjectNode),
    Array(&'a mut ArrayNode),
}

impl<'a> Slot<'a> {
    fn child(&mut self, part: &PathPart<'_>) -> Option<&mut Node> {
        match self {
            Slot::Object(node) => node.child(part),
            Slot::Array(node) => node.child(part),
        }
    }

    fn into_child(self, part: &PathPart<'_>) -> Option<&'a mut Node> {
        match self {
            Slot::Object(node) => node.child(part),
            Slot::Array(node) => node.child(part),
        }
    }

    fn set_child(&mut self, part: &PathPart<'_>, child: Node) {
        match (self, part) {
            (Slot::Object(node), part) => node.set_child(part, child),
            (Slot::Array(node), PathPart::Name(name) | PathPart::Filtered(name)) => {
                node.children.push(((*name).to_owned(), child));
            }
            (Slot::Array(_), PathPart::Positional) => {}
        }
    }
}

impl ArrayNode {
    fn child(&mut self, part: &PathPart<'_>) -> Option<&mut Node> {
        let PathPart::Filtered(identifier) = part else { return None };
        self.children.iter_mut().find(|(child, _)| child == identifier).map(|(_, node)| node)
    }
}

/// The node that does what both do; `path` leads to it.
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

/// The tree in which the element that the query matched, `index`, stands in place of `$`.
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

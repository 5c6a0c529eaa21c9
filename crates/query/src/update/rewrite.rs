//! One pass over a document that writes its changed copy: what no change reaches is copied as bytes.

use super::array::ArrayFilters;
use super::modifier::{Modifier, depth};
use super::tree::{ArrayNode, Leaf, Node, ObjectNode, merge, too_deep};
use crate::display::ShownField;
use crate::error::{Error, Result, code};
use crate::expr::Context;
use diwan_value::{
    Collator, Doc, DocBuilder, Element, MAX_DEPTH, MAX_DOCUMENT_BYTES, Timestamp, Type, Value,
};

/// How many nulls may be put into an array before an element that is set beyond its end.
const MAX_PADDING: usize = 1_500_000;

/// What became of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing was written: the value stays as it is.
    Untouched,
    /// The same value was written.
    Unchanged,
    /// Another value was written.
    Changed,
    /// Nothing was written: the field goes.
    Removed,
}

/// Where in the document a change happens, and what it may ask.
#[derive(Clone, Copy)]
pub(super) struct Scope<'s> {
    /// The document before the update.
    pub root: Doc<'s>,
    /// The operation's clock and collation.
    pub context: &'s Context,
    /// Whether the document is being made by an upsert.
    pub insert: bool,
    filters: &'s ArrayFilters,
    outer: Option<&'s Scope<'s>>,
    name: &'s str,
    level: usize,
}

impl<'s> Scope<'s> {
    /// The scope of the whole document.
    pub fn new(root: Doc<'s>, context: &'s Context, insert: bool, filters: &'s ArrayFilters) -> Scope<'s> {
        Scope { root, context, insert, filters, outer: None, name: "", level: 0 }
    }

    /// The scope of the field or element called `name`.
    fn inside<'i>(&'i self, name: &'i str) -> Scope<'i> {
        Scope {
            root: self.root,
            context: self.context,
            insert: self.insert,
            filters: self.filters,
            outer: Some(self),
            name,
            level: self.level + 1,
        }
    }

    /// The operation's collation.
    pub fn collator(&self) -> Option<&'s Collator> {
        self.context.collator.as_deref()
    }

    /// The timestamp of the operation.
    pub fn timestamp(&self) -> Timestamp {
        super::replacement::timestamp(self.context)
    }

    /// The path to here.
    pub fn path(&self) -> String {
        match self.outer {
            Some(outer) if outer.level > 0 => format!("{}.{}", outer.path(), self.name),
            _ => self.name.to_owned(),
        }
    }

    /// The name of the top-level field that this is or lies in.
    fn top(&self) -> &'s str {
        match self.outer {
            Some(outer) if self.level > 1 => outer.top(),
            _ => self.name,
        }
    }

    /// The document's `_id` as messages show it.
    pub fn shown_id(&self) -> String {
        match self.root.get("_id") {
            Some(id) => ShownField("_id", id).to_string(),
            None => "no id".to_owned(),
        }
    }
}

/// Writes the fields of `doc` with the changes of `node` into the open document of `out`.
pub(super) fn fields(
    doc: Doc<'_>,
    node: &ObjectNode,
    scope: &Scope<'_>,
    out: &mut DocBuilder,
) -> Result<bool> {
    let bytes = doc.as_bytes();
    let mut found = vec![false; node.children.len()];
    let mut changed = false;
    // The elements from `copied` to `at` stay as they are and were not yet copied.
    let (mut copied, mut at) = (4, 4);
    for element in doc {
        let end = at + element_length(&element);
        if let Some(child) = node.position(element.key).filter(|child| !found[*child]) {
            found[child] = true;
            out.append_span(bytes.get(copied..at).unwrap_or_default());
            let key = element.key_str();
            let outcome = value(&element, key, &node.children[child].1, &scope.inside(key), out)?;
            copied = if outcome == Outcome::Untouched { at } else { end };
            changed |= matches!(outcome, Outcome::Changed | Outcome::Removed);
        }
        at = end;
    }
    out.append_span(bytes.get(copied..at).unwrap_or_default());
    for ((name, child), _) in node.children.iter().zip(found).filter(|(_, found)| !found) {
        changed |= create(child, name, scope, out)?;
    }
    Ok(changed)
}

/// How many bytes an element takes.
fn element_length(element: &Element<'_>) -> usize {
    element.key.len() + element.raw.bytes.len() + 2
}

/// Changes one existing value.
fn value(
    element: &Element<'_>,
    key: &str,
    node: &Node,
    scope: &Scope<'_>,
    out: &mut DocBuilder,
) -> Result<Outcome> {
    let written = |changed| if changed { Outcome::Changed } else { Outcome::Unchanged };
    match (node, element.raw.tag) {
        (Node::Leaf(leaf), _) => modify(leaf, element, key, scope, out),
        (Node::Object(node), Type::Document) => {
            out.begin_document(key);
            let changed = fields(Doc::trusted(element.raw.bytes), node, scope, out)?;
            out.end();
            Ok(written(changed))
        }
        (Node::Object(node), Type::Array) => {
            out.begin_array(key);
            let changed = elements(element, node, scope, out)?;
            out.end();
            Ok(written(changed))
        }
        (Node::Object(node), _) => {
            for (name, child) in &node.children {
                check_not_viable(child, name, element, scope)?;
            }
            Ok(Outcome::Untouched)
        }
        (Node::Array(node), Type::Array) => {
            out.begin_array(key);
            let changed = filtered_elements(element, node, scope, out)?;
            out.end();
            Ok(written(changed))
        }
        (Node::Array(_), _) => Err(Error::bad_value(format!(
            "Cannot apply array updates to non-array element {}",
            ShownField(key, element.value())
        ))),
    }
}

/// Lets a modifier change its value.
fn modify(
    leaf: &Leaf,
    element: &Element<'_>,
    key: &str,
    scope: &Scope<'_>,
    out: &mut DocBuilder,
) -> Result<Outcome> {
    let outcome = leaf.modifier.modify(key, element.raw, scope, out)?;
    if matches!(outcome, Outcome::Changed | Outcome::Removed) {
        check_immutable(scope)?;
    }
    if outcome == Outcome::Changed {
        if scope.level == 1 {
            check_top_level_name(key)?;
        }
        check_depth(leaf, scope)?;
    }
    Ok(outcome)
}

/// Refuses a change of the `_id` or of something inside it.
fn check_immutable(scope: &Scope<'_>) -> Result<()> {
    if scope.top() != "_id" {
        return Ok(());
    }
    let path = scope.path();
    let text = format!("Performing an update on the path '{path}' would modify the immutable field '_id'");
    Err(Error::new(code::IMMUTABLE_FIELD, text))
}

/// Refuses a top-level field whose name looks like an operator.
pub(super) fn check_top_level_name(name: &str) -> Result<()> {
    if !name.starts_with('$') {
        return Ok(());
    }
    let text = format!(
        "The dollar ($) prefixed field '{name}' in '{name}' is not allowed in the context of an update's \
         replacement document. Consider using an aggregation pipeline with $replaceWith."
    );
    Err(Error::new(code::DOLLAR_PREFIXED_FIELD_NAME, text))
}

fn check_depth(leaf: &Leaf, scope: &Scope<'_>) -> Result<()> {
    let moved = match &leaf.modifier {
        Modifier::RenameFrom(from) => from.get(scope.root).map_or(0, depth),
        _ => 0,
    };
    if leaf.depth + moved > MAX_DEPTH { Err(too_deep()) } else { Ok(()) }
}

/// Writes the elements of an array with the changes of `node`, whose children are indexes.
fn elements(array: &Element<'_>, node: &ObjectNode, scope: &Scope<'_>, out: &mut DocBuilder) -> Result<bool> {
    let mut wanted: Vec<(usize, &str, &Node)> = Vec::with_capacity(node.children.len());
    for (name, child) in &node.children {
        check_no_rename(child, name, scope)?;
        match array_index(name) {
            Some(index) => wanted.push((index, name, child)),
            None => check_not_viable(child, name, array, scope)?,
        }
    }
    wanted.sort_by_key(|(index, ..)| *index);
    let mut wanted = wanted.into_iter().peekable();
    let mut changed = false;
    let mut count = 0;
    for element in Doc::trusted(array.raw.bytes) {
        match wanted.next_if(|(index, ..)| *index == count) {
            Some((_, name, child)) => {
                changed |= array_element(&element, name, child, scope, out)?;
                check_size(out)?;
            }
            None => {
                out.append_element(element);
            }
        }
        count += 1;
    }
    for (index, name, child) in wanted {
        if !creates(child, scope)? {
            continue;
        }
        if index - count > MAX_PADDING {
            let text = format!("can't backfill more than {MAX_PADDING} elements");
            return Err(Error::new(code::CANNOT_BACKFILL_ARRAY, text));
        }
        for padding in count..index {
            out.append_indexed(padding, Value::Null);
        }
        changed |= create(child, name, scope, out)?;
        check_size(out)?;
        count = index + 1;
    }
    Ok(changed)
}

/// Stops a change of many elements as soon as the document is too large.
fn check_size(out: &DocBuilder) -> Result<()> {
    if out.len() > MAX_DOCUMENT_BYTES { Err(super::too_large()) } else { Ok(()) }
}

/// Refuses a `$rename` to a place inside the array at `scope`.
fn check_no_rename(node: &Node, name: &str, scope: &Scope<'_>) -> Result<()> {
    match node {
        Node::Leaf(leaf) if matches!(leaf.modifier, Modifier::RenameFrom(_)) => {
            if !leaf.modifier.creates(scope)? {
                return Ok(());
            }
            let array = scope.name;
            Err(Error::bad_value(format!(
                "The destination field cannot be an array element, '{}' in doc with {} has an array field called \
                 '{array}'",
                scope.inside(name).path(),
                scope.shown_id()
            )))
        }
        Node::Object(node) => node
            .children
            .iter()
            .try_for_each(|(inner, child)| check_no_rename(child, &format!("{name}.{inner}"), scope)),
        Node::Leaf(_) | Node::Array(_) => Ok(()),
    }
}

/// The array index that a path's part denotes.
fn array_index(name: &str) -> Option<usize> {
    let digits = name == "0" || (!name.starts_with('0') && name.bytes().all(|byte| byte.is_ascii_digit()));
    if digits { name.parse().ok() } else { None }
}

/// Writes an array's element with the change of `node`. One that is removed becomes null, so that others keep their
/// indexes.
fn array_element(
    element: &Element<'_>,
    name: &str,
    node: &Node,
    scope: &Scope<'_>,
    out: &mut DocBuilder,
) -> Result<bool> {
    let outcome = value(element, element.key_str(), node, &scope.inside(name), out)?;
    match outcome {
        Outcome::Untouched => {
            out.append_element(*element);
        }
        Outcome::Removed => {
            out.append(element.key_str(), Value::Null);
        }
        Outcome::Unchanged | Outcome::Changed => {}
    }
    Ok(matches!(outcome, Outcome::Changed | Outcome::Removed))
}

/// Writes the elements of an array with the changes of `node` where its filters match.
fn filtered_elements(
    array: &Element<'_>,
    node: &ArrayNode,
    scope: &Scope<'_>,
    out: &mut DocBuilder,
) -> Result<bool> {
    let mut changed = false;
    for (index, element) in Doc::trusted(array.raw.bytes).iter().enumerate() {
        let mut chosen: Option<std::borrow::Cow<'_, Node>> = None;
        for (identifier, child) in &node.children {
            if !scope.filters.matches(identifier, element.raw)? {
                continue;
            }
            chosen = Some(match chosen {
                None => std::borrow::Cow::Borrowed(child),
                Some(other) => {
                    let path = format!("{}.{index}", scope.path());
                    std::borrow::Cow::Owned(merge(&other, child, &path)?)
                }
            });
        }
        match chosen {
            Some(child) => {
                changed |= array_element(&element, &index.to_string(), &child, scope, out)?;
                check_size(out)?;
            }
            None => {
                out.append_element(element);
            }
        }
    }
    Ok(changed)
}

/// Whether `node` makes its field where there is none. An array node does not, but must complain.
fn creates(node: &Node, scope: &Scope<'_>) -> Result<bool> {
    match node {
        Node::Leaf(leaf) => leaf.modifier.creates(scope),
        Node::Array(_) => Ok(true),
        Node::Object(node) => {
            for (_, child) in &node.children {
                if creates(child, scope)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
    }
}

/// Writes the field `key`, which is not there, if `node` makes it.
fn create(node: &Node, key: &str, scope: &Scope<'_>, out: &mut DocBuilder) -> Result<bool> {
    if !creates(node, scope)? {
        return Ok(false);
    }
    if scope.level == 0 {
        check_top_level_name(key)?;
    } else {
        check_immutable(scope)?;
    }
    write_new(node, key, &scope.inside(key), out)?;
    Ok(true)
}

/// Writes a new field that `node` makes.
fn write_new(node: &Node, key: &str, scope: &Scope<'_>, out: &mut DocBuilder) -> Result<()> {
    match node {
        Node::Leaf(leaf) => {
            check_depth(leaf, scope)?;
            leaf.modifier.create(key, scope, out)
        }
        Node::Array(_) => Err(must_exist(scope)),
        Node::Object(node) => {
            out.begin_document(key);
            for (name, child) in &node.children {
                if creates(child, scope)? {
                    write_new(child, name, &scope.inside(name), out)?;
                }
            }
            out.end();
            Ok(())
        }
    }
}

fn must_exist(scope: &Scope<'_>) -> Error {
    let path = scope.path();
    Error::bad_value(format!("The path '{path}' must exist in the document in order to apply array updates."))
}

/// Refuses changes of the field `name` inside `element`, which cannot have such a field, where they would make it.
fn check_not_viable(node: &Node, name: &str, element: &Element<'_>, scope: &Scope<'_>) -> Result<()> {
    let shown = || ShownField(element.key_str(), element.value());
    let mut leaves = Vec::new();
    collect_leaves(node, name.to_owned(), &scope.inside(name), &mut leaves)?;
    for (leaf, path) in leaves {
        let text = if leaf.modifier.creates(scope)? {
            format!("Cannot create field '{name}' in element {{{}}}", shown())
        } else if leaf.modifier.needs_viable_path() {
            format!(
                "Cannot use the part ({}) of ({}.{path}) to traverse the element ({{{}}})",
                scope.name,
                scope.path(),
                shown()
            )
        } else {
            continue;
        };
        return Err(Error::new(code::PATH_NOT_VIABLE, text));
    }
    Ok(())
}

/// The modifiers below `node` with their paths.
fn collect_leaves<'n>(
    node: &'n Node,
    path: String,
    scope: &Scope<'_>,
    leaves: &mut Vec<(&'n Leaf, String)>,
) -> Result<()> {
    match node {
        Node::Leaf(leaf) => leaves.push((leaf, path)),
        Node::Array(_) => return Err(must_exist(scope)),
        Node::Object(node) => {
            for (name, child) in &node.children {
                collect_leaves(child, format!("{path}.{name}"), &scope.inside(name), leaves)?;
            }
        }
    }
    Ok(())
}

//! Writes the changed copy of a document in one pass. Unchanged parts are copied as bytes.

use super::modifier::{Modifier, depth};
use super::path::too_deep;
use super::replacement::check_top_level_name;
use super::scope::{Outcome, Scope};
use super::tree::{ArrayNode, Leaf, Node, ObjectNode, merge};
use crate::display::ShownField;
use crate::error::{Error, Result, code};
use diwan_value::{Doc, DocBuilder, Element, MAX_DEPTH, MAX_DOCUMENT_BYTES, Type, Value};

/// How many nulls may pad an array when an element beyond its end is set.
const MAX_PADDING: usize = 1_500_000;

/// Writes the fields of `doc` with the changes of `node` to the open document of `out`.
pub(super) fn fields(
    doc: Doc<'_>,
    node: &ObjectNode,
    scope: &Scope<'_>,
    out: &mut DocBuilder,
) -> Result<bool> {
    let bytes = doc.as_bytes();
    let mut found = vec![false; node.children.len()];
    let mut changed = false;
    // The elements from `copied` to `at` are unchanged and not yet copied.
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

/// How many bytes an element occupies.
fn element_length(element: &Element<'_>) -> usize {
    element.key.len() + element.raw.bytes.len() + 2
}

/// Applies changes to one existing value.
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
        // A scalar cannot have fields: an error if the update would create one, otherwise no change.
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

/// Applies a modifier to its value.
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

/// Rejects a change of the `_id` or of a value inside it.
fn check_immutable(scope: &Scope<'_>) -> Result<()> {
    if scope.top() != "_id" {
        return Ok(());
    }
    let path = scope.path();
    let text = format!("Performing an update on the path '{path}' would modify the immutable field '_id'");
    Err(Error::new(code::IMMUTABLE_FIELD, text))
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
    // The children are sorted as names; the pass over the array needs them by index.
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
    // The remaining indexes lie beyond the end of the array. Nulls fill the gaps.
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

/// Fails as soon as a change of many elements makes the document too large.
fn check_size(out: &DocBuilder) -> Result<()> {
    if out.len() > MAX_DOCUMENT_BYTES { Err(super::too_large()) } else { Ok(()) }
}

/// Rejects a `$rename` to a place inside the array at `scope`.
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

/// The array index in a path part, if it is one.
fn array_index(name: &str) -> Option<usize> {
    let digits = name == "0" || (!name.starts_with('0') && name.bytes().all(|byte| byte.is_ascii_digit()));
    if digits { name.parse().ok() } else { None }
}

/// Writes an array element with the change of `node`. A removed element becomes null, so that the others keep their
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

/// Writes the elements of an array, applying the changes of `node` to those that its filters select.
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

/// Whether `node` creates its field if it is missing. An array node does not, but must report an error.
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

/// Writes the missing field `key`, if `node` creates it.
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

/// Writes a new field with the value from `node`.
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

/// Fails if `node` would create the field `name` inside `element`, which cannot have fields.
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

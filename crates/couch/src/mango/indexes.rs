//! Indexes for queries: the store's own, with the names that CouchDB gives them.
//!
//! CouchDB keeps an index as a view of a design document, so it has two names. A setting of the collection remembers
//! them for each index made over HTTP; two such names may stand for one index of the store, which goes with the last of
//! them, unless a MongoDB client made it. Indexes that MongoDB clients made have no design document.

use super::request::{IndexRequest, as_filter};
use super::selector::Selector;
use crate::error::Result;
use crate::partition;
use crate::server::Couch;
use diwan_query::Interrupt;
use diwan_query::filter::Filter;
use diwan_store::{BuildProgress, Collection, FieldOrder, IndexKind, IndexSpec, Revision};
use diwan_value::key::Direction;
use diwan_value::{ArrayBuilder, Doc, DocBuf, DocBuilder, Value, doc, json};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The setting that holds the names.
const SETTING: &str = "mango_indexes";

/// What an index consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The fields, as documents over HTTP have them, and whether they descend.
    pub fields: Vec<(String, bool)>,
    /// The selector of the documents that have entries.
    pub partial: Option<DocBuf>,
}

/// An index as it is listed.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The design document's id; `None` for one that a MongoDB client made.
    pub ddoc: Option<String>,
    /// The name in the design document.
    pub name: String,
    /// Whether it is for queries within partitions.
    pub partitioned: bool,
    /// What it consists of.
    pub definition: Definition,
    /// The store's name of it.
    pub index: String,
}

/// A remembered pair of names.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Names {
    ddoc: String,
    name: String,
    index: String,
    partitioned: bool,
    /// The store's index was made for these names, or others like them.
    own: bool,
}

impl Listed {
    /// The form in which it is shown.
    pub fn to_json(&self) -> serde_json::Value {
        json!({
            "ddoc": self.ddoc,
            "name": self.name,
            "type": "json",
            "partitioned": self.partitioned,
            "def": self.definition.to_json()
        })
    }

    /// Whether each document that can match has all fields of the index.
    pub fn is_usable(&self, required: &BTreeSet<String>) -> bool {
        self.definition
            .fields
            .iter()
            .all(|(field, _)| field == "_id" || field == "_rev" || required.contains(field))
    }

    /// Whether it is named so in a query.
    pub fn is_called(&self, ddoc: &str, name: Option<&str>) -> bool {
        match &self.ddoc {
            Some(own) => {
                own.strip_prefix("_design/") == Some(ddoc) && name.is_none_or(|name| name == self.name)
            }
            None => name.is_none() && self.name == ddoc,
        }
    }
}

impl Definition {
    fn to_json(&self) -> serde_json::Value {
        let fields: Vec<_> = self
            .fields
            .iter()
            .map(|(field, descends)| json!({ field.as_str(): if *descends { "desc" } else { "asc" } }))
            .collect();
        let mut out = json!({ "fields": fields });
        if let Some(partial) = &self.partial {
            out["partial_filter_selector"] = as_json(partial.as_doc());
        }
        out
    }

    fn of(spec: &IndexSpec) -> Option<Definition> {
        if spec.kind != IndexKind::Ordinary || spec.hidden {
            return None;
        }
        let mut fields = Vec::new();
        for field in &spec.fields {
            match field.order {
                FieldOrder::Ascending => fields.push((shown_name(field.path.as_str()), false)),
                FieldOrder::Descending => fields.push((shown_name(field.path.as_str()), true)),
                FieldOrder::Hashed => return None,
            }
        }
        let partial = spec.to_doc().get_doc("partialFilterExpression");
        // A filter of MongoDB's is shown as it is: it is read by people.
        let partial = partial.map(|filter| filter.get_doc("$mango").unwrap_or(filter).to_owned());
        Some(Definition { fields, partial })
    }

    /// The filter of its documents, for a query that insists on it.
    pub fn partial_filter(&self) -> Result<Option<Filter>> {
        let Some(partial) = &self.partial else { return Ok(None) };
        Ok(Some(Selector::parse(Value::Document(partial.as_doc()))?.stored()))
    }
}

/// A document as JSON of the server's own answers.
pub fn as_json(doc: Doc<'_>) -> serde_json::Value {
    let mut text = Vec::new();
    json::write_document(&mut text, doc, json::Mode::Exchange);
    serde_json::from_slice(&text).unwrap_or_default()
}

/// A stored field's name over HTTP.
fn shown_name(path: &str) -> String {
    if json::is_metadata_member(path.split('.').next().unwrap_or_default()) {
        format!("${path}")
    } else {
        path.to_owned()
    }
}

/// The special index that all documents are in.
pub fn special() -> serde_json::Value {
    json!({
        "ddoc": null,
        "name": "_all_docs",
        "type": "special",
        "def": { "fields": [{ "_id": "asc" }] }
    })
}

/// All indexes but the special one, in the order of their names.
pub fn list(collection: &Collection) -> Vec<Listed> {
    let schema = collection.schema();
    let names = read_names(collection);
    let mut all = Vec::new();
    for index in schema.indexes.iter().filter(|index| index.is_ready() && !index.spec.is_id_index()) {
        let Some(definition) = Definition::of(&index.spec) else { continue };
        let mut named = false;
        for names in names.iter().filter(|names| names.index == index.spec.name) {
            named |= names.own;
            all.push(Listed {
                ddoc: Some(names.ddoc.clone()),
                name: names.name.clone(),
                partitioned: names.partitioned,
                definition: definition.clone(),
                index: names.index.clone(),
            });
        }
        if !named {
            all.push(Listed {
                ddoc: None,
                name: index.spec.name.clone(),
                partitioned: false,
                definition,
                index: index.spec.name.clone(),
            });
        }
    }
    all.sort_by(|a, b| (&a.ddoc, &a.name).cmp(&(&b.ddoc, &b.name)));
    all
}

/// Makes an index. Says whether there was the same one, and its names.
pub fn create(
    couch: &Couch,
    collection: &Arc<Collection>,
    request: IndexRequest,
) -> Result<(bool, String, String)> {
    let is_partitioned = partition::is_partitioned(collection);
    let partitioned = request.partitioned.unwrap_or(is_partitioned);
    if partitioned && !is_partitioned {
        return Err(partition::cannot_be_partitioned());
    }
    // Names that nobody gave are made of what the index consists of, so that the same index has the same names.
    let hash = {
        let bytes = doc! { "index": request.definition.as_doc(), "partitioned": partitioned };
        Revision::first(bytes.as_doc()).to_string().split_off(2)
    };
    let ddoc = request.ddoc.clone().unwrap_or_else(|| format!("_design/{hash}"));
    let name = request.name.clone().unwrap_or(hash);
    let mut key = DocBuilder::new();
    for part in request.fields.parts() {
        key.append(part.path.as_str(), if part.direction == Direction::Ascending { 1 } else { -1 });
    }
    let key = key.finish();
    let partial = request.partial.as_ref().map(|selector| as_filter(selector.as_doc()));

    let _indexes = couch.index_names.lock();
    let mut names = read_names(collection);
    let schema = collection.schema();
    let same = schema.indexes.iter().find(|index| {
        let spec = &index.spec;
        let plain = !spec.unique && !spec.sparse && !spec.hidden && spec.expire_after_seconds.is_none();
        plain
            && spec.kind == IndexKind::Ordinary
            && spec.key == key
            && spec.collation.is_none()
            && spec.to_doc().get_doc("partialFilterExpression").map(Doc::to_owned) == partial
    });
    let before = names.iter().position(|names| names.ddoc == ddoc && names.name == name);
    let (index, own) = match same {
        Some(index) => {
            let index = index.spec.name.clone();
            if let Some(before) = before
                && names[before].index == index
                && names[before].partitioned == partitioned
            {
                return Ok((true, ddoc, name));
            }
            let own = names.iter().any(|names| names.index == index && names.own);
            (index, own)
        }
        None => {
            let taken = |wanted: &str| schema.indexes.iter().any(|index| index.spec.name == wanted);
            let index = match taken(&name) {
                false => name.clone(),
                true => free_name(&format!("{}/{name}", ddoc.trim_start_matches("_design/")), taken),
            };
            let mut spec = DocBuilder::new();
            spec.append("key", &key).append("name", index.as_str());
            if let Some(partial) = &partial {
                spec.append("partialFilterExpression", partial);
            }
            let spec = IndexSpec::parse(spec.finish().as_doc(), None)?;
            collection.create_indexes(vec![spec], &Interrupt::new(), &BuildProgress::default())?;
            (index, true)
        }
    };
    let new = Names { ddoc: ddoc.clone(), name: name.clone(), index, partitioned, own };
    let replaced = before.map(|before| names.remove(before));
    names.push(new);
    write_names(couch, collection, &names)?;
    if let Some(replaced) = replaced {
        drop_unnamed(collection, &names, &replaced)?;
    }
    Ok((false, ddoc, name))
}

fn free_name(wanted: &str, taken: impl Fn(&str) -> bool) -> String {
    let mut name = wanted.to_owned();
    let mut number = 1;
    while taken(&name) {
        number += 1;
        name = format!("{wanted} {number}");
    }
    name
}

/// Removes the names of a design document's index, or of all of them, and the index with its last name. Says whether
/// there was one.
pub fn remove(couch: &Couch, collection: &Collection, ddoc: &str, name: Option<&str>) -> Result<bool> {
    let ddoc = if ddoc.starts_with("_design/") { ddoc.to_owned() } else { format!("_design/{ddoc}") };
    let _indexes = couch.index_names.lock();
    let names = read_names(collection);
    let (gone, left): (Vec<Names>, Vec<Names>) =
        names.into_iter().partition(|names| names.ddoc == ddoc && name.is_none_or(|name| names.name == name));
    if gone.is_empty() {
        return Ok(false);
    }
    // First the index, so that a stop between the two leaves names of nothing rather than an index without names.
    for names in &gone {
        drop_unnamed(collection, &left, names)?;
    }
    write_names(couch, collection, &left)?;
    Ok(true)
}

/// Drops an index that was made over HTTP and has lost its last name.
fn drop_unnamed(collection: &Collection, left: &[Names], gone: &Names) -> Result<()> {
    if gone.own && !left.iter().any(|names| names.index == gone.index) {
        collection.remove_indexes(|index| index.spec.name == gone.index)?;
    }
    Ok(())
}

/// The names of indexes that are there.
fn read_names(collection: &Collection) -> Vec<Names> {
    let Some(setting) = collection.setting(SETTING) else { return Vec::new() };
    let Value::Array(list) = setting.as_value() else { return Vec::new() };
    let schema = collection.schema();
    list.iter()
        .filter_map(Value::as_doc)
        .filter_map(|doc| {
            Some(Names {
                ddoc: doc.get_str("ddoc")?.to_owned(),
                name: doc.get_str("name")?.to_owned(),
                index: doc.get_str("index")?.to_owned(),
                partitioned: doc.get("partitioned") == Some(Value::Boolean(true)),
                own: doc.get("own") == Some(Value::Boolean(true)),
            })
        })
        .filter(|names| schema.indexes.iter().any(|index| index.spec.name == names.index))
        .collect()
}

fn write_names(couch: &Couch, collection: &Collection, names: &[Names]) -> Result<()> {
    let mut list = ArrayBuilder::new();
    for names in names {
        list.push(doc! {
            "ddoc": names.ddoc.as_str(),
            "name": names.name.as_str(),
            "index": names.index.as_str(),
            "partitioned": names.partitioned,
            "own": names.own
        });
    }
    let holder = doc! { "list": list };
    let commit = collection.set_setting(SETTING, holder.as_doc().get("list"))?;
    couch.store.engine().wait_durable(commit)?;
    Ok(())
}

/// The fields that each document must have to match a selector.
pub fn required_fields(selector: Doc<'_>) -> BTreeSet<String> {
    required_under("", selector)
}

fn required_under(prefix: &str, selector: Doc<'_>) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for element in selector.iter() {
        let name = element.key_str();
        let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        let branches = |value: Value<'_>| -> Vec<BTreeSet<String>> {
            let docs = value
                .as_array()
                .into_iter()
                .flat_map(|list| list.iter().filter_map(Value::as_doc).collect::<Vec<_>>());
            docs.map(|doc| required_under(prefix, doc)).collect()
        };
        match (name, element.value()) {
            ("$and", value) => all.extend(branches(value).into_iter().flatten()),
            ("$or", value) => {
                let common = branches(value).into_iter().reduce(|a, b| a.intersection(&b).cloned().collect());
                all.extend(common.unwrap_or_default());
            }
            // The field of a renamed member begins with a dollar too.
            (name, _) if name.starts_with('$') && !name.starts_with("$_") => {}
            (_, Value::Document(inner)) => {
                let is_operator = inner
                    .iter()
                    .next()
                    .is_some_and(|first| first.key.first() == Some(&b'$') && first.key.get(1) != Some(&b'_'));
                if !is_operator && !inner.is_empty() {
                    all.extend(required_under(&path, inner));
                } else if inner.get("$exists") != Some(Value::Boolean(false)) {
                    all.insert(path);
                }
            }
            _ => {
                all.insert(path);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_value::json::Limits;

    #[test]
    fn selectors_require_fields() {
        for (text, expected) in [
            (r#"{"a":1,"b":{"c":{"$gt":1}}}"#, vec!["a", "b.c"]),
            (r#"{"$and":[{"a":1},{"b":{"$exists":false}}]}"#, vec!["a"]),
            (r#"{"$or":[{"a":1,"b":2},{"b":3}]}"#, vec!["b"]),
            (r#"{"$nor":[{"a":1}],"$__v":0}"#, vec!["$__v"]),
            ("{}", vec![]),
        ] {
            let selector = json::parse_document(text.as_bytes(), Limits::default()).unwrap();
            let required: Vec<String> = required_fields(selector.as_doc()).into_iter().collect();
            assert_eq!(required, expected, "{text}");
        }
    }
}

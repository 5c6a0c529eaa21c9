//! A parsed design document: its views, its options, and the signature of its indexes.
//!
//! The parser is lenient, because stored design documents may contain anything.
//! [`Sandbox::check`](crate::Sandbox::check) reports the errors of a design document before it is stored.

use crate::error::{Error, Result};
use diwan_kv::{Direction, KeyRange};
use diwan_store::{ReadView, Record, id_key};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Calls `show` with each design document of a collection, in the order of their ids.
pub fn design_documents(view: &ReadView, show: &mut dyn FnMut(Record<'_>)) -> Result<()> {
    let bound = |text: &str| id_key(diwan_value::Value::String(text));
    let range = KeyRange::half_open(bound("_design/")?, bound("_design0")?);
    view.documents(&range, Direction::Forward, &mut |_, record| {
        show(record);
        ControlFlow::Continue(())
    })?;
    Ok(())
}

/// A view of a design document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewDefinition {
    /// The source of the map function.
    pub map: String,
    /// The source of the reduce function, or the name of a built-in one.
    pub reduce: Option<String>,
    /// Whether strings in keys are ordered by bytes instead of the Unicode collation algorithm.
    pub raw_collation: bool,
}

/// The options of a design document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DesignOptions {
    /// Whether map functions see the document's sequence as `_local_seq`.
    pub local_seq: bool,
    /// Whether design documents are mapped too.
    pub include_design: bool,
    /// Whether the views are partitioned; if absent, they are partitioned if the database is.
    pub partitioned: Option<bool>,
}

/// A parsed design document.
#[derive(Clone, Debug)]
pub struct Design {
    id: String,
    text: Arc<str>,
    language: String,
    views: BTreeMap<String, ViewDefinition>,
    options: DesignOptions,
    library: String,
    signature: [u8; 16],
    fingerprint: [u8; 16],
    fields: Arc<Map<String, Value>>,
}

impl Design {
    /// Parses a design document in its HTTP form, with its `_id`.
    pub fn parse(text: &[u8]) -> Result<Design> {
        let text = std::str::from_utf8(text).map_err(|_| Error::Design("invalid UTF-8 JSON".to_owned()))?;
        let parsed: Value = serde_json::from_str(text).map_err(|error| Error::Design(error.to_string()))?;
        let Value::Object(fields) = parsed else {
            return Err(Error::Design("Document must be a JSON object".to_owned()));
        };
        let string = |name: &str| fields.get(name).and_then(Value::as_str);
        let id = string("_id").unwrap_or_default().to_owned();
        let language = string("language").unwrap_or("javascript").to_owned();
        let stored_views = fields.get("views").and_then(Value::as_object);
        let views = stored_views.map(read_views).unwrap_or_default();
        let library =
            stored_views.and_then(|views| views.get("lib")).map_or_else(String::new, Value::to_string);
        let flag =
            |name: &str| fields.get("options").and_then(|options| options.get(name)).and_then(Value::as_bool);
        let options = DesignOptions {
            local_seq: flag("local_seq").unwrap_or(false),
            include_design: flag("include_design").unwrap_or(false),
            partitioned: flag("partitioned"),
        };
        let signature = signature(&views, &language, options, &library);
        let mut fingerprint = [0; 16];
        fingerprint.copy_from_slice(&blake3::hash(text.as_bytes()).as_bytes()[..16]);
        Ok(Design {
            id,
            text: text.into(),
            language,
            views,
            options,
            library,
            signature,
            fingerprint,
            fields: Arc::new(fields),
        })
    }

    /// A design document for a temporary view, with one view named `temp`.
    pub(crate) fn temporary(view: ViewDefinition, language: &str, options: DesignOptions) -> Design {
        let views = BTreeMap::from([("temp".to_owned(), view)]);
        let signature = signature(&views, language, options, "");
        Design {
            id: "_temp_view".to_owned(),
            text: "{}".into(),
            language: language.to_owned(),
            views,
            options,
            library: String::new(),
            signature,
            fingerprint: signature,
            fields: Arc::default(),
        }
    }

    /// The id, with `_design/`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The language of the functions.
    pub fn language(&self) -> &str {
        &self.language
    }

    /// The text of the document.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The members.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// The views by name.
    pub fn views(&self) -> &BTreeMap<String, ViewDefinition> {
        &self.views
    }

    /// The options.
    pub fn options(&self) -> DesignOptions {
        self.options
    }

    /// The modules in `views.lib` as JSON; empty if there are none.
    pub(crate) fn library(&self) -> &str {
        &self.library
    }

    /// Identifies the indexes of the views: a hash of everything that an index depends on.
    pub fn signature(&self) -> [u8; 16] {
        self.signature
    }

    /// The signature as shown by `_info`.
    pub fn signature_text(&self) -> String {
        self.signature.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// A hash of the whole text, which identifies compiled functions.
    pub(crate) fn fingerprint(&self) -> [u8; 16] {
        self.fingerprint
    }

    /// Whether there is a function at this path, such as `validate_doc_update`, or `filters` and a name.
    pub fn has_function(&self, path: &[&str]) -> bool {
        let mut members = path.iter();
        let first = members.next().and_then(|name| self.fields.get(*name));
        members.fold(first, |value, name| value?.get(name)).is_some_and(Value::is_string)
    }
}

/// Checks the types of a design document's members, as CouchDB does before it stores one.
pub(crate) fn check_members(design: &Design) -> Result<()> {
    let fail = |path: &str, types: &str| Err(Error::Design(format!("`{path}` field must have {types} type")));
    let fields = &design.fields;
    for name in ["filters", "lists", "shows", "updates"] {
        match fields.get(name) {
            None => {}
            Some(Value::Object(functions)) => {
                for (function, source) in functions {
                    if !source.is_string() && !source.is_object() {
                        return fail(&format!("{name}.{function}"), "object or string");
                    }
                }
            }
            Some(_) => return fail(name, "object"),
        }
    }
    for name in ["language", "validate_doc_update"] {
        if fields.get(name).is_some_and(|value| !value.is_string()) {
            return fail(name, "string");
        }
    }
    if fields.get("options").is_some_and(|value| !value.is_object()) {
        return fail("options", "object");
    }
    if fields.get("rewrites").is_some_and(|value| !value.is_string() && !value.is_array()) {
        return fail("rewrites", "string or array");
    }
    let Some(views) = fields.get("views") else { return Ok(()) };
    let Value::Object(views) = views else { return fail("views", "object") };
    for (name, view) in views {
        let Value::Object(view) = view else { return fail(&format!("views.{name}"), "object") };
        if name == "lib" {
            continue;
        }
        // A Mango index is a view whose `map` is an object.
        match view.get("map") {
            None => return Err(Error::Design(format!("View `{name}` must contain map function"))),
            Some(Value::Object(_)) if design.language == "query" => {}
            Some(Value::String(_)) if design.language != "query" => {}
            Some(_) if design.language == "query" => return fail(&format!("views.{name}.map"), "object"),
            Some(_) => return fail(&format!("views.{name}.map"), "string"),
        }
        if view.get("reduce").is_some_and(|reduce| !reduce.is_string()) {
            return fail(&format!("views.{name}.reduce"), "string");
        }
    }
    Ok(())
}

fn read_views(stored: &Map<String, Value>) -> BTreeMap<String, ViewDefinition> {
    let mut views = BTreeMap::new();
    for (name, view) in stored {
        let Some(map) = view.get("map").and_then(Value::as_str) else { continue };
        let collation = view.get("options").and_then(|options| options.get("collation"));
        views.insert(
            name.clone(),
            ViewDefinition {
                map: map.to_owned(),
                reduce: view.get("reduce").and_then(Value::as_str).map(str::to_owned),
                raw_collation: collation.and_then(Value::as_str) == Some("raw"),
            },
        );
    }
    views
}

/// The version of the format of rows and keys. It is part of every signature, so a new version rebuilds all indexes.
const FORMAT: u8 = 3;

fn signature(
    views: &BTreeMap<String, ViewDefinition>,
    language: &str,
    options: DesignOptions,
    library: &str,
) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    let mut add = |text: &str| {
        hasher.update(&(text.len() as u64).to_be_bytes());
        hasher.update(text.as_bytes());
    };
    for (name, view) in views {
        add(name);
        add(&view.map);
        add(view.reduce.as_deref().unwrap_or(""));
        add(if view.raw_collation { "raw" } else { "" });
    }
    add(language);
    add(library);
    hasher.update(&[
        FORMAT,
        options.local_seq.into(),
        options.include_design.into(),
        options.partitioned.map_or(2, u8::from),
    ]);
    let mut out = [0; 16];
    out.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn design(text: &str) -> Design {
        Design::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn signature_depends_on_views_and_options() {
        let base = r#"{"_id":"_design/a","views":{"v":{"map":"function(d){}","reduce":"_sum"}}}"#;
        let same =
            r#"{"shows":{"s":"x"},"_id":"_design/a","views":{"v":{"reduce":"_sum","map":"function(d){}"}}}"#;
        assert_eq!(design(base).signature(), design(same).signature());
        assert_ne!(design(base).fingerprint(), design(same).fingerprint());
        for (from, to) in [
            ("_sum", "_count"),
            ("(d)", "(e)"),
            (r#""v":"#, r#""w":"#),
            (r#""views""#, r#""options":{"local_seq":true},"views""#),
            (r#"{"v""#, r#"{"lib":{"a":"exports.b=1"},"v""#),
        ] {
            assert_ne!(design(base).signature(), design(&base.replace(from, to)).signature(), "{to}");
        }
    }

    #[test]
    fn check_members_rejects_wrong_types() {
        for (text, reason) in [
            (r#"{"views":1}"#, "`views` field must have object type"),
            (r#"{"views":{"v":{}}}"#, "View `v` must contain map function"),
            (r#"{"views":{"v":{"map":{}}}}"#, "`views.v.map` field must have string type"),
            (r#"{"filters":{"f":1}}"#, "`filters.f` field must have object or string type"),
            (r#"{"rewrites":1}"#, "`rewrites` field must have string or array type"),
        ] {
            assert_eq!(check_members(&design(text)).unwrap_err().reason(), reason);
        }
        let query =
            r#"{"language":"query","views":{"v":{"map":{},"reduce":"_count"},"lib":{}},"rewrites":[]}"#;
        assert!(check_members(&design(query)).is_ok());
    }

    #[test]
    fn parsing_ignores_invalid_views() {
        let design = design(
            r#"{"_id":"_design/a","language":7,"views":{"a":1,"b":{"map":2},"c":{"map":"x"}},"filters":{"f":"g"}}"#,
        );
        assert_eq!(design.views().keys().collect::<Vec<_>>(), ["c"]);
        assert!(design.has_function(&["filters", "f"]) && !design.has_function(&["filters", "g"]));
        assert!(Design::parse(b"[]").is_err() && Design::parse(b"{").is_err());
    }
}

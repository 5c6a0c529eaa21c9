//! Index specifications: parsed and checked once, and kept also as the document that `listIndexes` shows.

use crate::error::{Error, Result};
use diwan_query::code;
use diwan_query::display::{Shown, ShownDoc};
use diwan_query::filter::{Filter, FilterEnv};
use diwan_value::key::{self, Direction};
use diwan_value::{Collation, Collator, Doc, DocBuf, DocBuilder, Path, Value, compare};
use std::sync::Arc;

/// The order of one field in the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FieldOrder {
    Ascending,
    Descending,
    /// By the hash of the value. Such a field serves equality only.
    Hashed,
}

/// One field of the key.
#[derive(Clone, Debug)]
pub struct IndexField {
    /// The field's path; in a wildcard index it ends with `$**`.
    pub path: Path,
    /// Its order.
    pub order: FieldOrder,
}

impl IndexField {
    /// The direction of its values in keys. Hashes ascend.
    pub fn direction(&self) -> Direction {
        match self.order {
            FieldOrder::Descending => Direction::Descending,
            FieldOrder::Ascending | FieldOrder::Hashed => Direction::Ascending,
        }
    }
}

/// How an index's keys are generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// From the named fields.
    Ordinary,
    /// From every path under a root.
    Wildcard,
}

/// The most fields of an index.
pub(super) const MAX_FIELDS: usize = 32;

/// A checked index specification.
#[derive(Clone, Debug)]
pub struct IndexSpec {
    /// The name, unique in the collection.
    pub name: String,
    /// The key pattern, as it was given.
    pub key: DocBuf,
    /// The fields of the key.
    pub fields: Vec<IndexField>,
    /// How keys are generated.
    pub kind: IndexKind,
    /// Whether two documents must not have the same key.
    pub unique: bool,
    /// Whether documents without any of the fields have no entry.
    pub sparse: bool,
    /// Whether the planner ignores the index.
    pub hidden: bool,
    /// The filter of a partial index. Only its matches have entries.
    pub partial_filter: Option<Arc<Filter>>,
    /// How many seconds after the field's date a document is deleted.
    pub expire_after_seconds: Option<i64>,
    /// The collation of strings in keys.
    pub collation: Option<Collation>,
    /// Generates collation keys.
    pub collator: Option<Arc<Collator>>,
    /// The paths that a wildcard index includes (`true`) or excludes (`false`).
    wildcard_paths: Option<(bool, Vec<Path>)>,
    /// The whole specification, as `listIndexes` returns it.
    document: DocBuf,
}

/// The options that the specification of the `_id` index may have.
const ID_INDEX_FIELDS: [&str; 5] = ["key", "name", "ns", "v", "collation"];

/// Whether a key pattern is that of the `_id` index, in either direction.
fn is_id_pattern(key: Doc<'_>) -> bool {
    let mut fields = key.iter();
    let only = fields.next().filter(|only| only.key == b"_id" && fields.next().is_none());
    let order = only.and_then(|only| only.value().as_i64_exact());
    order == Some(1) || order == Some(-1)
}

/// Refuses an invalid specification of the `_id` index.
fn check_id_spec(spec: Doc<'_>) -> Result<()> {
    if let Some(other) = spec.iter().find(|element| !ID_INDEX_FIELDS.contains(&element.key_str())) {
        return Err(Error::refused(
            197,
            format!(
                "The field '{}' is not valid for an _id index specification. Specification: {}",
                other.key_str(),
                ShownDoc(spec)
            ),
        ));
    }
    let key = spec.get_doc("key").unwrap_or(Doc::EMPTY);
    if key.get("_id").and_then(Value::as_i64_exact) != Some(1) {
        let text = format!("The field 'key' for an _id index must be {{_id: 1}}, but got {}", ShownDoc(key));
        return Err(Error::refused(code::BAD_VALUE, text));
    }
    Ok(())
}

/// The options that a specification may have.
const KNOWN_FIELDS: [&str; 16] = [
    "key",
    "name",
    "ns",
    "v",
    "background",
    "unique",
    "sparse",
    "hidden",
    "partialFilterExpression",
    "expireAfterSeconds",
    "collation",
    "wildcardProjection",
    "storageEngine",
    "prepareUnique",
    "clustered",
    "dropDups",
];

/// The options that only text and geospatial indexes have.
const FIELDS_OF_OTHER_KINDS: [&str; 10] = [
    "weights",
    "default_language",
    "language_override",
    "textIndexVersion",
    "2dsphereIndexVersion",
    "bits",
    "min",
    "max",
    "coarsestIndexedLevel",
    "finestIndexedLevel",
];

/// The known options that would change an index's behaviour and that Diwan does not support.
const REFUSED_FIELDS: [&str; 2] = ["prepareUnique", "clustered"];

impl IndexSpec {
    /// Parses a specification. `default_collation` is the collection's. It applies if the specification has none.
    pub fn parse(spec: Doc<'_>, default_collation: Option<&Collation>) -> Result<IndexSpec> {
        let is_of_ids = spec.get_doc("key").is_some_and(is_id_pattern);
        if is_of_ids {
            check_id_spec(spec)?;
        }
        for element in spec.iter() {
            let name = element.key_str();
            if !KNOWN_FIELDS.contains(&name) && !FIELDS_OF_OTHER_KINDS.contains(&name) {
                return Err(Error::refused(
                    197,
                    format!(
                        "The field '{}' is not valid for an index specification. Specification: {}",
                        element.key_str(),
                        ShownDoc(spec)
                    ),
                ));
            }
        }
        for name in REFUSED_FIELDS {
            if spec.get(name).is_some_and(is_true) {
                return Err(Error::refused(
                    code::NOT_IMPLEMENTED,
                    format!("The index option '{name}' is not supported by Diwan"),
                ));
            }
        }
        let key = required(spec, "key", "an object", Value::as_doc)?;
        let name = required(spec, "name", "a string", Value::as_str)?;
        // The `_id` index has this name, whatever name is given.
        let name = if is_of_ids { "_id_" } else { name }.to_owned();
        if name == "*" {
            return Err(Error::refused(code::BAD_VALUE, "The index name '*' is not valid."));
        }
        if name.is_empty() {
            return Err(cannot_create("The index name cannot be empty"));
        }
        let fields = parse_key(key)?;
        if let Some(name) = FIELDS_OF_OTHER_KINDS.into_iter().find(|name| spec.contains_key(name)) {
            return Err(cannot_create(&format!(
                "The index option '{name}' is only for text and geospatial indexes, which are not supported by Diwan"
            )));
        }
        if let Some(engines) = spec.get("storageEngine") {
            check_storage_engine(engines)?;
        }
        let wildcard = fields.iter().any(|field| is_wildcard(field.path.as_str()));
        let collation = parse_collation(spec, default_collation)?;
        let collator = compile_collation(collation.as_ref())?;
        let partial_filter = match spec.get("partialFilterExpression") {
            None => None,
            Some(Value::Document(filter)) => {
                let env = FilterEnv::with_collator(collator.clone());
                Some(Arc::new(Filter::parse(filter, &env)?))
            }
            Some(_) => {
                return Err(Error::refused(
                    code::TYPE_MISMATCH,
                    "The field 'partialFilterExpression' must be an object",
                ));
            }
        };
        let mut parsed = IndexSpec {
            name,
            key: key.to_owned(),
            kind: if wildcard { IndexKind::Wildcard } else { IndexKind::Ordinary },
            unique: flag(spec, "unique")?,
            sparse: flag(spec, "sparse")?,
            hidden: flag(spec, "hidden")?,
            partial_filter,
            expire_after_seconds: expire_after(spec)?,
            collation,
            collator,
            wildcard_paths: wildcard_projection(spec, wildcard)?,
            fields,
            document: DocBuf::new(),
        };
        parsed.check_combination()?;
        parsed.document = parsed.rebuild_document(spec);
        Ok(parsed)
    }

    /// The specification of the `_id` index. It has no entries, since records are ordered by `_id`.
    pub(crate) fn id_index(collation: Option<&Collation>) -> Result<IndexSpec> {
        let mut spec = DocBuilder::new();
        spec.append("key", diwan_value::doc! { "_id": 1 }).append("name", "_id_");
        IndexSpec::parse(spec.finish().as_doc(), collation)
    }

    /// Whether this is the `_id` index.
    pub fn is_id_index(&self) -> bool {
        self.name == "_id_"
    }

    /// The specification as `listIndexes` shows it.
    pub fn to_doc(&self) -> Doc<'_> {
        self.document.as_doc()
    }

    /// Whether a wildcard index covers the path, or something below it.
    pub(crate) fn wildcard_covers(&self, path: &str) -> bool {
        let path = Path::new(path);
        match &self.wildcard_paths {
            None => path.as_str() != "_id",
            Some((true, included)) => {
                included.iter().any(|other| path.starts_with(other) || other.starts_with(&path))
            }
            Some((false, excluded)) => !excluded.iter().any(|other| path.starts_with(other)),
        }
    }

    /// The length of the key at the beginning of an entry's bytes. The id follows it.
    pub(crate) fn key_length(&self, entry: &[u8]) -> Option<usize> {
        let mut length = 0;
        let parts = if self.kind == IndexKind::Wildcard { 2 } else { self.fields.len() };
        for part in 0..parts {
            let direction = match (self.kind, self.fields.get(part)) {
                (IndexKind::Ordinary, Some(field)) => field.direction(),
                _ => Direction::Ascending,
            };
            length += key::skip(entry.get(length..)?, direction)?;
        }
        Some(length)
    }

    /// Refuses a specification that conflicts with an existing index. Returns whether they are the same.
    pub fn compare_with_existing(&self, existing: &IndexSpec) -> Result<bool> {
        // Indexes that differ in one of these options may both exist, under different names.
        let same_key = same_pattern(self.key.as_doc(), existing.key.as_doc())
            && self.collation_doc() == existing.collation_doc()
            && self.unique == existing.unique
            && self.sparse == existing.sparse
            && self.document_field("partialFilterExpression")
                == existing.document_field("partialFilterExpression");
        let same_options = same_key
            && self.expire_after_seconds == existing.expire_after_seconds
            && self.document_field("wildcardProjection") == existing.document_field("wildcardProjection");
        let both = || {
            format!(
                "Requested index: {}, existing index: {}",
                ShownDoc(self.to_doc()),
                ShownDoc(existing.to_doc())
            )
        };
        if self.name == existing.name {
            if same_options {
                return Ok(true);
            }
            let (number, what) = if same_key {
                (
                    code::INDEX_OPTIONS_CONFLICT,
                    "An equivalent index already exists with the same name but different options. ",
                )
            } else {
                (
                    code::INDEX_KEY_SPECS_CONFLICT,
                    "An existing index has the same name as the requested index. When index names are not \
                     specified, they are auto generated and can cause conflicts. Please refer to our documentation. ",
                )
            };
            return Err(Error::refused(number, what.to_owned() + &both()));
        }
        if same_options {
            return Err(Error::refused(
                code::INDEX_OPTIONS_CONFLICT,
                format!("Index already exists with a different name: {}", existing.name),
            ));
        }
        if same_key {
            return Err(Error::refused(
                code::INDEX_OPTIONS_CONFLICT,
                "An equivalent index already exists with a different name and options. ".to_owned() + &both(),
            ));
        }
        Ok(false)
    }

    /// A copy with some options changed, for `collMod`.
    pub fn modified(
        &self,
        hidden: Option<bool>,
        expire_after_seconds: Option<i64>,
        unique: Option<bool>,
    ) -> Result<IndexSpec> {
        let mut spec = DocBuilder::new();
        for element in self.to_doc().iter() {
            let replaced = match element.key_str() {
                "hidden" => hidden.is_some(),
                "expireAfterSeconds" => expire_after_seconds.is_some(),
                "unique" => unique.is_some(),
                _ => false,
            };
            if !replaced {
                spec.append_element(element);
            }
        }
        if hidden == Some(true) {
            spec.append("hidden", true);
        }
        if unique == Some(true) {
            spec.append("unique", true);
        }
        if let Some(seconds) = expire_after_seconds {
            match i32::try_from(seconds) {
                Ok(seconds) => spec.append("expireAfterSeconds", seconds),
                Err(_) => spec.append("expireAfterSeconds", seconds),
            };
        }
        IndexSpec::parse(spec.finish().as_doc(), None)
    }

    fn document_field(&self, name: &str) -> Option<Value<'_>> {
        self.document.as_doc().get(name)
    }

    fn collation_doc(&self) -> Option<DocBuf> {
        self.collation.as_ref().map(Collation::to_doc)
    }

    fn check_combination(&self) -> Result<()> {
        let hashed = self.fields.iter().filter(|field| field.order == FieldOrder::Hashed).count();
        if hashed > 1 {
            return Err(cannot_create(
                "A maximum of one index field is allowed to be hashed but found 2 for 'key'",
            ));
        }
        if hashed == 1 && self.unique {
            return Err(Error::refused(
                16764,
                "Currently hashed indexes cannot guarantee uniqueness. Use a regular index.",
            ));
        }
        if self.kind == IndexKind::Wildcard {
            if self.fields.len() > 1 {
                return Err(cannot_create("Diwan's wildcard indexes have exactly one field"));
            }
            for (set, what) in
                [(self.unique, "unique"), (self.expire_after_seconds.is_some(), "expireAfterSeconds")]
            {
                if set {
                    return Err(cannot_create(&format!(
                        "Index type 'wildcard' does not support the {what} option"
                    )));
                }
            }
        }
        if self.expire_after_seconds.is_some() && self.fields.len() > 1 {
            return Err(cannot_create(
                "TTL indexes are single-field indexes, compound indexes do not support TTL. Index spec: \
                 expireAfterSeconds",
            ));
        }
        if self.sparse && self.partial_filter.is_some() {
            return Err(cannot_create("cannot mix \"partialFilterExpression\" and \"sparse\" options"));
        }
        if self.is_id_index() && !is_id_pattern(self.key.as_doc()) {
            return Err(Error::refused(
                code::BAD_VALUE,
                format!(
                    "The index name '_id_' is reserved for the _id index, which must have key pattern {{_id: 1}}, found \
                     key: {}",
                    ShownDoc(self.key.as_doc())
                ),
            ));
        }
        Ok(())
    }

    /// The fields in MongoDB's order: version, key, name, then the options that were given.
    fn rebuild_document(&self, spec: Doc<'_>) -> DocBuf {
        let mut out = DocBuilder::new();
        out.append("v", 2).append("key", self.key.as_doc()).append("name", self.name.as_str());
        for element in spec.iter() {
            match element.key_str() {
                "key" | "name" | "v" | "ns" | "dropDups" | "commitQuorum" | "collation" => {}
                "unique" | "sparse" | "hidden" if !is_true(element.value()) => {}
                _ => {
                    out.append_element(element);
                }
            }
        }
        if let Some(collation) = &self.collation {
            out.append("collation", collation.to_doc());
        }
        out.finish()
    }
}

fn cannot_create(message: &str) -> Error {
    Error::refused(code::CANNOT_CREATE_INDEX, message)
}

/// A required field of a specification. `what` names the expected type.
fn required<'a, T>(spec: Doc<'a>, field: &str, what: &str, read: fn(Value<'a>) -> Option<T>) -> Result<T> {
    let Some(value) = spec.get(field) else {
        return Err(Error::refused(
            code::FAILED_TO_PARSE,
            format!("The '{field}' field is a required property of an index specification"),
        ));
    };
    read(value).ok_or_else(|| {
        let kind = value.tag().alias();
        Error::refused(code::TYPE_MISMATCH, format!("The field '{field}' must be {what}, but got {kind}"))
    })
}

fn is_wildcard(path: &str) -> bool {
    path == "$**" || path.ends_with(".$**")
}

fn is_true(value: Value<'_>) -> bool {
    match value {
        Value::Boolean(flag) => flag,
        other => other.is_number() && !diwan_value::compare(other, Value::Int32(0)).is_eq(),
    }
}

fn flag(spec: Doc<'_>, name: &str) -> Result<bool> {
    match spec.get(name) {
        None => Ok(false),
        Some(value) if value.is_number() || matches!(value, Value::Boolean(_)) => Ok(is_true(value)),
        Some(value) => Err(Error::refused(
            code::TYPE_MISMATCH,
            format!(
                "The field '{name}' has value {name}: {}, which is not convertible to bool",
                Shown(value)
            ),
        )),
    }
}

/// Refuses options of a storage engine, since Diwan has none of MongoDB's engines.
pub(crate) fn check_storage_engine(options: Value<'_>) -> Result<()> {
    let Value::Document(options) = options else {
        return Err(Error::refused(
            code::TYPE_MISMATCH,
            format!("The field 'storageEngine' must be an object, but got {}", options.tag().alias()),
        ));
    };
    match options.iter().next() {
        None => Ok(()),
        Some(engine) => Err(Error::refused(
            code::INVALID_OPTIONS,
            format!("{} is not a registered storage engine for this server", engine.key_str()),
        )),
    }
}

fn expire_after(spec: Doc<'_>) -> Result<Option<i64>> {
    let Some(value) = spec.get("expireAfterSeconds") else { return Ok(None) };
    let seconds = match value {
        Value::Double(number) if number.is_finite() => number as i64,
        value => value
            .as_i64_exact()
            .ok_or_else(|| cannot_create("TTL index 'expireAfterSeconds' option must be numeric"))?,
    };
    if !(0..=i64::from(i32::MAX)).contains(&seconds) {
        return Err(cannot_create(&format!(
            "TTL index 'expireAfterSeconds' option must be within an acceptable range, try a different number than \
             {seconds}"
        )));
    }
    Ok(Some(seconds))
}

fn parse_collation(spec: Doc<'_>, default: Option<&Collation>) -> Result<Option<Collation>> {
    match spec.get("collation") {
        None => Ok(default.cloned()),
        Some(Value::Document(collation)) => {
            Collation::parse(collation).map_err(|error| Error::refused(error.code, error.message))
        }
        Some(_) => Err(Error::refused(code::TYPE_MISMATCH, "The field 'collation' must be an object")),
    }
}

/// Compiles a collation.
pub(crate) fn compile_collation(collation: Option<&Collation>) -> Result<Option<Arc<Collator>>> {
    collation
        .map(|collation| Collator::new(collation).map(Arc::new))
        .transpose()
        .map_err(|error| Error::refused(error.code, error.message))
}

fn parse_key(key: Doc<'_>) -> Result<Vec<IndexField>> {
    if key.is_empty() {
        return Err(cannot_create("Index keys cannot be an empty object"));
    }
    let fields = key
        .iter()
        .map(|element| {
            let name = element.key_str();
            let order = parse_order(name, element.value())?;
            check_path(name)?;
            Ok(IndexField { path: Path::new(name), order })
        })
        .collect::<Result<Vec<_>>>()?;
    if fields.len() > MAX_FIELDS {
        let text = format!("too many compound keys: an index takes at most {MAX_FIELDS} fields");
        return Err(Error::refused(13103, text));
    }
    Ok(fields)
}

fn parse_order(name: &str, value: Value<'_>) -> Result<FieldOrder> {
    match value {
        Value::String("hashed") => Ok(FieldOrder::Hashed),
        Value::String(plugin @ ("text" | "2d" | "2dsphere" | "geoHaystack")) => {
            Err(cannot_create(&format!("Index type '{plugin}' of field '{name}' is not supported by Diwan")))
        }
        Value::String(plugin) => Err(cannot_create(&format!("Unknown index plugin '{plugin}'"))),
        Value::Double(number) if number.is_nan() => {
            Err(cannot_create("Values in the index key pattern cannot be NaN."))
        }
        value if value.is_number() => match diwan_value::compare(value, Value::Int32(0)) {
            std::cmp::Ordering::Greater => Ok(FieldOrder::Ascending),
            std::cmp::Ordering::Less => Ok(FieldOrder::Descending),
            std::cmp::Ordering::Equal => Err(cannot_create("Values in the index key pattern cannot be 0.")),
        },
        value => Err(cannot_create(&format!(
            "Values in v:2 index key pattern cannot be of type {}. Only numbers > 0, numbers < 0, and strings are \
             allowed.",
            value.tag().alias()
        ))),
    }
}

fn check_path(name: &str) -> Result<()> {
    if is_wildcard(name) {
        return Ok(());
    }
    if name.is_empty() || name.split('.').any(str::is_empty) {
        return Err(cannot_create("Index keys cannot contain an empty field."));
    }
    let dollar = |part: &str| part.starts_with('$') && !matches!(part, "$id" | "$ref" | "$db");
    if name.split('.').any(dollar) {
        return Err(cannot_create(&format!(
            "Index key contains an illegal field name: field name starts with '$'. Field: {name}"
        )));
    }
    Ok(())
}

fn wildcard_projection(spec: Doc<'_>, wildcard: bool) -> Result<Option<(bool, Vec<Path>)>> {
    let Some(value) = spec.get("wildcardProjection") else { return Ok(None) };
    let Value::Document(projection) = value else {
        return Err(Error::refused(
            code::TYPE_MISMATCH,
            "The field 'wildcardProjection' must be a non-empty object",
        ));
    };
    if !wildcard || spec.get_doc("key").is_some_and(|key| !key.contains_key("$**")) {
        return Err(Error::refused(
            code::BAD_VALUE,
            "The field 'wildcardProjection' is only allowed when 'key' is {\"$**\": ±1}",
        ));
    }
    if projection.is_empty() {
        return Err(Error::refused(
            code::FAILED_TO_PARSE,
            "The 'wildcardProjection' field can't be an empty object",
        ));
    }
    let mut paths = Vec::new();
    let mut inclusive = None;
    let mut with_id = None;
    for element in projection.iter() {
        let included = is_true(element.value());
        if element.key_str() == "_id" {
            with_id = Some(included);
            continue;
        }
        if inclusive.is_some_and(|other| other != included) {
            return Err(Error::refused(
                31254,
                format!(
                    "Cannot do {} on field {} in {} projection",
                    if included { "inclusion" } else { "exclusion" },
                    element.key_str(),
                    if included { "exclusion" } else { "inclusion" }
                ),
            ));
        }
        inclusive = Some(included);
        paths.push(Path::new(element.key_str()));
    }
    // `_id` is left out unless the projection includes it.
    let inclusive = inclusive.or(with_id).unwrap_or(true);
    match (inclusive, with_id) {
        (true, Some(true)) | (false, None | Some(false)) => paths.push(Path::new("_id")),
        _ => {}
    }
    Ok(Some((inclusive, paths)))
}

/// Whether two key patterns are equal, with numbers compared by value.
pub fn same_pattern(left: Doc<'_>, right: Doc<'_>) -> bool {
    let mut theirs = right.iter();
    left.iter().all(|mine| {
        theirs
            .next()
            .is_some_and(|other| mine.key == other.key && compare(mine.value(), other.value()).is_eq())
    }) && theirs.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_value::doc;

    fn error_code(spec: DocBuf) -> i32 {
        match IndexSpec::parse(spec.as_doc(), None) {
            Err(Error::Query(error)) => error.code,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn to_doc_shows_mongodbs_form() {
        let spec =
            doc! { "name": "a_1", "key": { "a": 1 }, "unique": true, "sparse": false, "background": true };
        let parsed = IndexSpec::parse(spec.as_doc(), None).unwrap();
        let shown = doc! { "v": 2, "key": { "a": 1 }, "name": "a_1", "unique": true, "background": true };
        assert_eq!(parsed.to_doc(), shown.as_doc());
    }

    #[test]
    fn parse_refuses_bad_specifications_with_mongodbs_codes() {
        assert_eq!(error_code(doc! { "key": {}, "name": "x" }), 67);
        assert_eq!(error_code(doc! { "key": { "a": 0 }, "name": "x" }), 67);
        assert_eq!(error_code(doc! { "key": { "a": true }, "name": "x" }), 67);
        assert_eq!(error_code(doc! { "key": { "a": "text" }, "name": "x" }), 67);
        assert_eq!(error_code(doc! { "key": { "a": 1 } }), 9);
        assert_eq!(error_code(doc! { "key": { "a": 1 }, "name": "x", "unknown": 1 }), 197);
        assert_eq!(error_code(doc! { "key": { "a": "hashed" }, "name": "x", "unique": true }), 16764);
        assert_eq!(error_code(doc! { "key": { "a": 1, "b": 1 }, "name": "x", "expireAfterSeconds": 5 }), 67);
    }

    #[test]
    fn compare_with_existing_distinguishes_conflicts() {
        let parse = |spec: DocBuf| IndexSpec::parse(spec.as_doc(), None).unwrap();
        let existing = parse(doc! { "key": { "a": 1 }, "name": "a_1" });
        assert!(parse(doc! { "key": { "a": 1 }, "name": "a_1" }).compare_with_existing(&existing).unwrap());
        assert!(parse(doc! { "key": { "a": 1.0 }, "name": "a_1" }).compare_with_existing(&existing).unwrap());
        let code_of = |spec: DocBuf| match parse(spec).compare_with_existing(&existing) {
            Err(Error::Query(error)) => error.code,
            other => panic!("{other:?}"),
        };
        assert_eq!(code_of(doc! { "key": { "b": 1 }, "name": "a_1" }), 86);
        assert_eq!(code_of(doc! { "key": { "a": 1 }, "name": "other" }), 85);
        assert_eq!(code_of(doc! { "key": { "a": 1 }, "name": "a_1", "unique": true }), 86);
        assert!(!parse(doc! { "key": { "b": 1 }, "name": "b_1" }).compare_with_existing(&existing).unwrap());
    }
}

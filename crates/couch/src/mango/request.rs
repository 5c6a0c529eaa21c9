//! Parses the bodies of queries and of index requests. The error texts are CouchDB's.

use super::bookmark;
use super::normalize::normalized;
use super::selector::{Fields, Selector};
use crate::error::{Error, Result};
use crate::http::{Request, begins_as_object};
use crate::partition;
use diwan_query::mango::parse_sort;
use diwan_query::sort::Sort;
use diwan_store::ops::Position;
use diwan_value::json::{self, Limits, Mode};
use diwan_value::{Doc, DocBuf, Value, doc};

/// The default limit of a query.
const DEFAULT_LIMIT: u64 = 25;
/// How many bytes of a value an error message shows.
const SHOWN: usize = 200;

/// The members that a query may have.
const FIND_MEMBERS: [&str; 16] = [
    "selector",
    "use_index",
    "bookmark",
    "limit",
    "skip",
    "sort",
    "fields",
    "partition",
    "r",
    "conflicts",
    "stale",
    "update",
    "stable",
    "execution_stats",
    "allow_fallback",
    "w",
];

/// A parsed query.
pub(super) struct FindRequest {
    /// The whole body.
    pub(crate) body: DocBuf,
    /// The selector.
    pub(crate) selector: Selector,
    /// The design document's name without `_design/`, and optionally an index in it.
    pub(crate) use_index: Option<(String, Option<String>)>,
    /// The bookmark as given.
    pub(crate) bookmark_text: Option<String>,
    /// The position where the previous page ended.
    pub(crate) bookmark: Option<Position>,
    /// The largest number of documents to return.
    pub(crate) limit: u64,
    /// The number of documents to skip.
    pub(crate) skip: u64,
    /// The sort order.
    pub(crate) sort: Option<Sort>,
    /// The fields to return of each document; `None` for all.
    pub(crate) fields: Option<Fields>,
    /// The partition that the query is restricted to.
    pub(crate) partition: Option<String>,
    /// Whether documents are returned with their `_conflicts`.
    pub(crate) conflicts: bool,
    /// Whether the answer contains statistics.
    pub(crate) execution_stats: bool,
    /// Whether another index may be used if `use_index` cannot be.
    pub(crate) allow_fallback: bool,
}

/// A parsed request for an index.
pub(crate) struct IndexRequest {
    /// The `index` member.
    pub(crate) definition: DocBuf,
    /// The fields, as a sort.
    pub(crate) fields: Sort,
    /// The selector of the indexed documents, in normal form.
    pub(crate) partial: Option<DocBuf>,
    /// The design document's id, if given.
    pub(crate) ddoc: Option<String>,
    /// The index's name, if given.
    pub(crate) name: Option<String>,
    /// Whether the index serves queries within partitions.
    pub(crate) partitioned: Option<bool>,
}

/// Reads a request's body as a document.
pub(crate) fn read_body(request: &mut Request) -> Result<DocBuf> {
    request.require_json()?;
    let bytes = request.read_body()?;
    begins_as_object(&bytes)?;
    json::parse_document(&bytes, Limits::default())
        .map_err(|error| Error::invalid_json(error.position, error.message))
}

/// Returns the selector of a body.
pub(super) fn selector_of(body: Doc<'_>) -> Result<Value<'_>> {
    body.get("selector").ok_or_else(|| missing("selector"))
}

impl FindRequest {
    /// Parses a query. `within` is the partition in the path.
    pub(super) fn read(body: DocBuf, within: Option<String>) -> Result<FindRequest> {
        let doc = body.as_doc();
        let selector = Selector::parse(selector_of(doc)?)?;
        let partition = match (doc.get("partition"), within) {
            (None | Some(Value::String("")), within) => within,
            (Some(Value::String(name)), within) => {
                partition::check(name)?;
                if within.as_deref().is_some_and(|within| within != name) {
                    return Err(Error::bad_request("`partition` does not match the path's partition"));
                }
                Some(name.to_owned())
            }
            (Some(_), _) => return Err(Error::illegal_partition("Partition must be a string")),
        };
        // Members without an effect here are validated nevertheless, as in CouchDB.
        positive(doc, "r")?;
        for name in ["update", "stable"] {
            flag(doc, name, false)?;
        }
        if let Some(value) = doc.get("stale")
            && !matches!(value, Value::String("ok" | "false") | Value::Boolean(false))
        {
            return Err(about("invalid_ok_or_false_value", "", value, " is not \"ok\" or false"));
        }
        let bookmark_text = match doc.get("bookmark") {
            None | Some(Value::Null | Value::String("" | bookmark::NONE)) => None,
            Some(Value::String(text)) => Some(text.to_owned()),
            Some(other) => return Err(about("invalid_bookmark", "Invalid bookmark value: ", other, "")),
        };
        let request = FindRequest {
            selector,
            use_index: use_index(doc.get("use_index"))?,
            bookmark: bookmark_text.as_deref().map(bookmark::read).transpose()?,
            bookmark_text,
            limit: number(doc, "limit", DEFAULT_LIMIT)?,
            skip: number(doc, "skip", 0)?,
            sort: match doc.get("sort") {
                Some(sort) => parse_sort(sort)?,
                None => None,
            },
            fields: match doc.get("fields") {
                Some(fields) => Fields::parse(fields)?,
                None => None,
            },
            partition,
            conflicts: flag(doc, "conflicts", false)?,
            execution_stats: flag(doc, "execution_stats", false)?,
            allow_fallback: flag(doc, "allow_fallback", true)?,
            body: DocBuf::new(),
        };
        only(doc, &FIND_MEMBERS)?;
        Ok(FindRequest { body, ..request })
    }
}

impl IndexRequest {
    /// Parses a request for an index.
    pub(crate) fn read(body: Doc<'_>) -> Result<IndexRequest> {
        let index = body.get("index").ok_or_else(|| missing("index"))?;
        let kind = match body.get("type") {
            None => "json",
            Some(Value::String(kind)) => kind,
            Some(other) => return Err(about("invalid_string", "Invalid string: ", other, "")),
        };
        let text = |name: &str| match body.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.to_owned())),
            Some(other) => Err(about("invalid_string", "Invalid string: ", other, "")),
        };
        let (name, ddoc) = (text("name")?, text("ddoc")?);
        positive(body, "w")?;
        let partitioned = match body.get("partitioned") {
            None => None,
            Some(Value::Boolean(flag)) => Some(flag),
            Some(other) => {
                return Err(about("invalid_partitioned_value", "Invalid value for partitioned: ", other, ""));
            }
        };
        only(body, &["index", "type", "name", "ddoc", "w", "partitioned"])?;
        match kind {
            "json" => {}
            // Diwan has no full-text search; this is CouchDB's answer when its search service is not running.
            "text" | "nouveau" => {
                return Err(Error::new(503, "required index service unavailable", kind.to_owned()));
            }
            other => {
                return Err(Error::new(400, "invalid_index", format!("Invalid type for index: {other}")));
            }
        }
        let Value::Document(index) = index else {
            return Err(about("invalid_index", "JSON indexes must be an object, not: ", index, ""));
        };
        let fields = parse_sort(index.get("fields").ok_or_else(|| missing("fields"))?)?
            .ok_or_else(|| Error::new(400, "invalid_index", "An index must have at least one field."))?;
        let partial = match index.get("partial_filter_selector") {
            None => None,
            Some(Value::Document(selector)) if selector.is_empty() => None,
            Some(selector) => {
                let parsed = Selector::parse(selector)?;
                if parsed.names_metadata() {
                    return Err(Error::new(
                        400,
                        "invalid_index",
                        "A partial_filter_selector can only refer to fields of the documents.",
                    ));
                }
                selector.as_doc().map(normalized)
            }
        };
        only(index, &["fields", "partial_filter_selector"])?;
        if ddoc.as_deref().is_some_and(|ddoc| ddoc.trim_start_matches("_design/").is_empty()) {
            return Err(Error::bad_request("The design document's name cannot be empty"));
        }
        let ddoc =
            ddoc.map(|ddoc| if ddoc.starts_with("_design/") { ddoc } else { format!("_design/{ddoc}") });
        Ok(IndexRequest { definition: index.to_owned(), fields, partial, ddoc, name, partitioned })
    }
}

/// Parses the design document names in a bulk delete.
pub(crate) fn bulk_delete_names(body: Doc<'_>) -> Result<Vec<String>> {
    let docids = body.get("docids").ok_or_else(|| missing("docids"))?;
    positive(body, "w")?;
    only(body, &["docids", "w"])?;
    let refuse = || {
        about("invalid_bulk_docs", "Bulk Delete requires an array of non-null docids. Docids: ", docids, "")
    };
    let Value::Array(names) = docids else { return Err(refuse()) };
    names.iter().map(|name| name.as_str().map(str::to_owned).ok_or_else(refuse)).collect()
}

fn missing(name: &str) -> Error {
    Error::new(400, "missing_required_key", format!("Missing required key: {name}"))
}

/// Builds an error that quotes a value.
fn about(error: &'static str, before: &str, value: Value<'_>, after: &str) -> Error {
    let mut text = Vec::new();
    json::write_value(&mut text, value, Mode::Exchange);
    let text = String::from_utf8_lossy(&text);
    let shown = &text[..text.floor_char_boundary(SHOWN)];
    Error::new(400, error, format!("{before}{shown}{after}"))
}

fn only(doc: Doc<'_>, known: &[&str]) -> Result<()> {
    match doc.iter().find(|element| !known.contains(&element.key_str())) {
        None => Ok(()),
        Some(element) => {
            let text = format!("Invalid key {} for this request.", element.key_str());
            Err(Error::new(400, "invalid_key", text))
        }
    }
}

fn flag(doc: Doc<'_>, name: &str, default: bool) -> Result<bool> {
    match doc.get(name) {
        None => Ok(default),
        Some(Value::Boolean(flag)) => Ok(flag),
        Some(other) => Err(about("invalid_boolean", "Invalid boolean value: ", other, "")),
    }
}

fn integer(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Int32(number) => Some(number.into()),
        Value::Int64(number) => Some(number),
        _ => None,
    }
}

fn number(doc: Doc<'_>, name: &str, default: u64) -> Result<u64> {
    let Some(value) = doc.get(name) else { return Ok(default) };
    integer(value).and_then(|number| u64::try_from(number).ok()).ok_or_else(|| {
        about("invalid_non_neg_integer", "", value, " is not an integer greater than or equal to zero")
    })
}

fn positive(doc: Doc<'_>, name: &str) -> Result<()> {
    match doc.get(name) {
        Some(value) if integer(value).is_none_or(|number| number < 1) => {
            Err(about("invalid_pos_integer", "", value, " is not an integer greater than zero"))
        }
        _ => Ok(()),
    }
}

/// Parses `ddoc`, `ddoc/name`, `[ddoc]` or `[ddoc, name]`, with or without `_design/`.
fn use_index(value: Option<Value<'_>>) -> Result<Option<(String, Option<String>)>> {
    let Some(value) = value else { return Ok(None) };
    let refuse = || about("invalid_index_name", "Invalid index name: ", value, "");
    let parts: Vec<String> = match value {
        Value::Null => return Ok(None),
        Value::String(text) => {
            let text = text.strip_prefix("_design/").unwrap_or(text);
            text.split('/').map(str::to_owned).collect()
        }
        Value::Array(list) => list
            .iter()
            .map(|part| part.as_str().map(str::to_owned).ok_or_else(refuse))
            .collect::<Result<_>>()?,
        _ => return Err(refuse()),
    };
    let plain = |ddoc: &str| ddoc.strip_prefix("_design/").unwrap_or(ddoc).to_owned();
    match parts.as_slice() {
        [] => Ok(None),
        [ddoc] => Ok(Some((plain(ddoc), None))),
        [ddoc, name] => Ok(Some((plain(ddoc), Some(name.clone())))),
        _ => Err(refuse()),
    }
}

/// Wraps a selector as a filter of the store's commands.
pub(super) fn as_filter(selector: Doc<'_>) -> DocBuf {
    doc! { "$mango": selector }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(text: &str) -> Result<FindRequest> {
        FindRequest::read(json::parse_document(text.as_bytes(), Limits::default()).unwrap(), None)
    }

    #[test]
    fn find_request_is_parsed() {
        let query = find(
            r#"{"selector":{"a":1},"limit":3,"skip":1,"sort":["a"],"fields":["a"],"use_index":"_design/d/n","update":true}"#,
        )
        .unwrap();
        assert_eq!((query.limit, query.skip), (3, 1));
        assert_eq!(query.use_index, Some(("d".to_owned(), Some("n".to_owned()))));
        assert!(query.sort.is_some() && query.fields.is_some() && query.bookmark.is_none());
        let plain = find(r#"{"selector":{},"bookmark":"nil","use_index":[],"fields":[]}"#).unwrap();
        assert_eq!(plain.limit, DEFAULT_LIMIT);
        assert!(plain.use_index.is_none() && plain.fields.is_none());
    }

    #[test]
    fn malformed_queries_are_refused_with_couchdbs_errors() {
        for (text, error, reason) in [
            ("{}", "missing_required_key", "Missing required key: selector"),
            (r#"{"selector":7}"#, "invalid_selector_json", "Selector must be a JSON object, not: 7"),
            (r#"{"selector":{},"x":1}"#, "invalid_key", "Invalid key x for this request."),
            (
                r#"{"selector":{},"limit":-1}"#,
                "invalid_non_neg_integer",
                "-1 is not an integer greater than or equal to zero",
            ),
            (r#"{"selector":{},"r":0}"#, "invalid_pos_integer", "0 is not an integer greater than zero"),
            (r#"{"selector":{},"conflicts":1}"#, "invalid_boolean", "Invalid boolean value: 1"),
            (
                r#"{"selector":{},"sort":1}"#,
                "invalid_sort_json",
                "Sort must be an array of sort specs, not: 1",
            ),
            (r#"{"selector":{},"bookmark":"zz"}"#, "invalid_bookmark", "Invalid bookmark value: \"zz\""),
            (r#"{"selector":{},"use_index":[1]}"#, "invalid_index_name", "Invalid index name: [1]"),
            (
                r#"{"selector":{},"partition":"_p"}"#,
                "illegal_partition",
                "Partition must not start with an underscore",
            ),
        ] {
            let refused = find(text).err().unwrap();
            assert_eq!(
                (refused.status, refused.error.as_ref(), refused.reason.as_ref()),
                (400, error, reason),
                "{text}"
            );
        }
    }

    #[test]
    fn index_request_is_parsed() {
        let read = |text: &str| {
            let body = json::parse_document(text.as_bytes(), Limits::default()).unwrap();
            IndexRequest::read(body.as_doc())
        };
        let index = read(r#"{"index":{"fields":["a",{"b":"asc"}]},"ddoc":"d","name":"n"}"#).unwrap();
        assert_eq!((index.ddoc.as_deref(), index.fields.parts().len()), (Some("_design/d"), 2));
        for (text, status, error) in [
            ("{}", 400, "missing_required_key"),
            (r#"{"index":[]}"#, 400, "invalid_index"),
            (r#"{"index":{}}"#, 400, "missing_required_key"),
            (r#"{"index":{"fields":[]}}"#, 400, "invalid_index"),
            (r#"{"index":{"fields":["a"],"x":1}}"#, 400, "invalid_key"),
            (r#"{"index":{"fields":["a"]},"type":"geo"}"#, 400, "invalid_index"),
            (r#"{"index":{},"type":"text"}"#, 503, "required index service unavailable"),
            (r#"{"index":{"fields":["a"],"partial_filter_selector":{"_rev":1}}}"#, 400, "invalid_index"),
        ] {
            let refused = read(text).err().unwrap();
            assert_eq!((refused.status, refused.error.as_ref()), (status, error), "{text}");
        }
    }
}

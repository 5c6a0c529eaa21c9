//! The parameters of listings, from the query string and the body.

use super::interval::{Edge, Interval};
use crate::error::{Error, Result};
use crate::http::{Query, whole};
use diwan_script::ViewQuery;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The parameters of a listing by id.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters {
    /// Look up exactly these ids, in this order.
    pub(crate) keys: Option<Vec<Value>>,
    /// List the ids in this interval.
    pub(crate) interval: Interval,
    /// List in descending order.
    pub(crate) descending: bool,
    /// How many rows to skip.
    pub(crate) skip: u64,
    /// The largest number of rows.
    pub(crate) limit: Option<u64>,
    /// Whether rows contain their documents.
    pub(crate) include_docs: bool,
    /// Whether documents contain `_conflicts`.
    pub(crate) conflicts: bool,
    /// Whether documents contain their attachments' bytes.
    pub(crate) attachments: bool,
    /// Whether attachments state their encoding.
    pub(crate) att_encoding_info: bool,
    /// Whether the answer states the update sequence.
    pub(crate) update_seq: bool,
    /// Whether `keys` also returns the bodies of deleted documents.
    pub(crate) deleted_docs: bool,
}

/// The parameters of a URL combined with the members of a body or of one of its `queries`.
pub(crate) struct Members<'a> {
    query: &'a Query,
    body: Option<&'a Map<String, Value>>,
    /// Whether the URL takes precedence over the body.
    url_first: bool,
}

impl<'a> Members<'a> {
    /// The parameters of a request, whose URL takes precedence over its body.
    pub(crate) fn new(query: &'a Query, body: Option<&'a Map<String, Value>>) -> Members<'a> {
        Members { query, body, url_first: true }
    }

    /// The parameters of one of several queries, which takes precedence over the URL.
    pub(crate) fn of_one(query: &'a Query, members: &'a Map<String, Value>) -> Members<'a> {
        Members { query, body: Some(members), url_first: false }
    }

    /// Returns the body's value for one of these names, unless the URL takes precedence.
    fn of_body(&self, names: &[&str]) -> Option<&'a Value> {
        if self.url_first && names.iter().any(|name| self.query.get(name).is_some()) {
            return None;
        }
        self.body.and_then(|body| names.iter().find_map(|name| body.get(*name)))
    }

    /// Parses a JSON value.
    pub(crate) fn json(&self, names: &[&str]) -> Result<Option<Value>> {
        if let Some(value) = self.of_body(names) {
            return Ok(Some(value.clone()));
        }
        for name in names {
            if let Some(value) = self.query.json(name)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Parses a boolean, which the body may also give as text.
    pub(crate) fn flag(&self, name: &str, default: bool) -> Result<bool> {
        match self.of_body(&[name]) {
            None => self.query.flag_or(name, default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::String(text)) if text == "true" => Ok(true),
            Some(Value::String(text)) if text == "false" => Ok(false),
            Some(other) => Err(Error::query_parse_error(format!("Invalid boolean parameter: {other}"))),
        }
    }

    /// Parses a non-negative integer.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>> {
        let Some(value) = self.of_body(&[name]) else { return self.query.number(name) };
        let shown = value.to_string();
        whole(value.as_str().unwrap_or(&shown), &shown).map(Some)
    }

    /// Returns a value as text, whatever its type.
    pub(crate) fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        match self.of_body(&[name]) {
            Some(Value::String(text)) => Some(text.into()),
            Some(other) => Some(other.to_string().into()),
            None => self.query.get(name).map(Cow::Borrowed),
        }
    }

    /// Validates the parameters that only apply to views, as for a view without a reduce function: CouchDB treats a
    /// listing as one.
    fn check_others(&self) -> Result<()> {
        let mut view = ViewQuery::default();
        for name in ["reduce", "group", "group_level", "stable", "update", "stale", "sorted"] {
            if let Some(text) = self.text(name) {
                view.set_url(name, &text)?;
            }
        }
        view.check(false)?;
        Ok(())
    }
}

impl Parameters {
    /// Parses the parameters.
    pub(crate) fn read(members: &Members<'_>) -> Result<Parameters> {
        let keys = match members.json(&["keys"])? {
            None | Some(Value::Null) => None,
            Some(Value::Array(keys)) => Some(keys),
            Some(_) if members.of_body(&["keys"]).is_some() => {
                return Err(Error::bad_request("`keys` body member must be an array."));
            }
            Some(_) => return Err(Error::bad_request("`keys` parameter must be an array.")),
        };
        let inclusive = members.flag("inclusive_end", true)?;
        let descending = members.flag("descending", false)?;
        let start = edge(members, &["startkey", "start_key"], true)?;
        let end = edge(members, &["endkey", "end_key"], inclusive)?;
        let key = edge(members, &["key"], true)?;
        let docid = |names: &[&str]| names.iter().find_map(|name| members.text(name)).map(Cow::into_owned);
        let start_docid = docid(&["startkey_docid", "start_key_doc_id"]);
        let end_docid = docid(&["endkey_docid", "end_key_doc_id"]);
        if keys.as_ref().is_some_and(|keys| !keys.is_empty())
            && (start.is_some() || end.is_some() || key.is_some())
        {
            return Err(Error::query_parse_error(
                "`keys` is incompatible with `key`, `start_key` and `end_key`",
            ));
        }
        members.check_others()?;
        // As in CouchDB, `startkey_docid` is used where there is no `startkey`, and likewise `endkey_docid`.
        let start = start.or_else(|| start_docid.map(|text| Edge { text, inclusive: true }));
        let end = end.or_else(|| end_docid.map(|text| Edge { text, inclusive }));
        // In descending order the start key is the upper end.
        let interval = match (key, descending) {
            (Some(key), _) => Interval { low: Some(key.clone()), high: Some(key) },
            (None, false) => Interval { low: start, high: end },
            (None, true) => Interval { low: end, high: start },
        };
        Ok(Parameters {
            keys,
            interval,
            descending,
            skip: members.number("skip")?.unwrap_or(0),
            limit: members.number("limit")?,
            include_docs: members.flag("include_docs", false)?,
            conflicts: members.flag("conflicts", false)?,
            attachments: members.flag("attachments", false)?,
            att_encoding_info: members.flag("att_encoding_info", false)?,
            update_seq: members.flag("update_seq", false)?,
            deleted_docs: members.text("deleted").as_deref() == Some("ok"),
        })
    }

    /// Returns `skip` and `limit` for rows in memory.
    pub(crate) fn page(&self) -> (usize, usize) {
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        (count(self.skip), self.limit.map_or(usize::MAX, count))
    }
}

/// Parses an end of the interval. As in CouchDB, a value that is not a string sorts before all ids.
fn edge(members: &Members<'_>, names: &[&str], inclusive: bool) -> Result<Option<Edge>> {
    match members.json(names)? {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(Edge { text, inclusive })),
        Some(_) => Ok(Some(Edge::new("", inclusive))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(query: &str, body: Option<Value>) -> Result<Parameters> {
        let query = Query::parse(query);
        let body = body.map(|body| body.as_object().cloned().unwrap_or_default());
        Parameters::read(&Members::new(&query, body.as_ref()))
    }

    #[test]
    fn url_overrides_body_but_not_single_queries() {
        let body = json!({"limit": 5, "end_key": "a", "start_key": "z"});
        let both = read("limit=3&descending=true&startkey=%22b%22", Some(body)).unwrap();
        assert_eq!((both.limit, both.descending), (Some(3), true));
        assert_eq!(both.interval.low, Some(Edge::new("a", true)));
        assert_eq!(both.interval.high, Some(Edge::new("b", true)));
        let query = Query::parse("limit=3&skip=1");
        let one = json!({"limit": 5}).as_object().cloned().unwrap_or_default();
        let one = Parameters::read(&Members::of_one(&query, &one)).unwrap();
        assert_eq!((one.limit, one.skip), (Some(5), 1));
        let ids = read("startkey_docid=b&endkey_docid=%22c&inclusive_end=false", None).unwrap();
        assert_eq!(ids.interval.low, Some(Edge::new("b", true)));
        assert_eq!(ids.interval.high, Some(Edge::new("\"c", false)));
        let both = read("startkey=%22a%22&start_key_doc_id=b", None).unwrap();
        assert_eq!(both.interval.low, Some(Edge::new("a", true)));
        let key = read("key=%22x%22&inclusive_end=false", None).unwrap();
        assert_eq!(key.interval.low, key.interval.high);
        let huge = read("limit=99999999999999999999&reduce=false&group_level=0&sorted=false", None).unwrap();
        assert_eq!(huge.limit, Some(u64::MAX));
    }

    #[test]
    fn malformed_parameters_are_refused() {
        for (query, body, error) in [
            ("limit=x", None, "query_parse_error"),
            ("limit=-1", None, "query_parse_error"),
            ("reduce=true", None, "query_parse_error"),
            ("group=true", None, "query_parse_error"),
            ("stale=x", None, "query_parse_error"),
            ("", Some(json!({"group_level": 1})), "query_parse_error"),
            ("startkey=a", None, "bad_request"),
            ("keys=7", None, "bad_request"),
            ("", Some(json!({"keys": "a"})), "bad_request"),
            ("", Some(json!({"skip": -1})), "query_parse_error"),
            ("key=%22a%22", Some(json!({"keys": ["a"]})), "query_parse_error"),
            ("", Some(json!({"include_docs": 1})), "query_parse_error"),
        ] {
            assert_eq!(read(query, body).unwrap_err().error, error, "{query}");
        }
    }
}

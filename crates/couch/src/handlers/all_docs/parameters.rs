//! What is asked of a listing: by the query string, and by a body whose members count more.

use super::order::{Edge, Interval};
use crate::error::{Error, Result};
use crate::http::{Query, whole};
use diwan_script::ViewQuery;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// What is asked of a listing of documents by their ids.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    /// Just these, in this order, found or not.
    pub keys: Option<Vec<Value>>,
    /// Those of this interval.
    pub interval: Interval,
    /// From the last to the first.
    pub descending: bool,
    /// How many are passed over.
    pub skip: u64,
    /// How many come at most.
    pub limit: Option<u64>,
    /// Whether each row has its document.
    pub include_docs: bool,
    /// Whether a document tells of its conflicts.
    pub conflicts: bool,
    /// Whether a document's attachments come with it.
    pub attachments: bool,
    /// Whether attachments tell how they are stored.
    pub att_encoding_info: bool,
    /// Whether the answer tells the sequence that it is as of.
    pub update_seq: bool,
    /// Whether documents of `keys` that are deleted are shown as they were left.
    pub deleted_docs: bool,
}

/// The members of a body over the parameters of a URL.
pub struct Members<'a> {
    query: &'a Query,
    body: Option<&'a Map<String, Value>>,
}

impl<'a> Members<'a> {
    /// Both.
    pub fn new(query: &'a Query, body: Option<&'a Map<String, Value>>) -> Members<'a> {
        Members { query, body }
    }

    /// A value that may be any JSON. The text of a URL's parameter is JSON.
    pub fn json(&self, names: &[&str]) -> Result<Option<Value>> {
        for name in names {
            if let Some(value) = self.body.and_then(|body| body.get(*name)) {
                return Ok(Some(value.clone()));
            }
        }
        for name in names {
            if let Some(value) = self.query.json(name)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// A value that is `true` or `false`, perhaps as text.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool> {
        match self.body.and_then(|body| body.get(name)) {
            None => self.query.flag_or(name, default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::String(text)) if text == "true" => Ok(true),
            Some(Value::String(text)) if text == "false" => Ok(false),
            Some(other) => Err(Error::query_parse_error(format!("Invalid boolean parameter: {other}"))),
        }
    }

    /// A value that is a whole number from 0.
    pub fn number(&self, name: &str) -> Result<Option<u64>> {
        let Some(value) = self.body.and_then(|body| body.get(name)) else { return self.query.number(name) };
        let shown = value.to_string();
        whole(value.as_str().unwrap_or(&shown), &shown).map(Some)
    }

    /// A member as text, of whatever kind it is.
    pub fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        match self.body.and_then(|body| body.get(name)) {
            Some(Value::String(text)) => Some(text.into()),
            Some(other) => Some(other.to_string().into()),
            None => self.query.get(name).map(Cow::Borrowed),
        }
    }

    /// Checks what only views make use of as one without a reduce function does: a listing is such a view, too.
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
    /// Reads them.
    pub fn read(members: &Members<'_>) -> Result<Parameters> {
        let keys = match members.json(&["keys"])? {
            None | Some(Value::Null) => None,
            Some(Value::Array(keys)) => Some(keys),
            Some(_) if members.body.is_some_and(|body| body.contains_key("keys")) => {
                return Err(Error::bad_request("`keys` body member must be an array."));
            }
            Some(_) => return Err(Error::bad_request("`keys` parameter must be an array.")),
        };
        let inclusive = members.flag("inclusive_end", true)?;
        let descending = members.flag("descending", false)?;
        let start = edge(members, &["startkey", "start_key"], true)?;
        let end = edge(members, &["endkey", "end_key"], inclusive)?;
        let key = edge(members, &["key"], true)?;
        if keys.as_ref().is_some_and(|keys| !keys.is_empty())
            && (start.is_some() || end.is_some() || key.is_some())
        {
            return Err(Error::query_parse_error(
                "`keys` is incompatible with `key`, `start_key` and `end_key`",
            ));
        }
        members.check_others()?;
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

    /// How many are passed over and how many come at most, of what lies in memory.
    pub fn page(&self) -> (usize, usize) {
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        (count(self.skip), self.limit.map_or(usize::MAX, count))
    }
}

/// The end of a range. What is no string, null included, lies before all ids, as it does where CouchDB keeps them.
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
    fn members_of_the_body_count_more() {
        let both =
            read("limit=3&descending=true&startkey=%22b%22", Some(json!({"limit": 5, "end_key": "a"})))
                .unwrap();
        assert_eq!((both.limit, both.descending), (Some(5), true));
        assert_eq!(both.interval.low, Some(Edge::new("a", true)));
        assert_eq!(both.interval.high, Some(Edge::new("b", true)));
        let key = read("key=%22x%22&inclusive_end=false", None).unwrap();
        assert_eq!(key.interval.low, key.interval.high);
        let huge = read("limit=99999999999999999999&reduce=false&group_level=0&sorted=false", None).unwrap();
        assert_eq!(huge.limit, Some(u64::MAX));
    }

    #[test]
    fn what_does_not_read_is_refused() {
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

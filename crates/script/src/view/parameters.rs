//! The parameters of a query, from a URL or from the body of a request, checked as CouchDB checks them.

use crate::error::{Error, Result};
use crate::json::{self, Kind, Number};

/// Whether a query updates the index before reading it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Update {
    /// Update first, then read.
    #[default]
    True,
    /// Read without updating.
    False,
    /// Read without updating, then update in the background.
    Lazy,
}

/// How the rows of a reduced view are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupLevel {
    /// All rows form one group.
    None,
    /// Groups by the first elements of array keys.
    Level(usize),
    /// Groups by whole keys.
    Exact,
}

/// The parameters of a view query.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewQuery {
    /// Return only rows with these keys, in this order. Each is JSON.
    pub keys: Option<Vec<String>>,
    /// The first key, as JSON.
    pub start_key: Option<String>,
    /// The first document id among the rows with the first key.
    pub start_key_docid: Option<String>,
    /// The last key, as JSON.
    pub end_key: Option<String>,
    /// The last document id among the rows with the last key.
    pub end_key_docid: Option<String>,
    /// Whether rows with the last key are included.
    pub inclusive_end: bool,
    /// Whether rows are in descending order.
    pub descending: bool,
    /// How many rows to skip.
    pub skip: u64,
    /// The maximum number of rows.
    pub limit: Option<u64>,
    /// Whether to use the view's reduce function.
    pub reduce: Option<bool>,
    /// Whether to group by whole keys.
    pub group: Option<bool>,
    /// How many elements of array keys to group by.
    pub group_level: Option<u64>,
    /// Whether rows include their documents.
    pub include_docs: bool,
    /// Whether those documents list their conflicts.
    pub conflicts: Option<bool>,
    /// Whether those documents include their attachments.
    pub attachments: bool,
    /// Whether those attachments list their encoding.
    pub att_encoding_info: bool,
    /// Whether to update the index.
    pub update: Update,
    /// Accepted for compatibility; no effect on one machine.
    pub stable: bool,
    /// Whether rows must be sorted. They always are.
    pub sorted: bool,
    /// Whether the head includes the sequence that the rows reflect.
    pub update_seq: bool,
    /// Return only rows of this partition.
    pub partition: Option<String>,
}

impl Default for ViewQuery {
    fn default() -> ViewQuery {
        ViewQuery {
            keys: None,
            start_key: None,
            start_key_docid: None,
            end_key: None,
            end_key_docid: None,
            inclusive_end: true,
            descending: false,
            skip: 0,
            limit: None,
            reduce: None,
            group: None,
            group_level: None,
            include_docs: false,
            conflicts: None,
            attachments: false,
            att_encoding_info: false,
            update: Update::True,
            stable: false,
            sorted: true,
            update_seq: false,
            partition: None,
        }
    }
}

impl ViewQuery {
    /// Sets a parameter from a URL: keys are JSON, all other values plain text. Returns whether the name is known.
    pub fn set_url(&mut self, name: &str, value: &str) -> Result<bool> {
        self.set(name, value, false)
    }

    /// Sets parameters from a request body or one of its `queries`, whose members are JSON. Unknown members are
    /// ignored.
    pub fn set_body(&mut self, object: &str) -> Result<()> {
        self.set_body_but(object, &[])
    }

    /// The same, except for members with these names, which are not parameters.
    pub fn set_body_but(&mut self, object: &str, left_out: &[&str]) -> Result<()> {
        if !json::check(object) {
            return Err(invalid_json());
        }
        if json::kind(object) != Some(Kind::Object) {
            return Err(Error::Thrown {
                name: "bad_request".into(),
                reason: "Request body must be a JSON object".into(),
            });
        }
        for (name, value) in json::members(object) {
            let name = json::unquote(name);
            if left_out.contains(&&*name) {
                continue;
            }
            if name == "keys" && json::kind(value) != Some(Kind::Array) {
                return Err(Error::Thrown {
                    name: "bad_request".into(),
                    reason: "`keys` member must be an array.".into(),
                });
            }
            self.set(&name, value, true)?;
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: &str, is_json: bool) -> Result<bool> {
        // A string is quoted in a body and unquoted in a URL.
        let plain = if is_json { json::unquote(value) } else { value.into() };
        match name {
            "" => {}
            "key" => {
                let key = key_text(value)?;
                self.start_key = Some(key.clone());
                self.end_key = Some(key);
            }
            "keys" => match <[String; 1]>::try_from(keys(value)?) {
                // As in CouchDB, a list of one key is the same as `key`.
                Ok([key]) => (self.start_key, self.end_key) = (Some(key.clone()), Some(key)),
                Err(keys) => self.keys = Some(keys),
            },
            "startkey" | "start_key" => self.start_key = Some(key_text(value)?),
            "endkey" | "end_key" => self.end_key = Some(key_text(value)?),
            "startkey_docid" | "start_key_doc_id" => self.start_key_docid = Some(plain.into_owned()),
            "endkey_docid" | "end_key_doc_id" => self.end_key_docid = Some(plain.into_owned()),
            "limit" => self.limit = Some(positive(&plain)?),
            "skip" => self.skip = positive(&plain)?,
            "group_level" => self.group_level = Some(positive(&plain)?),
            "group" => self.group = Some(boolean(&plain)?),
            "reduce" => self.reduce = Some(boolean(&plain)?),
            "descending" => self.descending = boolean(&plain)?,
            "inclusive_end" => self.inclusive_end = boolean(&plain)?,
            "include_docs" => self.include_docs = boolean(&plain)?,
            "attachments" => self.attachments = boolean(&plain)?,
            "att_encoding_info" => self.att_encoding_info = boolean(&plain)?,
            "conflicts" => self.conflicts = Some(boolean(&plain)?),
            "update_seq" => self.update_seq = boolean(&plain)?,
            "sorted" => self.sorted = boolean(&plain)?,
            "partition" => self.partition = Some(plain.into_owned()),
            "stable" => self.stable = strict(&plain, "stable")?,
            "update" => {
                self.update = match &*plain {
                    "true" => Update::True,
                    "false" => Update::False,
                    "lazy" => Update::Lazy,
                    _ => return Err(Error::Query("Invalid value for `update`.".into())),
                }
            }
            "stale" => {
                self.update = match &*plain {
                    "ok" => Update::False,
                    "update_after" => Update::Lazy,
                    _ => return Err(Error::Query("Invalid value for `stale`.".into())),
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// How rows are grouped.
    pub fn grouping(&self) -> Result<GroupLevel> {
        match (self.group, self.group_level) {
            (Some(false), Some(level)) if level > 0 => {
                Err(Error::Query("Can't specify group=false and group_level>0 at the same time".into()))
            }
            (Some(true), None) => Ok(GroupLevel::Exact),
            (_, Some(level)) if level > 0 => {
                Ok(GroupLevel::Level(usize::try_from(level).unwrap_or(usize::MAX)))
            }
            _ => Ok(GroupLevel::None),
        }
    }

    /// Checks the parameters in combination. `has_reduce` tells whether the view has a reduce function. Returns whether
    /// it is used.
    pub fn check(&self, has_reduce: bool) -> Result<bool> {
        let fail = |text: &str| Err(Error::Query(text.to_owned()));
        let grouping = self.grouping()?;
        let reduced = has_reduce && self.reduce != Some(false);
        if !has_reduce && self.reduce == Some(true) {
            return fail("Reduce is invalid for map-only views.");
        }
        if reduced && self.keys.is_some() && grouping != GroupLevel::Exact {
            return fail("Multi-key fetches for reduce views must use `group=true`");
        }
        if self.keys.as_ref().is_some_and(|keys| !keys.is_empty())
            && (self.start_key.is_some() || self.end_key.is_some())
        {
            return fail("`keys` is incompatible with `key`, `start_key` and `end_key`");
        }
        if !reduced && grouping != GroupLevel::None {
            return fail("Invalid use of grouping on a map view.");
        }
        if reduced && self.include_docs {
            return fail("`include_docs` is invalid for reduce");
        }
        if reduced && self.conflicts.is_some() {
            return fail("`conflicts` is invalid for reduce views.");
        }
        Ok(reduced)
    }
}

fn invalid_json() -> Error {
    Error::Thrown { name: "bad_request".into(), reason: "invalid UTF-8 JSON".into() }
}

fn key_text(value: &str) -> Result<String> {
    if json::check(value) { Ok(json::compact(value.trim()).into_owned()) } else { Err(invalid_json()) }
}

fn keys(value: &str) -> Result<Vec<String>> {
    if !json::check(value) {
        return Err(invalid_json());
    }
    if json::kind(value) != Some(Kind::Array) {
        return Err(Error::Query("`keys` must be an array of strings.".into()));
    }
    Ok(json::elements(value).map(|key| json::compact(key).into_owned()).collect())
}

fn boolean(text: &str) -> Result<bool> {
    match text {
        _ if text.eq_ignore_ascii_case("true") => Ok(true),
        _ if text.eq_ignore_ascii_case("false") => Ok(false),
        _ => Err(Error::Query(format!("Invalid boolean parameter: {text:?}"))),
    }
}

fn strict(text: &str, name: &str) -> Result<bool> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Error::Query(format!("Invalid value for `{name}`."))),
    }
}

fn positive(text: &str) -> Result<u64> {
    match Number::parse(text) {
        Some(Number::Integer(number)) if number >= 0 => Ok(u64::try_from(number).unwrap_or(u64::MAX)),
        Some(Number::Integer(_)) => {
            Err(Error::Query(format!("Invalid value for positive integer: {text:?}")))
        }
        _ => Err(Error::Query(format!("Invalid value for integer: {text:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(parameters: &[(&str, &str)]) -> Result<ViewQuery> {
        let mut query = ViewQuery::default();
        for (name, value) in parameters {
            query.set_url(name, value)?;
        }
        Ok(query)
    }

    #[test]
    fn urls_and_bodies_set_the_same_parameters() {
        let from_url = url(&[
            ("startkey", r#"["a", 1]"#),
            ("endkey_docid", "x"),
            ("descending", "TRUE"),
            ("limit", "5"),
            ("stale", "ok"),
            ("group_level", "2"),
        ])
        .unwrap();
        let mut from_body = ViewQuery::default();
        let body = r#"{"start_key":["a",1],"end_key_doc_id":"x","descending":true,"limit":5,"update":"false","group_level":2}"#;
        from_body.set_body(body).unwrap();
        assert_eq!(from_url, from_body);
        assert_eq!(from_url.grouping().unwrap(), GroupLevel::Level(2));
        assert!(!from_body.set_url("surprise", "1").unwrap());
    }

    #[test]
    fn parsing_rejects_invalid_values() {
        let rejected = |name, value| url(&[(name, value)]).unwrap_err().reason();
        assert_eq!(rejected("limit", "-1"), r#"Invalid value for positive integer: "-1""#);
        assert_eq!(rejected("skip", "x"), r#"Invalid value for integer: "x""#);
        assert_eq!(rejected("group", "1"), r#"Invalid boolean parameter: "1""#);
        assert_eq!(rejected("stale", "no"), "Invalid value for `stale`.");
        assert_eq!(rejected("key", "abc"), "invalid UTF-8 JSON");
        assert_eq!(rejected("keys", "{}"), "`keys` must be an array of strings.");
    }

    #[test]
    fn check_rejects_invalid_combinations() {
        let check = |parameters: &[_], has_reduce| url(parameters).unwrap().check(has_reduce);
        assert!(check(&[("keys", "[1]")], true).unwrap());
        assert!(check(&[], true).unwrap() && !check(&[("reduce", "false")], true).unwrap());
        for (parameters, has_reduce) in [
            (&[("reduce", "true")][..], false),
            (&[("group", "true")], false),
            (&[("keys", "[1,2]")], true),
            (&[("keys", "[1,2]"), ("key", "1"), ("reduce", "false")], true),
            (&[("include_docs", "true")], true),
            (&[("group", "false"), ("group_level", "1")], true),
        ] {
            assert!(check(parameters, has_reduce).is_err(), "{parameters:?}");
        }
    }
}

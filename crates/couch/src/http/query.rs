//! The parameters after the question mark.

use crate::error::{Error, Result};
use percent_encoding::percent_decode_str;
use serde_json::Value;

/// Names and values in their order; of a name that comes twice the last counts.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pairs: Vec<(String, String)>,
    text: String,
}

impl Query {
    /// Reads a query string.
    pub fn parse(text: &str) -> Query {
        let pairs = text
            // As in CouchDB, a semicolon parts them, too.
            .split(['&', ';'])
            .filter(|part| !part.is_empty())
            .map(|part| {
                let (name, value) = part.split_once('=').unwrap_or((part, ""));
                (decode(name), decode(value))
            })
            .collect();
        Query { pairs, text: text.to_owned() }
    }

    /// The query string as it came.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Gives a parameter another value.
    pub fn set(&mut self, name: &str, value: &str) {
        self.pairs.retain(|pair| pair.0 != name);
        self.pairs.push((name.to_owned(), value.to_owned()));
    }

    /// All parameters.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The text of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().rev().find(|pair| pair.0 == name).map(|pair| pair.1.as_str())
    }

    /// Whether a parameter is `true`, where CouchDB takes any other value for none.
    pub fn is_set(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }

    /// A parameter that is `true` or `false`; absent it is false.
    pub fn flag(&self, name: &str) -> Result<bool> {
        self.flag_or(name, false)
    }

    /// The same with another default.
    pub fn flag_or(&self, name: &str, default: bool) -> Result<bool> {
        match self.get(name) {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(other) => Err(Error::query_parse_error(format!("Invalid boolean parameter: \"{other}\""))),
        }
    }

    /// A parameter that is a whole number from 0.
    pub fn number(&self, name: &str) -> Result<Option<u64>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        whole(text, &format!("\"{text}\"")).map(Some)
    }

    /// A parameter that is JSON.
    pub fn json(&self, name: &str) -> Result<Option<Value>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let value = serde_json::from_str(text).map_err(|_| Error::bad_request("invalid UTF-8 JSON"))?;
        Ok(Some(value))
    }
}

/// A whole number from 0; one that is too large is the greatest. `shown` is how an error shows it.
pub fn whole(text: &str, shown: &str) -> Result<u64> {
    match text.parse::<i128>() {
        Ok(number) if number >= 0 => Ok(u64::try_from(number).unwrap_or(u64::MAX)),
        Ok(_) => Err(Error::query_parse_error(format!("Invalid value for positive integer: {shown}"))),
        Err(_) => Err(Error::query_parse_error(format!("Invalid value for integer: {shown}"))),
    }
}

/// A part of a URL without its escapes; `+` is a space.
fn decode(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read() {
        let query = Query::parse("a=1&b=%22x%20y%22&c;limit=-1&flag=true;a=2&d=x+y");
        assert_eq!((query.get("a"), query.get("c"), query.get("d")), (Some("2"), Some(""), Some("x y")));
        assert_eq!(query.json("b").unwrap(), Some(Value::String("x y".into())));
        assert!(query.flag("flag").unwrap() && !query.flag("none").unwrap());
        assert!(query.is_set("flag") && !query.is_set("a"));
        assert_eq!(query.flag("a").unwrap_err().error, "query_parse_error");
        assert!(query.number("limit").is_err() && query.number("b").is_err());
        assert_eq!(query.number("a").unwrap(), Some(2));
    }
}

//! The query string of a request.

use crate::error::{Error, Result};
use percent_encoding::percent_decode_str;
use serde_json::Value;

/// The parameters in order. If a name occurs twice, the last value is used.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pairs: Vec<(String, String)>,
    text: String,
}

impl Query {
    /// Parses a query string.
    pub fn parse(text: &str) -> Query {
        Query::parse_with(text, true)
    }

    /// Parses a query string in which a plus may be a space.
    pub fn parse_with(text: &str, plus_is_space: bool) -> Query {
        let pairs = text
            // Like CouchDB, accept semicolons as separators.
            .split(['&', ';'])
            .filter(|part| !part.is_empty())
            .map(|part| {
                let (name, value) = part.split_once('=').unwrap_or((part, ""));
                (decode(name, plus_is_space), decode(value, plus_is_space))
            })
            .collect();
        Query { pairs, text: text.to_owned() }
    }

    /// The query string as sent.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Sets a parameter, replacing all values of the same name.
    pub fn set(&mut self, name: &str, value: &str) {
        self.pairs.retain(|pair| pair.0 != name);
        self.pairs.push((name.to_owned(), value.to_owned()));
    }

    /// Iterates over all parameters.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns a parameter's text.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().rev().find(|pair| pair.0 == name).map(|pair| pair.1.as_str())
    }

    /// Whether a parameter is `true`. For these parameters CouchDB ignores all other values.
    pub fn is_set(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }

    /// Parses a boolean parameter, false by default.
    pub fn flag(&self, name: &str) -> Result<bool> {
        self.flag_or(name, false)
    }

    /// Parses a boolean parameter with another default.
    pub fn flag_or(&self, name: &str, default: bool) -> Result<bool> {
        match self.get(name) {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(other) => Err(Error::query_parse_error(format!("Invalid boolean parameter: \"{other}\""))),
        }
    }

    /// Parses a non-negative integer.
    pub fn number(&self, name: &str) -> Result<Option<u64>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        whole(text, &format!("\"{text}\"")).map(Some)
    }

    /// Parses a JSON parameter.
    pub fn json(&self, name: &str) -> Result<Option<Value>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let value = serde_json::from_str(text).map_err(|_| Error::bad_request("invalid UTF-8 JSON"))?;
        Ok(Some(value))
    }
}

/// Parses a non-negative integer, saturating at the maximum. `shown` is the value in an error message.
pub fn whole(text: &str, shown: &str) -> Result<u64> {
    match text.parse::<i128>() {
        Ok(number) if number >= 0 => Ok(u64::try_from(number).unwrap_or(u64::MAX)),
        Ok(_) => Err(Error::query_parse_error(format!("Invalid value for positive integer: {shown}"))),
        Err(_) => Err(Error::query_parse_error(format!("Invalid value for integer: {shown}"))),
    }
}

/// Percent-decodes a part of a URL.
fn decode(text: &str, plus_is_space: bool) -> String {
    let spaced = if plus_is_space { text.replace('+', " ") } else { text.to_owned() };
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_parameters_are_parsed() {
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

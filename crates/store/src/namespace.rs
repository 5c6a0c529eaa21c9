//! Names of databases and collections.

use crate::error::{Error, Result};
use diwan_query::code;
use std::fmt;

/// A database and a collection in it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Namespace {
    /// The database's name.
    pub database: String,
    /// The collection's name, dots allowed.
    pub collection: String,
}

/// The longest namespace in bytes, the dot included (MongoDB's limit).
const MAX_NAMESPACE_BYTES: usize = 255;

impl Namespace {
    /// Checks both names by MongoDB's rules.
    pub fn new(database: &str, collection: &str) -> Result<Namespace> {
        check_database_name(database)?;
        let invalid = |reason: &str| {
            Err(Error::refused(
                code::INVALID_NAMESPACE,
                format!("Invalid namespace specified '{database}.{collection}'{reason}"),
            ))
        };
        if collection.is_empty() || collection.starts_with('.') || collection.contains('\0') {
            return Err(Error::refused(
                code::INVALID_NAMESPACE,
                format!("Invalid collection name: '{}'", collection.replace('\0', "\\0")),
            ));
        }
        if collection.contains('$') && collection != "$cmd" && !collection.starts_with("$cmd.") {
            return Err(Error::refused(
                code::INVALID_NAMESPACE,
                format!("Invalid collection name: {collection}"),
            ));
        }
        if database.len() + 1 + collection.len() > MAX_NAMESPACE_BYTES {
            return invalid(&format!(": longer than {MAX_NAMESPACE_BYTES} bytes"));
        }
        Ok(Namespace { database: database.to_owned(), collection: collection.to_owned() })
    }

    /// Splits `database.collection` at the first dot.
    pub fn parse(text: &str) -> Result<Namespace> {
        match text.split_once('.') {
            Some((database, collection)) => Namespace::new(database, collection),
            None => {
                Err(Error::refused(code::INVALID_NAMESPACE, format!("Invalid namespace specified '{text}'")))
            }
        }
    }
}

/// Checks a database's name: 1 to 63 bytes, none of `/\. "$*<>:|?` and NUL.
pub fn check_database_name(name: &str) -> Result<()> {
    let forbidden = |c: char| matches!(c, '/' | '\\' | '.' | ' ' | '"' | '$' | '\0');
    if name.is_empty() || name.len() > 63 || (name.contains(forbidden) && name != "$external") {
        return Err(Error::refused(
            code::INVALID_NAMESPACE,
            format!("Invalid database name: '{}'", name.replace('\0', "\\0")),
        ));
    }
    Ok(())
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.database, self.collection)
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_splits_at_the_first_dot() {
        let namespace = Namespace::parse("shop.orders.2024").unwrap();
        assert_eq!((namespace.database.as_str(), namespace.collection.as_str()), ("shop", "orders.2024"));
    }

    #[test]
    fn parse_refuses_invalid_names() {
        for name in ["", "a.", "a..b", "a b.c", "a.$x", "a", &format!("a.{}", "x".repeat(254))] {
            assert!(Namespace::parse(name).is_err(), "{name}");
        }
        assert!(Namespace::new("a", "x\0y").is_err());
    }
}

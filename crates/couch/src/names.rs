//! Maps database names to collections: `cars` over HTTP is the collection `test.cars`, and `a/b` is `a.b`.
//!
//! The first slash separates database and collection. A name without a slash belongs to `test`, the database that
//! MongoDB's shell opens by default; CouchDB's system databases (`_users` and so on) belong to `admin`. MongoDB names
//! cannot contain a dollar sign, so `a$b` is stored as `test.a＄b`.

use crate::error::{Error, Result};
use diwan_store::Namespace;

/// CouchDB's system databases.
pub(crate) const SYSTEM: [&str; 3] = ["_global_changes", "_replicator", "_users"];

/// The MongoDB database of names without a slash.
const DEFAULT: &str = "test";
/// The MongoDB database of CouchDB's system databases.
const ADMIN: &str = "admin";
/// Replaces the dollar sign in collection names. CouchDB names cannot contain it, so the mapping is injective.
const DOLLAR: &str = "＄";

/// Returns the collection for a database name, or `None` if no collection can have that name.
pub(crate) fn namespace(name: &str) -> Option<Namespace> {
    if name.contains(DOLLAR) {
        return None;
    }
    let stored = name.replace('$', DOLLAR);
    let (database, collection) = match stored.split_once('/') {
        _ if SYSTEM.contains(&name) => (ADMIN, name),
        Some(pair) => pair,
        None => (DEFAULT, stored.as_str()),
    };
    // MongoDB's internal collections are not shown over HTTP.
    Namespace::new(database, collection).ok().filter(|_| !collection.starts_with("system."))
}

/// Returns the HTTP name of a collection, or `None` for MongoDB's internal collections, which HTTP does not show.
pub(crate) fn database(namespace: &Namespace) -> Option<String> {
    let Namespace { database, collection } = namespace;
    if collection.starts_with("system.") {
        return None;
    }
    if database == ADMIN && SYSTEM.contains(&collection.as_str()) {
        return Some(collection.clone());
    }
    let plain = database == DEFAULT && !collection.contains('/') && !SYSTEM.contains(&collection.as_str());
    let name = if plain { collection.clone() } else { format!("{database}/{collection}") };
    Some(name.replace(DOLLAR, "$"))
}

/// Checks the name of a new database against CouchDB's rule.
pub(crate) fn check_new(name: &str) -> Result<Namespace> {
    let legal = SYSTEM.contains(&name)
        || (name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.bytes().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_$()+/-".contains(&byte)
            }));
    let illegal = || {
        Error::illegal_database_name(format!(
            "Name: '{name}'. Only lowercase characters (a-z), digits (0-9), and any of the characters _, $, (, ), +, -, and / are allowed. Must begin with a letter."
        ))
    };
    if name.len() > 238 {
        return Err(Error::new(
            400,
            "database_name_too_long",
            format!("At least one path segment of `{name}` is too long."),
        ));
    }
    if !legal {
        return Err(illegal());
    }
    namespace(name).ok_or_else(illegal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_and_database_are_inverse() {
        for (name, expected) in [
            ("cars", "test.cars"),
            ("a/b", "a.b"),
            ("a/b/c", "a.b/c"),
            ("_users", "admin._users"),
            ("shop/orders.old", "shop.orders.old"),
            ("us$/a$b", "us＄.a＄b"),
        ] {
            let namespace = namespace(name).unwrap();
            assert_eq!(namespace.to_string(), expected);
            assert_eq!(database(&namespace).as_deref(), Some(name));
        }
        let slashed = Namespace::new("test", "x/y").unwrap();
        assert_eq!(database(&slashed).as_deref(), Some("test/x/y"));
        assert_eq!(super::namespace("test/x/y").unwrap(), slashed);
        assert!(super::namespace("a＄b").is_none());
        assert_eq!(database(&Namespace::new("a", "system.views").unwrap()), None);
        assert_eq!(super::namespace("a/system.views"), None);
    }

    #[test]
    fn check_new_refuses_names_that_couchdb_refuses() {
        assert!(check_new("cars-2_a(b)+/c$").is_ok());
        for bad in ["Cars", "1cars", "_cars", "", "c.ars", "a b", "a/"] {
            let error = check_new(bad).unwrap_err();
            assert_eq!((error.status, error.error.as_ref()), (400, "illegal_database_name"), "{bad}");
        }
    }
}

//! What actions are done to, and the patterns of resources that privileges name.

use diwan_store::Namespace;
use std::fmt;

/// What a request acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource<'a> {
    /// The server as a whole.
    Cluster,
    /// A database as a whole.
    Database(&'a str),
    /// A collection or view.
    Collection(&'a str, &'a str),
}

impl<'a> Resource<'a> {
    /// The collection of this name.
    pub fn collection(namespace: &'a Namespace) -> Resource<'a> {
        Resource::Collection(&namespace.database, &namespace.collection)
    }
}

/// CouchDB's register of users and its register of replications are collections of the database `admin`. Rights on that
/// database do not include them.
pub const USERS: &str = "_users";

/// The name of collections whose documents are replications. They may hold passwords of other servers.
pub const REPLICATIONS: &str = "_replicator";

/// Whether a collection belongs to the server: only a privilege that names it allows actions on it.
pub fn is_system(database: &str, collection: &str) -> bool {
    is_register(database, collection) || collection == REPLICATIONS
}

/// Whether a collection holds users, roles or settings of the server: `_security` has no effect on it.
pub fn is_register(database: &str, collection: &str) -> bool {
    collection.starts_with("system.") || (database == "admin" && collection == USERS)
}

/// The resources that a privilege covers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pattern {
    /// The server as a whole.
    Cluster,
    /// Databases and their collections. `None` covers all databases, or all collections that are not the server's own.
    Names {
        /// The database.
        database: Option<String>,
        /// The collection.
        collection: Option<String>,
    },
    /// Everything, the server's own collections included.
    Any,
}

impl Pattern {
    /// All collections of a database that are not the server's own, and the database itself.
    pub fn database(name: &str) -> Pattern {
        Pattern::Names { database: Some(name.to_owned()), collection: None }
    }

    /// One collection.
    pub fn collection(database: &str, collection: &str) -> Pattern {
        Pattern::Names { database: Some(database.to_owned()), collection: Some(collection.to_owned()) }
    }

    /// Collections of this name in all databases.
    pub fn everywhere(collection: &str) -> Pattern {
        Pattern::Names { database: None, collection: Some(collection.to_owned()) }
    }

    /// All databases and their collections that are not the server's own.
    pub const NORMAL: Pattern = Pattern::Names { database: None, collection: None };

    /// Whether the pattern covers the resource.
    pub fn covers(&self, resource: Resource<'_>) -> bool {
        match (self, resource) {
            (Pattern::Any, _) | (Pattern::Cluster, Resource::Cluster) => true,
            (Pattern::Cluster, _) | (Pattern::Names { .. }, Resource::Cluster) => false,
            (Pattern::Names { database, collection }, Resource::Database(name)) => {
                collection.is_none() && database.as_deref().is_none_or(|database| database == name)
            }
            (Pattern::Names { database, collection }, Resource::Collection(db, coll)) => {
                database.as_deref().is_none_or(|database| database == db)
                    && match collection {
                        Some(collection) => collection == coll,
                        None => !is_system(db, coll),
                    }
            }
        }
    }

    /// Whether the pattern covers every resource that the other one covers.
    pub fn includes(&self, other: &Pattern) -> bool {
        match (self, other) {
            (Pattern::Any, _) => true,
            (Pattern::Cluster, other) => *other == Pattern::Cluster,
            (Pattern::Names { .. }, Pattern::Any | Pattern::Cluster) => false,
            (
                Pattern::Names { database, collection },
                Pattern::Names { database: other_database, collection: other_collection },
            ) => {
                (database.is_none() || database == other_database)
                    && match (collection, other_collection) {
                        (None, Some(other)) => {
                            !is_system(other_database.as_deref().unwrap_or("admin"), other)
                        }
                        (mine, other) => mine == other,
                    }
            }
        }
    }
}

impl fmt::Display for Pattern {
    /// Writes the pattern as MongoDB's texts do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Cluster => f.write_str("<system resource>"),
            Pattern::Any => f.write_str("<all resources>"),
            Pattern::Names { database: None, collection: None } => f.write_str("<all normal resources>"),
            Pattern::Names { database: Some(database), collection: None } => {
                write!(f, "<database {database}>")
            }
            Pattern::Names { database: None, collection: Some(collection) } => {
                write!(f, "<collection {collection} in any database>")
            }
            Pattern::Names { database: Some(database), collection: Some(collection) } => {
                write!(f, "<{database}.{collection}>")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_pattern_leaves_out_the_servers_own_collections() {
        let admin = Pattern::database("admin");
        assert!(admin.covers(Resource::Collection("admin", "orders")));
        assert!(admin.covers(Resource::Database("admin")));
        for own in ["system.users", "_users", "system.settings"] {
            assert!(!admin.covers(Resource::Collection("admin", own)), "{own}");
            assert!(!admin.includes(&Pattern::collection("admin", own)), "{own}");
            assert!(!Pattern::NORMAL.covers(Resource::Collection("admin", own)), "{own}");
            assert!(Pattern::Any.covers(Resource::Collection("admin", own)), "{own}");
        }
        assert!(!admin.covers(Resource::Collection("admin", "_replicator")));
        assert!(!admin.covers(Resource::Collection("shop", "orders")) && !admin.covers(Resource::Cluster));
    }

    #[test]
    fn collection_pattern_does_not_cover_its_database() {
        let orders = Pattern::collection("shop", "orders");
        assert!(orders.covers(Resource::Collection("shop", "orders")));
        assert!(!orders.covers(Resource::Database("shop")));
        assert!(!orders.includes(&Pattern::database("shop")) && Pattern::database("shop").includes(&orders));
    }
}

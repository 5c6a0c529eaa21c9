//! Catalog, keys, collections, indexes, revisions, change log and planner over a key-value engine.

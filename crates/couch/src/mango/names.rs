//! Which of the store's indexes represent which views of design documents.

use crate::error::Result;
use diwan_store::Collection;
use diwan_value::{ArrayBuilder, Value, doc};

/// The collection setting that holds the names.
const SETTING: &str = "mango_indexes";

/// The names of an index. Several of these may refer to one index of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    /// The design document's id.
    pub(crate) ddoc: String,
    /// The view's name.
    pub(crate) name: String,
    /// The index's name in the store.
    pub(crate) index: String,
    /// Whether the index serves queries within partitions.
    pub(crate) partitioned: bool,
    /// The index was created for design documents, so it is dropped with its last name.
    pub(crate) own: bool,
}

impl Names {
    /// Returns the recorded names, including those of indexes that a MongoDB client has dropped since.
    pub(super) fn noted(collection: &Collection) -> Vec<Names> {
        let Some(setting) = collection.setting(SETTING) else { return Vec::new() };
        let Value::Array(list) = setting.as_value() else { return Vec::new() };
        list.iter()
            .filter_map(Value::as_doc)
            .filter_map(|doc| {
                Some(Names {
                    ddoc: doc.get_str("ddoc")?.to_owned(),
                    name: doc.get_str("name")?.to_owned(),
                    index: doc.get_str("index")?.to_owned(),
                    partitioned: doc.get("partitioned") == Some(Value::Boolean(true)),
                    own: doc.get("own") == Some(Value::Boolean(true)),
                })
            })
            .collect()
    }

    /// Returns the recorded names of existing indexes.
    pub(super) fn existing(collection: &Collection) -> Vec<Names> {
        let schema = collection.schema();
        let mut names = Names::noted(collection);
        names.retain(|names| schema.indexes.iter().any(|index| index.spec.name == names.index));
        names
    }

    /// Replaces the recorded names.
    pub(super) fn note(collection: &Collection, names: &[Names]) -> Result<()> {
        let mut list = ArrayBuilder::new();
        for names in names {
            list.push(doc! {
                "ddoc": names.ddoc.as_str(),
                "name": names.name.as_str(),
                "index": names.index.as_str(),
                "partitioned": names.partitioned,
                "own": names.own
            });
        }
        let holder = doc! { "list": list };
        collection.set_setting(SETTING, holder.as_doc().get("list"))?;
        Ok(())
    }
}

//! Which of the store's indexes stand for which views of design documents.

use crate::error::Result;
use diwan_store::Collection;
use diwan_value::{ArrayBuilder, Value, doc};

/// The setting that holds the names.
const SETTING: &str = "mango_indexes";

/// A remembered pair of names. Two such pairs may stand for one index of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The design document's id.
    pub ddoc: String,
    /// The view's name.
    pub name: String,
    /// The store's name of the index.
    pub index: String,
    /// Whether it is for queries within partitions.
    pub partitioned: bool,
    /// The store's index was made for these names, or others like them: it goes with the last of them.
    pub own: bool,
}

impl Names {
    /// All names as they were noted, also of indexes that a MongoDB client has dropped since.
    pub fn noted(collection: &Collection) -> Vec<Names> {
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

    /// The names of indexes that are there.
    pub fn existing(collection: &Collection) -> Vec<Names> {
        let schema = collection.schema();
        let mut names = Names::noted(collection);
        names.retain(|names| schema.indexes.iter().any(|index| index.spec.name == names.index));
        names
    }

    /// Notes these in place of all others.
    pub fn note(collection: &Collection, names: &[Names]) -> Result<()> {
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

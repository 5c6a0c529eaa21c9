//! Names of the collections that `$out` and `convertToCapped` fill before they replace another. A kill may leave some.

use crate::namespace::Namespace;
use crate::store::Store;
use diwan_value::ObjectId;

/// How the names begin. Where several processes have the store open, the number of the process follows.
const PREFIX: &str = "tmp.agg_out.";

impl Store {
    /// A new name in a database.
    pub(super) fn temporary(&self, database: &str) -> Namespace {
        let id = ObjectId::generate();
        let collection = match self.shared.own_process() {
            Some(process) => format!("{PREFIX}{process}.{id}"),
            None => format!("{PREFIX}{id}"),
        };
        Namespace { database: database.to_owned(), collection }
    }
}

/// Whether a collection is temporary.
pub(crate) fn is_temporary(name: &Namespace) -> bool {
    name.collection.starts_with(PREFIX)
}

/// The process that has made a temporary collection, where several have the store open.
pub(crate) fn maker_of_temporary(name: &Namespace) -> Option<u32> {
    let (process, id) = name.collection.strip_prefix(PREFIX)?.split_once('.')?;
    let is_id = id.len() == 24 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    process.parse().ok().filter(|_| is_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_their_maker_if_it_is_one_of_several_processes() {
        let named = |collection: &str| Namespace { database: "d".into(), collection: collection.into() };
        assert_eq!(maker_of_temporary(&named("tmp.agg_out.12.0123456789abcdef01234567")), Some(12));
        assert_eq!(maker_of_temporary(&named("tmp.agg_out.0123456789abcdef01234567")), None);
        assert_eq!(maker_of_temporary(&named("tmp.agg_out.12.backup")), None);
        assert_eq!(maker_of_temporary(&named("12.c")), None);
        assert!(is_temporary(&named("tmp.agg_out.12.c")) && !is_temporary(&named("c")));
    }
}

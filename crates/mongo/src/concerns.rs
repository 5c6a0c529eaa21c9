//! The concerns of commands that state none: `setDefaultRWConcern`.
//!
//! They are kept where MongoDB keeps them, as a document of `config.settings`, and here for every write to ask.

use crate::arguments::{WriteConcern, read_concern};
use crate::clock::unix_millis;
use crate::error::{CommandError, Result, code};
use diwan_kv::CommitId;
use diwan_query::Interrupt;
use diwan_store::ops::{Find, Update};
use diwan_store::{Namespace, Store};
use diwan_value::{Doc, DocBuf, DocBuilder, Timestamp, Value, doc};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;

/// The `_id` of the document.
const ID: &str = "ReadWriteConcernDefaults";

/// The defaults of a server.
#[derive(Debug, Default)]
pub(crate) struct Concerns {
    current: RwLock<Defaults>,
    /// Held by whoever changes them.
    changing: Mutex<()>,
}

/// What was set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Defaults {
    /// The fields of `setDefaultRWConcern` that were set, and when.
    pub document: DocBuf,
    write: Option<WriteConcern>,
}

impl Defaults {
    /// Reads what was kept.
    fn parse(document: Doc<'_>) -> Result<Defaults> {
        let write = match document.get_doc("defaultWriteConcern") {
            Some(concern) => WriteConcern::parse(concern)?,
            None => None,
        };
        let mut kept = DocBuilder::new();
        for element in document.iter().filter(|element| element.key != b"_id") {
            kept.append_element(element);
        }
        Ok(Defaults { document: kept.finish(), write })
    }
}

impl Concerns {
    /// The defaults that the store keeps. What cannot be read counts as not set: that is the strictest.
    pub(crate) fn load(store: &Arc<Store>) -> Concerns {
        let concerns = Concerns::default();
        if let Err(error) = concerns.refresh(store) {
            tracing::warn!(%error, "the default concerns in config.settings cannot be read; they count as not set");
        }
        concerns
    }

    /// Reads again what the store keeps.
    pub(crate) fn refresh(&self, store: &Arc<Store>) -> Result<()> {
        let filter = doc! { "_id": ID };
        let mut found = store.find(&settings()?, &Find { filter: filter.as_doc(), ..Find::default() })?;
        let kept = match found.advance(&Interrupt::new())? {
            true => Defaults::parse(found.current())?,
            false => Defaults::default(),
        };
        *self.current.write() = kept;
        Ok(())
    }

    /// What is set.
    pub(crate) fn get(&self) -> Defaults {
        self.current.read().clone()
    }

    /// The write concern of a command that states `given`.
    pub(crate) fn of(&self, given: Option<&WriteConcern>) -> WriteConcern {
        match given {
            Some(given) if given.w.is_some() => given.clone(),
            Some(given) => given.or(self.current.read().write.as_ref()),
            None => self.current.read().write.clone().unwrap_or_default(),
        }
    }

    /// Changes what is given, from now on; an empty read concern is one that is not set.
    pub(crate) fn set(
        &self,
        store: &Arc<Store>,
        read: Option<Doc<'_>>,
        write: Option<Doc<'_>>,
        now: Timestamp,
    ) -> Result<Option<CommitId>> {
        if read.is_none() && write.is_none() {
            let text = "At least one of the \"defaultReadConcern\" or \"defaultWriteConcern\" fields must be present";
            return Err(CommandError::bad_value(text));
        }
        if let Some(read) = read {
            check_read(read)?;
        }
        let _changing = self.changing.lock();
        let old = self.get();
        if let Some(write) = write {
            check_write(write, &old)?;
        }
        let mut document = DocBuilder::new();
        for (name, new) in [("defaultReadConcern", read), ("defaultWriteConcern", write)] {
            let kept = new.or_else(|| old.document.as_doc().get_doc(name)).filter(|doc| !doc.is_empty());
            if let Some(concern) = kept {
                document.append(name, concern);
            }
        }
        document.append("updateOpTime", now).append("updateWallClockTime", Value::DateTime(unix_millis()));
        let document = document.finish();
        let new = Defaults::parse(document.as_doc())?;
        let filter = doc! { "_id": ID };
        let update = Update {
            filter: filter.as_doc(),
            update: Some(Value::Document(document.as_doc())),
            upsert: true,
            ..Update::default()
        };
        let updated = store.update(&settings()?, &update)?;
        *self.current.write() = new;
        Ok(updated.commit)
    }
}

fn settings() -> Result<Namespace> {
    Ok(Namespace::new("config", "settings")?)
}

fn check_read(concern: Doc<'_>) -> Result<()> {
    let unsuitable = |what: String| {
        Err(CommandError::bad_value(format!("{what} is not suitable for the default read concern")))
    };
    if let Some(Value::String("snapshot")) = concern.get("level") {
        return unsuitable("level: 'snapshot'".to_owned());
    }
    let level = read_concern(concern)?;
    if level == Some("linearizable") {
        return unsuitable("level: 'linearizable'".to_owned());
    }
    match concern.iter().find(|element| element.key != b"level") {
        Some(other) => unsuitable(format!("'{}'", other.key_str())),
        None => Ok(()),
    }
}

fn check_write(concern: Doc<'_>, old: &Defaults) -> Result<()> {
    let Some(parsed) = WriteConcern::parse(concern)? else {
        return match old.write {
            Some(_) => {
                let text = "The global default write concern cannot be unset once it is set.";
                Err(CommandError::new(code::ILLEGAL_OPERATION, text))
            }
            None => Ok(()),
        };
    };
    if parsed.is_unacknowledged() {
        let text = "Unacknowledged write concern is not suitable for the default write concern";
        return Err(CommandError::bad_value(text));
    }
    match parsed.unsatisfiable() {
        // Every later write would end in it.
        Some((code, text)) => Err(CommandError::new(code, text)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_kv::MemoryEngine;

    #[test]
    fn defaults_are_kept_and_have_effect() {
        let store = Store::open(Arc::new(MemoryEngine::new())).unwrap();
        let concerns = Concerns::load(&store);
        let now = Timestamp { seconds: 1, increment: 1 };
        assert!(concerns.of(None).waits_for_sync());
        let refused = |read: Option<&DocBuf>, write: Option<&DocBuf>| {
            concerns.set(&store, read.map(DocBuf::as_doc), write.map(DocBuf::as_doc), now).unwrap_err().code
        };
        assert_eq!(refused(None, None), 2);
        assert_eq!(refused(Some(&doc! { "level": "linearizable" }), None), 2);
        assert_eq!(refused(Some(&doc! { "level": "snapshot" }), None), 2);
        assert_eq!(refused(None, Some(&doc! { "w": 0 })), 2);
        assert_eq!(refused(None, Some(&doc! { "w": 2 })), 100);
        let one = doc! { "w": 1 };
        concerns.set(&store, None, Some(one.as_doc()), now).unwrap();
        concerns.set(&store, Some(doc! { "level": "majority" }.as_doc()), None, now).unwrap();
        for concerns in [concerns, Concerns::load(&store)] {
            assert!(!concerns.of(None).waits_for_sync());
            let majority = WriteConcern::parse(doc! { "w": "majority" }.as_doc()).unwrap();
            assert!(concerns.of(majority.as_ref()).waits_for_sync());
            let journalled = WriteConcern::parse(doc! { "j": true }.as_doc()).unwrap();
            assert!(concerns.of(journalled.as_ref()).waits_for_sync());
            let timed = WriteConcern::parse(doc! { "wtimeout": 5 }.as_doc()).unwrap();
            assert!(!concerns.of(timed.as_ref()).waits_for_sync());
            assert_eq!(concerns.get().document.as_doc().get_doc("defaultWriteConcern"), Some(one.as_doc()));
            let unset = concerns.set(&store, None, Some(Doc::EMPTY), now).unwrap_err();
            assert_eq!(unset.code, 20);
        }
    }
}

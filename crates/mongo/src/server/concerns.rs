//! The default read and write concern, which `setDefaultRWConcern` sets.
//!
//! The defaults are stored in a document of `config.settings`, as in MongoDB, and cached here for every write.

use crate::error::{CommandError, Result, code};
use crate::request::arguments::{WriteConcern, read_concern};
use crate::server::clock::unix_millis;
use diwan_kv::CommitId;
use diwan_query::Interrupt;
use diwan_store::ops::{Find, Update};
use diwan_store::{Namespace, Store};
use diwan_value::{Doc, DocBuf, DocBuilder, Timestamp, Value, doc};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;

/// The `_id` of the document in `config.settings`.
const ID: &str = "ReadWriteConcernDefaults";

/// The defaults of a server.
#[derive(Debug, Default)]
pub(crate) struct DefaultConcerns {
    current: RwLock<ConcernDefaults>,
    /// Held while the defaults are changed.
    changing: Mutex<()>,
}

/// The defaults as they were set.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConcernDefaults {
    /// The fields of `setDefaultRWConcern` that were set, and the time of the change.
    pub document: DocBuf,
    write: Option<WriteConcern>,
}

impl ConcernDefaults {
    /// Reads the document of `config.settings`.
    fn parse(document: Doc<'_>) -> Result<ConcernDefaults> {
        let write = match document.get_doc("defaultWriteConcern") {
            Some(concern) => WriteConcern::parse(concern)?,
            None => None,
        };
        let mut kept = DocBuilder::new();
        for element in document.iter().filter(|element| element.key != b"_id") {
            kept.append_element(element);
        }
        Ok(ConcernDefaults { document: kept.finish(), write })
    }
}

impl DefaultConcerns {
    /// Loads the defaults from the store. Unreadable defaults count as unset, which is the strictest setting.
    pub(crate) fn load(store: &Arc<Store>) -> DefaultConcerns {
        let concerns = DefaultConcerns::default();
        if let Err(error) = concerns.refresh(store) {
            tracing::warn!(%error, "cannot read the default concerns in config.settings; they count as unset");
        }
        concerns
    }

    /// Reloads the defaults on a member of a replica set: it may be a follower, or have been one a moment ago.
    pub(crate) fn follow(&self, store: &Arc<Store>) {
        if !store.replica().identity().member.is_empty()
            && let Err(error) = self.refresh(store)
        {
            tracing::warn!(%error, "cannot read the default concerns in config.settings");
        }
    }

    /// Reloads the defaults from the store.
    pub(crate) fn refresh(&self, store: &Arc<Store>) -> Result<()> {
        let filter = doc! { "_id": ID };
        let mut found = store.find(&settings()?, &Find { filter: filter.as_doc(), ..Find::default() })?;
        let kept = match found.advance(&Interrupt::new())? {
            true => ConcernDefaults::parse(found.current())?,
            false => ConcernDefaults::default(),
        };
        *self.current.write() = kept;
        Ok(())
    }

    /// The current defaults.
    pub(crate) fn get(&self) -> ConcernDefaults {
        self.current.read().clone()
    }

    /// The effective write concern of a command whose own write concern is `given`.
    pub(crate) fn of(&self, given: Option<&WriteConcern>) -> WriteConcern {
        match given {
            Some(given) if given.w.is_some() => given.clone(),
            Some(given) => given.or(self.current.read().write.as_ref()),
            None => self.current.read().write.clone().unwrap_or_default(),
        }
    }

    /// Changes the defaults that are given. An empty read concern unsets the default.
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
        // Two changes at once could each keep an outdated half of the other.
        let _changing = self.changing.lock();
        let old = self.get();
        if let Some(write) = write {
            check_write(write, &old, store.replica().members().len())?;
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
        let new = ConcernDefaults::parse(document.as_doc())?;
        let filter = doc! { "_id": ID };
        let update = Update {
            filter: filter.as_doc(),
            update: Some(Value::Document(document.as_doc())),
            upsert: true,
            ..Update::default()
        };
        // The cache changes only after the store has accepted the document.
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
    let level = read_concern(concern)?.level;
    if level == Some("linearizable") {
        return unsuitable("level: 'linearizable'".to_owned());
    }
    match concern.iter().find(|element| element.key != b"level") {
        Some(other) => unsuitable(format!("'{}'", other.key_str())),
        None => Ok(()),
    }
}

fn check_write(concern: Doc<'_>, old: &ConcernDefaults, followers: usize) -> Result<()> {
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
    match parsed.unsatisfiable(followers) {
        // With such a default every write would fail.
        Some((code, text)) => Err(CommandError::new(code, text)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_kv::MemoryEngine;

    #[test]
    fn set_defaults_take_effect_and_survive_a_reload() {
        let store = Store::open(Arc::new(MemoryEngine::new())).unwrap();
        let concerns = DefaultConcerns::load(&store);
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
        for concerns in [concerns, DefaultConcerns::load(&store)] {
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

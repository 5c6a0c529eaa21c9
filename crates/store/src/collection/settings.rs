//! Settings of a collection beside its options: named values, all of them also in memory.

use super::Collection;
use crate::REVISIONS_LIMIT;
use crate::catalog::random_uuid;
use crate::error::{Error, Result};
use crate::feed::DatabaseEventKind;
use crate::keys::Key;
use diwan_kv::{Batch, CommitId, Space};
use diwan_query::code;
use diwan_value::{Doc, Value, ValueBuf};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

/// The name of the setting that limits the revisions kept of each branch.
const REVISION_LIMIT: &str = "revs_limit";

/// The setting that distinguishes the change log of a copy from that of its original.
pub(crate) const MARK: &str = "mark";

/// A collection's settings.
pub(super) struct Settings {
    values: RwLock<BTreeMap<String, ValueBuf>>,
    /// The revision limit; 0 if none is set.
    revision_limit: AtomicU32,
    /// Held while a setting is changed.
    writing: Mutex<()>,
}

impl Settings {
    pub fn new(values: BTreeMap<String, ValueBuf>) -> Settings {
        let settings = Settings {
            values: RwLock::new(values),
            revision_limit: AtomicU32::new(0),
            writing: Mutex::new(()),
        };
        settings.note_limit();
        settings
    }

    /// All values by their names.
    pub fn all(&self) -> BTreeMap<String, ValueBuf> {
        self.values.read().clone()
    }

    /// Replaces all values.
    pub fn replace(&self, values: BTreeMap<String, ValueBuf>) {
        *self.values.write() = values;
        self.note_limit();
    }

    fn note_limit(&self) {
        let limit = self.values.read().get(REVISION_LIMIT).and_then(|value| value.as_value().as_i64_exact());
        let limit = limit.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(0);
        self.revision_limit.store(limit, Ordering::Relaxed);
    }
}

/// The name and value of a stored setting.
pub(crate) fn read_setting(name: &[u8], value: &[u8]) -> Option<(String, ValueBuf)> {
    let doc = Doc::validate(value).ok()?;
    let name = std::str::from_utf8(name).ok()?;
    Some((name.to_owned(), ValueBuf::new(doc.get("v")?)))
}

impl Collection {
    /// The value of a setting.
    pub fn setting(&self, name: &str) -> Option<ValueBuf> {
        self.settings.values.read().get(name).cloned()
    }

    /// Takes over all settings of a collection that this one replaces, so that its rights stay as they are.
    pub(crate) fn inherit_settings(&self, replaced: &Collection) -> Result<()> {
        let values = replaced.settings.values.read().clone();
        for (name, value) in values {
            self.set_setting(&name, Some(value.as_value()))?;
        }
        Ok(())
    }

    /// Sets a value; `None` removes it.
    pub fn set_setting(&self, name: &str, value: Option<Value<'_>>) -> Result<CommitId> {
        self.shared.evaluate(|| self.try_set_setting(name, value))
    }

    fn try_set_setting(&self, name: &str, value: Option<Value<'_>>) -> Result<CommitId> {
        let _turn = self.begin_write()?;
        let _writing = self.settings.writing.lock();
        let key = Key::Setting(self.id, name).bytes();
        let mut batch = Batch::new();
        match value {
            Some(value) => batch.put(Space::Meta, key, diwan_value::doc! { "v": value }.into_bytes()),
            None => {
                batch.take_reserve();
                batch.delete(Space::Meta, key);
            }
        }
        let commit = self.shared.engine.commit(batch)?;
        {
            let mut values = self.settings.values.write();
            match value {
                Some(value) => values.insert(name.to_owned(), ValueBuf::new(value)),
                None => values.remove(name),
            };
        }
        self.settings.note_limit();
        self.shared.databases.note(DatabaseEventKind::Altered, &self.namespace());
        Ok(commit)
    }

    /// All settings by their names.
    pub(crate) fn all_settings(&self) -> BTreeMap<String, ValueBuf> {
        self.settings.all()
    }

    /// Four bytes that clients see beside a sequence: a sequence means something for one change log alone. A copy on
    /// a follower has the original's identifier, but a log of its own.
    pub fn mark(&self) -> [u8; 4] {
        let own = self.setting(MARK);
        let own = own.as_ref().and_then(|value| value.as_value().as_i64_exact());
        match own.and_then(|mark| u32::try_from(mark).ok()) {
            Some(mark) => mark.to_be_bytes(),
            None => self.uuid().first_chunk().copied().unwrap_or_default(),
        }
    }

    /// Gives a copy a mark of its own.
    pub(crate) fn set_own_mark(&self) -> Result<CommitId> {
        let [a, b, c, d, ..] = random_uuid();
        self.set_setting(MARK, Some(Value::Int64(u32::from_be_bytes([a, b, c, d]).into())))
    }

    /// How many revisions of each branch are kept, counted from the newest.
    pub fn revision_limit(&self) -> u32 {
        match self.settings.revision_limit.load(Ordering::Relaxed) {
            0 => REVISIONS_LIMIT,
            limit => limit,
        }
    }

    /// Limits how many revisions of each branch are kept. Applies to a document when it is changed next.
    pub fn set_revision_limit(&self, limit: u32) -> Result<CommitId> {
        if limit == 0 || limit > i32::MAX as u32 {
            return Err(Error::refused(
                code::BAD_VALUE,
                "the revision limit must be between 1 and 2147483647",
            ));
        }
        self.set_setting(REVISION_LIMIT, Some(Value::Int64(limit.into())))
    }

    /// Whether a limit other than the default is set.
    pub(super) fn has_own_revision_limit(&self) -> bool {
        self.settings.revision_limit.load(Ordering::Relaxed) != 0
    }
}

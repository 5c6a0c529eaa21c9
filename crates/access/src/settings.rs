//! Settings that clients change while the server runs, kept in `admin.system.settings`.
//!
//! They have CouchDB's form: a section, a key and a text. What a flag or the configuration file sets is *fixed*: it
//! overrides what is stored, and clients cannot change it.

use crate::error::{Error, Result};
use crate::state::{self, State};
use diwan_kv::CommitId;
use diwan_store::{Edit, Namespace, Store, WriteOptions, id_key};
use diwan_value::{Doc, Value, doc};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The settings by section and key.
pub type Sections = BTreeMap<String, BTreeMap<String, String>>;

/// A setting that a flag or the configuration file sets.
#[derive(Clone, Debug)]
pub struct Fixed {
    /// Its value.
    pub value: String,
    /// What sets it, such as `--cors-origin`.
    pub source: String,
}

/// The settings of a server.
pub struct Settings {
    store: Arc<Store>,
    namespace: Namespace,
    defaults: Sections,
    fixed: BTreeMap<(String, String), Fixed>,
    /// The settings as of a state of their collection.
    known: RwLock<(State, Arc<Sections>)>,
    writing: Mutex<()>,
}

/// The longest section, key and value, in bytes.
const MAX_NAME_BYTES: usize = 256;
const MAX_VALUE_BYTES: usize = 64 << 10;

impl Settings {
    /// The settings in the store, over these defaults and below these fixed values.
    pub fn open(
        store: Arc<Store>,
        defaults: Sections,
        fixed: BTreeMap<(String, String), Fixed>,
    ) -> Result<Settings> {
        let namespace = Namespace::new("admin", "system.settings")?;
        let known = RwLock::new((State::default(), Arc::new(Sections::new())));
        let settings = Settings { store, namespace, defaults, fixed, known, writing: Mutex::new(()) };
        *settings.known.write() = settings.read()?;
        Ok(settings)
    }

    fn read(&self) -> Result<(State, Arc<Sections>)> {
        let state = state::of(&self.store, &self.namespace);
        let mut sections = self.defaults.clone();
        let mut put = |section: &str, key: &str, value: &str| {
            sections.entry(section.to_owned()).or_default().insert(key.to_owned(), value.to_owned());
        };
        state::visit(&self.store, &self.namespace, |doc| {
            if let (Some(section), Some(key), Some(value)) =
                (doc.get_str("section"), doc.get_str("key"), doc.get_str("value"))
            {
                put(section, key, value);
            }
        })?;
        for ((section, key), fixed) in &self.fixed {
            put(section, key, &fixed.value);
        }
        Ok((state, Arc::new(sections)))
    }

    /// All settings with their values in force.
    pub fn all(&self) -> Arc<Sections> {
        let state = state::of(&self.store, &self.namespace);
        {
            let known = self.known.read();
            if known.0 == state {
                return known.1.clone();
            }
        }
        match self.read() {
            Ok(read) => {
                let sections = read.1.clone();
                *self.known.write() = read;
                sections
            }
            Err(error) => {
                tracing::error!(%error, "cannot read the settings");
                self.known.read().1.clone()
            }
        }
    }

    /// The value of a setting.
    pub fn get(&self, section: &str, key: &str) -> Option<String> {
        self.all().get(section)?.get(key).cloned()
    }

    /// The value of a setting that is `true` or `false`.
    pub fn flag(&self, section: &str, key: &str, default: bool) -> bool {
        match self.all().get(section).and_then(|section| section.get(key)).map(String::as_str) {
            Some("true") => true,
            Some("false") => false,
            _ => default,
        }
    }

    /// The value of a setting that is a number.
    pub fn number(&self, section: &str, key: &str, default: u64) -> u64 {
        let all = self.all();
        all.get(section).and_then(|section| section.get(key)?.trim().parse().ok()).unwrap_or(default)
    }

    /// What sets a setting that clients cannot change.
    pub fn fixed_by(&self, section: &str, key: &str) -> Option<&str> {
        self.fixed.get(&(section.to_owned(), key.to_owned())).map(|fixed| fixed.source.as_str())
    }

    /// Stores a value, or removes it. Returns the value that was in force before.
    pub fn set(
        &self,
        section: &str,
        key: &str,
        value: Option<&str>,
    ) -> Result<(Option<String>, Option<CommitId>)> {
        if let Some(source) = self.fixed_by(section, key) {
            return Err(Error::bad_value(format!("{section}/{key} is set by {source}")));
        }
        if section.is_empty() || key.is_empty() || section.len().max(key.len()) > MAX_NAME_BYTES {
            return Err(Error::bad_value(format!("sections and keys have 1 to {MAX_NAME_BYTES} bytes")));
        }
        if value.is_some_and(|value| value.len() > MAX_VALUE_BYTES) {
            return Err(Error::bad_value(format!("a value has at most {MAX_VALUE_BYTES} bytes")));
        }
        let _turn = self.writing.lock();
        let old = self.get(section, key);
        let id = doc! { "section": section, "key": key };
        let collection = self.store.collection_or_create(&self.namespace)?;
        let ids = [id_key(Value::Document(id.as_doc()))?];
        let written = collection.edit(&ids, WriteOptions::default(), |_, record| {
            Ok(match value {
                Some(value) => Edit::Put(doc! { "_id": &id, "section": section, "key": key, "value": value }),
                None if record.is_some() => Edit::Delete,
                None => Edit::Keep,
            })
        })?;
        Ok((old, written.commit))
    }

    /// The value of a setting that holds a secret. It is made at the first use, and stays the same afterwards.
    pub fn secret(&self, section: &str, key: &str) -> Result<String> {
        if let Some(secret) = self.get(section, key).filter(|secret| !secret.is_empty()) {
            return Ok(secret);
        }
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| {
            Error::refused(diwan_query::code::BAD_VALUE, format!("the system has no random numbers: {error}"))
        })?;
        let made: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let collection = self.store.collection_or_create(&self.namespace)?;
        let id = doc! { "section": section, "key": key };
        let mut secret = made.clone();
        collection.edit(&[id_key(Value::Document(id.as_doc()))?], WriteOptions::default(), |_, record| {
            // Another request may have made it meanwhile.
            let stored = record.and_then(|record| Doc::get_str(record.doc, "value"));
            Ok(match stored.filter(|stored| !stored.is_empty()) {
                Some(stored) => {
                    secret = stored.to_owned();
                    Edit::Keep
                }
                None => Edit::Put(doc! { "_id": &id, "section": section, "key": key, "value": &*made }),
            })
        })?;
        Ok(secret)
    }
}

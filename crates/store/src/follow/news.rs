//! What keys that were written are about.

use crate::collection::SequenceState;
use crate::error::{Error, Result};
use crate::keys::{self, CollectionId, RevisionKey, read_number};
use crate::namespace::Namespace;
use diwan_kv::{Bytes, Changes, Space};
use std::collections::{BTreeMap, BTreeSet};

/// What has changed.
#[derive(Default)]
pub(super) struct News {
    /// The next free number.
    pub numbers: bool,
    /// What is recorded as events, or how long.
    pub recordings: bool,
    /// Names of collections and views whose entries have changed.
    pub names: BTreeSet<Namespace>,
    pub collections: BTreeMap<CollectionId, CollectionNews>,
    /// Keys of events.
    pub events: Vec<Bytes>,
    /// Keys of records of retryable writes.
    pub retries: Vec<Bytes>,
}

/// What has changed in a collection.
#[derive(Default)]
pub(super) struct CollectionNews {
    pub documents: bool,
    pub settings: bool,
    pub blobs: bool,
    /// The key bytes of the ids of the documents.
    pub ids: Vec<Bytes>,
    /// The greatest sequence that was written or deleted.
    newest: u64,
    /// The state that the commits have left, if they tell.
    pub state: Option<SequenceState>,
}

impl News {
    /// What the changes are about; `None` if they may be about everything.
    pub fn of(changes: &Changes) -> Result<Option<News>> {
        let (keys, notes) = match changes {
            Changes::Keys { keys, notes } => (keys, notes),
            // Indexes and attachments have nothing that is kept in memory here.
            Changes::Ranges(ranges) => {
                let has_other =
                    ranges.iter().any(|(space, _)| !matches!(space, Space::Indexes | Space::Attachments));
                return Ok((!has_other).then(News::default));
            }
            Changes::Everything => return Ok(None),
        };
        let mut news = News::default();
        for (space, key) in keys {
            match space {
                Space::Meta => news.add_meta(key)?,
                Space::Records => news.add_document(key, |rest| Some(rest))?,
                Space::Log => {
                    let (news, rest) = news.collection(Space::Log, key, key)?;
                    news.documents = true;
                    news.newest = news.newest.max(read_number(rest).map_or(0, |(sequence, _)| sequence));
                }
                Space::Revisions => {
                    news.add_document(key, |rest| RevisionKey::split(rest).map(|(id, _)| id))?;
                }
                Space::Events => news.events.push(key.clone()),
                Space::Indexes | Space::Attachments => {}
            }
        }
        for note in notes {
            let (id, state) = SequenceState::of_note(note)?;
            news.collections.entry(id).or_default().state = Some(state);
        }
        // A later commit may have added none.
        for news in news.collections.values_mut() {
            news.state = news.state.take().filter(|state| state.last == news.newest);
        }
        Ok(Some(news))
    }

    fn add_meta(&mut self, key: &Bytes) -> Result<()> {
        match key.first() {
            Some(b'f') => self.numbers = true,
            Some(b'h' | b'w') => self.recordings = true,
            Some(b'r') => self.retries.push(key.clone()),
            Some(b'c') => {
                let damaged = || Error::Damaged(keys::describe(Space::Meta, key));
                self.names.insert(keys::catalog_name(key).ok_or_else(damaged)?);
            }
            Some(b't') => self.collection(Space::Meta, key, &key[1..])?.0.settings = true,
            Some(b'a') => self.collection(Space::Meta, key, &key[1..])?.0.blobs = true,
            _ => {}
        }
        Ok(())
    }

    fn add_document(&mut self, key: &Bytes, id: impl Fn(&[u8]) -> Option<&[u8]>) -> Result<()> {
        // Number 0 in the space of revisions is no collection's.
        let (news, rest) = self.collection(Space::Records, key, key)?;
        news.documents = true;
        news.ids.extend(id(rest).map(Bytes::from));
        Ok(())
    }

    /// The collection whose number a part of a key begins with, and the rest.
    fn collection<'k>(
        &mut self,
        space: Space,
        key: &[u8],
        part: &'k [u8],
    ) -> Result<(&mut CollectionNews, &'k [u8])> {
        let damaged = || Error::Damaged(keys::describe(space, key));
        let (number, rest) = read_number(part).ok_or_else(damaged)?;
        let id = CollectionId(u32::try_from(number).map_err(|_| damaged())?);
        Ok((self.collections.entry(id).or_default(), rest))
    }
}

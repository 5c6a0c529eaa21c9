//! The commit of a transaction: its documents get their sequences, and all that it wrote becomes one batch.
//!
//! Lock order, as of every writer: the turn of schema changes if there is more than one collection, the collections' write
//! gates, the claimed documents and unique keys, the catalog if a collection was created, and the sequences by the numbers
//! of their collections.

use super::{Transaction, TransactionOrigin};
use crate::collection::{AdoptedChanges, Collection, Recovered, Schema};
use crate::error::{Error, Result};
use crate::events::{Draft, EventOrigin};
use crate::keys::{RevisionKey, read_number};
use crate::namespace::Namespace;
use crate::retry::RetryRecord;
use crate::shared_store::turn;
use crate::store::{Entry, Store, open_entry};
use diwan_kv::{Batch, Bytes, CommitId, OverlayEngine, Space};
use diwan_query::Interrupt;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// The number of the statement under which a commit is remembered.
const COMMIT_STATEMENT: u32 = u32::MAX;

impl Store {
    /// Whether the session's transaction of this number was committed. A number older than the session's newest is refused.
    pub fn has_committed(&self, session: &[u8], number: i64, interrupt: &Interrupt) -> Result<bool> {
        let (done, _turn) = self.begin_retryable(session, number, interrupt)?;
        Ok(done.iter().any(|statement| statement.statement == COMMIT_STATEMENT))
    }
}

/// A collection of both stores that the transaction has written to.
struct Part {
    inside: Arc<Collection>,
    outside: Arc<Collection>,
    changed: Vec<Bytes>,
}

/// A collection that the transaction has created.
type Created = (Namespace, Arc<Collection>);

pub(super) fn commit(
    transaction: &Transaction,
    origin: Option<TransactionOrigin<'_>>,
) -> Result<Option<CommitId>> {
    let inside = &transaction.inside;
    inside.check_failure()?;
    inside.check_readable()?;
    let drafts = transaction.store.shared.events.take_collected();
    inside.outside.shared.evaluate(|| try_commit(transaction, origin, &drafts))
}

fn try_commit(
    transaction: &Transaction,
    origin: Option<TransactionOrigin<'_>>,
    drafts: &[Draft],
) -> Result<Option<CommitId>> {
    let inside = &transaction.inside;
    let outside = &inside.outside;
    let _own = turn(outside.shared.engine.as_ref());
    let mut batch = Batch::new();
    let (changed, is_empty) = sort_writes(&inside.overlay, &inside.numbers.lock(), &mut batch)?;
    if is_empty {
        return Ok(None);
    }
    let (parts, created) = find_parts(transaction, changed)?;
    if let Some(origin) = origin {
        let (session, transaction) = (origin.key, origin.number);
        RetryRecord { session, transaction, statement: COMMIT_STATEMENT, result: None }.write(&mut batch);
    }
    let origin = origin.map(|origin| EventOrigin { session: origin.session, number: origin.number });
    // With several gates to pass, a schema change in the middle of its own could wait for this commit.
    let turn = (parts.len() > 1 || !created.is_empty()).then(|| outside.shared.change_schema());
    let mut turns = Vec::with_capacity(parts.len());
    for part in &parts {
        let turn = part.outside.begin_write().map_err(|_| Error::write_conflict())?;
        // After a rename, the transaction's documents would appear under a name that it has not written to.
        let is_renamed = part.outside.namespace() != part.inside.namespace();
        if is_renamed || !turn.has_same_rules(&part.inside.schema()) {
            return Err(Error::write_conflict());
        }
        turns.push(turn);
    }
    outside.shared.engine.writable()?;
    let (documents, unique_keys) = inside.claimed();
    let _documents = outside.shared.documents.lock_claimed(documents);
    let _unique_keys = outside.shared.unique_keys.lock_claimed(unique_keys);
    let mut staged = Vec::with_capacity(parts.len());
    for (part, turn) in parts.iter().zip(&turns) {
        let schema: &Schema = turn;
        part.outside.adopt_multikey(schema, &part.inside.schema())?;
        staged.push(AdoptedChanges::read(&part.outside, &part.inside, schema, &part.changed)?);
    }
    if outside.shared.has_peers() {
        // What other processes have written was not claimed.
        check_unchanged(&inside.overlay, outside, &parts, &staged)?;
    }
    let mut states = Vec::with_capacity(parts.len());
    let mut events = drafts.to_vec();
    for (name, collection) in &created {
        // A stream was opened after the transaction had begun.
        if !collection.schema().recorded && outside.shared.events.records(name) {
            events.extend(collection.events_of_creation()?);
        }
    }
    for (part, (turn, changes)) in parts.iter().zip(turns.iter().zip(&staged)) {
        states.push(part.outside.write_adopted(turn, changes, &mut batch, &mut events)?);
    }
    let commit = match &turn {
        Some(turn) if !created.is_empty() => {
            let mut catalog = turn.batch();
            catalog.add(batch);
            for (name, collection) in &created {
                catalog.create(name, &collection.catalog_entry(&collection.schema()));
            }
            let mut numbers = inside.numbers.lock();
            catalog.unmark_dropped(&numbers);
            let commit = catalog.commit_together(events, origin.as_ref())?;
            numbers.clear();
            commit
        }
        _ => {
            let engine = outside.shared.engine.as_ref();
            outside.shared.events.commit_together(engine, batch, events, origin.as_ref())?
        }
    };
    for ((part, state), changes) in parts.iter().zip(states).zip(&staged) {
        part.outside.publish_adopted(state, changes);
    }
    for (name, collection) in created {
        let entry = collection.catalog_entry(&collection.schema());
        match open_entry(&outside.shared, name.clone(), entry, Recovered::from_log()) {
            Ok(entry) => outside.add_entry(name, entry),
            // The commit is made all the same: an error would tell the client that it is not.
            Err(error) => {
                tracing::error!(%error, collection = %name, "a new collection cannot be used before the next start");
            }
        }
    }
    Ok(Some(commit))
}

/// Fails if a document or a unique key that the transaction has written has changed since its snapshot.
fn check_unchanged(
    overlay: &OverlayEngine,
    outside: &Store,
    parts: &[Part],
    staged: &[AdoptedChanges],
) -> Result<()> {
    let base = overlay.base();
    for (part, changes) in parts.iter().zip(staged) {
        if !changes.are_based_on(base.as_ref(), part.outside.id)? {
            return Err(Error::write_conflict());
        }
    }
    let schemas: Vec<_> = parts.iter().map(|part| part.outside.schema()).collect();
    let unique: HashSet<u32> = schemas
        .iter()
        .flat_map(|schema| schema.secondary())
        .filter(|index| index.spec.unique)
        .map(|index| index.id.0)
        .collect();
    for (key, _) in overlay.written(Space::Indexes) {
        let number = read_number(&key).and_then(|(number, _)| u32::try_from(number).ok());
        if number.is_some_and(|number| unique.contains(&number))
            && base.get(Space::Indexes, &key)? != outside.shared.engine.get(Space::Indexes, &key)?
        {
            return Err(Error::write_conflict());
        }
    }
    Ok(())
}

/// Adds those writes to the batch that do not depend on sequences, and returns the key bytes of the ids that were changed in
/// each collection; and whether nothing was written. `created` are the numbers of new collections and indexes, whose keys are
/// taken over as they are.
fn sort_writes(
    overlay: &OverlayEngine,
    created: &[u32],
    batch: &mut Batch,
) -> Result<(BTreeMap<u32, HashSet<Bytes>>, bool)> {
    let mut changed: BTreeMap<u32, HashSet<Bytes>> = BTreeMap::new();
    let mut is_empty = true;
    let take = |batch: &mut Batch, space, key: Bytes, value: Option<Bytes>| match value {
        Some(value) => batch.put(space, key, value),
        None => batch.delete(space, key),
    };
    for space in Space::ALL {
        for (key, value) in overlay.written(space) {
            is_empty = false;
            let damaged = || Error::Damaged("a key that a transaction has written".to_owned());
            if space == Space::Meta {
                // The catalog is written by the commit. Marks of dropped numbers are outside already.
                if !matches!(key.first(), Some(b'c' | b'x' | b'f' | b's')) {
                    take(batch, space, key, value);
                }
                continue;
            }
            let (number, rest) = read_number(&key).ok_or_else(damaged)?;
            let number = u32::try_from(number).map_err(|_| damaged())?;
            let id = match space {
                _ if created.contains(&number) => None,
                Space::Log => continue,
                Space::Records => Some(rest),
                Space::Revisions if number > 0 => match RevisionKey::split(rest) {
                    Some((id, RevisionKey::Tombstone)) => Some(id),
                    _ => None,
                },
                _ => None,
            };
            match id {
                Some(id) => {
                    changed.entry(number).or_default().insert(Bytes::from(id));
                }
                None => take(batch, space, key, value),
            }
        }
    }
    Ok((changed, is_empty))
}

/// The collections that were written to, by their numbers, and those that the transaction has created.
fn find_parts(
    transaction: &Transaction,
    mut changed: BTreeMap<u32, HashSet<Bytes>>,
) -> Result<(Vec<Part>, Vec<Created>)> {
    let (mut parts, mut created) = (Vec::new(), Vec::new());
    let mut lost = false;
    transaction.store.each_entry(None, &mut |name, entry| {
        let Entry::Collection(inside) = entry else { return };
        if transaction.inside.numbers.lock().contains(&inside.id.0) {
            created.push((name.clone(), inside.clone()));
        } else if let Some(ids) = changed.remove(&inside.id.0) {
            match inside.counterpart() {
                Some(outside) => parts.push(Part {
                    inside: inside.clone(),
                    outside: outside.clone(),
                    changed: ids.into_iter().collect(),
                }),
                // It was dropped after the snapshot.
                None => lost = true,
            }
        }
    });
    if lost || !changed.is_empty() {
        return Err(Error::write_conflict());
    }
    parts.sort_by_key(|part| part.outside.id);
    Ok((parts, created))
}

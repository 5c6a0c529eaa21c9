//! Collections of the server itself: what is read from them is valid as long as their state is the same.

use crate::error::Result;
use diwan_kv::{Direction, KeyRange};
use diwan_store::{Collection, Entry, Namespace, Store};
use diwan_value::Doc;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The UUID and the last sequence of a collection; `None` if it does not exist. Every change of a document changes it.
pub(crate) type State = Option<([u8; 16], u64)>;

/// The state of a collection.
pub(crate) fn of(store: &Store, namespace: &Namespace) -> State {
    collection(store, namespace).map(|collection| (collection.uuid(), collection.last_sequence()))
}

/// The collection, if it exists.
pub(crate) fn collection(store: &Store, namespace: &Namespace) -> Option<Arc<Collection>> {
    match store.entry(namespace) {
        Some(Entry::Collection(collection)) => Some(collection),
        _ => None,
    }
}

/// Passes all documents of a collection to `show`.
pub(crate) fn visit(store: &Store, namespace: &Namespace, mut show: impl FnMut(Doc<'_>)) -> Result<()> {
    let Some(collection) = collection(store, namespace) else { return Ok(()) };
    collection.view().documents(&KeyRange::prefix(b""), Direction::Forward, &mut |_, record| {
        show(record.doc);
        ControlFlow::Continue(())
    })?;
    Ok(())
}

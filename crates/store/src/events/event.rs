//! Events as the log stores them: BSON with short names.

use super::diff;
use super::log::EventOrigin;
use super::position::Position;
use crate::catalog::CatalogEntry;
use crate::clock;
use crate::collection::Schema;
use crate::index::IndexSpec;
use crate::namespace::Namespace;
use diwan_value::{Doc, DocBuf, DocBuilder, Value};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A document was inserted.
    Insert,
    /// A document was changed by update operators or a pipeline.
    Update,
    /// A document was replaced.
    Replace,
    /// A document was deleted.
    Delete,
    /// A collection was created.
    Create,
    /// A collection was dropped.
    Drop,
    /// A collection got another name.
    Rename,
    /// A database was dropped.
    DropDatabase,
    /// Options of a collection were changed.
    Modify,
    /// Indexes were created.
    CreateIndexes,
    /// Indexes were dropped.
    DropIndexes,
}

impl EventKind {
    const ALL: [EventKind; 11] = [
        EventKind::Insert,
        EventKind::Update,
        EventKind::Replace,
        EventKind::Delete,
        EventKind::Create,
        EventKind::Drop,
        EventKind::Rename,
        EventKind::DropDatabase,
        EventKind::Modify,
        EventKind::CreateIndexes,
        EventKind::DropIndexes,
    ];

    /// The `operationType` of change streams.
    pub fn name(self) -> &'static str {
        match self {
            EventKind::Insert => "insert",
            EventKind::Update => "update",
            EventKind::Replace => "replace",
            EventKind::Delete => "delete",
            EventKind::Create => "create",
            EventKind::Drop => "drop",
            EventKind::Rename => "rename",
            EventKind::DropDatabase => "dropDatabase",
            EventKind::Modify => "modify",
            EventKind::CreateIndexes => "createIndexes",
            EventKind::DropIndexes => "dropIndexes",
        }
    }

    /// Whether streams show the event only with `showExpandedEvents`.
    pub fn is_expanded(self) -> bool {
        matches!(
            self,
            EventKind::Create | EventKind::Modify | EventKind::CreateIndexes | EventKind::DropIndexes
        )
    }
}

/// An event without its time, which it gets when it is committed.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    value: Vec<u8>,
}

/// One document before and after a change.
pub(crate) struct DocumentChange<'a> {
    pub old: Option<Doc<'a>>,
    pub new: Option<Doc<'a>>,
    /// Whether an existing document was replaced, and not updated in parts.
    pub replaces: bool,
    /// Whether the document's versions are kept with the event.
    pub images: bool,
}

impl Draft {
    fn begin(kind: EventKind, namespace: &Namespace, uuid: Option<&[u8; 16]>) -> DocBuilder {
        let mut out = DocBuilder::new();
        out.append("o", kind as i32).append("d", namespace.database.as_str());
        out.append("c", namespace.collection.as_str()).append("w", Value::DateTime(clock::now_millis()));
        if let Some(uuid) = uuid {
            out.append("u", Value::Binary { subtype: 4, bytes: uuid });
        }
        out
    }

    /// The event of a document's change; `None` if a client of MongoDB's face sees no difference.
    pub fn of_document(namespace: &Namespace, uuid: &[u8; 16], change: &DocumentChange<'_>) -> Option<Draft> {
        let kind = match (change.old, change.new) {
            (None, None) => return None,
            (None, Some(_)) => EventKind::Insert,
            (Some(_), None) => EventKind::Delete,
            // A new revision of the same document, or a conflict that does not win.
            (Some(old), Some(new)) if old == new => return None,
            (Some(_), Some(_)) if change.replaces => EventKind::Replace,
            (Some(_), Some(_)) => EventKind::Update,
        };
        let mut out = Draft::begin(kind, namespace, Some(uuid));
        let id = change.new.or(change.old).and_then(|doc| doc.get("_id")).unwrap_or(Value::Null);
        out.begin_document("k").append("_id", id).end();
        if let (EventKind::Update, Some(old), Some(new)) = (kind, change.old, change.new) {
            out.append("x", diff::describe(old, new));
        }
        // A stream shows inserted and replacing documents whole, and others if it was asked to keep them.
        if let Some(new) = change.new.filter(|_| change.images || kind != EventKind::Update) {
            out.append("f", new);
        }
        if let Some(old) = change.old.filter(|_| change.images) {
            out.append("p", old);
        }
        Some(Draft { value: out.finish_buffer() })
    }

    /// The event of a change to a collection or database, with its `operationDescription`.
    pub fn of_collection(
        kind: EventKind,
        namespace: &Namespace,
        uuid: Option<&[u8; 16]>,
        description: Doc<'_>,
    ) -> Draft {
        let mut out = Draft::begin(kind, namespace, uuid);
        out.append("z", description);
        Draft { value: out.finish_buffer() }
    }

    /// The event of a new collection.
    pub fn of_creation(namespace: &Namespace, entry: &CatalogEntry) -> Draft {
        let mut description = DocBuilder::new();
        if let Some(index) = entry.indexes.first() {
            description.append("idIndex", index.spec.to_doc());
        }
        description.append_all(entry.options.to_doc());
        let description = description.finish();
        Draft::of_collection(EventKind::Create, namespace, Some(&entry.uuid), description.as_doc())
    }

    /// The event of changed options, of the collection or of one index. `schema` is the one before and the one after.
    pub fn of_modification(
        namespace: &Namespace,
        uuid: &[u8; 16],
        changes: Doc<'_>,
        schema: (&Schema, &Schema),
    ) -> Draft {
        let (before, after) = schema;
        let options = |spec: &IndexSpec, out: &mut DocBuilder| {
            if let Some(seconds) = spec.expire_after_seconds {
                out.append("expireAfterSeconds", seconds);
            }
            out.append("hidden", spec.hidden);
        };
        let changed = before.indexes.iter().zip(&after.indexes).find(|(old, new)| {
            let options = |spec: &IndexSpec| (spec.hidden, spec.expire_after_seconds);
            options(&old.spec) != options(&new.spec)
        });
        let mut out = Draft::begin(EventKind::Modify, namespace, Some(uuid));
        out.begin_document("z").append_all(changes);
        if let Some((_, new)) = changed {
            out.begin_document("index").append("name", new.spec.name.as_str());
            options(&new.spec, &mut out);
            out.end();
        }
        out.end().begin_document("b").begin_document("collectionOptions");
        out.append("uuid", Value::Binary { subtype: 4, bytes: uuid })
            .append_all(before.options.to_doc())
            .end();
        if let Some((old, _)) = changed {
            out.begin_document("indexOptions");
            options(&old.spec, &mut out);
            out.end();
        }
        out.end();
        Draft { value: out.finish_buffer() }
    }

    /// The event of a rename.
    pub fn of_rename(from: &Namespace, to: &Namespace, uuid: &[u8; 16], dropped: Option<&[u8; 16]>) -> Draft {
        let mut out = Draft::begin(EventKind::Rename, from, Some(uuid));
        out.begin_document("t").append("db", to.database.as_str());
        out.append("coll", to.collection.as_str()).end();
        out.begin_document("z").begin_document("to").append("db", to.database.as_str());
        out.append("coll", to.collection.as_str()).end();
        if let Some(uuid) = dropped {
            out.append("dropTarget", Value::Binary { subtype: 4, bytes: uuid });
        }
        out.end();
        Draft { value: out.finish_buffer() }
    }

    /// The event with the transaction that made it.
    pub fn with_origin(self, origin: Option<&EventOrigin<'_>>) -> Draft {
        let Some(origin) = origin else { return self };
        let mut out = DocBuf::trusted(self.value).into_builder();
        out.append("s", origin.session).append("n", origin.number);
        Draft { value: out.finish_buffer() }
    }

    pub fn into_value(self) -> Vec<u8> {
        self.value
    }
}

/// An event of the log.
#[derive(Debug)]
pub struct Event {
    /// Where it stands in the log.
    pub position: Position,
    value: DocBuf,
}

impl Event {
    pub(crate) fn new(position: Position, value: Vec<u8>) -> Event {
        Event { position, value: DocBuf::trusted(value) }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.value.as_doc().as_bytes().len()
    }

    fn doc(&self) -> Doc<'_> {
        self.value.as_doc()
    }

    fn text(&self, field: &str) -> &str {
        self.doc().get_str(field).unwrap_or_default()
    }

    /// What happened.
    pub fn kind(&self) -> EventKind {
        let number = match self.doc().get("o") {
            Some(Value::Int32(number)) => usize::try_from(number).unwrap_or_default(),
            _ => 0,
        };
        EventKind::ALL.get(number).copied().unwrap_or(EventKind::Insert)
    }

    /// The database.
    pub fn database(&self) -> &str {
        self.text("d")
    }

    /// The collection; empty for an event of a database.
    pub fn collection(&self) -> &str {
        self.text("c")
    }

    /// The new name of a renamed collection.
    pub fn target(&self) -> Option<Doc<'_>> {
        self.doc().get_doc("t")
    }

    /// When it happened by the wall clock.
    pub fn wall_time(&self) -> Option<Value<'_>> {
        self.doc().get("w")
    }

    /// The collection's identifier.
    pub fn uuid(&self) -> Option<Value<'_>> {
        self.doc().get("u")
    }

    /// `{_id}` of the document.
    pub fn document_key(&self) -> Option<Doc<'_>> {
        self.doc().get_doc("k")
    }

    /// The document after the change, if the event holds it.
    pub fn document(&self) -> Option<Doc<'_>> {
        self.doc().get_doc("f")
    }

    /// The document before the change, if the event holds it.
    pub fn document_before(&self) -> Option<Doc<'_>> {
        self.doc().get_doc("p")
    }

    /// What an update changed.
    pub fn update(&self) -> Option<Doc<'_>> {
        self.doc().get_doc("x")
    }

    /// The session of the transaction that made the event.
    pub fn session(&self) -> Option<Doc<'_>> {
        self.doc().get_doc("s")
    }

    /// The number of the transaction that made the event.
    pub fn transaction_number(&self) -> Option<Value<'_>> {
        self.doc().get("n")
    }

    /// The options of a modified collection before the change.
    pub fn state_before(&self) -> Option<Doc<'_>> {
        self.doc().get_doc("b")
    }

    /// What was done to a collection.
    pub fn description(&self) -> Option<Doc<'_>> {
        self.doc().get_doc("z")
    }
}

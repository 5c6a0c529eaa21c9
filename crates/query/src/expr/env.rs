//! The environment of an evaluation: the document, the variables, the clock, and the arena for computed values.

use super::{Slot, Variable};
use crate::error::{Error, Result, code};
use crate::interrupt::Interrupt;
use bumpalo::Bump;
use diwan_value::{Array, ArrayBuilder, Collator, Doc, DocBuilder, Timestamp, Value, ValueBuf};
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::sync::Arc;

/// The largest value that an expression may compute as an intermediate result: the maximum size of MongoDB's buffers.
/// The size of result documents is checked where they leave the pipeline.
const MAX_VALUE_BYTES: usize = 64 * 1024 * 1024;

/// The maximum document size in the error message for larger values: the limit of a stored document plus MongoDB's
/// overhead.
const MAX_OBJECT_BYTES: usize = diwan_value::MAX_DOCUMENT_BYTES + 16 * 1024;

/// How many bytes one evaluation may allocate in its arena.
const MAX_ARENA_BYTES: usize = 512 * 1024 * 1024;

/// How deep a computed value may nest.
const MAX_DEPTH: usize = 200;

/// How many loop iterations pass between two checks of the interrupt.
const TICKS: u32 = 256;

/// Values that are the same for all documents of an operation.
#[derive(Clone, Default)]
pub struct Context {
    /// `$$NOW`: the start time of the operation, in milliseconds since the Unix epoch.
    pub now: i64,
    /// `$$CLUSTER_TIME`.
    pub cluster_time: Option<Timestamp>,
    /// `$$USER_ROLES`: an array with the user's roles.
    pub user_roles: Option<Arc<ValueBuf>>,
    /// The values of the first slots: the variables of the operation's `let`.
    pub variables: Vec<Option<ValueBuf>>,
    /// The collation of string comparisons; without one, strings compare by their bytes.
    pub collator: Option<Arc<Collator>>,
    /// Tells the evaluation when to stop.
    pub interrupt: Interrupt,
}

/// One evaluation: a document and an arena. It is cheap to create for every document. The owner of the arena resets it
/// between documents.
pub struct EvalEnv<'a> {
    arena: &'a Bump,
    root: Doc<'a>,
    context: &'a Context,
    /// The values of the slots after those of the context.
    slots: RefCell<Vec<Option<Value<'a>>>>,
    ticks: Cell<u32>,
}

impl<'a> EvalEnv<'a> {
    /// An evaluation over `root` that allocates its results in `arena`.
    pub fn new(arena: &'a Bump, root: Doc<'a>, context: &'a Context) -> EvalEnv<'a> {
        EvalEnv { arena, root, context, slots: RefCell::default(), ticks: Cell::new(0) }
    }

    /// The same document and variables with another arena, for steps whose temporary values are freed early.
    pub(crate) fn scoped<'b>(&self, arena: &'b Bump) -> EvalEnv<'b>
    where
        'a: 'b,
    {
        let slots = self.slots.borrow().iter().copied().collect::<Vec<Option<Value<'b>>>>();
        EvalEnv {
            arena,
            root: self.root,
            context: self.context,
            slots: RefCell::new(slots),
            ticks: self.ticks.clone(),
        }
    }

    /// The arena.
    pub fn arena(&self) -> &'a Bump {
        self.arena
    }

    /// The document.
    pub fn root(&self) -> Doc<'a> {
        self.root
    }

    /// The values that all evaluations of the operation share.
    pub fn context(&self) -> &'a Context {
        self.context
    }

    /// Sets the value of a slot from [`super::ParseEnv::variable`].
    pub fn bind(&self, slot: Slot, value: Option<Value<'a>>) {
        let Some(at) = slot.0.checked_sub(self.context.variables.len()) else { return };
        let mut slots = self.slots.borrow_mut();
        if slots.len() <= at {
            slots.resize(at + 1, None);
        }
        slots[at] = value;
    }

    /// A variable's value.
    pub(crate) fn variable(&self, variable: Variable) -> Result<Option<Value<'a>>> {
        let unavailable = |name| Error::new(51144, format!("Builtin variable '$${name}' is not available"));
        Ok(match variable {
            Variable::Root => Some(Value::Document(self.root)),
            Variable::Now => Some(Value::DateTime(self.context.now)),
            Variable::ClusterTime => {
                let time = self.context.cluster_time.ok_or_else(|| unavailable("CLUSTER_TIME"))?;
                Some(Value::Timestamp(time))
            }
            Variable::UserRoles => {
                let roles = self.context.user_roles.as_ref().ok_or_else(|| unavailable("USER_ROLES"))?;
                Some(roles.as_value())
            }
            Variable::Slot(slot) => match slot.0.checked_sub(self.context.variables.len()) {
                Some(at) => self.slots.borrow().get(at).copied().flatten(),
                None => self.context.variables[slot.0].as_ref().map(ValueBuf::as_value),
            },
        })
    }

    /// Compares two values under the operation's collation.
    pub fn compare(&self, left: Value<'_>, right: Value<'_>) -> Ordering {
        diwan_value::compare_with(left, right, self.context.collator.as_deref())
    }

    /// Compares two values; missing is below almost all others.
    pub(crate) fn compare_optional(&self, left: Option<Value<'_>>, right: Option<Value<'_>>) -> Ordering {
        match (left, right) {
            (Some(left), Some(right)) => self.compare(left, right),
            // Only MinKey is below missing. The deprecated undefined equals it.
            (None, Some(Value::MinKey)) => Ordering::Greater,
            (Some(Value::MinKey), None) => Ordering::Less,
            (None, Some(Value::Undefined)) | (Some(Value::Undefined), None) => Ordering::Equal,
            _ => left.is_some().cmp(&right.is_some()),
        }
    }

    /// To be called in every iteration of a loop. Checks the interrupt regularly.
    pub fn tick(&self) -> Result<()> {
        let ticks = self.ticks.get().wrapping_add(1);
        self.ticks.set(ticks);
        if ticks.is_multiple_of(TICKS) { self.context.interrupt.check() } else { Ok(()) }
    }

    /// Fails if a value of `bytes` bytes is too large.
    pub fn check_size(&self, bytes: usize) -> Result<()> {
        if bytes <= MAX_VALUE_BYTES {
            return Ok(());
        }
        let text = format!(
            "BSONObj size: {bytes} (0x{bytes:X}) is invalid. Size must be between 0 and {MAX_OBJECT_BYTES}(16MB)"
        );
        Err(Error::new(code::BSON_OBJECT_TOO_LARGE, text))
    }

    /// Passes on a value that becomes part of another one. Fails if it nests too deep.
    pub fn nested(&self, value: Option<Value<'a>>) -> Result<Option<Value<'a>>> {
        let fits = match value {
            Some(Value::Document(doc)) => within_depth(doc, MAX_DEPTH - 1),
            Some(Value::Array(array)) => within_depth(Doc::trusted(array.as_bytes()), MAX_DEPTH - 1),
            _ => true,
        };
        if fits {
            return Ok(value);
        }
        let text = format!(
            "cannot convert document to BSON because it exceeds the limit of {MAX_DEPTH} levels of nesting"
        );
        Err(Error::new(code::OVERFLOW, text))
    }

    /// Copies a text into the arena.
    pub fn string(&self, text: &str) -> Result<Value<'a>> {
        let bytes = self.bytes(text.as_bytes())?;
        Ok(Value::String(std::str::from_utf8(bytes).unwrap_or_default()))
    }

    /// Copies the built document into the arena.
    pub fn document(&self, builder: DocBuilder) -> Result<Value<'a>> {
        Ok(Value::Document(Doc::trusted(self.bytes(&builder.finish_buffer())?)))
    }

    /// Copies the built array into the arena.
    pub fn array(&self, builder: ArrayBuilder) -> Result<Value<'a>> {
        Ok(Value::Array(Array::trusted(self.bytes(&builder.finish())?)))
    }

    /// Copies bytes into the arena.
    pub fn bytes(&self, bytes: &[u8]) -> Result<&'a [u8]> {
        self.check_size(bytes.len())?;
        if self.arena.allocated_bytes().saturating_add(bytes.len()) > MAX_ARENA_BYTES {
            let text = format!("Expression used too much memory. Memory limit: {MAX_ARENA_BYTES} bytes");
            return Err(Error::new(code::EXCEEDED_MEMORY_LIMIT, text));
        }
        Ok(self.arena.alloc_slice_copy(bytes))
    }

    /// Copies a value with a shorter lifetime into the arena.
    pub fn keep(&self, value: Value<'_>) -> Result<Value<'a>> {
        let mut holder = ArrayBuilder::new();
        holder.push(value);
        let bytes = self.bytes(&holder.finish())?;
        Ok(Array::trusted(bytes).get(0).unwrap_or(Value::Null))
    }
}

/// Whether `doc` has at most `limit` levels, including itself.
fn within_depth(doc: Doc<'_>, limit: usize) -> bool {
    limit > 0
        && doc.iter().all(|element| match element.value() {
            Value::Document(inner) => within_depth(inner, limit - 1),
            Value::Array(inner) => within_depth(Doc::trusted(inner.as_bytes()), limit - 1),
            _ => true,
        })
}

//! What an expression is evaluated in: the document, the variables, the clock, and the arena for what is computed.

use super::{Slot, Variable};
use crate::error::{Error, Result, code};
use crate::interrupt::Interrupt;
use bumpalo::Bump;
use diwan_value::{Array, ArrayBuilder, Collator, Doc, DocBuilder, Timestamp, Value, ValueBuf};
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::sync::Arc;

/// The largest value that an expression may compute on the way to its result: what MongoDB's buffers grow to. That a
/// document is not larger than a collection takes is checked where documents leave the pipeline.
pub const MAX_VALUE_BYTES: usize = 64 * 1024 * 1024;

/// The largest document in the refusal of larger values: that of a collection and MongoDB's allowance beside it.
const MAX_OBJECT_BYTES: usize = diwan_value::MAX_DOCUMENT_BYTES + 16 * 1024;

/// How much one evaluation may take in its arena.
const MAX_ARENA_BYTES: usize = 512 * 1024 * 1024;

/// How deep a computed value may nest.
const MAX_DEPTH: usize = 200;

/// How many steps of a loop pass between two looks at the interrupt.
const TICKS: u32 = 256;

/// What is the same for all documents of an operation.
#[derive(Clone, Default)]
pub struct Context {
    /// `$$NOW`: when the operation began, in milliseconds since the Unix epoch.
    pub now: i64,
    /// `$$CLUSTER_TIME`.
    pub cluster_time: Option<Timestamp>,
    /// `$$USER_ROLES`: the array of the user's roles.
    pub user_roles: Option<ValueBuf>,
    /// The values of the first slots: the operation's `let`.
    pub variables: Vec<Option<ValueBuf>>,
    /// How strings compare; by their bytes if absent.
    pub collator: Option<Arc<Collator>>,
    /// When to stop.
    pub interrupt: Interrupt,
}

/// One evaluation: a document and an arena. Cheap to make, one for every document; the owner of the arena resets it
/// between documents.
pub struct EvalEnv<'a> {
    arena: &'a Bump,
    root: Doc<'a>,
    context: &'a Context,
    /// The slots after the context's.
    slots: RefCell<Vec<Option<Value<'a>>>>,
    ticks: Cell<u32>,
}

impl<'a> EvalEnv<'a> {
    /// An evaluation over `root`, whose results live in `arena`.
    pub fn new(arena: &'a Bump, root: Doc<'a>, context: &'a Context) -> EvalEnv<'a> {
        EvalEnv { arena, root, context, slots: RefCell::default(), ticks: Cell::new(0) }
    }

    /// The same document and variables over another arena, for steps whose garbage is dropped early.
    pub fn scoped<'b>(&self, arena: &'b Bump) -> EvalEnv<'b>
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

    /// What the operation shares.
    pub fn context(&self) -> &'a Context {
        self.context
    }

    /// Binds a slot that [`super::ParseEnv::variable`] gave.
    pub fn bind(&self, slot: Slot, value: Option<Value<'a>>) {
        let Some(at) = slot.0.checked_sub(self.context.variables.len()) else { return };
        let mut slots = self.slots.borrow_mut();
        if slots.len() <= at {
            slots.resize(at + 1, None);
        }
        slots[at] = value;
    }

    /// A variable's value.
    pub fn variable(&self, variable: Variable) -> Result<Option<Value<'a>>> {
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

    /// The order of two values under the operation's collation.
    pub fn compare(&self, left: Value<'_>, right: Value<'_>) -> Ordering {
        diwan_value::compare_with(left, right, self.context.collator.as_deref())
    }

    /// The order of two values, missing before everything else.
    pub fn compare_optional(&self, left: Option<Value<'_>>, right: Option<Value<'_>>) -> Ordering {
        match (left, right) {
            (Some(left), Some(right)) => self.compare(left, right),
            // Only MinKey is below missing, and the deprecated undefined is beside it.
            (None, Some(Value::MinKey)) => Ordering::Greater,
            (Some(Value::MinKey), None) => Ordering::Less,
            (None, Some(Value::Undefined)) | (Some(Value::Undefined), None) => Ordering::Equal,
            _ => left.is_some().cmp(&right.is_some()),
        }
    }

    /// To be called in loops: now and then asks whether the work must stop.
    pub fn tick(&self) -> Result<()> {
        let ticks = self.ticks.get().wrapping_add(1);
        self.ticks.set(ticks);
        if ticks.is_multiple_of(TICKS) { self.context.interrupt.check() } else { Ok(()) }
    }

    /// Refuses a value of `bytes` bytes if that is too large.
    pub fn check_size(&self, bytes: usize) -> Result<()> {
        if bytes <= MAX_VALUE_BYTES {
            return Ok(());
        }
        let text = format!(
            "BSONObj size: {bytes} (0x{bytes:X}) is invalid. Size must be between 0 and {MAX_OBJECT_BYTES}(16MB)"
        );
        Err(Error::new(code::BSON_OBJECT_TOO_LARGE, text))
    }

    /// Passes on a value that is to become part of another one, unless it nests too deep.
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

    /// Copies what was built into the arena.
    pub fn document(&self, builder: DocBuilder) -> Result<Value<'a>> {
        Ok(Value::Document(Doc::trusted(self.bytes(&builder.finish_buffer())?)))
    }

    /// Copies what was built into the arena.
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

    /// Copies any value into the arena, for values that live shorter.
    pub fn keep(&self, value: Value<'_>) -> Result<Value<'a>> {
        let mut holder = ArrayBuilder::new();
        holder.push(value);
        let bytes = self.bytes(&holder.finish())?;
        Ok(Array::trusted(bytes).get(0).unwrap_or(Value::Null))
    }
}

/// Whether `doc` has at most `limit` levels, itself counted.
fn within_depth(doc: Doc<'_>, limit: usize) -> bool {
    limit > 0
        && doc.iter().all(|element| match element.value() {
            Value::Document(inner) => within_depth(inner, limit - 1),
            Value::Array(inner) => within_depth(Doc::trusted(inner.as_bytes()), limit - 1),
            _ => true,
        })
}

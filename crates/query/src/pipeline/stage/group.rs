//! `$group`: one document for every distinct `_id`.
//!
//! The stage finds groups by the order-preserving key bytes of their `_id`, so that 1, 1.0 and the decimal 1 are one
//! group. The hash table's keys are in one buffer. When the groups exceed the budget, the stage saves them to an
//! external sorter ordered by key and empties the table. At the end it merges the saved states of equal keys.

use crate::accumulator::{Accumulator, AccumulatorState, id_document};
use crate::error::{Error, Result, code};
use crate::expr::{Context, EvalEnv, Expr, FieldSource, ParseEnv};
use crate::external_sort::{ExternalSorter, SortedRecords};
use crate::interrupt::Interrupt;
use crate::memory::{MemoryBudget, Reservation};
use crate::pipeline::{DocSource, Execution};
use bumpalo::Bump;
use diwan_value::key::{Direction, encode_order};
use diwan_value::{Append, Array, ArrayBuilder, Doc, DocBuilder, RawValue, Type, Value};
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;
use std::sync::Arc;

/// A parsed `$group`.
#[derive(Clone, Debug)]
pub struct Group {
    id: Expr,
    fields: Vec<(String, Accumulator)>,
}

impl Group {
    /// Parses the stage's argument.
    pub(crate) fn parse(spec: Value<'_>, scope: &ParseEnv<'_>) -> Result<Group> {
        let Value::Document(doc) = spec else {
            return Err(Error::new(15947, "a group's fields must be specified in an object"));
        };
        let mut id = None;
        let mut fields: Vec<(String, Accumulator)> = Vec::new();
        for element in doc.iter() {
            match element.key_str() {
                "_id" if id.is_some() => {
                    return Err(Error::new(15948, "a group's _id may only be specified once"));
                }
                "_id" => id = Some(parse_id(element.value(), scope)?),
                name => {
                    fields.push((name.to_owned(), parse_field(name, element.value(), scope)?));
                }
            }
        }
        let id = id.ok_or_else(|| Error::new(15955, "a group specification must include an _id"))?;
        Ok(Group { id, fields })
    }

    /// The expression that documents are grouped by.
    pub fn id(&self) -> &Expr {
        &self.id
    }

    /// The fields with their accumulators.
    pub fn fields(&self) -> &[(String, Accumulator)] {
        &self.fields
    }

    /// The group with each document path replaced by the expression that `field` returns: see [`Expr::read_from`].
    pub(crate) fn read_from(&self, field: &mut FieldSource<'_>) -> Option<Group> {
        let id = self.id.read_from(field, true)?;
        let fields = self.fields.iter();
        let fields = fields.map(|(name, accumulator)| Some((name.clone(), accumulator.read_from(field)?)));
        Some(Group { id, fields: fields.collect::<Option<_>>()? })
    }

    /// Runs the stage over `input`.
    pub(crate) fn open(
        self: &Arc<Group>,
        input: Box<dyn DocSource>,
        execution: &Execution,
    ) -> Box<dyn DocSource> {
        Box::new(GroupSource {
            groups: Groups::new(self.clone(), execution.context.clone(), execution.budget.reservation()),
            budget: execution.budget.clone(),
            phase: GroupPhase::Reading(input),
            arena: Bump::new(),
            out: Vec::new(),
        })
    }
}

/// Parses the accumulator of field `name`. Also used by `$bucketAuto`.
pub(crate) fn parse_field(name: &str, spec: Value<'_>, scope: &ParseEnv<'_>) -> Result<Accumulator> {
    if name.contains('.') {
        return Err(Error::new(40235, format!("The field name '{name}' cannot contain '.'")));
    }
    if name.starts_with('$') {
        return Err(Error::new(40236, format!("The field name '{name}' cannot be an operator name")));
    }
    Accumulator::parse(name, spec, scope)
}

fn parse_id(spec: Value<'_>, scope: &ParseEnv<'_>) -> Result<Expr> {
    if let Value::Document(doc) = spec
        && doc.iter().next().is_some_and(|first| !first.key.starts_with(b"$"))
        && doc.iter().any(|element| {
            let value = element.value();
            value.is_number() || value.as_bool().is_some()
        })
    {
        return Err(Error::new(17390, "$group does not support inclusion-style expressions"));
    }
    Expr::parse(spec, scope)
}

/// The running stage.
struct GroupSource {
    groups: Groups,
    budget: MemoryBudget,
    phase: GroupPhase,
    arena: Bump,
    /// The current document.
    out: Vec<u8>,
}

enum GroupPhase {
    /// The input has not been read.
    Reading(Box<dyn DocSource>),
    /// All groups are in memory; the number is that of the next group.
    Memory(usize),
    /// Saved groups are read in key order. `pending` tells whether a record was read that belongs to the next group.
    Merging {
        records: SortedRecords,
        pending: bool,
    },
    Done,
}

impl DocSource for GroupSource {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        if let GroupPhase::Reading(input) = &mut self.phase {
            self.phase = self.groups.read(input.as_mut(), &self.budget, &mut self.arena, interrupt)?;
        }
        let found = match &mut self.phase {
            GroupPhase::Memory(next) => {
                let found = self.groups.take(*next, &mut self.out)?;
                *next += 1;
                found
            }
            GroupPhase::Merging { records, pending } => {
                interrupt.check()?;
                self.groups.merge(records, pending, &mut self.arena, &mut self.out)?
            }
            GroupPhase::Reading(_) | GroupPhase::Done => false,
        };
        if !found {
            self.phase = GroupPhase::Done;
            self.groups.clear();
            self.groups.reservation.release();
            self.out.clear();
        }
        Ok(found)
    }

    fn current(&self) -> Doc<'_> {
        Doc::trusted(&self.out)
    }

    fn suspend(&mut self) {
        match &mut self.phase {
            GroupPhase::Reading(input) => input.suspend(),
            GroupPhase::Merging { records, .. } => records.suspend(),
            GroupPhase::Memory(_) | GroupPhase::Done => {}
        }
    }
}

/// The groups in memory.
struct Groups {
    group: Arc<Group>,
    context: Arc<Context>,
    hasher: DefaultHashBuilder,
    /// The hash and the number of each group.
    table: HashTable<(u64, usize)>,
    entries: Vec<GroupEntry>,
    /// The states of all groups: for each group one per accumulator.
    states: Vec<AccumulatorState>,
    /// The keys and ids of all groups.
    bytes: Vec<u8>,
    /// How many bytes the states hold on the heap.
    state_bytes: usize,
    reservation: Reservation,
    key: Vec<u8>,
    /// The group of the last document. In input sorted by id it is often the group of the next one.
    last: usize,
}

/// A group: the range of its key, which is followed by its id.
struct GroupEntry {
    start: usize,
    key_end: usize,
    id_end: usize,
    id_tag: Type,
}

impl GroupEntry {
    fn key<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start..self.key_end]
    }

    fn id<'a>(&self, bytes: &'a [u8]) -> Value<'a> {
        let raw = RawValue { tag: self.id_tag, bytes: &bytes[self.key_end..self.id_end] };
        raw.decode().unwrap_or(Value::Null)
    }
}

impl Groups {
    fn new(group: Arc<Group>, context: Arc<Context>, reservation: Reservation) -> Groups {
        Groups {
            group,
            context,
            hasher: DefaultHashBuilder::default(),
            table: HashTable::new(),
            entries: Vec::new(),
            states: Vec::new(),
            bytes: Vec::new(),
            state_bytes: 0,
            reservation,
            key: Vec::new(),
            last: 0,
        }
    }

    /// Adds all documents to their groups. Returns how to read the groups.
    fn read(
        &mut self,
        input: &mut dyn DocSource,
        budget: &MemoryBudget,
        arena: &mut Bump,
        interrupt: &Interrupt,
    ) -> Result<GroupPhase> {
        let mut saved: Option<ExternalSorter> = None;
        let (group, context) = (self.group.clone(), self.context.clone());
        while input.advance(interrupt)? {
            arena.reset();
            self.add(&group, &EvalEnv::new(arena, input.current(), &context))?;
            let memory = self.memory();
            if memory > budget.limit || !self.reservation.cover(memory) {
                let sorter = saved.get_or_insert_with(|| {
                    let smaller = MemoryBudget { limit: budget.limit / 4, ..budget.clone() };
                    ExternalSorter::new(smaller, None, memory_error())
                });
                if budget.directory.is_none() {
                    return Err(memory_error());
                }
                self.save(sorter)?;
            }
        }
        let Some(mut sorter) = saved else { return Ok(GroupPhase::Memory(0)) };
        self.save(&mut sorter)?;
        Ok(GroupPhase::Merging { records: sorter.finish()?, pending: false })
    }

    /// Adds the document of `env` to its group.
    fn add<'a>(&mut self, group: &'a Group, env: &EvalEnv<'a>) -> Result<()> {
        let id = group.id.eval(env)?.unwrap_or(Value::Null);
        self.key.clear();
        encode_order(&mut self.key, id, Direction::Ascending, env.context().collator.as_deref());
        let is_last = self.entries.get(self.last).is_some_and(|entry| entry.key(&self.bytes) == self.key);
        if !is_last {
            self.last = self.find_or_start(group, id, env.arena())?;
        }
        let (number, count) = (self.last, group.fields.len());
        for ((_, accumulator), state) in group.fields.iter().zip(&mut self.states[number * count..]) {
            let before = state.memory();
            accumulator.add(state, env)?;
            self.state_bytes = (self.state_bytes + state.memory()).saturating_sub(before);
        }
        Ok(())
    }

    /// The number of the group with the key `self.key`, which is created if necessary.
    fn find_or_start(&mut self, group: &Group, id: Value<'_>, arena: &Bump) -> Result<usize> {
        let hash = self.hasher.hash_one(&self.key);
        let (bytes, entries) = (&self.bytes, &self.entries);
        let key = self.key.as_slice();
        if let Some(&(_, number)) =
            self.table.find(hash, |&(known, number)| known == hash && entries[number].key(bytes) == key)
        {
            return Ok(number);
        }
        let number = self.entries.len();
        start_states(group, id, &self.context, arena, &mut self.states)?;
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        id.write(&mut self.bytes);
        self.entries.push(GroupEntry { start, key_end, id_end: self.bytes.len(), id_tag: id.tag() });
        self.table.insert_unique(hash, (hash, number), |&(hash, _)| hash);
        Ok(number)
    }

    fn memory(&self) -> usize {
        self.bytes.len()
            + self.state_bytes
            + self.entries.len() * (size_of::<GroupEntry>() + 2 * size_of::<(u64, usize)>())
            + self.states.len() * size_of::<AccumulatorState>()
    }

    fn clear(&mut self) {
        self.table.clear();
        self.entries.clear();
        self.states.clear();
        self.bytes.clear();
        self.state_bytes = 0;
    }

    /// Writes group `number` as a document.
    fn take(&mut self, number: usize, out: &mut Vec<u8>) -> Result<bool> {
        let Some(entry) = self.entries.get(number) else { return Ok(false) };
        let count = self.group.fields.len();
        let states = self.states[number * count..].iter_mut().take(count).map(AccumulatorState::take);
        write(&self.group, entry.id(&self.bytes), states, out)?;
        Ok(true)
    }

    /// Moves all groups to `sorter`. The record of a group has its key, its id and the saved states.
    fn save(&mut self, sorter: &mut ExternalSorter) -> Result<()> {
        let count = self.group.fields.len();
        for (number, entry) in self.entries.iter().enumerate() {
            let mut payload = ArrayBuilder::new();
            payload.push(entry.id(&self.bytes));
            for ((_, accumulator), state) in self.group.fields.iter().zip(&mut self.states[number * count..])
            {
                accumulator.save(state.take(), &mut payload);
            }
            sorter.add(entry.key(&self.bytes), &payload.finish())?;
        }
        self.clear();
        Ok(())
    }

    /// Writes the next group of `records`; false at the end.
    fn merge(
        &mut self,
        records: &mut SortedRecords,
        pending: &mut bool,
        arena: &mut Bump,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        if !*pending && !records.advance()? {
            return Ok(false);
        }
        self.key.clear();
        self.key.extend_from_slice(records.key());
        let first = records.payload().to_vec();
        let id = Array::trusted(&first).get(0).unwrap_or(Value::Null);
        let mut states = Vec::new();
        start_states(&self.group, id, &self.context, arena, &mut states)?;
        loop {
            arena.reset();
            let env = EvalEnv::new(arena, Doc::EMPTY, &self.context);
            let saved = Array::trusted(records.payload()).iter().skip(1);
            for (((_, accumulator), state), saved) in self.group.fields.iter().zip(&mut states).zip(saved) {
                accumulator.absorb(state, saved, &env)?;
            }
            *pending = records.advance()?;
            if !*pending || records.key() != self.key {
                break;
            }
        }
        write(&self.group, id, states.into_iter(), out)?;
        Ok(true)
    }
}

/// The error of a `$group` that would need the disk.
fn memory_error() -> Error {
    let text =
        "Exceeded memory limit for $group, but didn't allow external sort. Pass allowDiskUse:true to opt in.";
    Error::new(code::QUERY_EXCEEDED_MEMORY_LIMIT, text)
}

/// Adds the states of a new group with this id.
fn start_states(
    group: &Group,
    id: Value<'_>,
    context: &Context,
    arena: &Bump,
    states: &mut Vec<AccumulatorState>,
) -> Result<()> {
    let env = EvalEnv::new(arena, id_document(id), context);
    for (_, accumulator) in &group.fields {
        states.push(accumulator.start(&env)?);
    }
    Ok(())
}

/// Writes a group as a document.
fn write(
    group: &Group,
    id: Value<'_>,
    states: impl Iterator<Item = AccumulatorState>,
    out: &mut Vec<u8>,
) -> Result<()> {
    out.clear();
    let mut builder = DocBuilder::with_buffer(std::mem::take(out));
    builder.append("_id", id);
    for ((name, accumulator), state) in group.fields.iter().zip(states) {
        accumulator.append(state, name, &mut builder)?;
    }
    *out = builder.finish_buffer();
    Ok(())
}

//! `$group`: one document for every distinct `_id`.
//!
//! Groups are found by the order-preserving key bytes of their `_id`, so that 1, 1.0 and 1 as a decimal are one group,
//! in a hash table whose keys lie in one buffer. When the groups outgrow the budget, they are saved to an external
//! sort by key and the table starts anew; at the end equal keys come together again and their states are absorbed
//! into one.

use super::{DocSource, Execution};
use crate::accumulator::{Accumulator, State, id_document};
use crate::error::{Error, Result, code};
use crate::expr::{Context, EvalEnv, Expr, FieldSource, ParseEnv};
use crate::external_sort::{ExternalSorter, MemoryBudget, SortedRecords};
use crate::interrupt::Interrupt;
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

    /// What documents are grouped by.
    pub fn id(&self) -> &Expr {
        &self.id
    }

    /// The accumulated fields.
    pub fn fields(&self) -> &[(String, Accumulator)] {
        &self.fields
    }

    /// The group that reads, instead of each path, what `field` gives for it: see [`Expr::read_from`].
    pub(super) fn read_from(&self, field: &mut FieldSource<'_>) -> Option<Group> {
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
        Box::new(Grouping {
            groups: Groups::new(self.clone(), execution.context.clone()),
            budget: execution.budget.clone(),
            phase: Phase::Reading(input),
            arena: Bump::new(),
            out: Vec::new(),
        })
    }
}

/// Parses the accumulator of field `name`, also for `$bucketAuto`.
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
struct Grouping {
    groups: Groups,
    budget: MemoryBudget,
    phase: Phase,
    arena: Bump,
    /// The current document.
    out: Vec<u8>,
}

enum Phase {
    /// Nothing was asked for yet.
    Reading(Box<dyn DocSource>),
    /// All groups are in memory; the number is the next one's.
    Memory(usize),
    /// Saved groups come back in the order of their keys; whether one was read that is not yet part of a group.
    Merging {
        records: SortedRecords,
        pending: bool,
    },
    Done,
}

impl DocSource for Grouping {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        if let Phase::Reading(input) = &mut self.phase {
            self.phase = self.groups.read(input.as_mut(), &self.budget, &mut self.arena, interrupt)?;
        }
        let found = match &mut self.phase {
            Phase::Memory(next) => {
                let found = self.groups.take(*next, &mut self.out)?;
                *next += 1;
                found
            }
            Phase::Merging { records, pending } => {
                interrupt.check()?;
                self.groups.merge(records, pending, &mut self.arena, &mut self.out)?
            }
            Phase::Reading(_) | Phase::Done => false,
        };
        if !found {
            self.phase = Phase::Done;
            self.groups.clear();
            self.out.clear();
        }
        Ok(found)
    }

    fn current(&self) -> Doc<'_> {
        Doc::trusted(&self.out)
    }

    fn suspend(&mut self) {
        if let Phase::Reading(input) = &mut self.phase {
            input.suspend();
        }
    }
}

/// The groups in memory.
struct Groups {
    group: Arc<Group>,
    context: Arc<Context>,
    hasher: DefaultHashBuilder,
    /// Hash and number of every group.
    table: HashTable<(u64, usize)>,
    entries: Vec<Entry>,
    /// As many for every group as the stage has accumulators.
    states: Vec<State>,
    /// The keys and the values of the ids.
    bytes: Vec<u8>,
    /// What the states hold beside themselves.
    state_bytes: usize,
    key: Vec<u8>,
    /// The group of the last document: that of the next one, too, where they come in the order of their ids.
    last: usize,
}

/// One group: where its key lies, and its id behind it.
struct Entry {
    start: usize,
    key_end: usize,
    id_end: usize,
    id_tag: Type,
}

impl Entry {
    fn key<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start..self.key_end]
    }

    fn id<'a>(&self, bytes: &'a [u8]) -> Value<'a> {
        let raw = RawValue { tag: self.id_tag, bytes: &bytes[self.key_end..self.id_end] };
        raw.decode().unwrap_or(Value::Null)
    }
}

impl Groups {
    fn new(group: Arc<Group>, context: Arc<Context>) -> Groups {
        Groups {
            group,
            context,
            hasher: DefaultHashBuilder::default(),
            table: HashTable::new(),
            entries: Vec::new(),
            states: Vec::new(),
            bytes: Vec::new(),
            state_bytes: 0,
            key: Vec::new(),
            last: 0,
        }
    }

    /// Feeds all documents to their groups and tells how the groups come out.
    fn read(
        &mut self,
        input: &mut dyn DocSource,
        budget: &MemoryBudget,
        arena: &mut Bump,
        interrupt: &Interrupt,
    ) -> Result<Phase> {
        let mut saved: Option<ExternalSorter> = None;
        let (group, context) = (self.group.clone(), self.context.clone());
        while input.advance(interrupt)? {
            arena.reset();
            self.add(&group, &EvalEnv::new(arena, input.current(), &context))?;
            if self.memory() > budget.limit {
                let sorter = saved.get_or_insert_with(|| {
                    let smaller = MemoryBudget { limit: budget.limit / 4, ..budget.clone() };
                    ExternalSorter::new(smaller, None, refusal())
                });
                if budget.directory.is_none() {
                    return Err(refusal());
                }
                self.save(sorter)?;
            }
        }
        let Some(mut sorter) = saved else { return Ok(Phase::Memory(0)) };
        self.save(&mut sorter)?;
        Ok(Phase::Merging { records: sorter.finish()?, pending: false })
    }

    /// Feeds the document of `env`.
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

    /// The number of the group with the key `self.key`.
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
        self.entries.push(Entry { start, key_end, id_end: self.bytes.len(), id_tag: id.tag() });
        self.table.insert_unique(hash, (hash, number), |&(hash, _)| hash);
        Ok(number)
    }

    fn memory(&self) -> usize {
        self.bytes.len()
            + self.state_bytes
            + self.entries.len() * (size_of::<Entry>() + 2 * size_of::<(u64, usize)>())
            + self.states.len() * size_of::<State>()
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
        let states = self.states[number * count..].iter_mut().take(count).map(State::take);
        write(&self.group, entry.id(&self.bytes), states, out)?;
        Ok(true)
    }

    /// Moves all groups to `sorter`: under their keys, the id and what every state saved.
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

    /// Writes the next group of `records`; false if there is none.
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

/// The refusal of a `$group` that would need the disk.
fn refusal() -> Error {
    let text =
        "Exceeded memory limit for $group, but didn't allow external sort. Pass allowDiskUse:true to opt in.";
    Error::new(code::QUERY_EXCEEDED_MEMORY_LIMIT, text)
}

/// Adds the states of a new group with that id.
fn start_states(
    group: &Group,
    id: Value<'_>,
    context: &Context,
    arena: &Bump,
    states: &mut Vec<State>,
) -> Result<()> {
    let env = EvalEnv::new(arena, id_document(id), context);
    for (_, accumulator) in &group.fields {
        states.push(accumulator.start(&env)?);
    }
    Ok(())
}

/// Writes a group as a document.
fn write(group: &Group, id: Value<'_>, states: impl Iterator<Item = State>, out: &mut Vec<u8>) -> Result<()> {
    out.clear();
    let mut builder = DocBuilder::with_buffer(std::mem::take(out));
    builder.append("_id", id);
    for ((name, accumulator), state) in group.fields.iter().zip(states) {
        accumulator.append(state, name, &mut builder)?;
    }
    *out = builder.finish_buffer();
    Ok(())
}

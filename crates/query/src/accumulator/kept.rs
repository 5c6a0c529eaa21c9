//! One value kept across documents, in a reusable buffer.

use diwan_value::{Append, Collator, RawValue, Type, Value, compare_with};
use std::cmp::Ordering;

/// A value of any type that owns its bytes.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    tag: Type,
    bytes: Vec<u8>,
}

impl Kept {
    /// Copies a value.
    pub fn new(value: Value<'_>) -> Kept {
        let mut bytes = Vec::new();
        value.write(&mut bytes);
        Kept { tag: value.tag(), bytes }
    }

    /// Replaces the kept value by `value`.
    pub fn keep(kept: &mut Option<Kept>, value: Value<'_>) {
        match kept {
            Some(kept) => {
                kept.tag = value.tag();
                kept.bytes.clear();
                value.write(&mut kept.bytes);
            }
            None => *kept = Some(Kept::new(value)),
        }
    }

    /// Keeps `value` if it compares as `wanted` to the kept value.
    pub fn keep_extreme(
        kept: &mut Option<Kept>,
        value: Value<'_>,
        wanted: Ordering,
        collator: Option<&Collator>,
    ) {
        if kept.as_ref().is_none_or(|kept| compare_with(value, kept.value(), collator) == wanted) {
            Kept::keep(kept, value);
        }
    }

    /// The value.
    pub fn value(&self) -> Value<'_> {
        RawValue { tag: self.tag, bytes: &self.bytes }.decode().unwrap_or(Value::Null)
    }

    /// How many bytes the buffer occupies.
    pub fn memory(&self) -> usize {
        self.bytes.len()
    }
}

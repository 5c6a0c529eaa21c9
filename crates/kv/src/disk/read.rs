//! Reading from fjall, with its errors and panics translated.

use super::keyspaces::Keyspaces;
use crate::{Bytes, Direction, Error, KeyRange, MAX_KEY_LEN, Pairs, Result, Snapshot, Space, Visitor};
use fjall::Readable;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Runs an operation of fjall. It asserts properties of stored data, so a panic means damage.
pub(super) fn guarded<T>(run: impl FnOnce() -> fjall::Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(outcome) => outcome.map_err(translated),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Err(Error::damaged(format!("the storage engine panicked: {text}")))
        }
    }
}

fn translated(error: fjall::Error) -> Error {
    use fjall::{Error as F, LsmError as L};
    match error {
        F::Io(e) | F::Storage(L::Io(e)) => match e.kind() {
            // fjall reads as many bytes as its own structures state; a shorter file is damage. In one that is shorter than
            // its trailer, fjall looks before the beginning, which is an invalid argument.
            std::io::ErrorKind::UnexpectedEof
            | std::io::ErrorKind::InvalidData
            | std::io::ErrorKind::InvalidInput => {
                Error::damaged(format!("a file is shorter than it says, or malformed: {e}"))
            }
            _ => Error::io("the storage engine", e),
        },
        F::Poisoned => Error::Poisoned("a flush or a compaction failed".into()),
        other => Error::damaged(other.to_string()),
    }
}

pub(super) struct DiskSnapshot {
    pub view: fjall::Snapshot,
    pub keyspaces: Arc<Keyspaces>,
}

impl DiskSnapshot {
    /// The pairs of a range; `None` in a space that nothing was ever written to.
    fn range(&self, space: Space, range: &KeyRange) -> Result<Option<fjall::Iter>> {
        let Some(keyspace) = self.keyspaces.get(space).filter(|_| !range.is_empty()) else {
            return Ok(None);
        };
        let range = range.as_slices();
        guarded(|| Ok(Some(self.view.range::<&[u8], _>(keyspace, range))))
    }
}

impl Snapshot for DiskSnapshot {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        if key.is_empty() || key.len() > MAX_KEY_LEN {
            return Ok(None);
        }
        let Some(keyspace) = self.keyspaces.get(space) else { return Ok(None) };
        guarded(|| self.view.get(keyspace, key))
    }

    fn scan(&self, space: Space, range: KeyRange, direction: Direction) -> Pairs {
        match self.range(space, &range) {
            Ok(pairs) => Box::new(Scan { pairs, direction }),
            Err(e) => Box::new(std::iter::once(Err(e))),
        }
    }

    fn visit(&self, space: Space, range: KeyRange, visitor: &mut Visitor<'_>) -> Result<()> {
        let Some(mut pairs) = self.range(space, &range)? else { return Ok(()) };
        while let Some((key, value)) = next(&mut pairs, Direction::Forward).transpose()? {
            if visitor(&key, &value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

fn next(pairs: &mut fjall::Iter, direction: Direction) -> Option<Result<(Bytes, Bytes)>> {
    guarded(|| {
        let guard = match direction {
            Direction::Forward => pairs.next(),
            Direction::Reverse => pairs.next_back(),
        };
        guard.map(fjall::Guard::into_inner).transpose()
    })
    .transpose()
}

/// A scan; an error ends it.
struct Scan {
    pairs: Option<fjall::Iter>,
    direction: Direction,
}

impl Iterator for Scan {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = next(self.pairs.as_mut()?, self.direction);
        if !matches!(item, Some(Ok(_))) {
            self.pairs = None;
        }
        item
    }
}

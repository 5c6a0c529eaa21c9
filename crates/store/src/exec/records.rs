//! The inner loop of collection scans.

use crate::collection::ReadView;
use crate::error::{Error, Result};
use crate::{keys, record};
use diwan_kv::{KeyRange, Space};
use diwan_query::Interrupt;
use diwan_query::filter::Filter;
use std::ops::ControlFlow;

/// After how many documents the interrupt is checked.
const TICKS: u64 = 1024;

/// Passes the records of a range to `show`, in their order, until it breaks: the key, the value, and whether the
/// document matches.
#[inline]
pub(super) fn visit_records(
    view: &ReadView,
    filter: &Filter,
    range: KeyRange,
    interrupt: &Interrupt,
    mut show: impl FnMut(&[u8], &[u8], bool) -> ControlFlow<()>,
) -> Result<()> {
    let mut seen = 0;
    let mut failure: Option<Error> = None;
    view.snapshot().visit(Space::Records, range, &mut |key, value| {
        seen += 1;
        let matched = match record::document(value) {
            None => Err(Error::Damaged(keys::describe(Space::Records, key))),
            Some(doc) => filter.matches(doc).map_err(Error::from),
        };
        let stop = if seen % TICKS == 0 { interrupt.check().map_err(Error::from) } else { Ok(()) };
        match matched.and_then(|matched| stop.map(|()| matched)) {
            Ok(matched) => show(key, value, matched),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    failure.map_or(Ok(()), Err)
}

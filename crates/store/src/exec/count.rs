//! Counts the matches of a filter by a collection scan. All cores take part, each on parts of the key range.

use super::parallel::{PARALLEL_FROM, cores, on_all_cores};
use super::records::visit_records;
use crate::collection::ReadView;
use crate::error::Result;
use crate::keys;
use crate::plan::{Access, Plan};
use diwan_kv::{KeyRange, Space};
use diwan_query::filter::Filter;
use diwan_query::{Examined, Interrupt};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many parts each thread gets on average: so many that no thread waits long for the slowest.
const PARTS_PER_THREAD: usize = 8;

/// Counts the matches of a collection scan; `None` if the plan is none.
pub fn count_matches(view: &ReadView, plan: &Plan, interrupt: &Interrupt) -> Result<Option<u64>> {
    let Access::Collection { ids, .. } = &plan.access else { return Ok(None) };
    let prefix = keys::collection_prefix(view.collection().id);
    let ranges: Vec<KeyRange> = ids.as_slice().iter().map(|one| one.range(&prefix)).collect();
    let (total, read) = (AtomicU64::new(0), AtomicU64::new(0));
    let count = |range: KeyRange| {
        let (matches, documents) = count_range(view, &plan.filter, range, interrupt)?;
        total.fetch_add(matches, Ordering::Relaxed);
        read.fetch_add(documents, Ordering::Relaxed);
        Ok(())
    };
    if cores() == 1 || view.collection().count() < PARALLEL_FROM {
        ranges.into_iter().try_for_each(count)?;
    } else {
        let mut parts = Vec::new();
        for range in ranges {
            parts.extend(view.snapshot().split(Space::Records, range, cores() * PARTS_PER_THREAD)?);
        }
        on_all_cores(parts.into_iter(), count)?;
    }
    plan.access.summaries().iter().for_each(|plan| interrupt.tally().note_plan(plan));
    interrupt.tally().add(Examined { keys: 0, documents: read.into_inner() });
    Ok(Some(total.into_inner()))
}

/// Counts the matches and the documents of one range.
fn count_range(
    view: &ReadView,
    filter: &Filter,
    range: KeyRange,
    interrupt: &Interrupt,
) -> Result<(u64, u64)> {
    let (mut count, mut read) = (0, 0);
    visit_records(view, filter, range, interrupt, |_, _, matches| {
        count += u64::from(matches);
        read += 1;
        ControlFlow::Continue(())
    })?;
    Ok((count, read))
}

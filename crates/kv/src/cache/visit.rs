//! Visits: a visitor sees the pairs of a page or of a gap in place, without copies, in the order of their keys.

use super::fill::{Filler, Fresh, Progress, Source};
use super::interval::Interval;
use super::page::Page;
use super::pages::STALE_MARKS;
use crate::{Bytes, Result, Space, Visitor};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Shows a page's pairs in an interval. The values of marked keys come from the engine. If several keys are marked, a fresh
/// page replaces this one.
pub(super) fn visit_page(
    source: &Source,
    space: Space,
    page: &Arc<Page>,
    interval: &Interval,
    visitor: &mut Visitor<'_>,
) -> Result<ControlFlow<()>> {
    let places = page.places(&interval.from, interval.to.as_deref());
    let marks = page.marks(&interval.from, interval.to.as_deref());
    if marks.is_empty() {
        return Ok(page.visit(places, visitor));
    }
    let value_of = |key: &[u8]| source.inner.get(space, key);
    // A fresh page needs all of the stale one's pairs.
    if marks.len() < STALE_MARKS || !interval.includes(&page.low, page.high.as_ref()) {
        return page.visit_marked(places, &marks, value_of, visitor);
    }
    let Some(mut fresh) = Fresh::new(&source.pages, page) else {
        return page.visit_marked(places, &marks, value_of, visitor);
    };
    let flow = page.visit_marked(places, &marks, value_of, |key, value| {
        fresh.push(key, value);
        visitor(key, value)
    })?;
    if flow.is_continue() {
        let drafts = fresh.finish(page.high.clone());
        source.pages.put(space, drafts, Some(page), source.moment);
    }
    Ok(flow)
}

/// Shows the engine's pairs of an interval up to `end`, where there is no page, and inserts pages of them.
pub(super) fn visit_gap(
    source: &Source,
    space: Space,
    interval: &Interval,
    end: Option<&Bytes>,
    progress: &mut Progress,
    visitor: &mut Visitor<'_>,
) -> Result<ControlFlow<()>> {
    let part = interval.up_to(end);
    let mut filler = Filler::new(source, space, &part, *progress);
    let flow = visit_engine(source, space, &part, &mut |key, value| {
        filler.push(source, key, value);
        visitor(key, value)
    })?;
    if flow.is_continue() {
        *progress = filler.finish(source, part.to, end.cloned());
    }
    Ok(flow)
}

/// Shows the engine's pairs of an interval.
pub(super) fn visit_engine(
    source: &Source,
    space: Space,
    interval: &Interval,
    visitor: &mut Visitor<'_>,
) -> Result<ControlFlow<()>> {
    let mut flow = ControlFlow::Continue(());
    source.inner.visit(space, interval.range(), &mut |key, value| {
        flow = visitor(key, value);
        flow
    })?;
    Ok(flow)
}

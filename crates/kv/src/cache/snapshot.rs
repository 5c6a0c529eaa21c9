//! A snapshot of a cached engine: reads come from the pages, and from the engine where there are none.

use super::fill::{self, Progress, Source};
use super::interval::Interval;
use super::pages::{Found, Moment, Pages, is_cached};
use super::scan::Scan;
use super::visit::{visit_engine, visit_gap, visit_page};
use crate::{Bytes, Direction, KeyRange, Pairs, Result, Snapshot, Space, Visitor};
use std::sync::Arc;

/// A snapshot of a cached engine.
pub(super) struct CachedSnapshot {
    source: Arc<Source>,
}

impl CachedSnapshot {
    /// Adds the pages to an engine's snapshot, which was taken after `moment`.
    pub fn new(inner: Box<dyn Snapshot>, pages: Arc<Pages>, moment: Moment) -> Self {
        Self { source: Arc::new(Source { inner, pages, moment }) }
    }
}

impl Snapshot for CachedSnapshot {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        let source = &*self.source;
        let found = is_cached(space).then(|| source.pages.find(space, key, source.moment));
        if let Some(Found::Page(page)) = &found
            && let Some(known) = page.get(key)
        {
            return Ok(known);
        }
        let value = source.inner.get(space, key)?;
        if let Some(Found::Gap(end)) = found
            && let Some(bytes) = source.pages.missed()
        {
            fill::from(source, space, key, end, bytes);
        }
        Ok(value)
    }

    fn scan(&self, space: Space, range: KeyRange, direction: Direction) -> Pairs {
        if !is_cached(space) {
            return self.source.inner.scan(space, range, direction);
        }
        Box::new(Scan::new(&self.source, space, Interval::of(range), direction))
    }

    fn visit(&self, space: Space, range: KeyRange, visitor: &mut Visitor<'_>) -> Result<()> {
        let source = &*self.source;
        if !is_cached(space) {
            return source.inner.visit(space, range, visitor);
        }
        let mut rest = Interval::of(range);
        let mut progress = Progress::default();
        while !rest.is_empty() {
            let (flow, end) = match source.pages.find(space, &rest.from, source.moment) {
                Found::Page(page) => (visit_page(source, space, &page, &rest, visitor)?, page.high.clone()),
                Found::TooNew(end) => (visit_engine(source, space, &rest.up_to(end.as_ref()), visitor)?, end),
                Found::Gap(end) => {
                    (visit_gap(source, space, &rest, end.as_ref(), &mut progress, visitor)?, end)
                }
            };
            match end {
                Some(end) if flow.is_continue() => rest.from = end,
                _ => break,
            }
        }
        Ok(())
    }
}

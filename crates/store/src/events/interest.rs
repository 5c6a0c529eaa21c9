//! Which events a waiting stream is woken for.
//!
//! Hundreds of streams with filters of their own wait for the events of one collection. Most filters let few events pass. So
//! the filters are applied before the streams are woken, to documents that are made once for all streams of one shape.

use super::event::{Event, EventKind};
use super::position::Token;
use super::shape::Shape;
use diwan_query::expr::Context;
use diwan_query::filter::Filter;
use diwan_query::pipeline::FullDocument;
use diwan_value::DocBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A filter that takes longer for one event is left to the stream: one thread applies those of all streams.
const LONGEST_MATCH: Duration = Duration::from_millis(1);

/// What a stream shows.
pub(super) struct Interest {
    pub shape: Shape,
    /// The `$match` that the pipeline begins with.
    filter: Option<(Arc<Filter>, Arc<Context>)>,
    is_costly: AtomicBool,
}

impl Interest {
    pub fn new(shape: Shape, filter: Option<(Arc<Filter>, Arc<Context>)>) -> Interest {
        Interest { shape, filter, is_costly: AtomicBool::new(false) }
    }

    /// Whether the filter lets an event pass, or may do so. `at` is the event's place among those of `shown`.
    pub fn lets_pass(&self, token: Token, event: &Event, at: usize, shown: &mut ShownEvents) -> bool {
        let Some((filter, context)) = &self.filter else { return true };
        let is_looked_up =
            event.kind() == EventKind::Update && self.shape.full_document == FullDocument::UpdateLookup;
        if is_looked_up || self.is_costly.load(Ordering::Relaxed) {
            return true;
        }
        let Some(document) = shown.document(self.shape, token, event, at) else { return true };
        let begun = Instant::now();
        let passes = filter.matches_in(document.as_doc(), context).unwrap_or(true);
        if begun.elapsed() > LONGEST_MATCH {
            self.is_costly.store(true, Ordering::Relaxed);
        }
        passes
    }
}

/// The documents of some events, each made once for each shape.
#[derive(Default)]
pub(super) struct ShownEvents {
    shapes: Vec<(Shape, Vec<Option<Made>>)>,
}

/// A document, or none if it cannot be made.
type Made = Option<DocBuf>;

impl ShownEvents {
    fn document(&mut self, shape: Shape, token: Token, event: &Event, at: usize) -> Option<&DocBuf> {
        let place = match self.shapes.iter().position(|(known, _)| *known == shape) {
            Some(place) => place,
            None => {
                self.shapes.push((shape, Vec::new()));
                self.shapes.len() - 1
            }
        };
        let made = &mut self.shapes[place].1;
        if made.len() <= at {
            made.resize_with(at + 1, || None);
        }
        made[at].get_or_insert_with(|| shape.document(token, event, || Ok(None)).ok()).as_ref()
    }
}

//! Finding the documents that a write changes.

use super::scope::Ready;
use crate::collection::{Collection, id_key};
use crate::error::Result;
use crate::exec::{Scan, Sorted};
use crate::plan::{Access, BY_ID, Hint, Plan, Planner};
use diwan_query::filter::Filter;
use diwan_query::pipeline::DocSource;
use diwan_query::sort::Sort;
use diwan_query::{Examined, Tally};
use diwan_value::{Doc, Type, Value};
use std::sync::Arc;

/// The documents that match a write's filter, in the view of its beginning. Each is found once, whatever the write
/// changes meanwhile. The write must match each document again under its lock.
pub(super) struct Targets {
    source: Source,
}

enum Source {
    /// One id. Its document is read only under its lock.
    One(Option<Vec<u8>>),
    Found(Box<dyn DocSource>),
}

impl Targets {
    /// Plans the search. `filter` is `asked`, parsed.
    pub fn find(
        collection: &Arc<Collection>,
        asked: Doc<'_>,
        filter: &Arc<Filter>,
        sort: Option<Doc<'_>>,
        hint: &Hint,
        ready: &Ready,
    ) -> Result<Targets> {
        let sort =
            sort.map(Sort::parse).transpose()?.filter(|sort| !sort.is_empty() || sort.natural().is_some());
        if sort.is_none()
            && *hint == Hint::None
            && let Some(id) = only_id(asked, ready.collator().is_some())
        {
            return Ok(Targets { source: Source::One(Some(id)) });
        }
        let view = collection.view();
        let plan = Planner {
            view: &view,
            filter: filter.clone(),
            sort: sort.as_ref(),
            collator: ready.collator(),
            hint: hint.clone(),
            tailable: false,
            needed: None,
        }
        .plan()?;
        if let Plan { access: Access::Ids(ids), .. } = &plan
            && let [id] = ids.as_slice()
        {
            return Ok(Targets { source: Source::One(Some(id.clone())) });
        }
        let scan = Scan::new(view, &plan);
        let source: Box<dyn DocSource> = match sort {
            Some(sort) if !plan.sorted => {
                Box::new(Sorted::new(scan, sort, ready.collator(), ready.budget.clone(), None))
            }
            _ => Box::new(scan),
        };
        Ok(Targets { source: Source::Found(source) })
    }

    /// The next id, as key bytes.
    pub fn next(&mut self, ready: &Ready) -> Result<Option<Vec<u8>>> {
        match &mut self.source {
            Source::One(id) => {
                if id.is_some() {
                    note_look_up(ready.interrupt.tally(), true);
                }
                Ok(id.take())
            }
            Source::Found(source) => {
                if !source.advance(&ready.interrupt)? {
                    return Ok(None);
                }
                id_key(source.current().get("_id").unwrap_or(Value::Null)).map(Some)
            }
        }
    }

    /// The next ids, up to `most`.
    pub fn next_many(&mut self, most: usize, ready: &Ready) -> Result<Vec<Vec<u8>>> {
        let mut ids = Vec::new();
        while ids.len() < most
            && let Some(id) = self.next(ready)?
        {
            ids.push(id);
        }
        Ok(ids)
    }
}

/// Adds a lookup by `_id`, without a scan, to the operation's tally.
pub(super) fn note_look_up(tally: &Tally, found: bool) {
    tally.note_plan(&BY_ID);
    tally.add(Examined { keys: u64::from(found), documents: u64::from(found) });
}

/// The key of the `_id` if a filter is nothing but equality with it, so that no plan is needed. Under a collation, a
/// string is no exact id.
pub(super) fn only_id(filter: Doc<'_>, collated: bool) -> Option<Vec<u8>> {
    let mut fields = filter.iter();
    let (only, rest) = (fields.next()?, fields.next());
    let is_exact = match only.raw.tag {
        Type::ObjectId | Type::Int32 | Type::Int64 | Type::Double | Type::Binary | Type::DateTime => true,
        Type::String => !collated,
        _ => false,
    };
    (only.key == b"_id" && rest.is_none() && is_exact).then(|| id_key(only.value()).ok()).flatten()
}

//! Trials: a temporary view of a few documents, for the person who writes its functions. The answer has what each
//! document emits and where a function fails.

use super::index::{reduce_sources, reduces};
use super::{TemporaryView, document};
use crate::collate::Order;
use crate::design::Design;
use crate::error::{Error, Result};
use crate::json;
use crate::reduce::ReduceRow;
use crate::sandbox::{Fault, Limits, MapDocument, TrialMapper, compilation_fault};
use crate::tree::Layout;
use diwan_kv::{Direction, KeyRange};
use diwan_store::{ReadView, Record};
use diwan_value::Value;
use diwan_value::json::id_to_text;
use std::ops::ControlFlow;

/// The most bytes of rows in an answer.
const MOST_BYTES: usize = 4 << 20;

/// What a map function makes of a few documents.
#[derive(Debug, Default)]
pub struct Trial {
    /// The documents that were mapped.
    pub documents: Vec<TrialDocument>,
    /// The reduction of all rows, as JSON; `None` without a reduce function or rows.
    pub reduced: Option<String>,
    /// Why the map function cannot be used, or was ended.
    pub map_fault: Option<Fault>,
    /// Why the reduce function failed.
    pub reduce_fault: Option<Fault>,
}

/// What a map function makes of one document.
#[derive(Debug)]
pub struct TrialDocument {
    /// The id as text.
    pub id: String,
    /// Keys and values as JSON, in the order of emission.
    pub rows: Vec<(String, String)>,
    /// What the function threw.
    pub fault: Option<Fault>,
}

/// The documents of a trial.
pub enum TrialScope {
    /// These, as the key bytes of their ids. Missing ones are left out.
    Ids(Vec<Vec<u8>>),
    /// The first in the order of ids, without design documents.
    First(usize),
}

/// Maps documents and reduces all their rows.
pub(super) fn run(
    view: &ReadView,
    temporary: &TemporaryView,
    scope: &TrialScope,
    limits: Limits,
) -> Result<Trial> {
    let design = Design::temporary(temporary.view.clone(), &temporary.language, temporary.options);
    super::check_language(&design)?;
    let mut trial = Trial { map_fault: compilation_fault(&temporary.view.map, limits)?, ..Trial::default() };
    if let Some(source) = temporary.view.reduce.as_deref().filter(|source| !source.starts_with('_')) {
        trial.reduce_fault = compilation_fault(source, limits)?;
    }
    if trial.map_fault.is_some() {
        return Ok(trial);
    }
    let mapper = TrialMapper::new(limits, &design)?;
    let mut bytes = 0;
    let mut failure = None;
    let mut take = |id: &[u8], record: Record<'_>| {
        match map_one(view, &mapper, id, &record, temporary.options.local_seq) {
            Ok(document) => {
                bytes += document.rows.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
                trial.documents.push(document);
                if bytes > MOST_BYTES {
                    let message = "The rows are larger than 4 MB: try fewer documents.".to_owned();
                    trial.map_fault = Some(Fault { message, line: None, column: None });
                }
            }
            Err(error @ (Error::Timeout(_) | Error::Exhausted(_))) => {
                trial.map_fault = Some(Fault::of(&error))
            }
            Err(error) => failure = Some(error),
        }
        if trial.map_fault.is_some() || failure.is_some() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    };
    match scope {
        TrialScope::Ids(ids) => {
            for id in ids {
                if let Some(found) = view.get(id)?
                    && take(id, found.record()).is_break()
                {
                    break;
                }
            }
        }
        TrialScope::First(most) => {
            let mut left = *most;
            view.documents(&KeyRange::all(), Direction::Forward, &mut |id, record| {
                if left == 0 {
                    return ControlFlow::Break(());
                }
                if is_design(&record) {
                    return ControlFlow::Continue(());
                }
                left -= 1;
                take(id, record)
            })?;
        }
    }
    if let Some(error) = failure {
        return Err(error);
    }
    if trial.reduce_fault.is_none() {
        match reduce(temporary, &design, limits, &trial.documents) {
            Ok(reduced) => trial.reduced = reduced,
            Err(error) => trial.reduce_fault = Some(Fault::of(&error)),
        }
    }
    Ok(trial)
}

fn is_design(record: &Record<'_>) -> bool {
    matches!(record.doc.get("_id"), Some(Value::String(id)) if id.starts_with("_design/"))
}

fn map_one(
    view: &ReadView,
    mapper: &TrialMapper,
    id: &[u8],
    record: &Record<'_>,
    local_seq: bool,
) -> Result<TrialDocument> {
    let mut text = String::new();
    id_to_text(record.doc.get("_id").unwrap_or(Value::Null), &mut text);
    let revision = record.revision().to_string();
    let more = document::more_members(view, id, record, local_seq)?;
    let mapped =
        mapper.map(MapDocument { id: &text, revision: Some(&revision), more: &more, doc: record.doc })?;
    let (rows, fault) = match mapped {
        Ok(rows) => (rows, None),
        Err(fault) => (Vec::new(), Some(fault)),
    };
    Ok(TrialDocument { id: text, rows, fault })
}

fn reduce(
    temporary: &TemporaryView,
    design: &Design,
    limits: Limits,
    documents: &[TrialDocument],
) -> Result<Option<String>> {
    let Some(reduce) = reduces(&reduce_sources(design), limits)?.pop().flatten() else { return Ok(None) };
    let order = if temporary.view.raw_collation { Order::Raw } else { Order::Unicode };
    let layout = Layout { order, partitioned: false };
    let mut rows = Vec::new();
    for document in documents {
        for (ordinal, (key, value)) in document.rows.iter().enumerate() {
            // As in an index, rows whose keys are nested too deep are left out.
            if key.starts_with(['[', '{']) && !json::check(key) {
                continue;
            }
            let mut place = Vec::new();
            layout.write(&mut place, key, &document.id, ordinal);
            rows.push((place, key, &document.id, value));
        }
    }
    if rows.is_empty() {
        return Ok(None);
    }
    rows.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    let reduction = reduce.try_rows(&mut rows.iter().map(|(place, key, id, value)| ReduceRow {
        place,
        key,
        id,
        value,
    }))?;
    reduce.finish(&reduction).map(Some)
}

//! `delete`: one document or all that match.

use super::by_name::interrupted_by_drop;
use super::scope::Scope;
use super::target::Targets;
use crate::collection::{Collection, Edit, WriteOptions};
use crate::error::Result;
use crate::plan::Hint;
use crate::retry::RetryRecord;
use diwan_kv::CommitId;
use diwan_value::{Doc, doc};
use std::sync::Arc;

/// How many documents are deleted in one batch: few, since other writers wait for the batch.
const BATCH: usize = 16;

/// A delete statement.
#[derive(Clone, Default)]
pub struct Delete<'a> {
    /// The filter.
    pub filter: Doc<'a>,
    /// Whether all matches are deleted, or only the first.
    pub multi: bool,
    /// The access to use.
    pub hint: Hint,
    /// Collation, variables, interrupt.
    pub scope: Scope<'a>,
    /// The retry record of a retryable delete. Its result is `{n: 1}`.
    pub retry: Option<RetryRecord<'a>>,
}

impl Delete<'_> {
    /// Refuses a statement that cannot be parsed. This is all that a delete does if the collection does not exist.
    pub fn check(&self) -> Result<()> {
        self.scope.ready(None)?.filter(self.filter).map(drop)
    }
}

/// The result of a delete.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deleted {
    /// How many documents were deleted.
    pub count: u64,
    /// The last commit.
    pub commit: Option<CommitId>,
}

impl Collection {
    /// Runs a delete statement.
    pub fn delete(self: &Arc<Self>, request: &Delete<'_>) -> Result<Deleted> {
        let ready = request.scope.ready(self.schema().options.collator.as_ref())?;
        let filter = ready.filter(request.filter)?;
        let mut targets = Targets::find(self, request.filter, &filter, None, &request.hint, &ready)?;
        let mut deleted = Deleted::default();
        let result = doc! { "n": 1i64 };
        let retry = request.retry.map(|retry| RetryRecord { result: Some(result.as_doc()), ..retry });
        let (retry, designs) = (retry.filter(|_| !request.multi), ready.designs.as_ref());
        let options = WriteOptions { retry, designs, ..WriteOptions::default() };
        loop {
            let ids = targets.next_many(if request.multi { BATCH } else { 1 }, &ready);
            let ids = ids.map_err(|error| interrupted_by_drop(error, deleted.count))?;
            if ids.is_empty() {
                return Ok(deleted);
            }
            let written = self.shared.waiters.admit(Some(&ready.interrupt), || {
                self.edit(&ids, options, |_, record| {
                    Ok(match record {
                        Some(record) if filter.matches(record.doc)? => Edit::Delete,
                        _ => Edit::Keep,
                    })
                })
            });
            let written = written.map_err(|error| interrupted_by_drop(error, deleted.count))?;
            deleted.count += written.deleted as u64;
            deleted.commit = written.commit.or(deleted.commit);
            if !request.multi && deleted.count > 0 {
                return Ok(deleted);
            }
        }
    }
}

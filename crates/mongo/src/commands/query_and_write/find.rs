//! `find`: queries a collection or view.

use crate::commands::shared::cursor_reply::{executor_error, first_batch};
use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::request::Request;
use crate::server::cursors::{Cursor, FIRST_BATCH, News, Tail};
use diwan_store::events::is_oplog;
use diwan_store::ops::{Find, Scope};
use diwan_value::{Doc, DocBuilder};

/// The arguments of `find`.
pub(crate) struct FindArguments<'a> {
    pub find: Find<'a>,
    batch_size: u64,
    single_batch: bool,
    no_timeout: bool,
    await_data: bool,
}

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let request = context.request;
    let namespace = request.namespace()?;
    let arguments = parse(request, context.scope_with_disk())?;
    let store = context.store;
    if arguments.find.tailable && context.source.transaction().is_some() {
        let text = "Operation not permitted in transaction :: caused by :: tailable cursors";
        return Err(CommandError::new(code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, text));
    }
    let (source, state) = match is_oplog(&namespace) {
        true => {
            let opened = store.open_oplog(&arguments.find)?;
            (opened.source, Some(opened.state))
        }
        false => (store.find(&namespace, &arguments.find)?, None),
    };
    let mut cursor = Cursor::new(source, &namespace.database, &namespace.collection);
    cursor.no_timeout = arguments.no_timeout;
    if let Some(state) = state.filter(|_| arguments.find.tailable) {
        cursor.tail = Some(Tail { await_data: arguments.await_data, news: News::Oplog(state) });
    } else if arguments.find.tailable
        && let Some(collection) = store.collection(&namespace)?
    {
        cursor.tail = Some(Tail { await_data: arguments.await_data, news: News::Collection(collection) });
    }
    // A tailable cursor stays open at its limit.
    cursor.left = arguments.find.limit.filter(|_| cursor.tail.is_none());
    first_batch(context, cursor, arguments.batch_size, arguments.single_batch, reply).map_err(|error| {
        let own = format_args!("Executor error during find command: {namespace}");
        executor_error(context, &namespace, own, error)
    })
}

/// Parses the arguments, of the command itself or of an explained one.
pub(crate) fn parse<'a>(request: &Request<'a>, scope: Scope<'a>) -> Result<FindArguments<'a>> {
    let mut find = Find { scope, ..Find::default() };
    let (mut batch_size, mut single_batch, mut no_timeout, mut await_data) =
        (FIRST_BATCH, false, false, false);
    let mut disk_use = true;
    request.read(|field| {
        match field.key {
            "filter" => find.filter = field.document()?,
            "sort" => find.sort = Some(field.document()?),
            "projection" => find.projection = Some(field.document()?),
            "hint" => find.hint = field.hint()?,
            "skip" => find.skip = field.natural()?,
            "limit" => find.limit = Some(field.natural()?).filter(|limit| *limit > 0),
            "batchSize" => batch_size = field.natural()?,
            "singleBatch" => single_batch = field.optional_boolean()?,
            "tailable" => find.tailable = field.optional_boolean()?,
            "awaitData" => await_data = field.optional_boolean()?,
            "noCursorTimeout" => no_timeout = field.optional_boolean()?,
            "allowDiskUse" => disk_use = field.optional_boolean()?,
            "collation" => find.scope.collation = field.collation()?,
            "let" => find.scope.variables = Some(field.document()?),
            "allowPartialResults" | "oplogReplay" | "includeQueryStatsMetrics" => {
                field.optional_boolean()?;
            }
            "returnKey" => find.return_key = field.optional_boolean()?,
            "min" => find.limits.min = Some(field.document()?).filter(|doc| !doc.is_empty()),
            "max" => find.limits.max = Some(field.document()?).filter(|doc| !doc.is_empty()),
            "showRecordId" | "$_requestResumeToken" if !field.optional_boolean()? => {}
            "showRecordId" | "$_requestResumeToken" | "$_resumeAfter" => {
                return Err(CommandError::not_implemented(format_args!("find.{}", field.key)));
            }
            "collectionUUID" => {}
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    if !disk_use {
        find.scope.temporary = None;
    }
    if let (Some(min), Some(max)) = (find.limits.min, find.limits.max)
        && !min.iter().map(|element| element.key).eq(max.iter().map(|element| element.key))
    {
        return Err(CommandError::new(51176, "min and max must have the same field names"));
    }
    if await_data && !find.tailable {
        let text = "Cannot set 'awaitData' without also setting 'tailable'";
        return Err(CommandError::new(code::FAILED_TO_PARSE, text));
    }
    if find.tailable {
        if single_batch {
            let text = "Cannot use tailable option with the 'singleBatch' option";
            return Err(CommandError::bad_value(text));
        }
        let is_natural = |sort: Doc<'_>| {
            sort.get("$natural").is_some_and(|value| crate::request::fields::int64(value) == Some(1))
        };
        if find.sort.is_some_and(|sort| !sort.is_empty() && !is_natural(sort)) {
            let text = "Cannot use tailable option with a sort other than {$natural: 1}";
            return Err(CommandError::bad_value(text));
        }
    }
    Ok(FindArguments { find, batch_size, single_batch, no_timeout, await_data })
}

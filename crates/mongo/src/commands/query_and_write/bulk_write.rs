//! `bulkWrite`: inserts, updates and deletes in several collections with one command.

use crate::commands::query_and_write::{delete, insert, update};
use crate::commands::shared::cursor_reply::{batch_size, first_batch};
use crate::commands::shared::write::{Retry, check_size, check_writable, is_fatal};
use crate::dispatch::{Context, check_namespace};
use crate::error::{CommandError, Result, code};
use crate::monitoring::metrics::OperationKind;
use crate::request::arguments::uuid;
use crate::request::fields::{self, Field, missing};
use crate::server::cursors::{Cursor, FIRST_BATCH};
use diwan_query::pipeline::DocList;
use diwan_store::ops::{Delete, Scope, Update};
use diwan_store::{Namespace, WriteOptions};
use diwan_value::{Doc, DocBuf, DocBuilder, Value, doc};

/// One operation, with the position of its namespace in `nsInfo`.
enum Operation<'a> {
    Insert(usize, Doc<'a>),
    Update(usize, Box<Update<'a>>),
    Delete(usize, Box<Delete<'a>>),
}

/// The totals of the command.
#[derive(Default)]
struct Totals {
    errors: i32,
    inserted: i32,
    matched: i32,
    modified: i32,
    upserted: i32,
    deleted: i32,
}

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let (mut operations, mut namespaces) = (None, None);
    let (mut ordered, mut errors_only, mut bypass_validation) = (true, false, false);
    let (mut size, mut variables, mut first) = (FIRST_BATCH, None, None);
    context.request.read(|field| {
        match field.key {
            "ops" => operations = Some(field.documents()?),
            "nsInfo" => namespaces = Some(field.documents()?),
            "ordered" => ordered = field.flag()?,
            "errorsOnly" => errors_only = field.flag()?,
            "bypassDocumentValidation" => bypass_validation = field.flag()?,
            "cursor" => size = batch_size(field)?,
            "let" => variables = Some(field.document()?),
            "stmtId" => first = Some(field.integer()?),
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let scope = Scope { variables, ..context.scope() };
    // Everything is parsed before the first write, so that a malformed operation changes nothing.
    let namespaces = namespaces
        .ok_or_else(|| missing("bulkWrite", "nsInfo"))?
        .map(|info| {
            let info = info.map_err(|value| Field::new("bulkWrite", "nsInfo", value).wrong("object"))?;
            let (namespace, uuid) = parse_namespace(info)?;
            if context.source.transaction().is_some() {
                check_namespace(&namespace.database, &namespace.collection)?;
            }
            check_writable(&namespace)?;
            uuid.map_or(Ok(()), |uuid| context.expect_uuid(&namespace, uuid))?;
            Ok(namespace)
        })
        .collect::<Result<Vec<_>>>()?;
    let operations = operations
        .ok_or_else(|| missing("bulkWrite", "ops"))?
        .map(|operation| {
            let operation =
                operation.map_err(|value| Field::new("bulkWrite", "ops", value).wrong("object"))?;
            parse_operation(operation, namespaces.len(), bypass_validation, &scope)
        })
        .collect::<Result<Vec<_>>>()?;
    check_size(operations.len())?;
    let retry = Retry::begin(context, first)?;
    let mut totals = Totals::default();
    let mut results = Vec::new();
    let mut at = 0;
    while at < operations.len() {
        // Neighbouring inserts into one collection go to the store together.
        let run = insert_run(&operations[at..]);
        let outcome = match &operations[at] {
            Operation::Insert(place, _) => insert_all(
                context,
                &namespaces[*place],
                &operations,
                at..at + run,
                ordered,
                bypass_validation,
                &retry,
            )?,
            Operation::Update(place, update) => {
                context.server.metrics.count(OperationKind::Update, 1);
                update::run_statement(context, &namespaces[*place], update, at, &retry)
                    .map(|outcome| {
                        totals.modified += outcome.modified as i32;
                        let mut shown = result(at, outcome.matched).into_builder();
                        shown.append("nModified", outcome.modified as i32);
                        match &outcome.upserted {
                            Some(id) => {
                                totals.upserted += 1;
                                shown.append("upserted", doc! { "_id": id });
                            }
                            None => totals.matched += outcome.matched as i32,
                        }
                        vec![Ok(shown.finish())]
                    })
                    .unwrap_or_else(|error| vec![Err((at, error))])
            }
            Operation::Delete(place, delete) => {
                context.server.metrics.count(OperationKind::Delete, 1);
                delete::run_statement(context, &namespaces[*place], delete, at, &retry)
                    .map(|count| {
                        totals.deleted += count as i32;
                        vec![Ok(result(at, count))]
                    })
                    .unwrap_or_else(|error| vec![Err((at, error))])
            }
        };
        let is_insert = matches!(operations[at], Operation::Insert(..));
        at += run;
        let mut failed = false;
        for outcome in outcome {
            match outcome {
                Ok(shown) => {
                    totals.inserted += i32::from(is_insert);
                    if !errors_only {
                        results.push(shown);
                    }
                }
                Err((_, error)) if is_fatal(&error) => return Err(error),
                Err((index, error)) => {
                    failed = true;
                    context.has_write_errors = true;
                    totals.errors += 1;
                    results.push(failure(index, &error));
                }
            }
        }
        if failed && ordered {
            break;
        }
    }
    // The results may be larger than one reply, so they come as a cursor.
    let cursor = Cursor::new(Box::new(DocList::new(results)), "admin", "$cmd.bulkWrite");
    first_batch(context, cursor, size, false, reply)?;
    reply.append("nErrors", totals.errors).append("nInserted", totals.inserted);
    reply.append("nMatched", totals.matched).append("nModified", totals.modified);
    reply.append("nUpserted", totals.upserted).append("nDeleted", totals.deleted);
    Ok(())
}

/// The result document of an operation, or its position and error.
type Outcome = std::result::Result<DocBuf, (usize, CommandError)>;

/// The result document of an operation that succeeded.
fn result(at: usize, count: u64) -> DocBuf {
    doc! { "ok": 1.0, "idx": at as i32, "n": i32::try_from(count).unwrap_or(i32::MAX) }
}

/// The result document of an operation that failed.
fn failure(at: usize, error: &CommandError) -> DocBuf {
    let mut out = doc! { "ok": 0.0, "idx": at as i32 }.into_builder();
    out.append("code", error.code).append("errmsg", error.message.as_str());
    if let Some(details) = &error.details {
        out.append_all(details.as_doc());
    }
    out.append("n", 0).append("nModified", 0);
    out.finish()
}

/// The number of operations at the front that are inserts into the same collection. 1 if the first is no insert.
fn insert_run(operations: &[Operation<'_>]) -> usize {
    let Some(Operation::Insert(first, _)) = operations.first() else { return 1 };
    operations
        .iter()
        .take_while(|other| matches!(other, Operation::Insert(place, _) if place == first))
        .count()
}

/// Runs neighbouring inserts into one collection.
fn insert_all(
    context: &mut Context<'_>,
    namespace: &Namespace,
    operations: &[Operation<'_>],
    run: std::ops::Range<usize>,
    ordered: bool,
    bypass_validation: bool,
    retry: &Retry<'_>,
) -> Result<Vec<Outcome>> {
    let docs: Vec<Doc<'_>> = operations[run.clone()]
        .iter()
        .filter_map(|operation| match operation {
            Operation::Insert(_, doc) => Some(*doc),
            _ => None,
        })
        .collect();
    context.server.metrics.count(OperationKind::Insert, docs.len() as u64);
    let begun = context.begin_statement();
    let mut errors = Vec::new();
    let server = context.server;
    let tick = || server.store.clock().tick();
    let guard = context.design_guard();
    let designs = guard.as_ref();
    let interrupt = context.interrupt.clone();
    let options = WriteOptions {
        bypass_validation,
        designs,
        timestamps: Some(&tick),
        interrupt: Some(&interrupt),
        ..WriteOptions::default()
    };
    let inserted =
        insert::insert_documents(context, namespace, &docs, run.start, ordered, options, retry, &mut errors)?;
    let fields =
        [("insert", Some(Value::String(&namespace.collection))), ("ordered", Some(Value::Boolean(ordered)))];
    context.end_statement(begun, "insert", namespace, &fields, Ok([("ninserted", inserted as u64)]));
    // Errors are sorted by position. An ordered run has no results after its error.
    let mut errors = errors.into_iter().peekable();
    let mut outcomes = Vec::with_capacity(docs.len());
    for (index, at) in run.enumerate() {
        match errors.next_if(|(failed, _)| *failed == index) {
            Some((_, error)) => {
                outcomes.push(Err((at, error)));
                if ordered {
                    break;
                }
            }
            None => outcomes.push(Ok(result(at, 1))),
        }
    }
    Ok(outcomes)
}

/// Parses an element of `nsInfo`: a collection, and the UUID that the client expects it to have.
fn parse_namespace(info: Doc<'_>) -> Result<(Namespace, Option<[u8; 16]>)> {
    let (mut namespace, mut expected) = (None, None);
    Field::read_document("bulkWrite.nsInfo", info, |field| {
        match field.key {
            "ns" => namespace = Some(Namespace::parse(field.string()?)?),
            "collectionUUID" => expected = Some(uuid(field)?),
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let namespace = namespace.ok_or_else(|| missing("bulkWrite.nsInfo", "ns"))?;
    Ok((namespace, expected))
}

/// Parses one operation. The name of its first field is its kind, the value the position of its namespace.
fn parse_operation<'a>(
    operation: Doc<'a>,
    namespaces: usize,
    bypass_validation: bool,
    scope: &Scope<'a>,
) -> Result<Operation<'a>> {
    let mut fields =
        operation.iter().map(|element| Field::new("bulkWrite.ops", element.key_str(), element.value()));
    let first = fields.next().ok_or_else(|| {
        CommandError::bad_value(
            "BSON field 'bulkWrite.ops' must contain one of 'insert', 'update' or 'delete'",
        )
    })?;
    let place =
        usize::try_from(first.integer()?).ok().filter(|place| *place < namespaces).ok_or_else(|| {
            CommandError::bad_value(format!("BulkWrite ops entry {} has an invalid nsInfo index.", first.key))
        })?;
    match first.key {
        "insert" => {
            let mut document = None;
            fields::read(fields, |field| {
                match field.key {
                    "document" => document = Some(field.document()?),
                    _ => return Err(field.unknown()),
                }
                Ok(())
            })?;
            let document = document.ok_or_else(|| missing("bulkWrite.ops", "document"))?;
            Ok(Operation::Insert(place, document))
        }
        "update" => {
            let mut update = Update { scope: scope.clone(), bypass_validation, ..Update::default() };
            let mut filter = None;
            fields::read(fields, |field| {
                match field.key {
                    "filter" => filter = Some(field.document()?),
                    "updateMods" => update.update = Some(update::update_argument(field)?),
                    "multi" => update.multi = field.boolean()?,
                    "upsert" => update.upsert = field.boolean()?,
                    "arrayFilters" => update.array_filters = Some(field.array()?),
                    "sort" => update.sort = Some(field.document()?),
                    "hint" => update.hint = field.hint()?,
                    "collation" => update.scope.collation = field.collation()?,
                    "constants" => return Err(CommandError::not_implemented("bulkWrite.ops.constants")),
                    _ => return Err(field.unknown()),
                }
                Ok(())
            })?;
            update.filter = filter.ok_or_else(|| missing("bulkWrite.ops", "filter"))?;
            if update.update.is_none() {
                return Err(missing("bulkWrite.ops", "updateMods"));
            }
            update::check_multi(&update)?;
            Ok(Operation::Update(place, Box::new(update)))
        }
        "delete" => {
            let mut delete = Delete { scope: scope.clone(), ..Delete::default() };
            let mut filter = None;
            fields::read(fields, |field| {
                match field.key {
                    "filter" => filter = Some(field.document()?),
                    "multi" => delete.multi = field.boolean()?,
                    "hint" => delete.hint = field.hint()?,
                    "collation" => delete.scope.collation = field.collation()?,
                    _ => return Err(field.unknown()),
                }
                Ok(())
            })?;
            delete.filter = filter.ok_or_else(|| missing("bulkWrite.ops", "filter"))?;
            Ok(Operation::Delete(place, Box::new(delete)))
        }
        other => Err(CommandError::new(
            code::BAD_VALUE,
            format!("Unrecognized bulkWrite op: {other}; expected 'insert', 'update' or 'delete'"),
        )),
    }
}

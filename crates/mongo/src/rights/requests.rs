//! The needs of commands that depend on their arguments.

use super::{Check, check_unprotected, pipeline};
use crate::commands;
use crate::error::{Result, code};
use crate::request::arguments::GenericArguments;
use crate::request::fields::int64;
use crate::request::{Request, check_unique};
use diwan_access::{Action, REPLICATIONS, Resource};
use diwan_store::{Entry, Namespace};
use diwan_value::{Array, Doc, Value};

/// `aggregate`: what its pipeline needs.
pub(crate) fn aggregate(check: &Check<'_>) -> Result<()> {
    let request = check.request;
    let stages = request.body.get_array("pipeline").unwrap_or(Array::EMPTY);
    let bypass = is_set(request.body, "bypassDocumentValidation");
    match request.target() {
        Value::String(_) => {
            let namespace = request.namespace()?;
            pipeline::check(check, stages, Some(&namespace), bypass)
        }
        _ => pipeline::check(check, stages, None, bypass),
    }
}

/// `insert`.
pub(crate) fn insert(check: &Check<'_>) -> Result<()> {
    let namespace = check.request.namespace()?;
    check.require(Action::Insert, Resource::collection(&namespace))?;
    bypass(check, &namespace)
}

/// `update`: an upsert also inserts.
pub(crate) fn update(check: &Check<'_>) -> Result<()> {
    let namespace = check.request.namespace()?;
    check.require(Action::Update, Resource::collection(&namespace))?;
    if statements(check.request, "updates").any(|statement| is_set(statement, "upsert")) {
        check.require(Action::Insert, Resource::collection(&namespace))?;
    }
    bypass(check, &namespace)
}

/// `findAndModify`.
pub(crate) fn find_and_modify(check: &Check<'_>) -> Result<()> {
    let (namespace, body) = (check.request.namespace()?, check.request.body);
    let write = if is_set(body, "remove") { Action::Remove } else { Action::Update };
    check.require_all(&[Action::Find, write], &namespace)?;
    if is_set(body, "upsert") {
        check.require(Action::Insert, Resource::collection(&namespace))?;
    }
    bypass(check, &namespace)
}

/// `bulkWrite`: what each operation needs on its collection.
pub(crate) fn bulk_write(check: &Check<'_>) -> Result<()> {
    let namespaces: Vec<Namespace> = statements(check.request, "nsInfo")
        .map(|info| {
            check_unique("bulkWrite.nsInfo", info)?;
            Ok(Namespace::parse(info.get_str("ns").unwrap_or_default())?)
        })
        .collect::<Result<_>>()?;
    // A collection without an operation needs a right all the same: its name must not tell whether it exists.
    let mut needed = vec![Vec::new(); namespaces.len()];
    for operation in statements(check.request, "ops") {
        let Some(kind) = operation.iter().next() else { continue };
        // The command refuses a position that is not one of the list.
        let at = int64(kind.value()).and_then(|at| usize::try_from(at).ok());
        let Some(needed) = at.and_then(|at| needed.get_mut(at)) else { continue };
        let mut add = |action| {
            if !needed.contains(&action) {
                needed.push(action);
            }
        };
        match kind.key_str() {
            "insert" => add(Action::Insert),
            "delete" => add(Action::Remove),
            _ => {
                add(Action::Update);
                if is_set(operation, "upsert") {
                    add(Action::Insert);
                }
            }
        }
    }
    for (namespace, mut actions) in namespaces.iter().zip(needed) {
        if actions.is_empty() {
            actions.push(Action::Find);
        }
        check.require_all(&actions, namespace)?;
        bypass(check, namespace)?;
    }
    Ok(())
}

/// `explain`: what the explained command needs.
pub(crate) fn explain(check: &Check<'_>) -> Result<()> {
    let Some(inner) = check.request.target().as_doc() else { return Ok(()) };
    let Some(name) = inner.iter().next().map(|element| element.key_str()) else { return Ok(()) };
    let Some(command) = commands::by_name(name).filter(|command| command.name != "explain") else {
        return Ok(());
    };
    check_unique(name, inner)?;
    let arguments =
        GenericArguments { database: check.request.arguments.database, ..GenericArguments::default() };
    // The statements of an explained command may come as sequences of the message.
    let request = Request { name, body: inner, sequences: check.request.sequences, arguments };
    let inner = Check { request: &request, ..*check };
    inner.run(&command.needs).map_err(|error| match error.code {
        code::UNAUTHORIZED => check.not_authorized(),
        _ => error,
    })
}

/// `create`: a view also needs what its pipeline reads.
pub(crate) fn create(check: &Check<'_>) -> Result<()> {
    let (namespace, body) = (check.request.namespace()?, check.request.body);
    check.require(Action::CreateCollection, Resource::collection(&namespace))?;
    let Some(source) = body.get_str("viewOn") else { return Ok(()) };
    view(check, source, body.get_array("pipeline").unwrap_or(Array::EMPTY))
}

/// `collMod`: a view also needs what its pipeline reads afterwards. What the command does not name stays.
pub(crate) fn coll_mod(check: &Check<'_>) -> Result<()> {
    let (namespace, body) = (check.request.namespace()?, check.request.body);
    check.require(Action::CollMod, Resource::collection(&namespace))?;
    if !body.contains_key("viewOn") && !body.contains_key("pipeline") {
        return Ok(());
    }
    let stored = match check.server.store.entry(&namespace) {
        Some(Entry::View(view)) => Some(view.options.to_doc().to_owned()),
        _ => None,
    };
    let stored = stored.as_ref().map_or(Doc::EMPTY, |options| options.as_doc());
    let Some(source) = body.get_str("viewOn").or(stored.get_str("viewOn")) else { return Ok(()) };
    let stages = body.get_array("pipeline").or(stored.get_array("pipeline")).unwrap_or(Array::EMPTY);
    view(check, source, stages)
}

fn view(check: &Check<'_>, source: &str, stages: Array<'_>) -> Result<()> {
    let source = Namespace::new(check.request.arguments.database, source)?;
    pipeline::check(check, stages, Some(&source), false)
}

/// `renameCollection`: within a database one right; into another one, to read and drop here and to write there.
pub(crate) fn rename_collection(check: &Check<'_>) -> Result<()> {
    let body = check.request.body;
    let from = Namespace::parse(check.request.target().as_str().unwrap_or_default())?;
    let to = Namespace::parse(body.get_str("to").unwrap_or_default())?;
    check_unprotected(&from.database, &from.collection)?;
    check_unprotected(&to.database, &to.collection)?;
    // A replication works with the rights of the user whom its document names.
    if [&from, &to].iter().any(|name| name.collection == REPLICATIONS) && !check.caller.is_server_admin() {
        return Err(check.not_authorized());
    }
    let (source, target) = (Resource::collection(&from), Resource::collection(&to));
    let drops = is_set(body, "dropTarget");
    // A rename must not open a collection that the caller cannot read.
    let stays_closed = check.has(Action::Find, source) || !check.has(Action::Find, target);
    if from.database == to.database
        && check.has(Action::RenameCollectionSameDb, source)
        && check.has(Action::RenameCollectionSameDb, target)
        && (!drops || check.has(Action::DropCollection, target))
        && stays_closed
    {
        return Ok(());
    }
    check.require_all(&[Action::Find, Action::DropCollection], &from)?;
    check.require_all(&[Action::Insert, Action::CreateIndex], &to)?;
    if drops { check.require(Action::DropCollection, target) } else { Ok(()) }
}

/// `cloneCollectionAsCapped`: to read one collection and to make the other.
pub(crate) fn clone_as_capped(check: &Check<'_>) -> Result<()> {
    let (namespace, body) = (check.request.namespace()?, check.request.body);
    check.require(Action::Find, Resource::collection(&namespace))?;
    let Some(target) = body.get_str("toCollection") else { return Ok(()) };
    let target = Namespace::new(check.request.arguments.database, target)?;
    check.require_all(&[Action::Insert, Action::CreateIndex, Action::ConvertToCapped], &target)
}

/// `dataSize`: its argument is the full name of the collection.
pub(crate) fn data_size(check: &Check<'_>) -> Result<()> {
    let namespace = Namespace::parse(check.request.target().as_str().unwrap_or_default())?;
    check.require(Action::Find, Resource::collection(&namespace))
}

/// `listCollections`: all of them, or with `authorizedCollections` and `nameOnly` those that the caller has a right on.
pub(crate) fn list_collections(check: &Check<'_>) -> Result<()> {
    let body = check.request.body;
    if is_set(body, "authorizedCollections") && is_set(body, "nameOnly") {
        return Ok(());
    }
    check.require(Action::ListCollections, Resource::Database(check.request.arguments.database))
}

/// `profile`: reading the level needs less than setting it.
pub(crate) fn profile(check: &Check<'_>) -> Result<()> {
    let database = check.request.arguments.database;
    let reads = int64(check.request.target()) == Some(-1)
        && check.request.fields().next().is_none()
        && check.has(Action::Find, Resource::Collection(database, "system.profile"));
    if reads { Ok(()) } else { check.require(Action::EnableProfiler, Resource::Database(database)) }
}

/// `filemd5`: reads the chunks of a file.
pub(crate) fn file_md5(check: &Check<'_>) -> Result<()> {
    let root = check.request.body.get_str("root").unwrap_or("fs");
    let chunks = Namespace::new(check.request.arguments.database, &format!("{root}.chunks"))?;
    check.require(Action::Find, Resource::collection(&chunks))
}

/// `currentOp`: operations of others need a right, one's own do not.
pub(crate) fn current_op(check: &Check<'_>) -> Result<()> {
    if is_set(check.request.body, "$ownOps") {
        return Ok(());
    }
    check.require(Action::Inprog, Resource::Cluster)
}

/// Whether the caller may skip the validator, if the command asks for it.
fn bypass(check: &Check<'_>, namespace: &Namespace) -> Result<()> {
    if !is_set(check.request.body, "bypassDocumentValidation") {
        return Ok(());
    }
    check.require(Action::BypassDocumentValidation, Resource::collection(namespace))
}

/// The documents of an argument, which stands in the body or in a sequence of the message.
fn statements<'a>(request: &'a Request<'_>, name: &'a str) -> impl Iterator<Item = Doc<'a>> {
    let in_body = request.body.get_array(name).into_iter().flat_map(Array::iter).filter_map(Value::as_doc);
    let in_sequences = request
        .sequences
        .iter()
        .filter(move |sequence| sequence.name == name)
        .flat_map(|sequence| sequence.documents())
        .filter_map(std::result::Result::ok);
    in_body.chain(in_sequences)
}

/// Whether a field is true. If it stands in a statement twice, one of them is enough.
pub(super) fn is_set(doc: Doc<'_>, key: &str) -> bool {
    doc.iter().any(|element| element.key == key.as_bytes() && element.value().is_truthy())
}

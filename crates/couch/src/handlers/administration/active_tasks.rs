//! `GET /_active_tasks`: replications and index builds in progress.

use crate::NODE;
use crate::error::Result;
use crate::http::{Request, Response};
use crate::names;
use diwan_script::Task;
use serde_json::{Value, json};

/// Lists the tasks, the latest first.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    let mut tasks = request.couch.replicator()?.tasks();
    tasks.extend(request.couch.views().tasks().iter().map(indexer));
    tasks.extend(request.couch.followed_designs.tasks().iter().map(indexer));
    tasks.sort_by_key(|task| std::cmp::Reverse(task.get("started_on").and_then(Value::as_i64)));
    Ok(Response::json(200, &Value::Array(tasks)))
}

/// Formats the build of a view index or a Mango index.
fn indexer(task: &Task) -> Value {
    json!({
        "type": "indexer",
        "node": NODE,
        "pid": "<0.0.0>",
        "database": names::database(&task.namespace),
        "design_document": task.design_document,
        "changes_done": task.changes_done,
        "total_changes": task.total_changes,
        "progress": task.progress(),
        "started_on": task.started_on,
        "updated_on": task.updated_on
    })
}

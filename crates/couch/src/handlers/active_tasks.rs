//! `GET /_active_tasks`: what the server does beside answering requests.

use crate::error::Result;
use crate::http::{Request, Response};
use serde_json::Value;

/// All tasks, those that began last first.
pub fn get(request: &mut Request) -> Result<Response> {
    let mut tasks = request.couch.replicator()?.tasks();
    tasks.sort_by_key(|task| std::cmp::Reverse(task.get("started_on").and_then(Value::as_i64)));
    Ok(Response::json(200, &Value::Array(tasks)))
}

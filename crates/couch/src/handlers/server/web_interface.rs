//! `GET /_utils`: the address of CouchDB's web interface.

use crate::error::Result;
use crate::http::{Request, Response};

const PAGE: &str = "<!doctype html>
<html lang=\"en\"><meta charset=\"utf-8\"><title>Diwan</title>
<h1>Diwan</h1>
<p>The server is running. There is no web interface here yet; the README shows how to use the server from a shell, a
browser's page and a MongoDB driver.</p>
<p><a href=\"/_all_dbs\">Databases</a> · <a href=\"/_active_tasks\">Active tasks</a> · <a href=\"/metrics\">Metrics</a></p>
</html>
";

/// Returns a page that links to the server's status.
pub(crate) fn get(_request: &mut Request) -> Result<Response> {
    Ok(Response::new(200, "text/html; charset=utf-8", PAGE))
}

//! Results of views: request parameters, rows as JSON, and included documents.

use crate::document::{Rev, Show, parse_id, write_doc};
use crate::error::{Error, Result};
use crate::http::{Flow, Request, RowWriter};
use crate::sequence;
use diwan_script::{
    Documents, Queried, Row, TemporaryView, ViewAnswer, ViewHead, ViewQuery, ViewSink, Waiting,
};
use diwan_store::{Collection, ReadView};
use diwan_value::json::write_string;
use std::io::Write;
use std::sync::Arc;

/// Builds a query from the body's members and the URL's parameters; the latter take precedence.
pub(crate) fn read_query(request: &Request, body: Option<&str>) -> Result<ViewQuery> {
    let mut query = ViewQuery::default();
    if let Some(body) = body {
        query.set_body(body)?;
    }
    add_url(&mut query, request)?;
    add_partition(&mut query, request)?;
    Ok(query)
}

/// Builds one of several queries. Its own members take precedence over the URL, which applies to all of them.
pub(crate) fn read_one_query(request: &Request, members: &str) -> Result<ViewQuery> {
    let mut query = ViewQuery::default();
    add_url(&mut query, request)?;
    query.set_body(members)?;
    add_partition(&mut query, request)?;
    Ok(query)
}

/// Builds the query of a temporary view, whose body contains functions besides parameters.
pub(crate) fn read_temporary_query(request: &Request, body: &str) -> Result<ViewQuery> {
    let mut query = ViewQuery::default();
    add_url(&mut query, request)?;
    query.set_body_but(body, TemporaryView::MEMBERS)?;
    Ok(query)
}

fn add_url(query: &mut ViewQuery, request: &Request) -> Result<()> {
    for (name, value) in request.query.iter() {
        query.set_url(name, value)?;
    }
    Ok(())
}

/// The partition in the path takes precedence over a `partition` parameter.
fn add_partition(query: &mut ViewQuery, request: &Request) -> Result<()> {
    if let Some(partition) = request.view_partition()? {
        query.partition = Some(partition);
    }
    Ok(())
}

/// Writes the documents that rows include.
pub(crate) struct ViewDocuments;

impl Documents for ViewDocuments {
    fn write(
        &self,
        view: &ReadView,
        id: &str,
        revision: Option<&str>,
        query: &ViewQuery,
        out: &mut Vec<u8>,
    ) -> diwan_script::Result<bool> {
        let written = write_document(view, id, revision, query, out);
        written.map_err(|error| diwan_script::Error::Thrown {
            name: error.error.into_owned(),
            reason: error.reason.into_owned(),
        })
    }
}

fn write_document(
    view: &ReadView,
    id: &str,
    revision: Option<&str>,
    query: &ViewQuery,
    out: &mut Vec<u8>,
) -> Result<bool> {
    // A row may name any text; an invalid id names no document.
    let Ok(id) = parse_id(id) else { return Ok(false) };
    let found = match revision.map(Rev::parse).transpose()? {
        None => view.document(&id.key)?.filter(|found| !found.deleted),
        Some(Rev::Own(revision)) => view.revision(&id.key, revision)?,
        Some(Rev::Foreign(_)) => None,
    };
    let Some(found) = found else { return Ok(false) };
    let show = Show {
        conflicts: query.conflicts == Some(true),
        attachments: query.attachments,
        att_encoding_info: query.att_encoding_info,
        ..Show::default()
    };
    write_doc(out, view, &id.key, &found, &show)?;
    Ok(true)
}

/// A view result that is being written: computed on the first call, then read chunk by chunk.
pub(crate) struct Reading {
    collection: Arc<Collection>,
    query: ViewQuery,
    answer: Option<Box<ViewAnswer>>,
    /// Set while another task updates the index.
    waiting: Option<Waiting>,
    /// How many rows have been written.
    rows: u64,
}

/// Looks up the answer to a query; `None` if it is not available yet. The second argument takes the snapshot through
/// which the answer is read.
type Find<'a> = &'a mut dyn FnMut(&ViewQuery, &mut dyn FnMut() -> Arc<ReadView>) -> Result<Option<Queried>>;

impl Reading {
    /// Creates a reading whose answer is not computed yet.
    pub(crate) fn new(collection: Arc<Collection>, query: ViewQuery) -> Reading {
        Reading { collection, query, answer: None, waiting: None, rows: 0 }
    }

    /// Returns the answer and the snapshot to read it through; `None` if the answer is not available yet.
    fn find(
        &mut self,
        out: &mut RowWriter,
        find: Find<'_>,
    ) -> Result<Option<(&mut ViewAnswer, Arc<ReadView>)>> {
        let answer = match self.answer.take() {
            Some(answer) => answer,
            None => match find(&self.query, &mut || out.new_view(&self.collection))? {
                Some(Queried::Answer(answer)) => answer,
                Some(Queried::Busy(waiting)) => {
                    self.waiting = Some(waiting);
                    return Ok(None);
                }
                None => return Ok(None),
            },
        };
        self.waiting = None;
        Ok(Some((self.answer.insert(answer), out.view(&self.collection))))
    }

    /// Writes rows in CouchDB's layout, one per line, until the buffer is full. Omits the final newline.
    pub(crate) fn write(&mut self, out: &mut RowWriter, find: Find<'_>) -> Result<Flow> {
        let (collection, include_docs, rows) = (self.collection.clone(), self.query.include_docs, self.rows);
        let Some((answer, view)) = self.find(out, find)? else { return Ok(Flow::Later) };
        let mut writer = ViewWriter { out, collection: &collection, rows, include_docs };
        let has_more = answer.go_on(&view, &ViewDocuments, &mut writer)?;
        self.rows = writer.rows;
        if has_more {
            return Ok(Flow::More);
        }
        out.buffer().extend_from_slice(b"\r\n]}");
        Ok(Flow::Done)
    }

    /// Passes the rows to `show` instead of formatting them, for list functions. `show` returns whether there are
    /// more rows.
    pub(crate) fn show(
        &mut self,
        out: &mut RowWriter,
        find: Find<'_>,
        show: &mut dyn FnMut(&mut RowWriter, &mut ViewAnswer, &ReadView) -> Result<bool>,
    ) -> Result<Flow> {
        let Some((answer, view)) = self.find(out, find)? else { return Ok(Flow::Later) };
        Ok(if show(out, answer, &view)? { Flow::More } else { Flow::Done })
    }
}

/// Formats rows.
struct ViewWriter<'a> {
    out: &'a mut RowWriter,
    collection: &'a Arc<Collection>,
    rows: u64,
    /// Whether documents were requested: then a row without one has `"doc":null`.
    include_docs: bool,
}

impl ViewSink for ViewWriter<'_> {
    fn head(&mut self, head: &ViewHead) -> diwan_script::Result<()> {
        let out = self.out.buffer();
        out.push(b'{');
        if let Some(total) = head.total_rows {
            let _ = write!(out, r#""total_rows":{total},"offset":{},"#, head.offset.unwrap_or(0));
        }
        if let Some(update_seq) = head.update_seq {
            let _ = write!(out, r#""update_seq":"{}","#, sequence::text(self.collection, update_seq));
        }
        out.extend_from_slice(b"\"rows\":[");
        Ok(())
    }

    fn row(&mut self, row: &Row<'_>) -> diwan_script::Result<bool> {
        let out = self.out.buffer();
        out.extend_from_slice(if self.rows == 0 { b"\r\n{" } else { b",\r\n{" });
        self.rows += 1;
        match row.id {
            Some(id) => {
                out.extend_from_slice(br#""id":"#);
                write_string(out, id);
                out.push(b',');
            }
            None => {
                if let Some(reason) = overflow_of(row.value) {
                    let _ = write!(out, r#""key":null,"error":"reduce_overflow_error","reason":{reason}}}"#);
                    return Ok(!self.out.is_full());
                }
            }
        }
        out.extend_from_slice(br#""key":"#);
        out.extend_from_slice(row.key.as_bytes());
        out.extend_from_slice(br#","value":"#);
        out.extend_from_slice(row.value.as_bytes());
        if self.include_docs {
            out.extend_from_slice(br#","doc":"#);
            out.extend_from_slice(row.doc.unwrap_or("null").as_bytes());
        }
        out.push(b'}');
        Ok(!self.out.is_full())
    }
}

/// Returns the message of a failed reduction, which CouchDB reports in place of the value.
fn overflow_of(value: &str) -> Option<&str> {
    value.strip_prefix(r#"{"reduce_overflow_error":"#)?.strip_suffix('}')
}

/// Reads the request's body as text; `None` if it is empty.
pub(crate) fn body_text(request: &mut Request) -> Result<Option<String>> {
    let bytes = request.read_body()?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let text = String::from_utf8(bytes.to_vec()).map_err(|_| Error::bad_request("invalid UTF-8 JSON"))?;
    Ok(Some(text))
}

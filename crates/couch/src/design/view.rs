//! Answers of views: the parameters of a request, the rows as JSON, the documents beside them.

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

/// The query that a body's members make, and the URL's parameters, which count more.
pub fn read_query(request: &Request, body: Option<&str>) -> Result<ViewQuery> {
    let mut query = ViewQuery::default();
    if let Some(body) = body {
        query.set_body(body)?;
    }
    add_url(&mut query, request)?;
    add_partition(&mut query, request)?;
    Ok(query)
}

/// One of several queries: what it says itself counts more than the URL, which is for all of them.
pub fn read_one_query(request: &Request, members: &str) -> Result<ViewQuery> {
    let mut query = ViewQuery::default();
    add_url(&mut query, request)?;
    query.set_body(members)?;
    add_partition(&mut query, request)?;
    Ok(query)
}

/// The query of a temporary view, whose functions stand in the body beside the parameters.
pub fn read_temporary_query(request: &Request, body: &str) -> Result<ViewQuery> {
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

/// The partition of the path counts more than any that is named elsewhere.
fn add_partition(query: &mut ViewQuery, request: &Request) -> Result<()> {
    if let Some(partition) = request.view_partition()? {
        query.partition = Some(partition);
    }
    Ok(())
}

/// Documents beside rows, with what the query asks of them.
pub struct ViewDocuments;

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
    // A row may name anything; what is no id names no document.
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

/// An answer of a view on its way: found when it is first asked for, then read chunk by chunk.
pub struct Reading {
    collection: Arc<Collection>,
    query: ViewQuery,
    answer: Option<Box<ViewAnswer>>,
    /// Held while somebody else brings the index up to date.
    waiting: Option<Waiting>,
    /// How many rows were written.
    rows: u64,
}

/// Finds the answer to a query, or nothing yet; `take` takes the view of the collection that it is to be read through.
pub type Find<'a> =
    &'a mut dyn FnMut(&ViewQuery, &mut dyn FnMut() -> Arc<ReadView>) -> Result<Option<Queried>>;

impl Reading {
    /// Of an answer that is not found yet.
    pub fn new(collection: Arc<Collection>, query: ViewQuery) -> Reading {
        Reading { collection, query, answer: None, waiting: None, rows: 0 }
    }

    /// The answer, and the view to read it through; nothing if it cannot be found yet.
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

    /// Writes the answer as CouchDB lays it out, a row a line, until the writer is full; without its last newline.
    pub fn write(&mut self, out: &mut RowWriter, find: Find<'_>) -> Result<Flow> {
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

    /// Shows the answer to another sink, which `sink` makes of the writer. Says whether there are more rows.
    pub fn show(
        &mut self,
        out: &mut RowWriter,
        find: Find<'_>,
        show: &mut dyn FnMut(&mut RowWriter, &mut ViewAnswer, &ReadView) -> Result<bool>,
    ) -> Result<Flow> {
        let Some((answer, view)) = self.find(out, find)? else { return Ok(Flow::Later) };
        Ok(if show(out, answer, &view)? { Flow::More } else { Flow::Done })
    }
}

/// Writes rows.
struct ViewWriter<'a> {
    out: &'a mut RowWriter,
    collection: &'a Arc<Collection>,
    rows: u64,
    /// The documents were asked for: a row without one says null.
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

/// The message of a reduction that did not shrink, as JSON: CouchDB tells it in place of the value.
fn overflow_of(value: &str) -> Option<&str> {
    value.strip_prefix(r#"{"reduce_overflow_error":"#)?.strip_suffix('}')
}

/// The text of a request's body; nothing if there is none.
pub fn body_text(request: &mut Request) -> Result<Option<String>> {
    let bytes = request.read_body()?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let text = String::from_utf8(bytes.to_vec()).map_err(|_| Error::bad_request("invalid UTF-8 JSON"))?;
    Ok(Some(text))
}

//! What the follower asks its primary, and the answers.

use super::{SILENCE, host_of};
use crate::handlers::follow::{LONGEST, PROTOCOL, list_revisions};
use crate::http::BSON;
use crate::replicator::endpoint::Address;
use crate::replicator::failure::Failure;
use crate::replicator::peer::{
    Answer, Call, Http, Patience, Payload, Peer, Remote, Security, Trust, kind_of,
};
use crate::replicator::stop::Stop;
use diwan_store::Namespace;
use diwan_store::Revision;
use diwan_store::blob::Attachment;
use diwan_store::replica::copy::DocumentRevisions;
use diwan_store::replica::news::{Described, News};
use diwan_value::{ArrayBuilder, Doc, DocBuf, DocBuilder, Value};
use hyper::Method;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

/// The way to the primary.
pub(super) struct Client {
    remote: Remote,
    shown: String,
    host: String,
}

/// What a follower says of itself in each message.
pub(super) struct Greeting {
    pub member: String,
    pub host: String,
    pub acknowledged: u64,
    pub applied: u64,
    pub is_complete: bool,
    pub is_member: bool,
}

/// A report of the primary.
pub(super) struct Report {
    pub member: String,
    pub set: String,
    pub set_name: String,
    pub term: i64,
    /// The primary's address for MongoDB's clients.
    pub host: String,
    /// Those of its followers.
    pub others: Vec<String>,
    /// The time of its clock.
    pub time: u64,
    pub number: u64,
    pub news: News,
}

/// A part of a change log.
pub(super) struct Part {
    pub bytes: Vec<u8>,
    /// Where the documents begin.
    pub start: usize,
    pub last: u64,
    pub is_end: bool,
    pub has_gap: bool,
}

impl Part {
    /// The documents.
    pub fn documents(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// A collection of the primary.
pub(super) struct Target<'a> {
    pub namespace: &'a Namespace,
    pub described: &'a Described,
}

impl Target<'_> {
    fn describe(&self) -> DocBuilder {
        let mut out = DocBuilder::new();
        out.append("db", &*self.namespace.database).append("name", &*self.namespace.collection);
        out.append("uuid", Value::Binary { subtype: 4, bytes: &self.described.uuid });
        out
    }
}

/// A document that the primary refused.
pub(super) struct Refused {
    pub key: Vec<u8>,
    pub id: String,
    pub reason: String,
}

impl Client {
    pub fn new(http: Arc<Http>, address: Address, trust: Trust, stop: Stop) -> Result<Client, Failure> {
        // URLs without a password are shown in logs and answers.
        let shown = address.origin();
        let host = host_of(&address);
        let patience = Patience { silence: SILENCE, stop };
        let remote = Remote::new(http, address, patience, Security { trust, signs_in: false })?;
        Ok(Client { remote, shown, host })
    }

    /// The primary's URL, without name and password.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    fn post(&self, what: &str, payload: Payload) -> Result<Answer, Failure> {
        let path = format!("_diwan/follow/{what}");
        // Local networks are faster than compression.
        let call = Call { payload, gzip: false, ..Call::new(Method::POST, path) };
        let answer = self.remote.send(call)?;
        if answer.is_success() {
            return Ok(answer);
        }
        let (status, kind) = (answer.status, kind_of(answer.status, &answer.headers));
        let (error, reason) = answer.describe();
        let reason = match status {
            401 => format!("{reason} Give the name and password of an administrator in the URL"),
            404 if error == "not_found" && reason == "missing" => {
                "the server is no Diwan, or one that cannot be followed".to_owned()
            }
            _ => reason,
        };
        Err(Failure { kind, ..Failure::new(error, reason) })
    }

    fn ask(&self, what: &str, asked: DocBuf) -> Result<Vec<u8>, Failure> {
        read_whole(self.post(what, Payload::Bson(asked.into_bytes().into()))?)
    }

    /// Asks for news after `position`.
    pub fn news(&self, greeting: &Greeting, position: u64, wait: Duration) -> Result<Report, Failure> {
        let mut asked = greeting.describe();
        asked.append("position", position as i64).append("waitMillis", wait.as_millis() as i64);
        let bytes = self.ask("news", asked.finish())?;
        let doc = Doc::validate(&bytes).map_err(|_| unreadable())?;
        self.read_report(doc).ok_or_else(unreadable)
    }

    fn read_report(&self, doc: Doc<'_>) -> Option<Report> {
        let text = |name: &str| doc.get_str(name).map(str::to_owned);
        let number = |name: &str| doc.get(name).and_then(Value::as_i64_exact);
        let host = match text("host")? {
            host if host.is_empty() => format!("{}:{}", self.host, number("port")?),
            host => host,
        };
        let others = doc.get_array("others")?.iter().filter_map(|other| other.as_str().map(str::to_owned));
        Some(Report {
            member: text("member")?,
            set: text("set")?,
            set_name: text("setName")?,
            term: number("term")?,
            host,
            others: others.collect(),
            time: number("time")? as u64,
            number: number("report")? as u64,
            news: News::parse(doc).ok()?,
        })
    }

    /// Says that the follower is there.
    pub fn announce(&self, greeting: &Greeting) -> Result<(), Failure> {
        self.ask("announcement", greeting.describe().finish()).map(drop)
    }

    /// Fetches a part of a change log.
    pub fn changes(&self, target: &Target<'_>, since: u64) -> Result<Part, Failure> {
        let mut asked = target.describe();
        asked.append("since", since as i64);
        let bytes = self.ask("changes", asked.finish())?;
        let length = bytes.first_chunk().map_or(0, |length| u32::from_le_bytes(*length) as usize);
        let head = bytes.get(..length).and_then(|head| Doc::validate(head).ok()).ok_or_else(unreadable)?;
        let last = head.get("last").and_then(Value::as_i64_exact).ok_or_else(unreadable)? as u64;
        let flag = |name: &str| head.get(name) == Some(Value::Boolean(true));
        let (is_end, has_gap) = (flag("isEnd"), flag("hasGap"));
        Ok(Part { start: length, last, is_end, has_gap, bytes })
    }

    /// Opens an attachment's stored bytes.
    pub fn blob(
        &self,
        target: &Target<'_>,
        attachment: &Attachment,
    ) -> Result<Box<dyn Read + Send>, Failure> {
        let mut asked = target.describe();
        asked.append("blob", Value::Binary { subtype: 0, bytes: &attachment.blob.0 });
        asked.append("length", attachment.encoded_length as i64);
        Ok(self.post("blob", Payload::Bson(asked.finish().into_bytes().into()))?.body)
    }

    /// Asks which of these revisions the primary does not know.
    pub fn lacks(
        &self,
        target: &Target<'_>,
        documents: &[DocumentRevisions],
    ) -> Result<Vec<DocumentRevisions>, Failure> {
        let mut listed = ArrayBuilder::new();
        for DocumentRevisions { id, revisions } in documents {
            let mut one = DocBuilder::new();
            one.append("i", Value::Binary { subtype: 0, bytes: id });
            one.append("r", Value::Binary { subtype: 0, bytes: &list_revisions(revisions) });
            listed.push(one.finish());
        }
        let mut asked = target.describe();
        asked.append("documents", listed);
        let bytes = self.ask("lacks", asked.finish())?;
        let doc = Doc::validate(&bytes).map_err(|_| unreadable())?;
        let read = |one: Value<'_>| {
            let one = one.as_doc()?;
            let Some(Value::Binary { bytes: id, .. }) = one.get("i") else { return None };
            let Some(Value::Binary { bytes: lacking, .. }) = one.get("r") else { return None };
            let known = documents.iter().find(|known| known.id == id)?;
            let (chunks, _) = lacking.as_chunks::<20>();
            let is_lacking =
                |revision: &&Revision| chunks.iter().any(|chunk| list_revisions(&[**revision]) == chunk);
            let revisions = known.revisions.iter().filter(is_lacking).copied().collect();
            Some(DocumentRevisions { id: id.to_vec(), revisions })
        };
        let listed = doc.get_array("documents").ok_or_else(unreadable)?;
        listed.iter().map(read).collect::<Option<_>>().ok_or_else(unreadable)
    }

    /// Offers documents, with the bytes of their attachments. Returns those that the primary refused.
    pub fn offer(
        &self,
        target: &Target<'_>,
        blobs: Vec<(Attachment, Box<dyn Read + Send>)>,
        documents: Vec<u8>,
    ) -> Result<Vec<Refused>, Failure> {
        let mut listed = ArrayBuilder::new();
        for (attachment, _) in &blobs {
            let mut one = DocBuilder::new();
            one.append("id", Value::Binary { subtype: 0, bytes: &attachment.blob.0 });
            one.append("length", attachment.encoded_length as i64);
            one.append("isPacked", attachment.encoding.is_some());
            listed.push(one.finish());
        }
        let mut head = target.describe();
        head.append("blobs", listed);
        let head = head.finish().into_bytes();
        let bytes: u64 = blobs.iter().map(|(attachment, _)| attachment.encoded_length).sum();
        let length = (head.len() + documents.len()) as u64 + bytes;
        let mut reader: Box<dyn Read + Send> = Box::new(std::io::Cursor::new(head));
        for (_, blob) in blobs {
            reader = Box::new(reader.chain(blob));
        }
        let reader = Box::new(reader.chain(std::io::Cursor::new(documents)));
        let answer = self.post("offer", Payload::Stream { content_type: BSON.to_owned(), length, reader })?;
        let bytes = read_whole(answer)?;
        let doc = Doc::validate(&bytes).map_err(|_| unreadable())?;
        let read = |one: Value<'_>| {
            let one = one.as_doc()?;
            let Some(Value::Binary { bytes: key, .. }) = one.get("i") else { return None };
            let text = |name: &str| one.get_str(name).map(str::to_owned);
            Some(Refused { key: key.to_vec(), id: text("id")?, reason: text("reason")? })
        };
        let listed = doc.get_array("refused").ok_or_else(unreadable)?;
        listed.iter().map(read).collect::<Option<_>>().ok_or_else(unreadable)
    }
}

impl Greeting {
    fn describe(&self) -> DocBuilder {
        let mut out = DocBuilder::new();
        out.append("protocol", PROTOCOL).append("member", &*self.member).append("host", &*self.host);
        out.append("acknowledged", self.acknowledged as i64).append("applied", self.applied as i64);
        out.append("isComplete", self.is_complete).append("isMember", self.is_member);
        out
    }
}

/// Reads an answer, which is long if a document has many large conflicts.
fn read_whole(answer: Answer) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = answer.body.take(LONGEST as u64 + 1).read_to_end(&mut bytes);
    let failure = |reason: String| Failure::passing("http_request_failed", reason);
    read.map_err(|error| failure(error.to_string()))?;
    if bytes.len() > LONGEST {
        Err(failure("the primary's answer is too long".to_owned()))
    } else {
        Ok(bytes)
    }
}

fn unreadable() -> Failure {
    Failure::new(
        "unreadable",
        "the primary's answer cannot be read: use the same version of Diwan on both servers",
    )
}

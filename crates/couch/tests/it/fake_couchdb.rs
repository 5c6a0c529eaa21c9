//! A fake CouchDB 3.5 peer for replication tests. It has one database, supports what CouchDB's replicator and Diwan's
//! use, and formats answers as recorded from CouchDB. A test may replace the answer to any request.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// A received request.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    /// The escaped path below the database, without the query.
    pub path: String,
    pub query: String,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Asked {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    fn param(&self, name: &str) -> Option<String> {
        let pair = self.query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")))?;
        Some(decode(pair))
    }
}

/// An answer: status, headers, body. Status 0 closes the connection.
pub type Told = (u16, Vec<(&'static str, String)>, Vec<u8>);

/// Formats a JSON answer.
pub fn told(status: u16, body: &Value) -> Told {
    (status, vec![("Content-Type", "application/json".into())], body.to_string().into_bytes())
}

/// Replaces an answer; `None` keeps the default.
pub type Hook = Box<dyn FnMut(&Asked) -> Option<Told> + Send>;

/// A leaf revision.
#[derive(Clone, Debug)]
pub struct Leaf {
    pub fields: Map<String, Value>,
    pub start: u64,
    pub ids: Vec<String>,
    /// Name, content type, generation, bytes.
    pub attachments: Vec<(String, String, u64, Vec<u8>)>,
}

impl Leaf {
    fn rev(&self) -> String {
        format!("{}-{}", self.start, self.ids[0])
    }
}

#[derive(Default)]
pub struct FakeDatabase {
    pub instance: u64,
    pub docs: BTreeMap<String, Vec<Leaf>>,
    pub locals: BTreeMap<String, Value>,
    /// The documents in the order of their last changes.
    order: Vec<String>,
    pub asked: Vec<Asked>,
    hook: Option<Hook>,
    /// Whether the next checkpoint comes to a database that has just been recreated.
    recreated_before_checkpoint: bool,
}

/// The fake peer.
pub struct FakeCouchDb {
    address: SocketAddr,
    pub state: Arc<Mutex<FakeDatabase>>,
}

impl FakeCouchDb {
    pub fn start() -> FakeCouchDb {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(FakeDatabase { instance: 1_700_000_000, ..FakeDatabase::default() }));
        let shared = state.clone();
        // The threads end with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let state = shared.clone();
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        FakeCouchDb { address, state }
    }

    /// The URL of the database.
    pub fn url(&self) -> String {
        format!("http://{}/db", self.address)
    }

    /// The URL of the database with credentials.
    pub fn secret_url(&self) -> String {
        format!("http://me:secret@{}/db", self.address)
    }

    /// Replaces answers from now on.
    pub fn hook(&self, hook: impl FnMut(&Asked) -> Option<Told> + Send + 'static) {
        self.state.lock().hook = Some(Box::new(hook));
    }

    /// Restores the default answers.
    pub fn unhook(&self) {
        self.state.lock().hook = None;
    }

    /// Stores a revision whose hash is one digit repeated 32 times.
    pub fn put(&self, id: &str, generation: u64, digit: char, fields: Value) {
        let ids = vec![digit.to_string().repeat(32)];
        let fields = fields.as_object().cloned().unwrap_or_default();
        let leaf = Leaf { fields, start: generation, ids, attachments: Vec::new() };
        self.state.lock().store(id, leaf);
    }

    /// Adds an attachment to a document.
    pub fn attach(&self, id: &str, name: &str, kind: &str, revpos: u64, bytes: &[u8]) {
        let mut state = self.state.lock();
        let leaf = &mut state.docs.get_mut(id).unwrap()[0];
        leaf.attachments.push((name.into(), kind.into(), revpos, bytes.to_vec()));
    }

    /// Deletes and recreates the database.
    pub fn recreate(&self) {
        self.state.lock().recreate();
    }

    /// Recreates the database at the instant before the next checkpoint is stored.
    pub fn recreate_before_checkpoint(&self) {
        self.state.lock().recreated_before_checkpoint = true;
    }

    /// The ids of all documents.
    pub fn ids(&self) -> Vec<String> {
        self.state.lock().docs.keys().cloned().collect()
    }

    /// The only checkpoint document.
    pub fn checkpoint(&self) -> Value {
        self.state.lock().locals.values().next().cloned().unwrap_or_default()
    }
}

impl FakeDatabase {
    fn recreate(&mut self) {
        self.instance += 1;
        (self.docs, self.locals, self.order) = Default::default();
    }

    fn store(&mut self, id: &str, leaf: Leaf) {
        self.order.retain(|other| other != id);
        self.order.push(id.to_owned());
        let leaves = self.docs.entry(id.to_owned()).or_default();
        leaves.retain(|other| !leaf.ids.contains(&other.ids[0]));
        leaves.push(leaf);
    }

    fn seq(number: usize) -> String {
        format!("{number}-g1AAAACLeJzLYWBg")
    }

    fn shown(&self, id: &str, leaf: &Leaf, attachments: bool) -> Value {
        let mut doc = json!({ "_id": id, "_rev": leaf.rev() });
        let members = doc.as_object_mut().unwrap();
        members.extend(leaf.fields.clone());
        members.insert("_revisions".into(), json!({ "start": leaf.start, "ids": leaf.ids }));
        if !leaf.attachments.is_empty() {
            let list = leaf.attachments.iter().map(|(name, kind, revpos, bytes)| {
                let mut entry = json!({ "content_type": kind, "revpos": revpos });
                match attachments {
                    true => entry["data"] = json!(STANDARD.encode(bytes)),
                    false => (entry["stub"], entry["length"]) = (json!(true), json!(bytes.len())),
                }
                (name.clone(), entry)
            });
            members.insert("_attachments".into(), Value::Object(list.collect()));
        }
        doc
    }

    fn answer(&mut self, asked: &Asked) -> Told {
        let missing = || told(404, &json!({ "error": "not_found", "reason": "missing" }));
        match (asked.method.as_str(), asked.path.as_str()) {
            ("GET", "") => told(
                200,
                &json!({
                    "instance_start_time": self.instance.to_string(), "db_name": "db", "purge_seq": "0-x",
                    "update_seq": FakeDatabase::seq(self.order.len()), "doc_count": self.docs.len(),
                }),
            ),
            ("POST", "_ensure_full_commit") => {
                told(201, &json!({ "ok": true, "instance_start_time": self.instance.to_string() }))
            }
            ("GET", "_changes") => self.changes(asked),
            ("POST", "_revs_diff") => {
                let mut out = Map::new();
                for (id, revs) in asked.json().as_object().unwrap() {
                    let known: Vec<String> =
                        self.docs.get(id).into_iter().flatten().flat_map(Leaf::path).collect();
                    let lacks: Vec<&Value> = revs
                        .as_array()
                        .unwrap()
                        .iter()
                        .filter(|rev| !known.iter().any(|known| rev == &known))
                        .collect();
                    if !lacks.is_empty() {
                        out.insert(id.clone(), json!({ "missing": lacks }));
                    }
                }
                told(200, &Value::Object(out))
            }
            ("POST", "_bulk_get") => {
                let attachments = asked.param("attachments").as_deref() == Some("true");
                let docs = asked.json()["docs"].take();
                let results = docs.as_array().unwrap().iter().map(|wanted| {
                    let (id, rev) = (wanted["id"].as_str().unwrap(), wanted["rev"].as_str().unwrap());
                    let one = match self.leaf(id, rev) {
                        Some(leaf) => json!({ "ok": self.shown(id, leaf, attachments) }),
                        None => {
                            json!({ "error": { "id": id, "rev": rev, "error": "not_found", "reason": "missing" } })
                        }
                    };
                    json!({ "id": id, "docs": [one] })
                });
                told(200, &json!({ "results": results.collect::<Vec<_>>() }))
            }
            ("POST", "_bulk_docs") => {
                for doc in asked.json()["docs"].as_array().unwrap() {
                    self.take(doc);
                }
                told(201, &json!([]))
            }
            (method, path) if path.starts_with("_local/") => match method {
                "PUT" if std::mem::take(&mut self.recreated_before_checkpoint) => {
                    self.recreate();
                    self.answer(asked)
                }
                "PUT" => {
                    self.locals.insert(path.to_owned(), asked.json());
                    told(201, &json!({ "ok": true, "id": path, "rev": "0-1" }))
                }
                _ => self.locals.get(path).map_or_else(missing, |doc| told(200, doc)),
            },
            // CouchDB redirects an escaped slash in a design document's path.
            ("GET", path) if path.to_ascii_lowercase().starts_with("_design%2f") => {
                let query = if asked.query.is_empty() { String::new() } else { format!("?{}", asked.query) };
                let host = &asked.headers["host"];
                let location = format!("http://{host}/db/_design/{}{query}", &path["_design%2F".len()..]);
                (301, vec![("Location", location)], Vec::new())
            }
            ("GET", path) => self.document(asked, path).unwrap_or_else(missing),
            _ => told(405, &json!({ "error": "method_not_allowed", "reason": "Only GET,POST allowed" })),
        }
    }

    fn changes(&self, asked: &Asked) -> Told {
        let since = asked.param("since").unwrap_or_default();
        let since: usize = since.split('-').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        let rows: Vec<Value> = self
            .order
            .iter()
            .enumerate()
            .skip(since)
            .map(|(at, id)| {
                let revs: Vec<Value> =
                    self.docs[id].iter().map(|leaf| json!({ "rev": leaf.rev() })).collect();
                json!({ "seq": FakeDatabase::seq(at + 1), "id": id, "changes": revs })
            })
            .collect();
        let last = FakeDatabase::seq(self.order.len());
        if asked.param("feed").as_deref() == Some("continuous") {
            let end = json!({ "last_seq": last, "pending": 0 });
            let lines: Vec<String> = rows.iter().chain([&end]).map(|row| format!("{row}\n")).collect();
            return (200, vec![], lines.concat().into_bytes());
        }
        let rows = if asked.param("limit").as_deref() == Some("0") { Vec::new() } else { rows };
        told(200, &json!({ "results": rows, "last_seq": last, "pending": 0 }))
    }

    fn leaf(&self, id: &str, rev: &str) -> Option<&Leaf> {
        self.docs.get(id)?.iter().find(|leaf| leaf.rev() == rev)
    }

    /// Answers for a document, some of its revisions, or an attachment.
    fn document(&self, asked: &Asked, path: &str) -> Option<Told> {
        let parts: Vec<String> = path.split('/').map(decode).collect();
        let (id, name) = match parts.as_slice() {
            [first, design, rest @ ..] if first == "_design" => (format!("_design/{design}"), rest.first()),
            [id, rest @ ..] => (id.clone(), rest.first().filter(|name| !name.is_empty())),
            [] => return None,
        };
        if let Some(name) = name {
            let leaf = self.leaf(&id, &asked.param("rev")?)?;
            let found = leaf.attachments.iter().find(|attachment| attachment.0 == *name)?;
            return Some((200, vec![("Content-Type", found.1.clone())], found.3.clone()));
        }
        if let Some(revs) = asked.param("open_revs") {
            let revs: Vec<String> = serde_json::from_str(&revs).unwrap();
            let list: Vec<Value> = revs
                .iter()
                .map(|rev| match self.leaf(&id, rev) {
                    Some(leaf) => json!({ "ok": self.shown(&id, leaf, false) }),
                    None => json!({ "missing": rev }),
                })
                .collect();
            return self.docs.contains_key(&id).then(|| told(200, &json!(list)));
        }
        let leaf = match asked.param("rev") {
            Some(rev) => self.leaf(&id, &rev)?,
            None => self.docs.get(&id)?.first()?,
        };
        Some(told(200, &self.shown(&id, leaf, asked.param("attachments").as_deref() == Some("true"))))
    }

    fn take(&mut self, doc: &Value) {
        let mut fields = doc.as_object().unwrap().clone();
        let id = fields.remove("_id").unwrap();
        fields.remove("_rev");
        let revisions = fields.remove("_revisions").unwrap();
        let ids = revisions["ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned());
        let start = revisions["start"].as_u64().unwrap();
        let leaf = Leaf { fields, start, ids: ids.collect(), attachments: Vec::new() };
        self.store(id.as_str().unwrap(), leaf);
    }
}

impl Leaf {
    /// The revision and its ancestors.
    fn path(&self) -> Vec<String> {
        self.ids.iter().enumerate().map(|(at, id)| format!("{}-{id}", self.start - at as u64)).collect()
    }
}

fn decode(text: &str) -> String {
    let (mut out, bytes) = (Vec::new(), text.as_bytes());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'%' => {
                out.push(u8::from_str_radix(&text[at + 1..at + 3], 16).unwrap());
                at += 3;
            }
            byte => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(out).unwrap()
}

fn serve(stream: TcpStream, state: &Mutex<FakeDatabase>) {
    let mut reader = BufReader::new(stream);
    while let Ok(Some(asked)) = read(&mut reader) {
        let (status, headers, body) = {
            let mut state = state.lock();
            state.asked.push(asked.clone());
            let mut hook = state.hook.take();
            let told = hook.as_mut().and_then(|hook| hook(&asked));
            state.hook = hook;
            told.unwrap_or_else(|| state.answer(&asked))
        };
        if status == 0 {
            return;
        }
        let stream = reader.get_mut();
        let mut head = format!("HTTP/1.1 {status} X\r\nServer: CouchDB/3.5.2 (Erlang OTP/26)\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let length = body.len();
        if write!(stream, "{head}Content-Length: {length}\r\n\r\n")
            .and_then(|()| stream.write_all(&body))
            .is_err()
        {
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> io::Result<Option<Asked>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let (method, target) = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let path = path.strip_prefix("/db").unwrap_or(path).trim_start_matches('/').to_owned();
    Ok(Some(Asked { method, path, query: query.to_owned(), headers, body }))
}

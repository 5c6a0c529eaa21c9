//! A server with one database, and helpers for common requests.

use diwan_testkit::{HttpClient, HttpReply, TestCouch};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Starts a server in memory, connects to it, and creates a database called `db`.
pub fn database() -> (TestCouch, HttpClient) {
    let server = TestCouch::in_memory();
    let mut client = server.client().with_header("Accept", "application/json");
    assert_eq!(client.put("/db", &json!({})).status, 201);
    (server, client)
}

/// Starts a server in memory with the administrator `root` (password `secret`), and connects as him.
pub fn secured() -> (TestCouch, HttpClient) {
    let server = TestCouch::in_memory();
    server.add_user("root", "secret", &[("root", "admin")]);
    let client = client_of(&server, "root", "secret");
    (server, client)
}

/// Connects as this user.
pub fn client_of(server: &TestCouch, name: &str, password: &str) -> HttpClient {
    server.client().with_header("Accept", "application/json").with_password(name, password)
}

/// Adds a user by his document. His password is his name.
pub fn add_user(root: &mut HttpClient, name: &str, roles: &[&str]) {
    let user = json!({ "type": "user", "name": name, "roles": roles, "password": name });
    let reply = root.put(&format!("/_users/org.couchdb.user:{name}"), &user);
    assert_eq!(reply.status, 201, "{}", reply.text());
}

/// Returns the `rev` of a successful write.
pub fn rev(reply: &HttpReply) -> String {
    assert!(reply.status < 300, "{} {}", reply.status, reply.text());
    reply.json()["rev"].as_str().expect("a revision").to_owned()
}

/// Formats a revision whose hash is one digit repeated 32 times.
pub fn made(generation: u32, digit: char) -> String {
    format!("{generation}-{}", hash(digit))
}

/// Repeats a digit 32 times.
pub fn hash(digit: char) -> String {
    digit.to_string().repeat(32)
}

/// Stores a replicated revision with its ancestors.
pub fn graft(client: &mut HttpClient, id: &str, start: u32, digits: &str, mut fields: Value) {
    fields["_id"] = id.into();
    fields["_revisions"] = json!({"start": start, "ids": digits.chars().map(hash).collect::<Vec<_>>()});
    let reply = client.post("/db/_bulk_docs", &json!({"new_edits": false, "docs": [fields]}));
    assert_eq!((reply.status, reply.json()), (201, json!([])));
}

/// The lines of a waiting feed.
pub struct Lines {
    reader: BufReader<TcpStream>,
}

impl Lines {
    /// Sends the request and reads the head.
    pub fn open(server: &TestCouch, path: &str) -> Lines {
        Lines::open_with(server, path, "")
    }

    /// The same as this user, whose password is his name.
    pub fn open_as(server: &TestCouch, name: &str, path: &str) -> Lines {
        let reply = server.client().post("/_session", &json!({ "name": name, "password": name }));
        let cookie = reply.header("set-cookie").expect("a session");
        Lines::open_with(server, path, &format!("Cookie: {cookie}\r\n"))
    }

    fn open_with(server: &TestCouch, path: &str, headers: &str) -> Lines {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n{headers}\r\n").unwrap();
        let mut lines = Lines { reader: BufReader::new(stream) };
        while !lines.raw().is_empty() {}
        lines
    }

    /// Reads the next line; `None` at the end.
    pub fn raw(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Reads the next line that is not a heartbeat.
    pub fn next(&mut self) -> String {
        loop {
            let line = self.raw();
            if !line.is_empty() {
                return line;
            }
        }
    }

    /// Reads the next row.
    pub fn json(&mut self) -> Value {
        serde_json::from_str(&self.next()).unwrap()
    }

    /// Whether the feed has ended.
    pub fn is_at_end(&mut self) -> bool {
        self.reader.fill_buf().unwrap().is_empty()
    }
}

//! A client of one HTTP/1.1 connection: requests one after another, replies as they came.

use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a reply may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// One connection.
#[derive(Debug)]
pub struct HttpClient {
    reader: BufReader<TcpStream>,
    headers: Vec<(String, String)>,
}

/// What was answered.
#[derive(Clone, Debug)]
pub struct HttpReply {
    /// The status.
    pub status: u16,
    /// The headers, their names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl HttpReply {
    /// The first header of that name (in lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|pair| pair.0 == name).map(|pair| pair.1.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The status and the members `error` and `reason`.
    pub fn refusal(&self) -> (u16, String, String) {
        let json = self.json();
        let text = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        (self.status, text("error"), text("reason"))
    }
}

impl HttpClient {
    /// Connects.
    pub fn connect(address: SocketAddr) -> io::Result<HttpClient> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(HttpClient { reader: BufReader::new(stream), headers: Vec::new() })
    }

    /// The same connection, with one more header in every request that does not have it.
    pub fn with_header(mut self, name: &str, value: &str) -> HttpClient {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends a request and reads the reply. A body goes with its length.
    ///
    /// # Panics
    ///
    /// If there is no reply.
    pub fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> HttpReply {
        self.try_send(method, path, headers, body).expect("a reply to the request")
    }

    /// The same, or why there is none.
    pub fn try_send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<HttpReply> {
        self.send_head(method, path, headers, Some(body.len()))?;
        self.reader.get_mut().write_all(body)?;
        self.receive(method)
    }

    /// Sends a request without a body.
    pub fn get(&mut self, path: &str) -> HttpReply {
        self.send("GET", path, &[], b"")
    }

    /// Sends a request with JSON.
    pub fn json(&mut self, method: &str, path: &str, body: &Value) -> HttpReply {
        let text = body.to_string();
        self.send(method, path, &[("Content-Type", "application/json")], text.as_bytes())
    }

    /// `PUT` with JSON.
    pub fn put(&mut self, path: &str, body: &Value) -> HttpReply {
        self.json("PUT", path, body)
    }

    /// `POST` with JSON.
    pub fn post(&mut self, path: &str, body: &Value) -> HttpReply {
        self.json("POST", path, body)
    }

    /// Sends a request whose body comes in chunks, from `pieces`.
    pub fn send_chunked<'p>(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        pieces: impl Iterator<Item = &'p [u8]>,
    ) -> HttpReply {
        let sent = self.send_head(method, path, headers, None).and_then(|()| {
            let stream = self.reader.get_mut();
            for piece in pieces.filter(|piece| !piece.is_empty()) {
                write!(stream, "{:x}\r\n", piece.len())?;
                stream.write_all(piece)?;
                stream.write_all(b"\r\n")?;
            }
            stream.write_all(b"0\r\n\r\n")
        });
        sent.and_then(|()| self.receive(method)).expect("a reply to the request")
    }

    fn send_head(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        length: Option<usize>,
    ) -> io::Result<()> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
        let is_given = |name: &str| headers.iter().any(|header| header.0.eq_ignore_ascii_case(name));
        let own = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let own = own.filter(|(name, _)| !is_given(name));
        for (name, value) in own.chain(headers.iter().copied()) {
            head += &format!("{name}: {value}\r\n");
        }
        match length {
            Some(0) if method == "GET" || method == "HEAD" => {}
            Some(length) => head += &format!("Content-Length: {length}\r\n"),
            None => head += "Transfer-Encoding: chunked\r\n",
        }
        head += "\r\n";
        self.reader.get_mut().write_all(head.as_bytes())
    }

    /// Reads a reply to a request of this method.
    pub fn receive(&mut self, method: &str) -> io::Result<HttpReply> {
        let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let status = self.line()?;
        let status = status
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .ok_or_else(|| invalid("no status"))?;
        let mut reply = HttpReply { status, headers: Vec::new(), body: Vec::new() };
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| invalid("a header without a colon"))?;
            reply.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        if method == "HEAD" || status == 304 || status == 204 {
            return Ok(reply);
        }
        if reply.header("transfer-encoding") == Some("chunked") {
            loop {
                let size = self.line()?;
                let size = u64::from_str_radix(&size, 16).map_err(|_| invalid("a chunk without a size"))?;
                let read = self.reader.by_ref().take(size).read_to_end(&mut reply.body)?;
                if read as u64 != size {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                self.line()?;
                if size == 0 {
                    return Ok(reply);
                }
            }
        }
        let length = reply.header("content-length").and_then(|length| length.parse::<usize>().ok());
        reply.body.resize(length.ok_or_else(|| invalid("no length"))?, 0);
        self.reader.read_exact(&mut reply.body)?;
        Ok(reply)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }
}

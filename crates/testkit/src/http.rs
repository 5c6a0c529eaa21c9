//! A client with one HTTP/1.1 connection. It sends requests one after another.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a reply may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// One connection to the HTTP port.
#[derive(Debug)]
pub struct HttpClient {
    reader: BufReader<TcpStream>,
    headers: Vec<(String, String)>,
}

/// A response.
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
    /// The first header with that name, given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|pair| pair.0 == name).map(|pair| pair.1.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; null if it is not JSON.
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
    /// Connects to the server.
    pub fn connect(address: SocketAddr) -> io::Result<HttpClient> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(HttpClient { reader: BufReader::new(stream), headers: Vec::new() })
    }

    /// Adds a header to every later request that does not have it.
    pub fn with_header(mut self, name: &str, value: &str) -> HttpClient {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends this name and password with every later request.
    pub fn with_password(self, name: &str, password: &str) -> HttpClient {
        let value = format!("Basic {}", STANDARD.encode(format!("{name}:{password}")));
        self.with_header("Authorization", &value)
    }

    /// Sends a request and receives the response. A body is sent with its length.
    ///
    /// # Panics
    ///
    /// If there is no reply.
    pub fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> HttpReply {
        self.try_send(method, path, headers, body).expect("a reply to the request")
    }

    /// Like [`HttpClient::send`], with an error if there is no response.
    fn try_send(
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

    /// Sends a request with a JSON body.
    pub fn json(&mut self, method: &str, path: &str, body: &Value) -> HttpReply {
        let text = body.to_string();
        self.send(method, path, &[("Content-Type", "application/json")], text.as_bytes())
    }

    /// Sends a `PUT` with a JSON body.
    pub fn put(&mut self, path: &str, body: &Value) -> HttpReply {
        self.json("PUT", path, body)
    }

    /// Sends a `POST` with a JSON body.
    pub fn post(&mut self, path: &str, body: &Value) -> HttpReply {
        self.json("POST", path, body)
    }

    /// Sends a request with a chunked body, one chunk for each of `pieces`.
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
        let is_given = |name: &str| headers.iter().any(|header| header.0.eq_ignore_ascii_case(name));
        let host = if is_given("host") { "" } else { "Host: localhost\r\n" };
        let mut head = format!("{method} {path} HTTP/1.1\r\n{host}");
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

    /// Receives the response to a request with this method.
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

//! Clients with one connection each, cheap enough to share the machine with the server under load.

use diwan_value::{Doc, DocBuf, Value};
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The size of a header of MongoDB's protocol, and of the flags and the section kind behind it.
const PREFIX: usize = 21;

pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// One connection, of either protocol.
pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
    filled: usize,
}

impl Client {
    pub async fn connect(address: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Client { stream, buffer: vec![0; 16 << 10], filled: 0 })
    }

    /// Runs a MongoDB command. An error in the reply is an error.
    pub async fn run(&mut self, command: &DocBuf) -> Outcome<()> {
        self.ask(command).await.map(drop)
    }

    /// Runs a MongoDB command and returns its reply.
    pub async fn ask(&mut self, command: &DocBuf) -> Outcome<Doc<'_>> {
        let body = command.as_doc().as_bytes();
        let mut message = Vec::with_capacity(PREFIX + body.len());
        for field in [(PREFIX + body.len()) as u32, 1, 0, 2013, 0] {
            message.extend_from_slice(&field.to_le_bytes());
        }
        message.push(0);
        message.extend_from_slice(body);
        self.stream.write_all(&message).await?;
        let length = self.receive(|bytes| Some(u32::from_le_bytes(*bytes.first_chunk()?) as usize)).await?;
        let reply = Doc::trusted(self.buffer.get(PREFIX..length).unwrap_or_default());
        if reply.get("ok") != Some(Value::Double(1.0)) || reply.get("writeErrors").is_some() {
            return Err(format!("the server refuses: {reply:?}").into());
        }
        Ok(reply)
    }

    /// Sends an HTTP request. Any status other than success is an error.
    pub async fn request(&mut self, request: &str) -> Outcome<()> {
        self.stream.write_all(request.as_bytes()).await?;
        let length = self.receive(http_length).await?;
        let reply = &self.buffer[..length];
        if !reply.starts_with(b"HTTP/1.1 20") {
            return Err(format!("the server refuses: {}", String::from_utf8_lossy(reply)).into());
        }
        Ok(())
    }

    /// Reads one reply into the beginning of the buffer. `length` finds its length from the received bytes.
    async fn receive(&mut self, length: impl Fn(&[u8]) -> Option<usize>) -> io::Result<usize> {
        self.filled = 0;
        loop {
            if self.filled == self.buffer.len() {
                self.buffer.resize(2 * self.filled, 0);
            }
            let read = self.stream.read(&mut self.buffer[self.filled..]).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.filled += read;
            if let Some(length) = length(&self.buffer[..self.filled]).filter(|length| *length <= self.filled)
            {
                return Ok(length);
            }
        }
    }
}

/// The length of a response, once its head has arrived.
fn http_length(bytes: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, _) = text.split_once("\r\n\r\n")?;
    let mut lines = head.split("\r\n").filter_map(|line| line.split_once(':'));
    let body = lines.find(|(name, _)| name.eq_ignore_ascii_case("content-length"))?.1;
    Some(head.len() + 4 + body.trim().parse::<usize>().ok()?)
}

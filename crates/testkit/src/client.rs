//! A client with one connection that sends `OP_MSG` and receives replies.

use crate::scram::ScramClient;
use diwan_value::{Doc, DocBuf, Value, doc};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a reply may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// The length of a message header, and of the flags and the section kind after it.
const HEADER: usize = 16;
const PREFIX: usize = HEADER + 5;

/// A reply and the fields of its header.
#[derive(Debug)]
pub struct Reply {
    /// The server's request id.
    pub number: i32,
    /// The request id of the message that it answers.
    pub response_to: i32,
    /// Whether the server will send another reply without a request.
    pub more_to_come: bool,
    /// The reply document.
    pub document: DocBuf,
}

/// One connection to the MongoDB port.
#[derive(Debug)]
pub struct TestClient {
    stream: TcpStream,
    requests: u32,
}

impl TestClient {
    /// Connects to the server.
    pub fn connect(address: SocketAddr) -> io::Result<TestClient> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(TestClient { stream, requests: 0 })
    }

    /// Sends a command to a database and returns the reply.
    pub fn run(&mut self, database: &str, command: DocBuf) -> io::Result<DocBuf> {
        self.send(database, command, 0)?;
        self.receive()
    }

    /// Signs in with SCRAM-SHA-256. Returns the last reply, which is an error if the sign-in failed.
    pub fn sign_in(&mut self, database: &str, user: &str, password: &str) -> io::Result<DocBuf> {
        self.sign_in_with("SCRAM-SHA-256", database, user, password)
    }

    /// Signs in with a mechanism of SCRAM.
    pub fn sign_in_with(
        &mut self,
        mechanism: &str,
        database: &str,
        user: &str,
        password: &str,
    ) -> io::Result<DocBuf> {
        let scram = ScramClient::new(mechanism, user, password);
        let first = scram.first();
        let payload = Value::Binary { subtype: 0, bytes: &first };
        let options = doc! { "skipEmptyExchange": true };
        let reply = self.run(
            database,
            doc! { "saslStart": 1, "mechanism": mechanism, "payload": payload, "options": options },
        )?;
        let Some(Value::Binary { bytes: challenge, .. }) = reply.as_doc().get("payload") else {
            return Ok(reply);
        };
        let last = scram.last(challenge);
        let payload = Value::Binary { subtype: 0, bytes: &last };
        self.run(database, doc! { "saslContinue": 1, "conversationId": 1, "payload": payload })
    }

    /// Sends a command with the given flags of `OP_MSG`.
    pub fn send(&mut self, database: &str, command: DocBuf, flags: u32) -> io::Result<()> {
        let mut command = command.into_builder();
        command.append("$db", database);
        self.requests += 1;
        let body = command.finish();
        let length = (PREFIX + body.as_doc().as_bytes().len()) as u32;
        let mut message = Vec::with_capacity(length as usize);
        for field in [length, self.requests, 0, 2013, flags] {
            message.extend_from_slice(&field.to_le_bytes());
        }
        message.push(0);
        message.extend_from_slice(body.as_doc().as_bytes());
        self.send_raw(&message)
    }

    /// Sends raw bytes.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Receives the next reply.
    pub fn receive(&mut self) -> io::Result<DocBuf> {
        Ok(self.receive_reply()?.document)
    }

    /// Receives the next reply with the fields of its header.
    pub fn receive_reply(&mut self) -> io::Result<Reply> {
        let mut header = [0; HEADER];
        self.stream.read_exact(&mut header)?;
        let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let mut rest = vec![0; length.saturating_sub(HEADER)];
        self.stream.read_exact(&mut rest)?;
        let body = rest.get(PREFIX - HEADER..).unwrap_or_default();
        let document =
            Doc::validate(body).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let number =
            |at: usize| i32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        Ok(Reply {
            number: number(4),
            response_to: number(8),
            more_to_come: rest[0] & 2 != 0,
            document: document.to_owned(),
        })
    }
}

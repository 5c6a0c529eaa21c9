//! The control port: how `diwan user` and `diwan promote` reach the server that has its directory open.
//!
//! The server listens on a free port of the loopback interface and writes the port and a token to a file in its data
//! directory. Only the directory's owner can read the file: whoever can read the documents' files needs no password. A
//! request is a line of JSON, and so is the answer.
//!
//! The file is an ordinary one, so a directory can be copied whether its server runs or was killed. A request names its
//! directory: the file of a copy leads to the server of the original, which refuses it.

use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq;

/// The file's name in the data directory.
const NAME: &str = "control";
/// The longest request.
const LIMIT: u64 = 64 << 10;
/// How long a client may take to send its request.
const REQUEST: Duration = Duration::from_secs(2);
/// How long a client waits for the answer.
const ANSWER: Duration = Duration::from_secs(30);

/// The contents of the file.
#[derive(Deserialize, Serialize)]
struct Address {
    port: u16,
    token: String,
}

/// A request with what proves that its sender may make it.
#[derive(Deserialize, Serialize)]
struct Envelope<R> {
    token: String,
    directory: PathBuf,
    request: R,
}

/// The answer to a request.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    Done(String),
    Refused(String),
    /// The request is for another directory, or for an earlier server.
    NotMine,
}

/// Answers a request; `None` if it does not understand it.
pub type Handler = Arc<dyn Fn(&serde_json::Value) -> Option<Result<String, String>> + Send + Sync>;

/// The control port of a running server. Dropping it removes the file.
pub struct Control {
    path: PathBuf,
}

impl Control {
    /// Listens for this directory, in a thread of its own.
    pub fn listen(directory: &Path, handler: Handler) -> io::Result<Control> {
        let directory = directory.canonicalize()?;
        let path = directory.join(NAME);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
        let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        // The directory's lock says that no other server runs: a file that is there is left over.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let address = Address { port: listener.local_addr()?.port(), token: token.clone() };
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(&serde_json::to_vec(&address)?)?;
        std::thread::Builder::new().name("diwan-control".to_owned()).spawn(move || {
            for stream in listener.incoming().flatten() {
                let (handler, token, directory) = (handler.clone(), token.clone(), directory.clone());
                // A client that sends slowly holds up nobody else.
                std::thread::spawn(move || {
                    if let Err(error) = answer(&handler, &token, &directory, &stream) {
                        tracing::debug!(%error, "a client of the control port went away");
                    }
                });
            }
        })?;
        Ok(Control { path })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // The next server removes it otherwise.
        let _ = fs::remove_file(&self.path);
    }
}

fn answer(handler: &Handler, token: &str, directory: &Path, mut stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(REQUEST))?;
    stream.set_write_timeout(Some(REQUEST))?;
    let mut line = String::new();
    BufReader::new(stream.take(LIMIT)).read_line(&mut line)?;
    let is_proved = |given: &str| bool::from(given.as_bytes().ct_eq(token.as_bytes()));
    let answer = match serde_json::from_str::<Envelope<serde_json::Value>>(&line) {
        Ok(envelope) if !is_proved(&envelope.token) || envelope.directory != directory => Answer::NotMine,
        Ok(envelope) => match handler(&envelope.request) {
            Some(Ok(text)) => Answer::Done(text),
            Some(Err(text)) => Answer::Refused(text),
            None => Answer::Refused(
                "the server does not understand the request: it has another version".to_owned(),
            ),
        },
        Err(_) => return Err(io::ErrorKind::InvalidData.into()),
    };
    let mut text = serde_json::to_string(&answer)?;
    text.push('\n');
    stream.write_all(text.as_bytes())
}

/// Sends a request to the server that has the directory open. `None` if there is none.
pub fn send(directory: &Path, request: &impl Serialize) -> Result<Option<String>, String> {
    let path = directory.join(NAME);
    let address: Address = match fs::read(&path) {
        Ok(bytes) => match serde_json::from_slice(&bytes) {
            Ok(address) => address,
            Err(_) => return Ok(None),
        },
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(format!(
                "{} belongs to another user of this machine: run the command as the server's user",
                path.display()
            ));
        }
        Err(_) => return Ok(None),
    };
    let target = SocketAddr::from((Ipv4Addr::LOCALHOST, address.port));
    let Ok(mut stream) = TcpStream::connect_timeout(&target, REQUEST) else { return Ok(None) };
    let failed = |error: io::Error| format!("the server does not answer: {error}");
    let directory = directory.canonicalize().map_err(failed)?;
    let envelope = Envelope { token: address.token, directory, request };
    let mut text = serde_json::to_string(&envelope).map_err(|error| error.to_string())?;
    text.push('\n');
    stream.set_read_timeout(Some(ANSWER)).map_err(failed)?;
    // Another program may have the port by now. It does not answer with a line of JSON.
    let mut line = String::new();
    if stream.write_all(text.as_bytes()).is_err()
        || BufReader::new(stream.take(LIMIT)).read_line(&mut line).is_err()
    {
        return Ok(None);
    }
    match serde_json::from_str(&line) {
        Ok(Answer::Done(text)) => Ok(Some(text)),
        Ok(Answer::Refused(text)) => Err(text),
        Ok(Answer::NotMine) | Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::{self, Request};
    use diwan_access::Access;
    use diwan_kv::MemoryEngine;
    use diwan_store::Store;

    #[test]
    fn server_answers_for_its_own_directory_alone() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path().join("d".repeat(120));
        std::fs::create_dir(&directory).unwrap();
        let access = Access::with_defaults(Store::open(Arc::new(MemoryEngine::new())).unwrap()).unwrap();
        assert_eq!(send(&directory, &Request::List), Ok(None));
        let control = Control::listen(&directory, users::handler(access)).unwrap();
        assert_eq!(send(&directory, &Request::List), Ok(Some(String::new())));
        let (user, database) = ("bob".to_owned(), "admin".to_owned());
        let add = Request::Add { user, database, roles: vec!["read".to_owned()], password: "pw".to_owned() };
        assert!(send(&directory, &add).unwrap_err().contains("first user"));
        let copy = temporary.path().join("copy");
        std::fs::create_dir(&copy).unwrap();
        std::fs::copy(directory.join(NAME), copy.join(NAME)).unwrap();
        assert_eq!(send(&copy, &Request::List), Ok(None), "the file of a copy");
        drop(control);
        assert_eq!(send(&directory, &Request::List), Ok(None));
    }
}

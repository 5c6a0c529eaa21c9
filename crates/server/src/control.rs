//! The control socket: how `diwan user` reaches the server that has its directory open.
//!
//! The server listens on a Unix socket in its data directory, which only the directory's owner can open: whoever can
//! read the documents' files needs no password. A request is a line of JSON, and so is the answer.

use crate::users::{self, Request};
use diwan_access::Access;
use serde::{Deserialize, Serialize};
use std::fs::Permissions;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The socket's name in the data directory.
const NAME: &str = "control.sock";
/// The longest request.
const LIMIT: u64 = 64 << 10;
/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(30);

/// The answer to a request.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    Done(String),
    Refused(String),
}

/// The socket of a running server. Dropping it removes the file.
pub struct Control {
    path: PathBuf,
}

impl Control {
    /// Listens in this directory, in a thread of its own.
    pub fn listen(directory: &Path, access: Arc<Access>) -> io::Result<Control> {
        let path = directory.join(NAME);
        // The directory's lock says that no other server listens: a socket that is there is left over.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        std::thread::Builder::new().name("diwan-control".to_owned()).spawn(move || {
            for stream in listener.incoming().flatten() {
                if let Err(error) = answer(&access, stream) {
                    tracing::debug!(%error, "a client of the control socket went away");
                }
            }
        })?;
        Ok(Control { path })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // The next server removes it otherwise.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn answer(access: &Access, stream: UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new((&stream).take(LIMIT)).read_line(&mut line)?;
    let answer = match serde_json::from_str::<Request>(&line) {
        Ok(request) => match users::apply(access, &request) {
            Ok(text) => Answer::Done(text),
            Err(text) => Answer::Refused(text),
        },
        Err(_) => {
            Answer::Refused("the server does not understand the request: it has another version".to_owned())
        }
    };
    let mut text = serde_json::to_string(&answer)?;
    text.push('\n');
    (&stream).write_all(text.as_bytes())
}

/// Sends a request to the server that has the directory open. `None` if there is none.
pub fn send(directory: &Path, request: &Request) -> Result<Option<String>, String> {
    let stream = match UnixStream::connect(directory.join(NAME)) {
        Ok(stream) => stream,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(format!(
                "{} belongs to another user of this machine: run the command as the server's user",
                directory.join(NAME).display()
            ));
        }
        Err(_) => return Ok(None),
    };
    let failed = |error: io::Error| format!("the server does not answer: {error}");
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    let mut text = serde_json::to_string(request).map_err(|error| error.to_string())?;
    text.push('\n');
    (&stream).write_all(text.as_bytes()).map_err(failed)?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).map_err(failed)?;
    match serde_json::from_str(&line) {
        Ok(Answer::Done(text)) => Ok(Some(text)),
        Ok(Answer::Refused(text)) => Err(text),
        Err(_) => Err("the server does not answer: it is stopping".to_owned()),
    }
}

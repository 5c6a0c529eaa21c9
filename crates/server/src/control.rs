//! The control socket: how `diwan user` reaches the server that has its directory open.
//!
//! The server listens on a Unix socket in its data directory, which only the directory's owner can open: whoever can
//! read the documents' files needs no password. A request is a line of JSON, and so is the answer.

use crate::users::{self, Request};
use diwan_access::Access;
use serde::{Deserialize, Serialize};
use std::fs::{File, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The socket's name in the data directory.
const NAME: &str = "control.sock";
/// Longer paths are replaced by shorter ones.
const LONGEST_PATH: usize = 100;
/// The longest request.
const LIMIT: u64 = 64 << 10;
/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(30);

/// A path of the socket that the system accepts. A socket's path has about a hundred bytes at most, and a directory may
/// have a longer one: the path through the open directory is short.
fn short_path(directory: &Path) -> io::Result<(PathBuf, Option<File>)> {
    let path = directory.join(NAME);
    if path.as_os_str().len() < LONGEST_PATH {
        return Ok((path, None));
    }
    let open = File::open(directory)?;
    Ok((PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd())).join(NAME), Some(open)))
}

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
        let (short, _directory) = short_path(directory)?;
        let listener = UnixListener::bind(short)?;
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
    let connect = || {
        let (short, _directory) = short_path(directory)?;
        UnixStream::connect(short)
    };
    let stream = match connect() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_kv::MemoryEngine;
    use diwan_store::Store;

    #[test]
    fn socket_answers_in_a_directory_with_a_long_path() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path().join("d".repeat(120));
        std::fs::create_dir(&directory).unwrap();
        let access = Access::with_defaults(Store::open(Arc::new(MemoryEngine::new())).unwrap()).unwrap();
        assert_eq!(send(&directory, &Request::List), Ok(None));
        let control = Control::listen(&directory, access).unwrap();
        assert_eq!(send(&directory, &Request::List), Ok(Some(String::new())));
        let (user, database) = ("bob".to_owned(), "admin".to_owned());
        let add = Request::Add { user, database, roles: vec!["read".to_owned()], password: "pw".to_owned() };
        assert!(send(&directory, &add).unwrap_err().contains("first user"));
        drop(control);
        assert_eq!(send(&directory, &Request::List), Ok(None));
    }
}

//! Where the documents are: in a directory, in memory, or in a PostgreSQL server; and the engine that is opened there.

use diwan_kv::{CachedEngine, ContractEngine, Engine, MemoryEngine};
use diwan_postgres::PostgresEngine;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directory without a setting.
const DIRECTORY: &str = "diwan-data";

/// Where the documents are.
#[derive(Clone, Debug)]
pub enum Place {
    /// In memory.
    Memory,
    /// In a directory.
    Directory(PathBuf),
    /// In a PostgreSQL server.
    Postgres(Uri),
}

/// The URI of a PostgreSQL server. It may contain a password, so it is never shown.
#[derive(Clone)]
pub struct Uri(String);

impl fmt::Debug for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Uri")
    }
}

impl fmt::Display for Place {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Memory => f.write_str("in memory only"),
            Place::Directory(path) => write!(f, "{}", path.display()),
            Place::Postgres(uri) => {
                let described = diwan_postgres::describe(&uri.0);
                f.write_str(&described.unwrap_or_else(|error| error.to_string()))
            }
        }
    }
}

impl Place {
    /// The place that settings name.
    pub fn of(data: Option<PathBuf>, store: Option<String>, memory: bool) -> Result<Place, String> {
        let exclude = |one: &str, other: &str| {
            format!("{one} and {other} exclude each other: say in one of them where the documents are")
        };
        match (data, store, memory) {
            (Some(_), Some(_), _) => Err(exclude("--store (DIWAN_STORE)", "--data (DIWAN_DATA)")),
            (_, Some(_), true) => Err(exclude("--store (DIWAN_STORE)", "--memory (DIWAN_MEMORY)")),
            (Some(_), _, true) => Err(exclude("--memory", "--data")),
            (None, Some(uri), false) => match diwan_postgres::describe(&uri) {
                Ok(_) => Ok(Place::Postgres(Uri(uri))),
                Err(error) => Err(format!("--store: {error}")),
            },
            (None, None, true) => Ok(Place::Memory),
            (data, None, false) => Ok(Place::Directory(data.unwrap_or_else(|| DIRECTORY.into()))),
        }
    }

    /// The directory of the documents, if there is one.
    pub fn directory(&self) -> Option<&Path> {
        match self {
            Place::Directory(path) => Some(path),
            Place::Memory | Place::Postgres(_) => None,
        }
    }

    /// Where temporary files are put: beside the documents, because a temporary file system may be small.
    pub fn temporary(&self) -> PathBuf {
        self.directory().map_or_else(std::env::temp_dir, Path::to_owned)
    }

    /// Opens the engine to serve its documents. `options` is for a directory, but for the size of the cache.
    pub fn open(&self, options: &diwan_kv::Options) -> Result<Arc<dyn Engine>, String> {
        match self {
            Place::Memory => Ok(Arc::new(MemoryEngine::new())),
            Place::Directory(directory) => {
                let engine = diwan_kv::open(directory, options);
                engine.map(Arc::from).map_err(|error| refused(directory, error))
            }
            Place::Postgres(uri) => {
                let engine = CachedEngine::new(postgres(uri)?, options.cache_bytes);
                Ok(if cfg!(debug_assertions) {
                    Arc::new(ContractEngine::new(engine))
                } else {
                    Arc::new(engine)
                })
            }
        }
    }
}

/// Opens the engine over a PostgreSQL server.
pub fn postgres(uri: &Uri) -> Result<PostgresEngine, String> {
    PostgresEngine::open(&uri.0, &diwan_postgres::Options::default()).map_err(|error| error.to_string())
}

fn refused(directory: &Path, error: diwan_kv::Error) -> String {
    match error {
        diwan_kv::Error::Locked(path) => format!(
            "another server has the data directory {} open: stop it, or give this one another --data",
            path.display()
        ),
        diwan_kv::Error::LostWrites(lost) => format!(
            "{}. Restore a backup, or start with --accept-loss to continue without the missing writes",
            diwan_kv::Error::LostWrites(lost)
        ),
        error => format!("cannot open the data directory {}: {error}", directory.display()),
    }
}

/// The arguments of the process, without the passwords in URIs: clients may ask for them.
pub fn shown_arguments() -> Vec<String> {
    std::env::args().map(without_password).collect()
}

fn without_password(argument: String) -> String {
    let Some((before, rest)) = argument.split_once("://") else { return argument };
    // The last @ before the path; a password may contain others only in encoded form.
    let Some((user, place)) = rest.rsplit_once('@') else { return argument };
    let user = user.split_once(':').map_or(user, |(user, _)| user);
    format!("{before}://{user}@{place}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_arguments_have_no_password() {
        let shown = |argument: &str| without_password(argument.to_owned());
        assert_eq!(shown("postgres://me:se:c@ret@h:1/d?schema=s"), "postgres://me@h:1/d?schema=s");
        assert_eq!(shown("--store=postgres://me:secret@h/d"), "--store=postgres://me@h/d");
        for plain in ["--store", "postgres://h/d", "https://app.example", "a@b:c"] {
            assert_eq!(shown(plain), plain);
        }
    }
}

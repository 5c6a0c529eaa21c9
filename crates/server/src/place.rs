//! Where the documents are: in a directory, in memory, or in a PostgreSQL server; and the engine that is opened there.

use diwan_kv::{CachedEngine, ContractEngine, Engine, FjallEngine, MemoryEngine};
use diwan_postgres::PostgresEngine;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directory without a setting.
const DIRECTORY: &str = "diwan-data";

/// The cache of a directory that is read or written once from the beginning to the end, in bytes.
pub const SCAN_CACHE: u64 = 64 << 20;

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

    /// The place that one argument names: a directory, or the URI of a PostgreSQL server.
    pub fn parse(text: &str) -> Result<Place, String> {
        match text.split_once("://") {
            Some(("postgres" | "postgresql", _)) => Place::of(None, Some(text.to_owned()), false),
            Some((scheme, _)) => Err(format!("{scheme}:// is not known: name a directory, or postgres://…")),
            None if text.is_empty() => Err("name a directory, or postgres://…".to_owned()),
            // A message about it may be read in another directory.
            None => std::path::absolute(text).map(Place::Directory).map_err(|error| error.to_string()),
        }
    }

    /// Refuses two places that are the same, or of which one is in the other.
    pub fn check_apart(&self, other: &Place) -> Result<(), String> {
        match (self, other) {
            (Place::Directory(one), Place::Directory(two)) => {
                let (one, two) = (resolved(one)?, resolved(two)?);
                if one.starts_with(&two) || two.starts_with(&one) {
                    return Err(format!("{self} and {other} are the same directory, or one is in the other"));
                }
            }
            (Place::Postgres(_), Place::Postgres(_)) if self.to_string() == other.to_string() => {
                return Err(format!("both places are {self}: name another schema with ?schema=…"));
            }
            _ => {}
        }
        Ok(())
    }

    /// What a store is that has to be deleted as a whole.
    pub fn whole(&self) -> &'static str {
        match self {
            Place::Postgres(_) => "schema",
            Place::Directory(_) | Place::Memory => "directory",
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
                let engine = CachedEngine::new(postgres(uri, true)?, options.cache_bytes);
                Ok(if cfg!(debug_assertions) {
                    Arc::new(ContractEngine::new(engine))
                } else {
                    Arc::new(engine)
                })
            }
        }
    }

    /// Opens the engine of a store that exists and that no server has open, to read all of it. A directory gets a cache of so
    /// many bytes. `instead` follows the advice to stop the server that has it open.
    pub fn open_stopped(&self, cache_bytes: u64, instead: &str) -> Result<Box<dyn Engine>, String> {
        match self {
            Place::Memory => Err("there is no store in memory".to_owned()),
            Place::Directory(directory) => match contents(directory)? {
                Contents::Store => fjall(directory, cache_bytes, instead),
                Contents::Missing => Err(format!("there is no directory {self}")),
                Contents::Nothing => Err(format!("the directory {self} is empty: it contains no store")),
                Contents::Other => Err(format!("the directory {self} contains no store")),
            },
            Place::Postgres(uri) => Ok(Box::new(postgres(uri, false)?)),
        }
    }

    /// Opens an engine to fill it. It is made if there is none.
    pub fn open_to_fill(&self) -> Result<Box<dyn Engine>, String> {
        match self {
            Place::Memory => Err("what is in memory is gone when the command ends".to_owned()),
            Place::Directory(directory) => match contents(directory)? {
                Contents::Other => Err(format!("the directory {self} has other files: name a new one")),
                Contents::Missing | Contents::Nothing | Contents::Store => fjall(directory, SCAN_CACHE, ""),
            },
            Place::Postgres(uri) => Ok(Box::new(postgres(uri, true)?)),
        }
    }
}

/// What a directory contains.
#[derive(Debug, PartialEq, Eq)]
enum Contents {
    /// There is no such directory.
    Missing,
    /// Nothing of use.
    Nothing,
    /// A store, whole or not.
    Store,
    /// Something else.
    Other,
}

fn contents(directory: &Path) -> Result<Contents, String> {
    let unreadable =
        |error: io::Error| format!("cannot read the data directory {}: {error}", directory.display());
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Contents::Missing),
        entries => entries.map_err(unreadable)?,
    };
    if directory.join("mark").exists() || directory.join("data/version").exists() {
        return Ok(Contents::Store);
    }
    for entry in entries {
        // The first file that an engine makes.
        if entry.map_err(unreadable)?.file_name() != "lock" {
            return Ok(Contents::Other);
        }
    }
    Ok(Contents::Nothing)
}

/// The absolute path without links. The end of it need not exist.
fn resolved(path: &Path) -> Result<PathBuf, String> {
    let unreadable = |error: io::Error| format!("cannot read {}: {error}", path.display());
    let absolute = std::path::absolute(path).map_err(unreadable)?;
    let mut existing = absolute.as_path();
    loop {
        match (existing.canonicalize(), existing.parent()) {
            (Ok(real), _) => {
                let rest = absolute.strip_prefix(existing).unwrap_or(Path::new(""));
                return Ok(if rest.as_os_str().is_empty() { real } else { real.join(rest) });
            }
            (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => existing = parent,
            (Err(error), _) => return Err(unreadable(error)),
        }
    }
}

/// Opens the engine in a directory, for a command.
fn fjall(directory: &Path, cache_bytes: u64, instead: &str) -> Result<Box<dyn Engine>, String> {
    let options =
        diwan_kv::Options { cache_bytes, settle_in_background: false, ..diwan_kv::Options::default() };
    let engine = FjallEngine::open(directory, &options).map_err(|error| match error {
        diwan_kv::Error::Locked(_) => format!(
            "a server or another command has the data directory {} open: stop it first{instead}",
            directory.display()
        ),
        error => format!("cannot open the data directory {}: {error}", directory.display()),
    })?;
    Ok(Box::new(engine))
}

/// Opens the engine over a PostgreSQL server. Without a store there, it makes one, or refuses.
fn postgres(uri: &Uri, create: bool) -> Result<PostgresEngine, String> {
    let options = diwan_postgres::Options { create, ..diwan_postgres::Options::default() };
    PostgresEngine::open(&uri.0, &options).map_err(|error| error.to_string())
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

    #[test]
    fn parse_tells_directories_from_uris() {
        assert!(
            matches!(Place::parse("a/b"), Ok(Place::Directory(path)) if path.is_absolute() && path.ends_with("a/b"))
        );
        for uri in ["postgres://h/d", "postgresql://h/d?schema=s"] {
            assert!(matches!(Place::parse(uri), Ok(Place::Postgres(_))), "{uri}");
        }
        for (text, part) in
            [("", "name a directory"), ("http://h", "http:// is not known"), ("postgres://", "no host")]
        {
            let error = Place::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn check_apart_refuses_places_that_share_anything() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| Place::Directory(directory.path().join(name));
        std::fs::create_dir(directory.path().join("real")).unwrap();
        std::os::unix::fs::symlink("real", directory.path().join("link")).unwrap();
        for (one, two) in [
            ("real", "real"),
            ("real", "link"),
            ("real", "link/new/deep"),
            (".", "new"),
            ("new", "real/../new"),
        ] {
            for (one, two) in [(one, two), (two, one)] {
                assert!(path(one).check_apart(&path(two)).is_err(), "{one}, {two}");
            }
        }
        assert_eq!(path("real").check_apart(&path("real2")), Ok(()));
        let uri = |text: &str| Place::parse(text).unwrap();
        assert!(uri("postgres://a:x@h/d").check_apart(&uri("postgres://b@h:5432/d?schema=diwan")).is_err());
        assert_eq!(uri("postgres://h/d").check_apart(&uri("postgres://h/d?schema=other")), Ok(()));
        assert_eq!(uri("postgres://h/d").check_apart(&path("real")), Ok(()));
    }

    #[test]
    fn a_directory_of_something_else_is_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::Directory(directory.path().to_owned());
        let refusal = |opened: Result<Box<dyn Engine>, String>| opened.map(drop).unwrap_err();
        assert!(refusal(place.open_stopped(SCAN_CACHE, "")).contains("is empty"));
        std::fs::create_dir(directory.path().join("data")).unwrap();
        assert!(refusal(place.open_stopped(SCAN_CACHE, "")).contains("contains no store"));
        assert!(refusal(place.open_to_fill()).contains("has other files"));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_whose_creation_was_interrupted_can_be_filled() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("lock"), "").unwrap();
        let place = Place::Directory(directory.path().to_owned());
        let engine = place.open_to_fill().unwrap();
        let locked = place.open_stopped(SCAN_CACHE, ", or wait").map(drop).unwrap_err();
        assert!(locked.ends_with("stop it first, or wait"), "{locked}");
        drop(engine);
        place.open_stopped(SCAN_CACHE, "").unwrap();
    }
}

//! The keyspaces of the spaces: most are created with the directory, some by their first write.
//!
//! Creating one costs some syncs. So a space that most stores never use is created on demand, also in directories of
//! earlier versions. The file `spaces` lists those that were created on demand, a line of name and number each. It is
//! synced before the first write, so a missing keyspace is noticed.

use super::read::guarded;
use super::{recover, tuning};
use crate::{Error, Result, Space};
use fjall::{Database, Keyspace};
use parking_lot::Mutex;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The keyspaces, by the number of their space.
pub(super) struct Keyspaces {
    made: [OnceLock<Keyspace>; Space::ALL.len()],
    making: Mutex<()>,
    directory: PathBuf,
}

impl Keyspaces {
    /// Opens the existing keyspaces, and creates those that are not created on demand.
    pub fn open(db: &Database, directory: &Path) -> Result<Keyspaces> {
        let keyspaces = Keyspaces {
            made: Default::default(),
            making: Mutex::new(()),
            directory: directory.to_path_buf(),
        };
        let listed = lines(directory)?;
        for space in Space::ALL {
            let is_there = db.keyspace_exists(space.name());
            if !space.is_made_on_demand() {
                keyspaces.set(db, space)?;
            } else if is_there {
                let keyspace = keyspaces.set(db, space)?;
                if !listed.iter().any(|(listed, _)| *listed == space) {
                    // The process ended after it created the keyspace and before it listed it.
                    note(directory, space, keyspace)?;
                }
            } else if listed.iter().any(|(listed, _)| *listed == space) {
                return Err(Error::damaged(format!("the keyspace of {space} is missing")));
            }
        }
        Ok(keyspaces)
    }

    /// The keyspace of a space; `None` if nothing was ever written to it.
    pub fn get(&self, space: Space) -> Option<&Keyspace> {
        self.made[space.index()].get()
    }

    /// The keyspace of a space that is about to be written to; created if there is none.
    pub fn make(&self, db: &Database, space: Space) -> Result<&Keyspace> {
        if let Some(made) = self.get(space) {
            return Ok(made);
        }
        let _alone = self.making.lock();
        if let Some(made) = self.get(space) {
            return Ok(made);
        }
        let keyspace = create(db, space)?;
        note(&self.directory, space, &keyspace)?;
        Ok(self.made[space.index()].get_or_init(|| keyspace))
    }

    fn set(&self, db: &Database, space: Space) -> Result<&Keyspace> {
        let keyspace = create(db, space)?;
        Ok(self.made[space.index()].get_or_init(|| keyspace))
    }
}

/// Opens a space's keyspace, or creates it.
fn create(db: &Database, space: Space) -> Result<Keyspace> {
    guarded(|| db.keyspace(space.name(), || tuning::keyspace(space)))
}

/// The numbers of the keyspaces that were created on demand.
pub(super) fn listed(directory: &Path) -> Result<Vec<u64>> {
    Ok(lines(directory)?.into_iter().map(|(_, number)| number).collect())
}

fn lines(directory: &Path) -> Result<Vec<(Space, u64)>> {
    let path = directory.join("spaces");
    let text = match std::fs::read_to_string(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) if e.kind() == std::io::ErrorKind::InvalidData => String::from("?"),
        read => read.map_err(|e| Error::io(format!("reading {}", path.display()), e))?,
    };
    let line = |line: &str| {
        let (name, number) = line.split_once(' ')?;
        let space = Space::ALL.into_iter().find(|space| space.name() == name)?;
        Some((space, number.parse().ok()?))
    };
    let lines: Option<Vec<_>> = text.lines().map(line).collect();
    lines.ok_or_else(|| Error::damaged(format!("{} is malformed", path.display())))
}

/// Adds a line, by writing a new file that replaces the old one.
fn note(directory: &Path, space: Space, keyspace: &Keyspace) -> Result<()> {
    let number = keyspace.path().file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let mut text: String =
        lines(directory)?.iter().map(|(space, number)| format!("{space} {number}\n")).collect();
    text.push_str(&format!("{space} {number}\n"));
    let (new, path) = (directory.join("spaces.new"), directory.join("spaces"));
    let write = || {
        let mut file = std::fs::File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, &path)?;
        recover::sync_dir(directory)
    };
    write().map_err(|e| Error::io(format!("writing {}", path.display()), e))
}

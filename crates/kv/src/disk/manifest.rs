//! Checking fjall's manifests before fjall reads them.
//!
//! The file `current` of each keyspace holds the number of its newest version, and the checksum of the file that lists
//! the version's tables. fjall does not verify that checksum: a damaged list makes it panic, or delete tables that it
//! takes for unused. It also takes a keyspace without `current` for one that was never finished, and deletes it. So both
//! are checked here; fjall does verify the checksums of the tables themselves.

use crate::{Error, Result, Space};
use std::path::Path;
use xxhash_rust::xxh3::xxh3_128;

/// Checks the manifests of all keyspaces in fjall's directory; `more` are the numbers of those created on demand.
pub(super) fn check(data: &Path, more: &[u64]) -> Result<()> {
    // Keyspace 0 holds fjall's own settings; ours follow in the order of their creation.
    let first = Space::ALL.iter().filter(|space| !space.is_made_on_demand()).count() as u64;
    for number in (0..=first).chain(more.iter().copied()) {
        let keyspace = data.join("keyspaces").join(number.to_string());
        let current = read(&keyspace.join("current"))?;
        let damaged = |what: &str| Err(Error::damaged(format!("{what} in {}", keyspace.display())));
        let Some((version, checksum)) = parse(&current) else {
            return damaged("the number of the current version is malformed");
        };
        if xxh3_128(&read(&keyspace.join(format!("v{version}")))?) != checksum {
            return damaged("the list of tables fails its checksum");
        }
    }
    Ok(())
}

fn parse(current: &[u8]) -> Option<(u64, u128)> {
    let (version, rest) = current.split_first_chunk()?;
    let (checksum, rest) = rest.split_first_chunk()?;
    (rest == [0]).then_some((u64::from_le_bytes(*version), u128::from_le_bytes(*checksum)))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Error::damaged(format!("{} is missing", path.display())),
        _ => Error::io(format!("reading {}", path.display()), e),
    })
}

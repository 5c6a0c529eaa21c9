//! The limit of open files and sockets of the process.

use rustix::process::{Resource, getrlimit, setrlimit};

/// File descriptors reserved for the store's files.
const RESERVED: u64 = 512;

/// Raises the limit of open files as far as the system allows, and returns how many connections each of `faces` faces may
/// have, so that the connections of one face leave room for those of the other.
pub fn connections(wanted: usize, faces: usize) -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current < limit.maximum || limit.maximum.is_none() {
        let raised = limit.maximum.unwrap_or(u64::MAX).min((wanted * faces) as u64 + RESERVED);
        if limit.current.is_some_and(|current| current < raised) {
            limit.current = Some(raised);
            if let Err(error) = setrlimit(Resource::Nofile, limit) {
                tracing::warn!(%error, "cannot raise the limit of open files");
            }
        }
    }
    let Some(files) = getrlimit(Resource::Nofile).current else { return wanted };
    let room = usize::try_from(files.saturating_sub(RESERVED).max(files / 2)).unwrap_or(wanted) / faces;
    if room < wanted {
        tracing::info!(connections = room, files, "the limit of open files bounds the connections");
    }
    room.min(wanted)
}

//! Finds keys under numbers that the catalog does not have. No query reads them, and nothing deletes them.

use super::catalog::Catalog;
use super::report::{Finding, FindingKind, Findings, Part};
use super::{Watch, damage};
use crate::error::Result;
use crate::keys::{self, read_number, write_number};
use diwan_kv::{Direction, KeyRange, Snapshot, Space};
use std::ops::{Bound, ControlFlow};

/// Goes from owner to owner in each space, skipping what lies between.
pub(super) fn find(
    snapshot: &dyn Snapshot,
    catalog: &Catalog,
    watch: &mut Watch<'_>,
    findings: &mut Findings,
) -> Result<()> {
    if let Err(error) = due_bodies(snapshot, watch, findings) {
        let detail = damage(error)?;
        findings.add(Finding { kind: FindingKind::Unreadable, namespace: None, index: None, detail });
    }
    for space in [Space::Records, Space::Indexes, Space::Log, Space::Revisions, Space::Attachments] {
        if let Err(error) = in_space(snapshot, space, catalog, watch, findings) {
            let detail = damage(error)?;
            findings.add(Finding { kind: FindingKind::Unreadable, namespace: None, index: None, detail });
        }
    }
    Ok(())
}

/// The keys of superseded bodies in the order of time read as such.
fn due_bodies(snapshot: &dyn Snapshot, watch: &mut Watch<'_>, findings: &mut Findings) -> Result<()> {
    let mut count = 0;
    let mut outcome = Ok(());
    snapshot.visit(Space::Revisions, keys::all_due_bodies(), &mut |key, value| {
        outcome = watch.step("", Part::Orphans, count, None);
        count += 1;
        if keys::split_due_body(key).is_none() || !value.is_empty() {
            let detail = format!("nothing has the key {}", keys::describe(Space::Revisions, key));
            findings.add(Finding { kind: FindingKind::Orphan, namespace: None, index: None, detail });
        }
        if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    outcome
}

fn in_space(
    snapshot: &dyn Snapshot,
    space: Space,
    catalog: &Catalog,
    watch: &mut Watch<'_>,
    findings: &mut Findings,
) -> Result<()> {
    let mut rest = KeyRange::all();
    // Keys in the order of time may belong to collections that have been dropped.
    if space == Space::Revisions
        && let Bound::Excluded(end) = keys::all_due_bodies().end
    {
        rest.start = Bound::Included(end);
    }
    while let Some(first) = snapshot.scan(space, rest.clone(), Direction::Forward).next() {
        let (key, _) = first?;
        let (length, known) = match owner(space, &key) {
            Some((length, Owner::Collection(number))) => (length, catalog.knows_collection(number)),
            Some((length, Owner::Index(number))) => (length, catalog.knows_index(number)),
            None => (key.len(), false),
        };
        let range = KeyRange::prefix(&key[..length]);
        if !known {
            let mut count = 0;
            let mut outcome = Ok(());
            snapshot.visit(space, range.clone(), &mut |_, _| {
                outcome = watch.step("", Part::Orphans, count, None);
                count += 1;
                if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            outcome?;
            let detail = format!(
                "{count} keys of the space {space} belong to nothing in the catalog; the first is the {}",
                keys::describe(space, &key)
            );
            findings.add(Finding { kind: FindingKind::Orphan, namespace: None, index: None, detail });
        }
        let Bound::Excluded(end) = range.end else { break };
        rest.start = Bound::Included(end);
    }
    Ok(())
}

enum Owner {
    Collection(u64),
    Index(u64),
}

/// The owner of a key, and the length of the prefix that names it. A number in a non-canonical encoding has no owner.
fn owner(space: Space, key: &[u8]) -> Option<(usize, Owner)> {
    let natural = usize::from(space == Space::Indexes && key.first() == Some(&0));
    let (number, rest) = read_number(key.get(natural..)?)?;
    let length = key.len() - rest.len();
    let mut canonical = Vec::with_capacity(9);
    write_number(&mut canonical, number);
    if canonical != key[natural..length] {
        return None;
    }
    let of_index = space == Space::Indexes && natural == 0;
    Some((length, if of_index { Owner::Index(number) } else { Owner::Collection(number) }))
}

//! Revision trees: histories merged in any order and in any pieces give the leaves of a simple model, a stored tree can be
//! read back, and damaged bytes are refused without a panic.

#![no_main]

use diwan_store::{Leaf, Revision, RevisionTree};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeSet;

fuzz_target!(|data: &[u8]| {
    let winner = Leaf { revision: Revision { generation: 3, hash: [3; 16] }, deleted: false };
    let mut damaged = RevisionTree::of_path(winner, &[[2; 16], [1; 16]]);
    if damaged.add_branches(data).is_ok() {
        stored(&damaged);
    }
    let _ = histories(&mut Unstructured::new(data));
});

/// A revision whose name determines its single parent and whether it is a deletion.
#[derive(Clone, Copy)]
struct Name(u32, u8);

impl Name {
    fn revision(self) -> Revision {
        Revision { generation: self.0, hash: [self.1; 16] }
    }

    fn is_deleted(self) -> bool {
        self.1.is_multiple_of(3)
    }

    fn parent(self) -> Option<Name> {
        (self.0 > 1).then(|| Name(self.0 - 1, self.1 / 2))
    }

    /// The revision and its newest ancestors, at most `length` in total.
    fn path(self, length: usize) -> Vec<Name> {
        std::iter::successors(Some(self), |name| name.parent()).take(length).collect()
    }
}

fn histories(input: &mut Unstructured<'_>) -> Result<()> {
    let mut paths = Vec::new();
    while paths.len() < 64 && !input.is_empty() {
        let name = Name(input.int_in_range(1..=12)?, input.int_in_range(0..=63)?);
        paths.push(name.path(input.int_in_range(1..=12)?));
    }
    let mut tree = RevisionTree::new();
    let mut backwards = RevisionTree::new();
    for (one, two) in paths.iter().zip(paths.iter().rev()) {
        merge(&mut tree, one);
        merge(&mut backwards, two);
        stored(&tree);
    }
    let parents: BTreeSet<Revision> =
        paths.iter().flat_map(|path| path[1..].iter().map(|name| name.revision())).collect();
    let mut expected: Vec<(bool, Revision)> =
        paths.iter().map(|path| (!path[0].is_deleted(), path[0].revision())).collect();
    expected.retain(|(_, revision)| !parents.contains(revision));
    expected.sort_unstable();
    expected.dedup();
    expected.reverse();
    let leaves = |tree: &RevisionTree| -> Vec<(bool, Revision)> {
        tree.leaves().iter().map(|leaf| (!leaf.deleted, leaf.revision)).collect()
    };
    assert_eq!(leaves(&tree), expected);
    assert_eq!(leaves(&backwards), expected);
    let limit = paths.len() as u32 % 7 + 1;
    tree.stem(limit);
    assert_eq!(leaves(&tree), expected);
    stored(&tree);
    let removed = tree.remove_leaves(&[Name(5, 5).revision()]);
    assert!(removed.iter().all(|revision| !tree.contains(revision)));
    stored(&tree);
    Ok(())
}

fn merge(tree: &mut RevisionTree, path: &[Name]) {
    let ancestors: Vec<[u8; 16]> = path[1..].iter().map(|name| name.revision().hash).collect();
    tree.merge(path[0].revision(), path[0].is_deleted(), &ancestors);
}

/// Checks that the stored form of a tree gives back its leaves and their paths.
fn stored(tree: &RevisionTree) {
    let Some(winner) = tree.winner() else { return };
    let ancestors: Vec<[u8; 16]> =
        tree.path(&winner.revision)[1..].iter().map(|revision| revision.hash).collect();
    let mut again = RevisionTree::of_path(winner, &ancestors);
    if let Some(bytes) = tree.encode_branches() {
        again.add_branches(&bytes).expect("stored branches can be read back");
    }
    assert_eq!(again.leaves(), tree.leaves());
    for leaf in tree.leaves() {
        assert_eq!(again.path(&leaf.revision), tree.path(&leaf.revision));
    }
}

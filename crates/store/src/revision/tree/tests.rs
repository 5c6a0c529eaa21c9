//! Tests of revision trees against a naive model: the list of all merged paths.

use super::*;
use std::collections::BTreeSet;

/// A small generator of random numbers. A failure can be repeated with its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % n as u64) as usize
    }
}

fn revision(generation: u32, hash: u8) -> Revision {
    Revision { generation, hash: [hash; 16] }
}

/// A random consistent set of histories: each revision's path back to its first, and whether it is a deletion.
fn universe(random: &mut Random, size: usize) -> Vec<(Vec<Revision>, bool)> {
    let mut paths: Vec<(Vec<Revision>, bool)> = Vec::new();
    let mut names: Vec<u8> = (0..size as u8).collect();
    for _ in 0..size {
        let name = names.swap_remove(random.below(names.len()));
        let parent =
            if paths.is_empty() || random.below(8) == 0 { None } else { Some(random.below(paths.len())) };
        let before = parent.map_or_else(Vec::new, |at| paths[at].0.clone());
        let own = revision(before.len() as u32 + 1, name);
        paths.push(([&[own], before.as_slice()].concat(), random.below(4) == 0));
    }
    paths
}

/// The model: the merged paths.
#[derive(Default)]
struct Model {
    merged: Vec<(Vec<Revision>, bool)>,
}

impl Model {
    fn leaves(&self) -> BTreeSet<(bool, Revision)> {
        let parents: BTreeSet<Revision> =
            self.merged.iter().flat_map(|(path, _)| path[1..].to_vec()).collect();
        let leaves = self.merged.iter().filter(|(path, _)| !parents.contains(&path[0]));
        leaves.map(|(path, deleted)| (!deleted, path[0])).collect()
    }
}

fn merge(tree: &mut RevisionTree, path: &[Revision], deleted: bool) -> Merge {
    let ancestors: Vec<[u8; 16]> = path[1..].iter().map(|revision| revision.hash).collect();
    tree.merge(path[0], deleted, &ancestors)
}

fn check(tree: &RevisionTree, model: &Model) {
    let expected = model.leaves();
    let leaves = tree.leaves();
    let found: Vec<(bool, Revision)> = leaves.iter().map(|leaf| (!leaf.deleted, leaf.revision)).collect();
    assert!(found.iter().rev().copied().eq(expected.iter().copied()), "{found:?} {expected:?}");
    assert_eq!(tree.winner(), leaves.first().copied());
    for leaf in &leaves {
        let path = tree.path(&leaf.revision);
        assert!(path.windows(2).all(|pair| pair[0].generation == pair[1].generation + 1));
        assert!(tree.leaves_of(path.last().unwrap_or(&leaf.revision)).contains(leaf));
    }
    let winner = leaves.first().copied();
    let Some(winner) = winner else { return };
    let ancestors: Vec<[u8; 16]> =
        tree.path(&winner.revision)[1..].iter().map(|revision| revision.hash).collect();
    let mut again = RevisionTree::of_path(winner, &ancestors);
    if let Some(bytes) = tree.encode_branches() {
        again.add_branches(&bytes).unwrap();
        assert_eq!(again.encode_branches(), Some(bytes));
    }
    let shape = |tree: &RevisionTree| {
        let paths: Vec<_> = tree.leaves().iter().map(|leaf| tree.path(&leaf.revision)).collect();
        (tree.leaves(), paths, tree.len())
    };
    assert_eq!(shape(&again), shape(tree));
}

#[test]
fn merges_in_any_order_and_in_parts_give_the_same_tree() {
    for seed in 0..400 {
        let mut random = Random(seed);
        let size = 2 + random.below(12);
        let paths = universe(&mut random, size);
        let mut ends = Vec::new();
        for _ in 0..3 {
            let mut order: Vec<usize> = (0..size).collect();
            for at in (1..size).rev() {
                order.swap(at, random.below(at + 1));
            }
            let (mut tree, mut model) = (RevisionTree::new(), Model::default());
            for at in order {
                let (path, deleted) = &paths[at];
                // Often only the newest part of a history arrives, and later again with another length.
                for _ in 0..=random.below(2) {
                    let part = &path[..1 + random.below(path.len())];
                    merge(&mut tree, part, *deleted);
                    model.merged.push((part.to_vec(), *deleted));
                    check(&tree, &model);
                }
            }
            // In the end every history arrives in full.
            for at in 0..size {
                let (path, deleted) = &paths[(at + seed as usize) % size];
                merge(&mut tree, path, *deleted);
                model.merged.push((path.clone(), *deleted));
                assert_eq!(merge(&mut tree, path, *deleted), Merge::Known);
            }
            check(&tree, &model);
            ends.push(tree);
        }
        assert_eq!(ends[0].leaves(), ends[1].leaves(), "seed {seed}");
        assert_eq!(ends[1].leaves(), ends[2].leaves(), "seed {seed}");
        assert_eq!(ends[0].encode_branches(), ends[2].encode_branches(), "seed {seed}");
    }
}

#[test]
fn stem_keeps_the_leaves_and_the_newest_of_each_path() {
    for seed in 0..300 {
        let mut random = Random(seed);
        let size = 2 + random.below(14);
        let mut tree = RevisionTree::new();
        for (path, deleted) in universe(&mut random, size) {
            merge(&mut tree, &path, deleted);
        }
        let limit = 1 + random.below(5) as u32;
        let before = tree.clone();
        tree.stem(limit);
        assert_eq!(tree.leaves(), before.leaves());
        let mut kept = BTreeSet::new();
        for leaf in before.leaves() {
            let path = before.path(&leaf.revision);
            let newest = &path[..path.len().min(limit as usize)];
            kept.extend(newest.iter().copied());
            assert!(tree.path(&leaf.revision).starts_with(newest));
        }
        assert_eq!(tree.len(), kept.len(), "seed {seed}");
        assert!(kept.iter().all(|revision| tree.contains(revision)));
        let again = tree.clone();
        tree.stem(limit);
        assert_eq!(tree, again);
    }
}

#[test]
fn remove_leaves_removes_their_own_ancestors() {
    let path = |hashes: &[u8]| -> Vec<Revision> {
        let generations = (1..=hashes.len() as u32).rev();
        generations.zip(hashes).map(|(generation, hash)| revision(generation, *hash)).collect()
    };
    let mut tree = RevisionTree::new();
    merge(&mut tree, &path(&[4, 3, 2, 1]), false);
    merge(&mut tree, &path(&[9, 2, 1]), false);
    assert_eq!(tree.conflicts(), [revision(3, 9)]);
    // Revisions that are not leaves are not removed.
    assert_eq!(tree.remove_leaves(&[revision(3, 3), revision(7, 7)]), []);
    assert_eq!(tree.remove_leaves(&[revision(4, 4)]), [revision(4, 4)]);
    assert!(!tree.contains(&revision(3, 3)) && tree.contains(&revision(2, 2)));
    assert_eq!(tree.winner().map(|leaf| leaf.revision), Some(revision(3, 9)));
    assert_eq!(tree.remove_leaves(&[revision(3, 9)]), [revision(3, 9)]);
    assert!(tree.is_empty());
}

#[test]
fn a_deletion_wins_only_if_all_leaves_are_deletions() {
    let mut tree = RevisionTree::new();
    tree.merge(revision(2, 2), true, &[[1; 16]]);
    tree.merge(revision(1, 5), false, &[]);
    assert_eq!(tree.winner(), Some(Leaf { revision: revision(1, 5), deleted: false }));
    assert_eq!(tree.deleted_conflicts(), [revision(2, 2)]);
    tree.merge(revision(2, 6), true, &[[5; 16]]);
    assert_eq!(tree.winner(), Some(Leaf { revision: revision(2, 6), deleted: true }));
}

#[test]
fn a_contradicting_history_changes_nothing() {
    let mut tree = RevisionTree::new();
    tree.merge(revision(3, 3), false, &[[2; 16], [1; 16]]);
    assert_eq!(tree.merge(revision(3, 3), false, &[[7; 16]]), Merge::Known);
    assert_eq!(tree.path(&revision(3, 3)).len(), 3);
    // Ancestors beyond generation 1 are ignored.
    tree.merge(revision(2, 8), false, &[[1; 16], [0; 16], [0; 16]]);
    assert_eq!(tree.len(), 4);
}

#[test]
fn add_branches_refuses_damaged_bytes() {
    let mut tree = RevisionTree::new();
    tree.merge(revision(3, 3), false, &[[2; 16], [1; 16]]);
    tree.merge(revision(2, 8), true, &[[1; 16]]);
    let bytes = tree.encode_branches().unwrap();
    let winner = Leaf { revision: revision(3, 3), deleted: false };
    let whole = || RevisionTree::of_path(winner, &[[2; 16], [1; 16]]);
    assert!(whole().add_branches(&bytes).is_ok());
    for cut in 1..bytes.len() {
        assert!(whole().add_branches(&bytes[..cut]).is_err());
    }
    // The same branch twice, and a branch that forks from an unknown revision.
    assert!(whole().add_branches(&bytes.repeat(2)).is_err());
    assert!(RevisionTree::of_path(winner, &[[2; 16]]).add_branches(&bytes).is_err());
}

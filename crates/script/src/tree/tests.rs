//! Compares the tree with a sorted map, and its reductions with reductions of all rows.

use super::*;
use crate::collate::Order;
use crate::reduce::Reduce;
use crate::reduce::ReduceLimit;
use crate::reduce::builtin::Builtin;
use std::collections::BTreeMap;

/// A deterministic random number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

type Model = BTreeMap<Vec<u8>, (String, String)>;

const LAYOUT: Layout = Layout { order: Order::Unicode, partitioned: false };

fn place(key: &str, id: &str, ordinal: usize) -> Vec<u8> {
    let mut out = Vec::new();
    LAYOUT.write(&mut out, key, id, ordinal);
    out
}

fn random_key(random: &mut Random) -> String {
    match random.below(4) {
        0 => random.below(50).to_string(),
        1 => format!("\"{}\"", "k".repeat(random.below(400) as usize)),
        _ => format!(
            "[{},\"{}\",{}]",
            random.below(4),
            ["a", "b", "é"][random.below(3) as usize],
            random.below(30)
        ),
    }
}

fn range(model: &Model, random: &mut Random) -> Range {
    let mut bound = || {
        let key = random_key(random);
        let mut out = Vec::new();
        crate::collate::write_key(&mut out, &key, Order::Unicode);
        out
    };
    let (one, other) = (bound(), bound());
    match model.len() % 4 {
        0 => Range::default(),
        1 => Range { from: one, to: None },
        2 => Range { from: Vec::new(), to: Some(other) },
        _ => Range { from: one.clone().min(other.clone()), to: Some(one.max(other)) },
    }
}

fn check(tree: &Tree, nodes: &MemoryNodes, model: &Model, random: &mut Random) {
    let reduce = Reduce::Builtin(Builtin::Sum, ReduceLimit::default());
    assert_eq!(tree.rows, model.len() as u64);
    assert_eq!(tree.bytes, model.values().map(|(key, value)| (key.len() + value.len()) as u64).sum::<u64>());
    for descending in [false, true] {
        let range = range(model, random);
        let skip = random.below(20);
        let mut expected: Vec<_> = model.iter().filter(|(place, _)| range.contains(place)).collect();
        if descending {
            expected.reverse();
        }
        assert_eq!(tree.rows_in(nodes, &range).unwrap(), expected.len() as u64);
        let mut found = Vec::new();
        tree.scan(nodes, &range, descending, skip, &mut |entry| {
            found.push((entry.place.to_vec(), (entry.key.to_owned(), entry.value.to_owned())));
            Ok(found.len() < 500)
        })
        .unwrap();
        let rows: Vec<_> = expected
            .iter()
            .skip(skip as usize)
            .take(500)
            .map(|(place, row)| ((*place).clone(), (*row).clone()))
            .collect();
        assert_eq!(found, rows);
        for grouping in [Grouping::All, Grouping::Level(1), Grouping::Level(2), Grouping::Level(usize::MAX)] {
            let mut groups: Vec<(Vec<u8>, i64)> = Vec::new();
            for (place, (_, value)) in &expected {
                let group = match grouping {
                    Grouping::All => &[],
                    Grouping::Level(level) => LAYOUT.group(place, level),
                };
                let value: i64 = value.parse().unwrap();
                match groups.last_mut() {
                    Some((last, sum)) if last == group => *sum += value,
                    _ => groups.push((group.to_vec(), value)),
                }
            }
            let mut sums = Vec::new();
            let mut fold = GroupFold::new(nodes, LAYOUT, &reduce, grouping, descending);
            fold.fold_range(tree, &range, &mut |_, key, reduction| {
                sums.push((key.to_owned(), reduce.finish(reduction).unwrap().parse::<i64>().unwrap()));
                Ok(true)
            })
            .unwrap();
            assert_eq!(
                sums.iter().map(|(_, sum)| *sum).collect::<Vec<_>>(),
                groups.iter().map(|(_, sum)| *sum).collect::<Vec<_>>(),
                "{grouping:?}"
            );
            if grouping == Grouping::Level(usize::MAX) {
                let keys = sums.iter().map(|(key, _)| crate::collate::key(key, Order::Unicode).unwrap());
                assert!(keys.eq(groups.iter().map(|(group, _)| group.clone())));
            }
        }
    }
}

/// Checks that exactly the reachable nodes are stored.
fn check_nodes(tree: &Tree, nodes: &MemoryNodes) {
    fn count(nodes: &MemoryNodes, number: u64) -> usize {
        match node::Node::parse(&nodes.read(number).unwrap()).unwrap() {
            node::Node::Leaf(entries) => {
                assert!(!entries.is_empty());
                1
            }
            node::Node::Inner(children) => {
                1 + children.iter().map(|child| count(nodes, child.node)).sum::<usize>()
            }
        }
    }
    assert_eq!(tree.root.map_or(0, |root| count(nodes, root)), nodes.nodes.len());
}

fn run(seed: u64, rounds: usize) {
    let mut random = Random(seed);
    let reduce = Reduce::Builtin(Builtin::Sum, ReduceLimit::default());
    let (mut tree, mut nodes, mut model) = (Tree::default(), MemoryNodes::default(), Model::new());
    if seed.is_multiple_of(2) {
        for _ in 0..random.below(3000) {
            let key = random_key(&mut random);
            model.insert(
                place(&key, &format!("built{}", random.below(1000)), 0),
                (key, random.below(100).to_string()),
            );
        }
        let mut builder = TreeBuilder::new(&mut nodes, LAYOUT, Some(&reduce));
        for (place, (key, value)) in &model {
            builder.push(Entry { place, key, value }).unwrap();
        }
        tree = builder.finish().unwrap();
        check_nodes(&tree, &nodes);
        check(&tree, &nodes, &model, &mut random);
    }
    for round in 0..rounds {
        let mut changes = BTreeMap::new();
        // The tree alternately grows and shrinks to nothing.
        let removes = [1, 3, 9][round / 5 % 3];
        for _ in 0..random.below(400) {
            if random.below(10) < removes && !model.is_empty() {
                let at = random.below(model.len() as u64) as usize;
                changes.insert(model.keys().nth(at).unwrap().clone(), None);
            } else {
                let key = random_key(&mut random);
                let row = (key.clone(), random.below(100).to_string());
                changes
                    .insert(place(&key, &random.below(300).to_string(), random.below(2) as usize), Some(row));
            }
        }
        for (place, row) in &changes {
            match row {
                Some(row) => model.insert(place.clone(), row.clone()),
                None => model.remove(place),
            };
        }
        let changes: Vec<Change> = changes.into_iter().map(|(place, row)| Change { place, row }).collect();
        tree.apply(&mut nodes, LAYOUT, Some(&reduce), &changes).unwrap();
        check_nodes(&tree, &nodes);
        check(&tree, &nodes, &model, &mut random);
    }
    let all: Vec<Change> = model.keys().map(|place| Change { place: place.clone(), row: None }).collect();
    tree.apply(&mut nodes, LAYOUT, Some(&reduce), &all).unwrap();
    assert_eq!((tree.root, tree.rows, tree.bytes, nodes.nodes.len()), (None, 0, 0, 0));
}

#[test]
fn tree_behaves_like_a_sorted_map() {
    for seed in 1..=8 {
        run(seed * 7919, 30);
    }
}

#[test]
fn large_tree_stays_shallow() {
    let reduce = Reduce::Builtin(Builtin::Count, ReduceLimit::default());
    let mut nodes = MemoryNodes::default();
    let mut builder = TreeBuilder::new(&mut nodes, LAYOUT, Some(&reduce));
    for number in 0..200_000 {
        let key = number.to_string();
        builder.push(Entry { place: &place(&key, "id", 0), key: &key, value: "null" }).unwrap();
    }
    let tree = builder.finish().unwrap();
    struct Counting<'a>(&'a MemoryNodes, std::cell::Cell<usize>);
    impl Nodes for Counting<'_> {
        fn read(&self, node: u64) -> Result<Bytes> {
            self.1.set(self.1.get() + 1);
            self.0.read(node)
        }
    }
    let counting = Counting(&nodes, std::cell::Cell::new(0));
    let range = Range { from: place("1000", "", 0), to: Some(place("190000", "", 0)) };
    let mut fold = GroupFold::new(&counting, LAYOUT, &reduce, Grouping::All, false);
    fold.fold_range(&tree, &range, &mut |_, _, reduction| {
        assert_eq!(reduce.finish(reduction).unwrap(), "189000");
        Ok(true)
    })
    .unwrap();
    assert!(counting.1.get() < 12, "{} nodes were read", counting.1.get());
}

/// The number of levels of a tree.
fn height(tree: &Tree, nodes: &MemoryNodes) -> usize {
    let mut height = 0;
    let mut next = tree.root;
    while let Some(number) = next {
        height += 1;
        next = match node::Node::parse(&nodes.read(number).unwrap()).unwrap() {
            node::Node::Inner(children) => Some(children[0].node),
            node::Node::Leaf(_) => None,
        };
    }
    height
}

#[test]
fn removing_rows_removes_nodes() {
    // Also with reductions of several kilobytes, of which a node holds few however many rows it loses.
    for reduce in [
        Reduce::Builtin(Builtin::Count, ReduceLimit::default()),
        Reduce::Builtin(Builtin::Top(50), ReduceLimit::default()),
    ] {
        let mut random = Random(4711);
        let (mut nodes, mut model) = (MemoryNodes::default(), Model::new());
        for number in 0..20_000 {
            let key = number.to_string();
            let value = format!("\"{number:040}\"");
            model.insert(place(&key, "id", 0), (key, value));
        }
        let mut builder = TreeBuilder::new(&mut nodes, LAYOUT, Some(&reduce));
        for (place, (key, value)) in &model {
            builder.push(Entry { place, key, value }).unwrap();
        }
        let mut tree = builder.finish().unwrap();
        let (full, tall) = (nodes.nodes.len(), height(&tree, &nodes));
        // One row in two hundred stays. The others are removed in random order, several at a time.
        let mut gone: Vec<Vec<u8>> = model.keys().cloned().collect();
        for at in (1..gone.len()).rev() {
            gone.swap(at, random.below(at as u64 + 1) as usize);
        }
        gone.truncate(gone.len() - gone.len() / 200);
        for some in gone.chunks(500) {
            let some: std::collections::BTreeSet<_> = some.iter().cloned().collect();
            some.iter().for_each(|place| drop(model.remove(place)));
            let changes: Vec<Change> = some.into_iter().map(|place| Change { place, row: None }).collect();
            tree.apply(&mut nodes, LAYOUT, Some(&reduce), &changes).unwrap();
            check_nodes(&tree, &nodes);
        }
        assert!(nodes.nodes.len() * 50 < full, "{} nodes of {full} are left", nodes.nodes.len());
        assert!(height(&tree, &nodes) < tall, "{} levels as before", tall);
        let mut left = Vec::new();
        tree.scan(&nodes, &Range::default(), false, 0, &mut |entry| {
            left.push((entry.place.to_vec(), (entry.key.to_owned(), entry.value.to_owned())));
            Ok(true)
        })
        .unwrap();
        assert!(left.into_iter().eq(model.clone()));
        let whole: Vec<_> = model.iter().map(|(place, (key, value))| Entry { place, key, value }).collect();
        let expected = super::write::reduce_entries(&reduce, LAYOUT, &whole).unwrap();
        let mut fold = GroupFold::new(&nodes, LAYOUT, &reduce, Grouping::All, false);
        fold.fold_range(&tree, &Range::default(), &mut |_, _, reduction| {
            assert_eq!(reduce.finish(reduction).unwrap(), reduce.finish(&expected).unwrap());
            Ok(true)
        })
        .unwrap();
    }
}

#[test]
fn reading_damaged_nodes_is_an_error() {
    let mut nodes = MemoryNodes::default();
    nodes.write(0, vec![0, 200, 1]).unwrap();
    let tree = Tree { root: Some(0), next: 1, rows: 1, bytes: 1 };
    assert!(tree.scan(&nodes, &Range::default(), false, 0, &mut |_| Ok(true)).is_err());
    assert!(Tree { root: Some(9), ..tree }.rows_before(&nodes, b"x").is_err());
}

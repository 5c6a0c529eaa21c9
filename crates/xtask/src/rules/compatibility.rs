//! The rule about documented differences from MongoDB and CouchDB: they are numbered without gaps, and each has a test with its tag.

use crate::{File, Finding, Repository};
use std::collections::BTreeSet;

const LIST: &str = "COMPATIBILITY.md";

/// The text before a number: in the list, and in a test.
const PARTS: [(&str, &str); 2] = [("**", "COMPAT-"), ("**HTTP-", "HTTP-")];

/// Every entry has a test, and every tag an entry.
pub(super) fn tested(repository: &Repository) -> Vec<Finding> {
    PARTS.iter().flat_map(|(start, tag)| part(repository, start, tag)).collect()
}

fn part(repository: &Repository, start: &str, tag: &str) -> Vec<Finding> {
    let entries: Vec<(usize, u32)> =
        repository.file(LIST).map(|list| entries(list, start)).unwrap_or_default();
    let known: BTreeSet<u32> = entries.iter().map(|(_, number)| *number).collect();
    let mut findings = Vec::new();
    let mut tested = BTreeSet::new();
    for file in repository.files() {
        for (line, number) in tags(file, tag) {
            tested.insert(number);
            if !known.contains(&number) {
                findings.push(Finding::new(
                    &file.path,
                    line,
                    format!("{LIST} has no entry for {tag}{number}"),
                ));
            }
        }
    }
    for (at, (line, number)) in entries.into_iter().enumerate() {
        if number as usize != at + 1 {
            findings.push(Finding::new(
                LIST,
                line,
                format!("entry {number} should have the number {}", at + 1),
            ));
        }
        if !tested.contains(&number) {
            findings.push(Finding::new(LIST, line, format!("no test is tagged {tag}{number}")));
        }
    }
    findings
}

/// The entries: lines that begin with `**12.` or `**HTTP-12.` and a title.
fn entries(list: &File, start: &str) -> Vec<(usize, u32)> {
    let number = |line: &str| line.strip_prefix(start)?.split_once('.')?.0.parse().ok();
    list.lines().filter_map(|(at, line)| Some((at, number(line)?))).collect()
}

/// The tags in the tests of a file.
fn tags(file: &File, tag: &str) -> Vec<(usize, u32)> {
    if !file.is_code() || file.path.starts_with("crates/xtask/") {
        return Vec::new();
    }
    let mut in_tests = file.is_test();
    let mut found = Vec::new();
    for (at, line) in file.lines() {
        in_tests |= line.trim() == "#[cfg(test)]";
        for rest in line.split(tag).skip(1).filter(|_| in_tests) {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            found.extend(rest[..digits].parse().ok().map(|number| (at, number)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(list: &str, test: &str) -> usize {
        tested(&Repository::of(&[(LIST, list), ("crates/store/tests/it/compat.rs", test)])).len()
    }

    #[test]
    fn tested_reports_entries_without_tests_and_tags_without_entries() {
        let list = "**1. Order.** Text.\n\n**2. Limits.** Text.\n";
        assert_eq!(found(list, "// COMPAT-1\n// COMPAT-2\n"), 0);
        assert_eq!(found(list, "// COMPAT-1\n"), 1);
        assert_eq!(found(list, "// COMPAT-1 COMPAT-2 COMPAT-3\n"), 1);
        assert_eq!(found(list, "// COMPAT-12\n"), 3);
        assert_eq!(found("**2. Limits.**\n", "// COMPAT-2\n"), 1);
    }

    #[test]
    fn tested_numbers_each_list_separately() {
        let list = "**1. Order.** Text.\n\n**HTTP-1. Paths.** Text.\n**HTTP-2. Sizes.** Text.\n";
        assert_eq!(found(list, "// COMPAT-1 HTTP-1\n// HTTP-2\n"), 0);
        assert_eq!(found(list, "// COMPAT-1 COMPAT-2 HTTP-1\n"), 2);
        assert_eq!(found("**HTTP-2. Sizes.**\n", "// HTTP-2\n"), 1);
    }

    #[test]
    fn tested_ignores_tags_outside_tests() {
        let source = "// COMPAT-1\n#[cfg(test)]\nmod tests {\n    // COMPAT-2\n}\n";
        let list = "**1. Order.**\n**2. Limits.**\n";
        let repository = Repository::of(&[(LIST, list), ("crates/query/src/sort.rs", source)]);
        assert_eq!(tested(&repository).len(), 1);
    }
}

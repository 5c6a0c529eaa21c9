//! The rule about decision records: they are numbered without gaps, and the index lists each.

use crate::{Finding, Repository};

const DIRECTORY: &str = "docs/decisions/";

/// Every decision has the next number and is in the index.
pub(super) fn listed(repository: &Repository) -> Vec<Finding> {
    let index = format!("{DIRECTORY}README.md");
    let files = || repository.files().filter(|file| file.path.starts_with(DIRECTORY) && file.path != index);
    let Some(list) = repository.file(&index) else {
        let unlisted = files().map(|file| Finding::new(&file.path, 0, format!("{index} is missing")));
        return unlisted.collect();
    };
    let mut findings = Vec::new();
    for (at, file) in files().enumerate() {
        let number = format!("{:04}", at + 1);
        if !file.name().starts_with(&format!("{number}-")) || file.extension() != "md" {
            findings.push(Finding::new(
                &file.path,
                0,
                format!("decisions are files NNNN-title.md; the next is {number}"),
            ));
        }
        if !list.text.contains(&format!("]({})", file.name())) {
            findings.push(Finding::new(&file.path, 0, format!("{index} does not list it")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_reports_gaps_and_unlisted_decisions() {
        let index = (
            "docs/decisions/README.md",
            "- [One](0001-one.md)\n- [Two](0002-two.md)\n- [Three](0003-three.md)\n",
        );
        let of = |files: &[&'static str]| {
            let files: Vec<_> = files.iter().map(|path| (*path, "")).chain([index]).collect();
            listed(&Repository::of(&files)).len()
        };
        assert_eq!(of(&["docs/decisions/0001-one.md", "docs/decisions/0002-two.md"]), 0);
        assert_eq!(of(&["docs/decisions/0001-one.md", "docs/decisions/0003-three.md"]), 1);
        assert_eq!(of(&["docs/decisions/0001-other.md"]), 1);
        assert_eq!(of(&["docs/decisions/notes.txt"]), 2);
        assert_eq!(listed(&Repository::of(&[("docs/decisions/0001-one.md", "")])).len(), 1);
    }
}

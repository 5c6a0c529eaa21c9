//! Checks of the repository itself: what neither compiler nor linter looks at.
//!
//! [`tidy`] reads every file that git would keep and gives what it finds wrong with them. A test of this crate runs it
//! over the repository, so `cargo test` keeps the rules. A rule is a function from a [`Repository`] to findings: a row
//! in [`rules::ALL`], pure, and tested on files made up for it.

mod ignored;
mod repository;
pub mod rules;

pub use repository::{File, Repository};

use std::fmt;

/// Something wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, from the repository's root.
    pub path: String,
    /// The line, counted from 1; 0 where the file as a whole is meant.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Everything that the rules find, in the order of files and lines.
pub fn tidy(repository: &Repository) -> Vec<Finding> {
    let mut findings: Vec<Finding> = rules::ALL.iter().flat_map(|rule| rule(repository)).collect();
    findings.sort();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_repository_is_tidy() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let repository = Repository::read(&root).unwrap();
        assert!(repository.file("crates/xtask/src/lib.rs").is_some(), "the walk sees this file");
        let findings = tidy(&repository);
        let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert!(findings.is_empty(), "{} findings\n{}", lines.len(), lines.join("\n"));
    }
}

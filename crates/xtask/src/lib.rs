//! Rules about the repository that neither the compiler nor the linter checks.
//!
//! [`tidy`] applies all rules to every file that git does not ignore, and returns the findings. A test of this crate runs
//! it over the repository, so `cargo test` enforces the rules. A rule is a pure function from a [`Repository`] to findings.
//! It is a row in [`rules::ALL`], and tested with made-up files.

mod ignored;
mod repository;
pub mod rules;

pub use repository::{File, Repository};

use std::fmt;

/// A violation of a rule in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, from the repository's root.
    pub path: String,
    /// The line, counted from 1; 0 for the file as a whole.
    pub line: usize,
    /// The description of the violation.
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

/// The findings of all rules, ordered by file and line.
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
    fn tidy_finds_nothing_in_this_repository() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let repository = Repository::read(&root).unwrap();
        assert!(repository.file("crates/xtask/src/lib.rs").is_some(), "the walk sees this file");
        let findings = tidy(&repository);
        let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert!(findings.is_empty(), "{} findings\n{}", lines.len(), lines.join("\n"));
    }
}

//! The files of the repository, read once for all rules.

use crate::ignored::Ignored;
use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

/// A file.
#[derive(Clone, Debug)]
pub struct File {
    /// Its path from the root, with slashes.
    pub path: String,
    /// Its text; empty if it is not UTF-8.
    pub text: String,
}

impl File {
    /// Its name without directories.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The part of its name after the last dot.
    pub fn extension(&self) -> &str {
        self.name().rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    /// Whether it is source code in one of the repository's languages.
    pub fn is_code(&self) -> bool {
        matches!(self.extension(), "rs" | "py" | "js" | "mjs" | "cjs" | "ts")
    }

    /// Its lines, counted from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(at, line)| (at + 1, line))
    }

    /// Whether it contains only tests.
    pub fn is_test(&self) -> bool {
        self.is_code() && (self.path.split('/').any(|part| part == "tests") || self.name() == "tests.rs")
    }
}

/// All files that git does not ignore.
#[derive(Clone, Debug, Default)]
pub struct Repository {
    files: BTreeMap<String, File>,
}

impl Repository {
    /// Reads the files below `root`.
    pub fn read(root: &Path) -> io::Result<Repository> {
        let mut repository = Repository::default();
        repository.walk(root, "", Ignored::default())?;
        Ok(repository)
    }

    /// A repository of made-up files, for a test.
    pub fn of(files: &[(&str, &str)]) -> Repository {
        let mut repository = Repository::default();
        for (path, text) in files {
            repository.add((*path).to_owned(), (*text).to_owned());
        }
        repository
    }

    /// The files, by their paths.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.files.values()
    }

    /// The file with this path.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.get(path)
    }

    /// Whether there is a file or a directory with this path.
    pub fn has(&self, path: &str) -> bool {
        let directory = format!("{}/", path.trim_end_matches('/'));
        path.is_empty()
            || self.files.contains_key(path)
            || self
                .files
                .range(directory.clone()..)
                .next()
                .is_some_and(|(path, _)| path.starts_with(&directory))
    }

    fn add(&mut self, path: String, text: String) {
        self.files.insert(path.clone(), File { path, text });
    }

    /// Reads a directory, whose path from the root ends with a slash or is empty.
    fn walk(&mut self, directory: &Path, path: &str, mut ignored: Ignored) -> io::Result<()> {
        match fs::read_to_string(directory.join(".gitignore")) {
            Ok(text) => ignored.add(path, &text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let path = format!("{path}{}", entry.file_name().to_string_lossy());
            if entry.file_name() == ".git" || ignored.covers(&path) {
                continue;
            }
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.walk(&entry.path(), &(path + "/"), ignored.clone())?;
            } else if kind.is_file() {
                let text = String::from_utf8(fs::read(entry.path())?).unwrap_or_default();
                self.add(path, text);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_finds_files_and_directories() {
        let repository = Repository::of(&[("docs/a.md", ""), ("docs-old/b.md", "")]);
        assert!(repository.has("docs") && repository.has("docs/") && repository.has("docs/a.md"));
        assert!(!repository.has("doc") && !repository.has("docs/b.md"));
    }

    #[test]
    fn is_test_depends_on_the_path() {
        let repository = Repository::of(&[
            ("crates/a/tests/it/x.rs", ""),
            ("crates/a/src/tests.rs", ""),
            ("crates/a/src/x.rs", ""),
        ]);
        let tests: Vec<_> =
            repository.files().filter(|file| file.is_test()).map(|file| file.path.as_str()).collect();
        assert_eq!(tests, ["crates/a/src/tests.rs", "crates/a/tests/it/x.rs"]);
    }
}

//! The files that git ignores: the subset of the `.gitignore` syntax that this repository uses.
//!
//! Supported patterns are `name`, `name/`, `*`, `*.suffix` anywhere below the file's directory, and `/path` relative to it.
//! Any other pattern is an error.

use std::io;

/// The patterns of the `.gitignore` files read so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ignored {
    /// Whole paths from the repository's root.
    paths: Vec<String>,
    /// Names below a directory.
    names: Vec<(String, String)>,
    /// Suffixes of names below a directory.
    suffixes: Vec<(String, String)>,
}

impl Ignored {
    /// Adds the patterns of the `.gitignore` in `directory`, which ends with a slash or is empty.
    pub fn add(&mut self, directory: &str, text: &str) -> io::Result<()> {
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let pattern = line.trim_end_matches('/');
            if let Some(path) = pattern.strip_prefix('/').filter(|path| !path.contains('*')) {
                self.paths.push(format!("{directory}{path}"));
            } else if let Some(suffix) = pattern.strip_prefix('*').filter(|rest| !rest.contains(['*', '/'])) {
                self.suffixes.push((directory.to_owned(), suffix.to_owned()));
            } else if !pattern.contains(['*', '/', '!', '?', '[']) {
                self.names.push((directory.to_owned(), pattern.to_owned()));
            } else {
                let text = format!("{directory}.gitignore: unsupported pattern {line:?}");
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
        }
        Ok(())
    }

    /// Whether git ignores this path.
    pub fn covers(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        let below = |directory: &str| path.starts_with(directory);
        self.paths.iter().any(|other| other == path)
            || self.names.iter().any(|(directory, other)| below(directory) && other == name)
            || self.suffixes.iter().any(|(directory, suffix)| below(directory) && name.ends_with(suffix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covers_matches_the_supported_patterns() {
        let mut ignored = Ignored::default();
        ignored.add("", "# built\n/target\nnode_modules/\n*.pyc\n").unwrap();
        ignored.add("bench/", "/runs\n").unwrap();
        ignored.add("cache/", "*\n").unwrap();
        for path in ["target", "a/node_modules", "a/b.pyc", "bench/runs", "cache/x"] {
            assert!(ignored.covers(path), "{path}");
        }
        for path in ["a/target", "runs", "docs/runs", "a/pyc"] {
            assert!(!ignored.covers(path), "{path}");
        }
    }

    #[test]
    fn add_refuses_unsupported_patterns() {
        for pattern in ["!kept", "a/*/b", "**/x"] {
            assert!(Ignored::default().add("", pattern).is_err(), "{pattern}");
        }
    }
}

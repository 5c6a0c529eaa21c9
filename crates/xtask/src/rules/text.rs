//! Rules about the text of files: length, white space, unfinished work, machine-specific paths and hosts.

use crate::{File, Finding, Repository};

/// The most lines of a source file.
const MAX_LINES: usize = 1000;

/// Words that announce later work. They are split in halves, so that this file does not violate the rule.
const PROMISES: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Unfinished Rust code, or a test that does not run.
const UNFINISHED: [&str; 4] =
    [concat!("to", "do!("), concat!("unimple", "mented!("), concat!("db", "g!("), concat!("#[ig", "nore")];

/// The end of the attribute of a test that a target of the Makefile runs, beside a server.
const RUN_ELSEWHERE: &str = " = \"needs a PostgreSQL: make test-postgres\"]";

/// Prefixes of paths that exist only on a particular machine.
const MACHINE_PATHS: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/")];

/// Hosts of package registries. The machine's configuration chooses the registry.
const REGISTRIES: [&str; 6] = [
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("python", "hosted.org"),
    concat!("npm", "js.org"),
    concat!("npm", "js.com"),
    concat!("golang", ".org"),
];

/// No source file is too long.
pub(super) fn length(repository: &Repository) -> Vec<Finding> {
    let long = |file: &&File| file.is_code() && file.text.lines().count() > MAX_LINES;
    let message =
        |file: &File| format!("{} lines, at most {MAX_LINES} are allowed", file.text.lines().count());
    repository.files().filter(long).map(|file| Finding::new(&file.path, 0, message(file))).collect()
}

/// No line ends with white space, and every file ends with a line break.
pub(super) fn whitespace(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository.files().filter(|file| !file.text.is_empty()) {
        for (number, line) in file.text.split('\n').enumerate() {
            if line.ends_with([' ', '\t', '\r']) {
                findings.push(Finding::new(&file.path, number + 1, "white space at the end of the line"));
            }
        }
        if !file.text.ends_with('\n') {
            findings.push(Finding::new(&file.path, 0, "the last line has no line break"));
        }
    }
    findings
}

/// No file contains unfinished work.
pub(super) fn unfinished(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository.files().filter(|file| !is_generated(file)) {
        for (number, line) in file.lines() {
            let promised = PROMISES.iter().filter(|word| has_word(line, word));
            let is_unfinished = file.extension() == "rs" && !line.ends_with(RUN_ELSEWHERE);
            let unfinished = UNFINISHED.iter().filter(|text| is_unfinished && line.contains(**text));
            for what in promised.chain(unfinished) {
                findings.push(Finding::new(
                    &file.path,
                    number,
                    format!("{what:?} is not allowed in the repository"),
                ));
            }
        }
    }
    findings
}

/// No file contains a machine-specific path or a registry's host.
pub(super) fn places(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository.files().filter(|file| !is_generated(file)) {
        for (number, line) in file.lines() {
            let paths = MACHINE_PATHS.iter().filter(|path| begins_path(line, path));
            for path in paths {
                findings.push(Finding::new(&file.path, number, format!("a path of one machine: {path}")));
            }
            for host in REGISTRIES.iter().filter(|host| line.contains(**host)) {
                findings.push(Finding::new(&file.path, number, format!("a package registry's host: {host}")));
            }
        }
    }
    findings
}

/// Whether tools write the file, or it is the licence.
fn is_generated(file: &File) -> bool {
    matches!(file.name(), "Cargo.lock" | "package-lock.json" | "LICENSE")
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part))
}

/// Whether the line contains an absolute path that begins with `start`, and not only a longer path that contains it.
fn begins_path(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| {
        !line[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '}' | ')' | '/'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rule: super::super::Rule, path: &str, text: &str) -> usize {
        rule(&Repository::of(&[(path, text)])).len()
    }

    #[test]
    fn length_reports_long_source_files() {
        assert_eq!(found(length, "a.rs", &"x\n".repeat(MAX_LINES + 1)), 1);
        assert_eq!(found(length, "a.rs", &"x\n".repeat(MAX_LINES)), 0);
        assert_eq!(found(length, "a.txt", &"x\n".repeat(MAX_LINES + 1)), 0);
    }

    #[test]
    fn whitespace_reports_line_ends_and_missing_line_breaks() {
        assert_eq!(found(whitespace, "a.md", "a \nb\t\nc"), 3);
        assert_eq!(found(whitespace, "a.md", "a\nb\r\n"), 1);
        assert_eq!(found(whitespace, "a.md", " a\n\nb\n"), 0);
    }

    #[test]
    fn unfinished_reports_promises_and_unfinished_code() {
        for word in PROMISES {
            assert_eq!(found(unfinished, "a.md", &format!("{word}: later\n")), 1, "{word}");
            assert_eq!(found(unfinished, "a.md", &format!("MY{word}S\n")), 0, "{word}");
        }
        for text in UNFINISHED {
            assert_eq!(found(unfinished, "a.rs", &format!("    {text}\n")), 1, "{text}");
            assert_eq!(found(unfinished, "a.md", &format!("`{text}`\n")), 0, "{text}");
        }
    }

    #[test]
    fn places_reports_machine_paths_and_registry_hosts() {
        for path in MACHINE_PATHS {
            assert_eq!(found(places, "a.sh", &format!("cd {path}x\n")), 1, "{path}");
            assert_eq!(found(places, "a.sh", &format!("cd target{path}x\n")), 0, "{path}");
        }
        for host in REGISTRIES {
            assert_eq!(found(places, "a.md", &format!("see {host}\n")), 1, "{host}");
            assert_eq!(found(places, "Cargo.lock", &format!("see {host}\n")), 0, "{host}");
        }
    }
}

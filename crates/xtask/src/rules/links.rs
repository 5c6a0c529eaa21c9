//! The rule about links between Markdown files: each leads to a file or directory that is there, and to a heading of it.

use crate::{File, Finding, Repository};

/// Every relative link resolves.
pub(super) fn resolve(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository.files().filter(|file| file.extension() == "md") {
        for (number, line) in prose(file) {
            for target in links(&line) {
                if let Some(message) = check(repository, file, &target) {
                    findings.push(Finding::new(&file.path, number, message));
                }
            }
        }
    }
    findings
}

/// What is wrong with a link.
fn check(repository: &Repository, from: &File, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let path = if path.is_empty() { from.path.clone() } else { join(&from.path, path)? };
    if !repository.has(&path) {
        return Some(format!("the link {target:?} leads nowhere"));
    }
    let anchor = anchor?;
    let there = repository.file(&path).is_some_and(|file| anchors(file).any(|other| other == anchor));
    (!there).then(|| format!("the link {target:?} leads to no heading"))
}

/// The path that `target` means in the file `from`; `None` if it is outside of the repository, where nothing is known.
fn join(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = match target.strip_prefix('/') {
        Some(_) => Vec::new(),
        None => from.split('/').collect(),
    };
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The lines outside of code blocks, with the code in them taken out.
fn prose(file: &File) -> impl Iterator<Item = (usize, String)> {
    let mut in_code = false;
    file.lines().filter_map(move |(number, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        let plain = || line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        (!in_code && !fence).then(|| (number, plain()))
    })
}

/// The targets of the links in a line.
fn links(line: &str) -> Vec<String> {
    let target = |rest: &str| Some(rest.split_once(')')?.0.split(' ').next().unwrap_or_default().to_owned());
    line.split("](").skip(1).filter_map(target).collect()
}

/// What links may name of a file: its headings, in small letters with dashes.
fn anchors(file: &File) -> impl Iterator<Item = String> {
    let slug = |heading: &str| {
        let kept = heading.trim().to_lowercase();
        kept.chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect()
    };
    let headings = file.lines().filter(|(_, line)| line.starts_with('#'));
    headings.map(move |(_, line)| slug(line.trim_start_matches('#')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let repository = Repository::of(&[
            ("docs/a.md", text),
            ("docs/b.md", "# The `key` bytes, all\n"),
            ("README.md", "# Diwan\n"),
        ]);
        resolve(&repository).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn good_links_pass() {
        let text = "# Here\n[b](b.md) [up](../README.md) [dir](../docs/) [head](b.md#the-key-bytes-all) [own](#here)\n\
                    [web](https://example.org/x) `[code](none.md)`\n```\n[block](none.md)\n```\n[out](../../other.md)\n";
        assert_eq!(found(text), [""; 0]);
    }

    #[test]
    fn broken_links_are_found() {
        for text in ["[x](none.md)\n", "[x](b.md#none)\n", "a [b](b.md) [x](../docs/none)\n", "[x](#none)\n"]
        {
            assert_eq!(found(text).len(), 1, "{text}");
        }
    }
}

//! The rule about links in Markdown files: each relative link leads to an existing file or directory, and to one of its headings.

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

/// The error of a link, if any.
fn check(repository: &Repository, from: &File, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let path = if path.is_empty() { from.path.clone() } else { join(&from.path, path)? };
    if !repository.has(&path) {
        return Some(format!("the link {target:?} leads to no file"));
    }
    let anchor = anchor?;
    let there = repository.file(&path).is_some_and(|file| anchors(file).any(|other| other == anchor));
    (!there).then(|| format!("the link {target:?} leads to no heading"))
}

/// The path of `target` relative to the file `from`; `None` if it is outside the repository.
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

/// The lines outside code blocks, without inline code.
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

/// The anchors of a file: its headings in lower case, with dashes.
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
    fn resolve_accepts_links_that_lead_somewhere() {
        let text = "# Here\n[b](b.md) [up](../README.md) [dir](../docs/) [head](b.md#the-key-bytes-all) [own](#here)\n\
                    [web](https://example.org/x) `[code](none.md)`\n```\n[block](none.md)\n```\n[out](../../other.md)\n";
        assert_eq!(found(text), [""; 0]);
    }

    #[test]
    fn resolve_reports_broken_links() {
        for text in ["[x](none.md)\n", "[x](b.md#none)\n", "a [b](b.md) [x](../docs/none)\n", "[x](#none)\n"]
        {
            assert_eq!(found(text).len(), 1, "{text}");
        }
    }
}

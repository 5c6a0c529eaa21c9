//! Rules about modules: their names and their documentation.

use crate::{File, Finding, Repository};

/// Names that do not describe a module's contents.
const EMPTY_NAMES: [&str; 5] = ["util", "utils", "common", "helper", "helpers"];

/// No module has a name that fits everything.
pub(super) fn names(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository.files().filter(|file| file.is_code()) {
        let parts = file.path.split('/').map(|part| part.split('.').next().unwrap_or(part));
        for part in parts.filter(|part| EMPTY_NAMES.contains(part)) {
            findings.push(Finding::new(
                &file.path,
                0,
                format!("the module name {part:?} does not describe the contents"),
            ));
        }
        for (number, line) in file.lines().filter(|_| file.extension() == "rs") {
            if let Some(name) = inline_module(line).filter(|name| EMPTY_NAMES.contains(name)) {
                findings.push(Finding::new(
                    &file.path,
                    number,
                    format!("the module name {name:?} does not describe the contents"),
                ));
            }
        }
    }
    findings
}

/// Every Rust module that is not a test begins with a comment about its purpose.
pub(super) fn documentation(repository: &Repository) -> Vec<Finding> {
    let undocumented =
        |file: &&File| file.extension() == "rs" && !file.is_test() && !file.text.starts_with("//!");
    let message = "a module must begin with a comment (//!) about its purpose";
    repository.files().filter(undocumented).map(|file| Finding::new(&file.path, 1, message)).collect()
}

/// The name of the inline module that begins on this line.
fn inline_module(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("pub(crate) ").or_else(|| line.strip_prefix("pub ")).unwrap_or(line);
    line.strip_prefix("mod ")?.strip_suffix(" {")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_reports_generic_module_names() {
        let repository = Repository::of(&[
            ("a/utils.rs", ""),
            ("a/helpers/x.py", ""),
            ("a/commons.rs", ""),
            ("a/b.rs", "pub mod common {\n}\nmod uncommon {\n}\n"),
        ]);
        assert_eq!(names(&repository).len(), 3);
    }

    #[test]
    fn documentation_reports_modules_without_a_comment() {
        let repository = Repository::of(&[
            ("a/src/lib.rs", "//! What it is.\n"),
            ("a/src/b.rs", "use x;\n"),
            ("a/src/tests.rs", "use x;\n"),
        ]);
        let found = documentation(&repository);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "a/src/b.rs");
    }
}

//! Rules about crates: their dependencies on each other, and the workspace's lints.

use crate::{Finding, Repository};

/// Each crate with the crates of this workspace on which it may depend.
const LAYERS: [(&str, &[&str]); 14] = [
    ("value", &[]),
    ("kv", &[]),
    ("postgres", &["kv"]),
    ("query", &["value"]),
    ("store", &["kv", "query", "value"]),
    ("script", &["kv", "store", "value"]),
    ("auth", &[]),
    ("access", &["auth", "kv", "query", "store", "value"]),
    ("mongo", &["access", "auth", "kv", "query", "script", "store", "value"]),
    ("web", &[]),
    ("couch", &["access", "auth", "kv", "query", "script", "store", "value", "web"]),
    // The program chooses the engine, so it also uses the layers below the faces.
    ("server", &["access", "auth", "couch", "kv", "mongo", "postgres", "store", "value"]),
    ("testkit", &["access", "couch", "kv", "mongo", "store", "value"]),
    ("xtask", &[]),
];

/// The crate that is allowed only in dev-dependencies.
const TESTS_ONLY: &str = "testkit";

/// Dependencies between crates point one way.
pub(super) fn edges(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, path, manifest) in manifests(repository) {
        let manifest = match manifest {
            Ok(manifest) => manifest,
            Err(error) => {
                findings.push(Finding::new(&path, 0, error));
                continue;
            }
        };
        let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| *layer == name) else {
            findings.push(Finding::new(&path, 0, format!("{name} is missing in the table of layers")));
            continue;
        };
        for (section, for_tests) in
            [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)]
        {
            let Some(toml::Value::Table(table)) = manifest.get(section) else { continue };
            for other in table.keys().filter_map(|key| key.strip_prefix("diwan-")) {
                let fits = allowed.contains(&other) || (for_tests && other == TESTS_ONLY);
                if !fits {
                    findings.push(Finding::new(&path, 0, format!("{name} must not depend on {other}")));
                }
            }
        }
    }
    findings
}

/// Every crate inherits the lints of the workspace, which forbid unsafe code.
pub(super) fn lints(repository: &Repository) -> Vec<Finding> {
    let inherits = |manifest: &toml::Table| {
        manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(toml::Value::as_bool)
            == Some(true)
    };
    let mut findings: Vec<Finding> = manifests(repository)
        .filter(|(_, _, manifest)| manifest.as_ref().is_ok_and(|manifest| !inherits(manifest)))
        .map(|(_, path, _)| Finding::new(&path, 0, "[lints] workspace = true is missing"))
        .collect();
    let forbids = |text: &str| text.lines().any(|line| line.trim() == "unsafe_code = \"forbid\"");
    if repository.file("Cargo.toml").is_some_and(|root| !forbids(&root.text)) {
        findings.push(Finding::new("Cargo.toml", 0, "the workspace's lints must forbid unsafe code"));
    }
    findings
}

/// The manifests of all crates: name of the crate, path of the manifest, and its contents or an error.
fn manifests(repository: &Repository) -> impl Iterator<Item = (&str, String, Result<toml::Table, String>)> {
    repository.files().filter_map(|file| {
        let name = file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        let manifest = file.text.parse::<toml::Table>().map_err(|error| error.to_string());
        (!name.contains('/')).then(|| (name, file.path.clone(), manifest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINTS: &str = "[lints]\nworkspace = true\n";

    fn manifest(dependencies: &str) -> String {
        format!("{LINTS}[dependencies]\n{dependencies}")
    }

    #[test]
    fn edges_reports_dependencies_against_the_layers() {
        let good = manifest(
            "diwan-value.workspace = true\nserde = \"1\"\n[dev-dependencies]\ndiwan-testkit.workspace = true\n",
        );
        assert!(edges(&Repository::of(&[("crates/query/Cargo.toml", &good)])).is_empty());
        for (name, dependency) in
            [("query", "store"), ("value", "query"), ("mongo", "couch"), ("query", "testkit")]
        {
            let bad = manifest(&format!("diwan-{dependency}.workspace = true\n"));
            let path = format!("crates/{name}/Cargo.toml");
            assert_eq!(edges(&Repository::of(&[(&path, &bad)])).len(), 1, "{name} -> {dependency}");
        }
        assert_eq!(edges(&Repository::of(&[("crates/other/Cargo.toml", LINTS)])).len(), 1);
        assert_eq!(edges(&Repository::of(&[("crates/kv/Cargo.toml", "not a manifest")])).len(), 1);
    }

    #[test]
    fn lints_reports_crates_without_the_workspace_lints() {
        assert!(lints(&Repository::of(&[("crates/kv/Cargo.toml", LINTS)])).is_empty());
        assert_eq!(lints(&Repository::of(&[("crates/kv/Cargo.toml", "[lints]\n")])).len(), 1);
        assert_eq!(lints(&Repository::of(&[("Cargo.toml", "unsafe_code = \"deny\"\n")])).len(), 1);
        assert!(lints(&Repository::of(&[("Cargo.toml", "unsafe_code = \"forbid\"\n")])).is_empty());
    }
}

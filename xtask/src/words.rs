//! The words of the documents: the field's terms, and sentences that are read once.
//!
//! Checks what a program can see: terms that have a better one, sentences that begin with "Who" or "What", and long
//! sentences in the documents. Markdown is read by its structure, so code never counts.

mod rules;
mod source;
mod text;

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::cargo;
use rules::{Kind, Rules};

/// Documents of users and contributors.
const DOCUMENTS: [&str; 13] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "docs/book/src",
    "dlock-conformance/README.md",
    "dlock-etcd/README.md",
    "dlock-macros/README.md",
    "dlock-postgres/README.md",
    "dlock-runtime/README.md",
    "dlock-sqlx/README.md",
    "dlock-zookeeper/README.md",
];

/// Packages whose documentation, errors and output users read.
const SOURCES: [&str; 9] = [
    "dlock-cli/src",
    "dlock-conformance/src",
    "dlock-etcd/src",
    "dlock-macros/src",
    "dlock-postgres/src",
    "dlock-runtime/src",
    "dlock-sqlx/src",
    "dlock-zookeeper/src",
    "src",
];

/// Modules of unit tests, which no user reads.
const TESTS: [&str; 5] = ["tests", "live_tests", "fuzzing", "fake", "interrupted"];

/// Checks all documents and sources, and names every finding.
pub(crate) fn check() -> Result<(), String> {
    let root = cargo::root();
    let rules = Rules::new();
    let mut findings = Vec::new();
    for path in files(&root, &DOCUMENTS, "md")? {
        let name = shown(&root, &path);
        let read = read(&path)?;
        for sentence in text::sentences(&read, 1) {
            rules.check(&name, &sentence, Kind::Document, &mut findings);
        }
    }
    for path in files(&root, &SOURCES, "rs")? {
        let name = shown(&root, &path);
        let read = source::read(&read(&path)?).map_err(|error| format!("{name}: {error}"))?;
        for sentence in &read.documentation {
            rules.check(&name, sentence, Kind::Documentation, &mut findings);
        }
        for sentence in &read.literals {
            rules.check(&name, sentence, Kind::Literal, &mut findings);
        }
    }
    findings.extend(rules.unused());
    if findings.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{}\n{} findings; the rules are in xtask/src/words/rules.rs",
        findings.join("\n"),
        findings.len()
    ))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn shown(root: &Path, path: &Path) -> String {
    let inside = path.strip_prefix(root).unwrap_or(path);
    inside.to_string_lossy().into_owned()
}

/// The files with this extension among and below `places`, without unit tests. Every place exists.
fn files(root: &Path, places: &[&str], extension: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for place in places {
        collect(&root.join(place), extension, &mut found)?;
    }
    found.sort();
    Ok(found)
}

fn collect(place: &Path, extension: &str, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let failed = |error| format!("{}: {error}", place.display());
    if place.is_dir() {
        for entry in fs::read_dir(place).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let is_test = path
                .file_stem()
                .is_some_and(|stem| TESTS.iter().any(|it| stem == *it));
            if !is_test {
                collect(&path, extension, found)?;
            }
        }
        return Ok(());
    }
    if !place.is_file() {
        return Err(format!("{} does not exist", place.display()));
    }
    if place.extension().is_some_and(|it| it == extension) {
        found.push(place.to_path_buf());
    }
    Ok(())
}

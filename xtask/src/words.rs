//! The words of the documents: their spelling by `typos`, and by rules of our own the field's terms and sentences that are read
//! once.
//!
//! The rules are here because vale cannot be had by pip alone: its package brings no program, and fetches one when it is run.
//! Markdown is read by its structure, so code never counts. String literals are what a program says to its users.

mod rules;
mod source;
mod text;

use crate::{cargo, files, tools};
use rules::{Kind, Rules};

/// Documents of users and contributors, beside those of packages.
const DOCUMENTS: [&str; 6] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "docs/book/src",
];

/// Packages whose documentation, errors and output users read; the facade lies in the root.
const PACKAGES: [&str; 11] = [
    "dlock-admin",
    "dlock-admin-web",
    "dlock-cli",
    "dlock-conformance",
    "dlock-etcd",
    "dlock-macros",
    "dlock-net",
    "dlock-postgres",
    "dlock-runtime",
    "dlock-sqlx",
    "dlock-zookeeper",
];

/// Modules of unit tests, which no user reads.
const TESTS: [&str; 5] = ["tests", "live_tests", "fuzzing", "fake", "interrupted"];

/// Checks all documents and sources, and names every finding.
pub(crate) fn check() -> Result<(), String> {
    match tools::program(&tools::TYPOS) {
        Ok(tool) => cargo::run_tool(&tool, &[])?,
        Err(reason) => eprintln!("spelling LEFT OUT: {reason}"),
    }
    let rules = Rules::new();
    let mut findings = Vec::new();
    let readmes = PACKAGES.map(|package| format!("{package}/README.md"));
    for (name, text) in texts(
        DOCUMENTS
            .iter()
            .copied()
            .chain(readmes.iter().map(|it| &**it)),
        "md",
    )? {
        for sentence in text::sentences(&text, 1) {
            rules.check(&name, &sentence, Kind::Document, &mut findings);
        }
    }
    let sources = PACKAGES.map(|package| format!("{package}/src"));
    for (name, text) in texts(sources.iter().map(|it| &**it).chain(["src"]), "rs")? {
        let source = source::read(&text).map_err(|error| format!("{name}: {error}"))?;
        for sentence in &source.documentation {
            rules.check(&name, sentence, Kind::Documentation, &mut findings);
        }
        for sentence in &source.literals {
            rules.check(&name, sentence, Kind::Literal, &mut findings);
        }
    }
    if findings.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{}\n{} findings; the rules are in xtask/src/words",
        findings.join("\n"),
        findings.len()
    ))
}

/// The texts of the files with this extension among and below some places, without unit tests, by their paths.
fn texts<'a>(
    places: impl Iterator<Item = &'a str>,
    extension: &str,
) -> Result<Vec<(String, String)>, String> {
    let root = cargo::root();
    let mut found = Vec::new();
    for place in places {
        for path in files::below(&root.join(place), extension)? {
            let name = path.strip_prefix(&root).unwrap_or(&path).with_extension("");
            if !name.iter().any(|part| TESTS.iter().any(|it| part == *it)) {
                found.push((
                    name.with_extension(extension).display().to_string(),
                    files::read(&path)?,
                ));
            }
        }
    }
    Ok(found)
}

//! Every link within the repository leads to something that is there.

use std::path::{Component, Path, PathBuf};

use crate::{
    assert_none,
    document::{self, Document},
    root,
};

/// A link that leads out of the repository.
const OUTSIDE: [&str; 2] = ["https://", "http://"];

#[test]
fn lead_somewhere() {
    let faults: Vec<_> = document::all().iter().flat_map(faults_of).collect();
    assert_none(&faults);
}

fn faults_of(document: &Document) -> Vec<String> {
    let mut faults = Vec::new();
    let prose = document.prose();
    let definitions: Vec<_> = prose.iter().filter_map(|(_, line)| defined(line)).collect();
    for (number, line) in &prose {
        let targets = targets(line).chain(defined(line).map(|(_, target)| target));
        for target in targets {
            if let Some(fault) = fault_of(&document.path, target) {
                faults.push(format!("{}:{number}: {fault}", document.path));
            }
        }
        for name in references(line) {
            if !definitions.iter().any(|(defined, _)| *defined == name) {
                let fault = format!("`[{name}]` is defined nowhere");
                faults.push(format!("{}:{number}: {fault}", document.path));
            }
        }
    }
    faults
}

/// The name and the target of `[name]: target`.
fn defined(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix('[')?.split_once("]: ")
}

/// The targets of `[text](target)`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).map(|rest| {
        let end = rest.find(')').unwrap_or(rest.len());
        &rest[..end]
    })
}

/// The names of `[text][name]`.
fn references(line: &str) -> impl Iterator<Item = &str> {
    line.split("][").skip(1).map(|rest| {
        let end = rest.find(']').unwrap_or(rest.len());
        &rest[..end]
    })
}

fn fault_of(from: &str, target: &str) -> Option<String> {
    if OUTSIDE.iter().any(|start| target.starts_with(start)) {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match path {
        "" => PathBuf::from(from),
        path => beside(Path::new(from), path),
    };
    let shown = path.to_str().unwrap();
    if !root().join(&path).exists() {
        return Some(format!("there is no `{shown}`"));
    }
    let is_there = anchor.is_empty()
        || document::at(shown)
            .anchors()
            .iter()
            .any(|known| known == anchor);
    (!is_there).then(|| format!("`{shown}` has no heading `#{anchor}`"))
}

/// The path of what a document at `from` calls `path`.
fn beside(from: &Path, path: &str) -> PathBuf {
    let mut found = from.parent().unwrap().to_path_buf();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => assert!(found.pop(), "{path} leads out of the repository"),
            part => found.push(part),
        }
    }
    found
}

#[test]
fn to_nothing_are_found() {
    for (target, fault) in [
        ("README.md", None),
        ("https://example.com/nothing", None),
        ("docs/guarantees.md#clocks-in-one-place", None),
        ("docs/nothing.md", Some("there is no `docs/nothing.md`")),
        (
            "docs/guarantees.md#nothing",
            Some("`docs/guarantees.md` has no heading `#nothing`"),
        ),
    ] {
        assert_eq!(fault_of("README.md", target).as_deref(), fault, "{target}");
    }
    assert_eq!(fault_of("docs/guarantees.md", "../README.md"), None);
    assert!(fault_of("docs/guarantees.md", "README.md").is_some());
    assert_eq!(
        references("a [b][c] and [d][e]").collect::<Vec<_>>(),
        ["c", "e"]
    );
}

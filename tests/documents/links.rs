//! Every link within the repository leads to something that is there.

use std::path::{Component, Path, PathBuf};

use crate::{
    assert_none,
    document::{self, Document},
    root,
};

/// A link that leads out of the repository.
const OUTSIDE: [&str; 2] = ["https://", "http://"];

const BOOK: &str = "docs/book/src/";

/// What is no module on docs.rs: the list of contents, and the page before it.
const ONLY_IN_THE_BOOK: [&str; 2] = ["docs/book/src/SUMMARY.md", "docs/book/src/introduction.md"];

fn is_outside(target: &str) -> bool {
    OUTSIDE.iter().any(|start| target.starts_with(start))
}

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
    let (name, rest) = line.strip_prefix('[')?.split_once(']')?;
    Some((name, rest.strip_prefix(": ")?))
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
    if is_outside(target) {
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

/// A page is a module on docs.rs too, where files do not exist: `src/book.rs` has a table of all links between pages.
#[test]
fn of_the_book_work_without_the_repository() {
    let table = include_str!("../../src/book.rs");
    let mut faults = Vec::new();
    let pages = document::all();
    let pages = pages.iter().filter(|it| it.path.starts_with(BOOK));
    for page in pages.filter(|it| !ONLY_IN_THE_BOOK.contains(&it.path.as_str())) {
        for (number, line) in page.prose() {
            let place = format!("{}:{number}", page.path);
            let to_files = targets(&line).filter(|it| !it.starts_with('#') && !is_outside(it));
            faults.extend(to_files.map(|it| format!("{place}: name the link to `{it}`")));
            let Some((name, target)) = defined(&line).filter(|(_, it)| !is_outside(it)) else {
                continue;
            };
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let stem = path.rsplit('/').next().unwrap().trim_end_matches(".md");
            let anchor = Some(anchor).filter(|it| !it.is_empty());
            let anchor = anchor.map_or_else(String::new, |it| format!("#{it}"));
            let row = format!(
                "[{name}]: crate::book::{}{anchor}\\n",
                stem.replace('-', "_")
            );
            let is_page = beside(Path::new(&page.path), path).starts_with(BOOK);
            if !is_page {
                faults.push(format!("{place}: `{target}` is not a page of the book"));
            } else if !table.contains(&row) {
                faults.push(format!("{place}: src/book.rs has no row `{row}`"));
            }
        }
    }
    assert_none(&faults);
}

#[test]
fn to_nothing_are_found() {
    for (target, fault) in [
        ("README.md", None),
        ("https://example.com/nothing", None),
        ("docs/book/src/explanation/guarantees.md#clocks", None),
        ("docs/nothing.md", Some("there is no `docs/nothing.md`")),
        (
            "docs/book/src/explanation/guarantees.md#nothing",
            Some("`docs/book/src/explanation/guarantees.md` has no heading `#nothing`"),
        ),
    ] {
        assert_eq!(fault_of("README.md", target).as_deref(), fault, "{target}");
    }
    assert_eq!(
        fault_of(
            "docs/book/src/explanation/guarantees.md",
            "../../../../README.md"
        ),
        None
    );
    assert!(fault_of("docs/book/src/explanation/guarantees.md", "README.md").is_some());
    assert_eq!(
        references("a [b][c] and [d][e]").collect::<Vec<_>>(),
        ["c", "e"]
    );
}

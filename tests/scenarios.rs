//! `evidence/scenarios.md` names every fault that was thought of, and tests that there are.
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// How many rows each section has.
const SECTIONS: [(char, usize); 8] = [
    ('A', 16),
    ('B', 19),
    ('C', 14),
    ('D', 22),
    ('E', 13),
    ('F', 12),
    ('G', 17),
    ('H', 16),
];

/// A reason is a sentence.
const SHORTEST_REASON: usize = 20;

struct Row {
    name: String,
    /// What happens, and what is to become of it.
    texts: [String; 2],
    shown_by: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The rows with the section under whose heading they stand.
fn rows(text: &str) -> Vec<(char, Row)> {
    let (mut section, mut rows) = (None, Vec::new());
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = heading.chars().next();
        }
        let Some(cells) = line.strip_prefix("| ") else {
            continue;
        };
        let cells: Vec<_> = cells
            .trim_end()
            .trim_end_matches('|')
            .split(" | ")
            .collect();
        if cells[0] == "row" {
            continue;
        }
        let [name, happens, becomes, shown_by] = cells[..] else {
            panic!("a row has four cells: {line}");
        };
        let row = Row {
            name: name.to_owned(),
            texts: [happens, becomes].map(|text| text.trim().to_owned()),
            shown_by: shown_by.trim().to_owned(),
        };
        rows.push((section.expect("a row stands under a heading"), row));
    }
    rows
}

/// What is wrong with what a row is shown by.
fn fault_of(shown_by: &str) -> Option<String> {
    if let Some(reason) = shown_by.strip_prefix("none: ") {
        return (reason.len() < SHORTEST_REASON).then(|| format!("`{reason}` is no reason"));
    }
    let (outside, inside): (Vec<_>, Vec<_>) = shown_by
        .split('`')
        .enumerate()
        .partition(|(number, _)| number % 2 == 0);
    if inside.is_empty() || outside.iter().any(|(_, text)| !text.trim().is_empty()) {
        return Some(format!("`{shown_by}` is no list of tests"));
    }
    inside.iter().find_map(|(_, test)| fault_of_test(test))
}

/// What is wrong with `path/of/file.rs::name`, or with `tests/ui/mistake.rs`.
fn fault_of_test(test: &str) -> Option<String> {
    let (path, name) = match test.split_once("::") {
        Some((path, name)) => (path, Some(name)),
        None => (test, None),
    };
    let file = root().join(path);
    let Ok(source) = fs::read_to_string(&file) else {
        return Some(format!("there is no file `{path}`"));
    };
    match name {
        None if path.starts_with("tests/ui/") && file.with_extension("stderr").is_file() => None,
        None => Some(format!("`{test}` names no test")),
        Some(name) if !is_function(&source, name) => Some(format!("there is no `{test}`")),
        Some(name) if is_test(&source, name) || is_case(&file, name) => None,
        Some(_) => Some(format!("nothing runs `{test}`")),
    }
}

fn declares(line: &str, name: &str) -> bool {
    line.split_once("fn ")
        .and_then(|(_, rest)| rest.strip_prefix(name))
        .is_some_and(|rest| rest.starts_with(['(', '<']))
}

fn is_function(source: &str, name: &str) -> bool {
    source.lines().any(|line| declares(line, name))
}

/// Whether one of the functions of this name has an attribute that makes it a test.
fn is_test(source: &str, name: &str) -> bool {
    let lines: Vec<_> = source.lines().map(str::trim).collect();
    let declarations = (0..lines.len()).filter(|&at| declares(lines[at], name));
    declarations.into_iter().any(|at| {
        let above = lines[..at].iter().rev();
        above
            .take_while(|line| line.starts_with(['#', '/']))
            .any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
    })
}

/// Whether a suite, which is a macro that makes tests of names, has the function as a case; or tests
/// of the same file call it for several stores.
fn is_case(file: &Path, name: &str) -> bool {
    let listed = format!("{name},");
    let folder = file.parent().unwrap();
    let is_listed = sources(folder).iter().any(|source| {
        let mut lines = source.lines();
        lines.any(|line| line.trim() == listed)
    });
    let source = fs::read_to_string(file).unwrap();
    is_listed || source.contains(&format!("{name}::<"))
}

fn sources(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_source = |path: &PathBuf| path.extension().is_some_and(|it| it == "rs");
    let sources = paths.filter(is_source).map(fs::read_to_string);
    sources.map(Result::unwrap).collect()
}

#[test]
fn every_row_is_there_once_and_says_what_becomes_of_it() {
    let text = fs::read_to_string(root().join("evidence/scenarios.md")).unwrap();
    let rows = rows(&text);
    let expected = SECTIONS
        .iter()
        .flat_map(|(section, count)| (1..=*count).map(move |row| format!("{section}{row}")));
    let expected: Vec<_> = expected.collect();
    let names: Vec<_> = rows.iter().map(|(_, row)| row.name.clone()).collect();
    let missing = expected.iter().filter(|name| !names.contains(name));
    let missing: Vec<_> = missing.collect();
    assert!(missing.is_empty(), "rows are missing: {missing:?}");
    assert_eq!(names, expected, "once, and in this order");
    for (section, row) in rows {
        assert!(
            row.name.starts_with(section),
            "{} is out of place",
            row.name
        );
        for text in row.texts {
            assert!(text.contains(' '), "{} says too little", row.name);
        }
    }
}

#[test]
fn every_test_that_is_named_exists() {
    let text = fs::read_to_string(root().join("evidence/scenarios.md")).unwrap();
    let rows = rows(&text);
    let faults = rows.iter().filter_map(|(_, row)| {
        let fault = fault_of(&row.shown_by)?;
        Some(format!("{}: {fault}", row.name))
    });
    let faults: Vec<_> = faults.collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The check itself finds what it is for.
#[test]
fn what_is_no_test_is_found_out() {
    for (shown_by, words) in [
        ("", "no list of tests"),
        ("see the tests", "no list of tests"),
        ("`tests/scenarios.rs::rows` and others", "no list of tests"),
        ("none: so", "no reason"),
        ("`tests/no_such_file.rs::rows`", "there is no file"),
        ("`tests/scenarios.rs::no_such_test`", "there is no `"),
        ("`tests/scenarios.rs`", "names no test"),
        ("`tests/ui/no_such_mistake.rs`", "there is no file"),
        ("`src/lib.rs::distributed_lock`", "there is no `"),
        ("`xtask/src/main.rs::main`", "nothing runs"),
    ] {
        let fault = fault_of(shown_by).unwrap_or_default();
        assert!(fault.contains(words), "`{shown_by}`: {fault}");
    }
    for shown_by in [
        "none: there is nothing left to be shown",
        "`tests/scenarios.rs::what_is_no_test_is_found_out`",
        "`tests/ui/not_async.rs` `tests/conformance/leases.rs::a_lost_lease_does_not_harm_its_successor`",
    ] {
        assert_eq!(fault_of(shown_by), None, "{shown_by}");
    }
}

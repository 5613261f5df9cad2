//! `evidence/scenarios.md` names every fault that was thought of, and tests that there are.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::root;

/// How many rows each section has.
const SECTIONS: [(char, usize); 12] = [
    ('A', 17),
    ('B', 28),
    ('C', 16),
    ('D', 22),
    ('E', 13),
    ('F', 12),
    ('G', 20),
    ('H', 16),
    ('I', 24),
    ('J', 34),
    ('K', 28),
    ('L', 25),
];

/// A reason is a sentence.
const SHORTEST_REASON: usize = 20;

struct Row {
    name: String,
    /// What happens, and what is to become of it.
    texts: [String; 2],
    shown_by: String,
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
        Some(_) if !is_built(&file) => Some(format!("`{path}` is not always built")),
        Some(name) if is_test(&source, name) || is_case(&file, &source, name) => None,
        Some(_) => Some(format!("nothing runs `{test}`")),
    }
}

/// What a condition may be made of under which the tests are always built.
const ALWAYS_ON: [&str; 11] = [
    "admin",
    "all",
    "cfg",
    "feature",
    "linux",
    "redis",
    "registry",
    "target_os",
    "test",
    "tls",
    "unix",
];

/// Whether an attribute neither takes away what stands below it nor lets it be ignored.
fn is_harmless(attribute: &str) -> bool {
    let Some(rest) = attribute.strip_prefix("#") else {
        return true;
    };
    let rest = rest.trim_start_matches(['!', '[']);
    let mut words = rest.split(|it: char| !it.is_alphanumeric() && it != '_');
    match words.clone().next() {
        Some("ignore") => false,
        Some("cfg_attr") => !rest.contains("ignore"),
        Some("cfg") => words.all(|word| word.is_empty() || ALWAYS_ON.contains(&word)),
        _ => true,
    }
}

/// What stands directly above a line: its attributes, and the comments between them.
fn above<'a>(lines: &'a [&str], at: usize) -> impl Iterator<Item = &'a str> {
    let above = lines[..at].iter().rev().copied();
    above.take_while(|line| !line.is_empty() && !line.ends_with(['{', '}', ';']))
}

/// Whether the file belongs to a test binary, by whichever file names it as its module.
fn is_built(file: &Path) -> bool {
    let lines = |file: &Path| fs::read_to_string(file).unwrap_or_default();
    if !lines(file)
        .lines()
        .filter(|line| line.starts_with("#!["))
        .all(is_harmless)
    {
        return false;
    }
    // A module of several files is declared beside its folder.
    let module = if file.ends_with("mod.rs") {
        file.parent().unwrap()
    } else {
        file
    };
    let folder = module.parent().unwrap();
    let stem = module.file_stem().unwrap().to_str().unwrap();
    let parents = ["main.rs", "lib.rs", "mod.rs"].map(|name| folder.join(name));
    let mut parents = parents.into_iter().chain([folder.with_extension("rs")]);
    let declared = format!("mod {stem};");
    is_root(file)
        || parents.any(|parent| {
            let source = lines(&parent);
            let lines: Vec<_> = source.lines().map(str::trim).collect();
            let named = lines.iter().position(|line| line.ends_with(&declared));
            named.is_some_and(|at| above(&lines, at).all(is_harmless)) && is_built(&parent)
        })
}

/// Whether cargo makes a target of the file.
fn is_root(file: &Path) -> bool {
    let is_package = |folder: &&Path| folder.join("Cargo.toml").is_file();
    let package = file.ancestors().find(is_package).unwrap();
    let file = file.strip_prefix(package).unwrap();
    let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap();
    let is_named = manifest.contains(&format!("path = \"{}\"", file.display()));
    let is_found = file.parent() == Some(Path::new("tests"))
        || file
            .file_stem()
            .is_some_and(|it| it == "lib" || it == "main");
    let is_source = file.starts_with("src");
    is_named || is_found && (is_source || !manifest.contains("\nautotests = false\n"))
}

fn declares(line: &str, name: &str) -> bool {
    line.split_once("fn ")
        .and_then(|(_, rest)| rest.strip_prefix(name))
        .is_some_and(|rest| rest.starts_with(['(', '<']))
}

fn is_function(source: &str, name: &str) -> bool {
    source.lines().any(|line| declares(line, name))
}

/// Whether one of the functions of this name has an attribute that makes it a test, and none by which
/// it would not be run.
fn is_test(source: &str, name: &str) -> bool {
    let lines: Vec<_> = source.lines().map(str::trim).collect();
    let mut declarations = (0..lines.len()).filter(|&at| declares(lines[at], name));
    declarations.any(|at| {
        let is_marked = above(&lines, at)
            .any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"));
        is_marked && above(&lines, at).all(is_harmless)
    })
}

/// Whether a suite, which is a macro that makes tests of names, has the function as a case of its
/// module; or tests of the same file call it for several stores.
fn is_case(file: &Path, source: &str, name: &str) -> bool {
    let module = file.file_stem().unwrap().to_str().unwrap();
    let mut suites = sources(file.parent().unwrap()).into_iter();
    let called = format!("{name}::<");
    let is_called = |line: &str| !line.trim().starts_with("//") && line.contains(&called);
    suites.any(|suite| is_listed(&suite, module, name)) || source.lines().any(is_called)
}

/// What begins a suite, after the name of what its tests are made for.
const SUITES: [&str; 3] = ["cases! {", "for_every_", "over_both! {"];

/// Whether a suite has a line `name,` below one that is `module {`, or that begins the suite where it
/// is in that module itself.
fn is_listed(suite: &str, module: &str, name: &str) -> bool {
    let (heading, listed) = (format!("{module} {{"), format!("{name},"));
    let has_it = suite.lines().any(|line| declares(line, name));
    let begins = |line: &str| {
        let begins_here = has_it && line.ends_with("! {");
        line == heading || begins_here
    };
    let mut is_inside = false;
    let mut lines = suite.lines().map(str::trim);
    SUITES.iter().any(|name| suite.contains(name))
        && lines.any(|line| {
            is_inside = begins(line) || is_inside && line != "}";
            is_inside && line == listed
        })
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
        (
            "`tests/documents/scenarios.rs::rows` and others",
            "no list of tests",
        ),
        ("none: so", "no reason"),
        ("`tests/no_such_file.rs::rows`", "there is no file"),
        (
            "`tests/documents/scenarios.rs::no_such_test`",
            "there is no `",
        ),
        ("`tests/documents/scenarios.rs`", "names no test"),
        ("`tests/ui/no_such_mistake.rs`", "there is no file"),
        ("`src/lib.rs::distributed_lock`", "there is no `"),
        ("`xtask/src/main.rs::main`", "nothing runs"),
        ("`tests/processes/ends.rs::process`", "nothing runs"),
    ] {
        let fault = fault_of(shown_by).unwrap_or_default();
        assert!(fault.contains(words), "`{shown_by}`: {fault}");
    }
    for shown_by in [
        "none: there is nothing left to be shown",
        "`tests/documents/scenarios.rs::what_is_no_test_is_found_out`",
        "`tests/ui/not_async.rs` `tests/conformance/cases/leases.rs::a_lost_lease_does_not_harm_its_successor`",
    ] {
        assert_eq!(fault_of(shown_by), None, "{shown_by}");
    }
}

#[test]
fn what_is_not_always_run_is_found_out() {
    let source = |attribute: &str| format!("}}\n#[test]\n{attribute}\nfn name() {{}}\n");
    for attribute in [
        "#[should_panic]",
        "#[cfg(unix)]",
        "#[cfg(all(feature = \"redis\", feature = \"tls\"))]",
        "#[allow(\n    dead_code\n)]",
    ] {
        assert!(is_test(&source(attribute), "name"), "{attribute}");
    }
    for attribute in [
        "#[ignore]",
        "#[ignore = \"too slow\"]",
        "#[cfg(any())]",
        "#[cfg(false)]",
        "#[cfg(not(unix))]",
        "#[cfg(feature = \"no_such_feature\")]",
        "#[cfg_attr(unix, ignore)]",
    ] {
        assert!(!is_test(&source(attribute), "name"), "{attribute}");
    }
    let suite = "cases! { paused Memory:\n    leases {\n        case,\n    }\n    other,\n}\n";
    assert!(is_listed(suite, "leases", "case"));
    for (module, name) in [("leases", "other"), ("managers", "case")] {
        assert!(!is_listed(suite, module, name), "{module} {name}");
    }
    assert!(!is_listed("leases {\n    case,\n}\n", "leases", "case"));
    for file in [
        "conformance/no_such_module.rs",
        "no_such_executable/main.rs",
        "no_such_test.rs",
    ] {
        assert!(!is_built(&root().join("tests").join(file)), "{file}");
    }
}

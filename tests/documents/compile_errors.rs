//! The page of the attribute shows messages that the compiler prints.

use std::fs;

use crate::{assert_none, root};

const PAGE: &str = "docs/book/src/reference/attribute.md";

/// The text of the code in the first cell of a row.
fn message(row: &str) -> &str {
    let cell = row.trim_start_matches('|').trim_start();
    let code = cell.trim_start_matches('`');
    let fence = &cell[..cell.len() - code.len()];
    let (message, _) = code.split_once(fence).expect("the code ends");
    message.trim()
}

/// The expected output of all cases in `tests/ui`.
fn output_of_all_cases() -> String {
    let mut folders = vec![root().join("tests/ui")];
    let mut all = String::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the cases are there") {
            let path = entry.expect("it can be listed").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "stderr") {
                all += &fs::read_to_string(path).expect("it is text");
            }
        }
    }
    all
}

#[test]
fn of_the_page_are_those_of_the_compiler() {
    let page = fs::read_to_string(root().join(PAGE)).expect("the page is there");
    let (_, section) = page
        .split_once("\n## Errors of the compiler\n")
        .expect("the page has this section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let messages: Vec<_> = rows.map(message).collect();
    assert!(messages.len() >= 12, "{messages:?}");
    let output = output_of_all_cases();
    let faults: Vec<_> = messages
        .iter()
        .filter(|message| !output.contains(&format!(": {message}\n")))
        .map(|message| format!("{PAGE}: no case has the message `{message}`"))
        .collect();
    assert_none(&faults);
}

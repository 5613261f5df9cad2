//! What the facade exports shows how it is used, and async functions say what dropping them does.

use std::{fs, path::Path};

use crate::{document, root};

/// A public item, with the comment above it.
struct Item {
    declaration: String,
    name: String,
    document: String,
}

/// The names of the facade that are not modules.
fn exported() -> Vec<String> {
    let source = include_str!("../../src/lib.rs");
    let (_, list) = source
        .split_once("pub use dlock_runtime::{\n")
        .expect("the facade has a list");
    let (list, _) = list.split_once("};").expect("it ends");
    let names = list.split(',').map(str::trim);
    let modules = ["", "blocking", "clock", "random", "store"];
    let names = names.filter(|name| !modules.contains(name));
    names.map(ToOwned::to_owned).collect()
}

fn items(folder: &Path, found: &mut Vec<Item>) {
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be listed").path();
        // The door of `dlock-admin`, which is hidden from users.
        if path.ends_with("store/redis/admin") {
            continue;
        }
        if path.is_dir() {
            items(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).expect("it can be read");
            let lines: Vec<_> = source.lines().map(str::trim).collect();
            found.extend((0..lines.len()).filter_map(|line| item(&lines, line)));
        }
    }
}

/// The item that is declared in this line, if one is.
fn item(lines: &[&str], line: usize) -> Option<Item> {
    let declaration = lines[line].strip_prefix("pub ")?;
    let mut words = declaration.split_whitespace();
    let kinds = ["async", "const", "fn", "struct", "enum", "trait"];
    let name = words.find(|word| !kinds.contains(word))?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
    let above = lines[..line].iter().rev();
    // Attributes and remarks may stand between.
    let above = above.take_while(|line| !line.is_empty());
    let document: Vec<_> = above.filter(|line| line.starts_with("///")).collect();
    Some(Item {
        declaration: declaration.to_owned(),
        name: name[..end.unwrap_or(name.len())].to_owned(),
        document: document
            .into_iter()
            .rev()
            .copied()
            .collect::<Vec<_>>()
            .join("\n"),
    })
}

fn all_items() -> Vec<Item> {
    let mut found = Vec::new();
    for package in ["dlock-runtime", "dlock-admin", "dlock-admin-web"] {
        items(&root().join(package).join("src"), &mut found);
    }
    found
}

#[test]
fn what_is_exported_has_an_example() {
    let (exported, items) = (exported(), all_items());
    assert!(exported.len() > 30, "the list was found: {exported:?}");
    let shows = |name: &&String| {
        let mut items = items.iter().filter(|item| item.name == **name);
        items.any(|item| item.document.contains("/// ```"))
    };
    let without: Vec<_> = exported.iter().filter(|name| !shows(name)).collect();
    assert!(without.is_empty(), "without an example: {without:?}");
}

#[test]
fn async_functions_say_what_dropping_them_does() {
    let items = all_items();
    let mut is_async = items
        .iter()
        .filter(|item| item.declaration.starts_with("async fn"))
        .peekable();
    assert!(is_async.peek().is_some(), "they were found");
    let silent = is_async.filter(|item| !item.document.contains("# Cancel safety"));
    let silent: Vec<_> = silent.map(|item| &item.declaration).collect();
    assert!(silent.is_empty(), "without `# Cancel safety`: {silent:?}");
}

/// The messages on the page of the attribute are those of `tests/ui`.
#[test]
fn messages_of_the_compiler_are_real() {
    let page = include_str!("../../docs/book/src/reference/attribute.md");
    let entries = fs::read_dir(root().join("tests/ui")).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    let expected: String = paths
        .filter(|path| path.extension().is_some_and(|it| it == "stderr"))
        .map(|path| fs::read_to_string(path).expect("it can be read"))
        .collect();
    let errors = expected.lines().filter(|line| line.starts_with("error"));
    let errors: Vec<_> = errors.filter_map(|line| line.split_once(": ")).collect();

    // In a table: between two backticks and a space, as messages contain backticks.
    let messages = page.lines().filter_map(|line| line.split("`` ").nth(1));
    let messages: Vec<_> = messages.map(str::trim_end).collect();
    assert!(messages.len() >= 12, "the table was found: {messages:?}");
    for message in messages {
        let is_real = errors.iter().any(|(_, error)| *error == message);
        assert!(
            is_real,
            "no mistake in `tests/ui` has the message: {message}"
        );
    }
    for block in document::at("docs/book/src/reference/attribute.md").blocks_in("text") {
        assert!(expected.contains(&block.text), "{}", block.place);
    }
}

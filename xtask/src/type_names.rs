//! No name of a type twice in the runtime and what operators have of it: a reader who knows it from one file would take it for the same in another.
//!
//! Types of tests and associated types do not count. A file `no_….rs` stands in for another one without its feature, and
//! defines the same names.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use proc_macro2::{TokenStream, TokenTree};

use crate::imports::{TESTS, find};

/// The names of the types that a file defines.
fn defined(tokens: TokenStream) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_test = false;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(mark) if mark.as_char() == '#' => {
                if let Some(TokenTree::Group(group)) = tokens.peek() {
                    let text = group.stream().to_string().replace(' ', "");
                    is_test |= text.starts_with("cfg(test)") || text.starts_with("cfg(all(test");
                    tokens.next();
                }
            }
            TokenTree::Ident(word)
                if matches!(
                    &*word.to_string(),
                    "struct" | "enum" | "union" | "trait" | "type"
                ) =>
            {
                if let (false, Some(TokenTree::Ident(name))) = (is_test, tokens.peek()) {
                    names.push(name.to_string());
                }
            }
            TokenTree::Ident(word) if word == "mod" => {
                tokens.next();
                if let (false, Some(TokenTree::Group(group))) = (is_test, tokens.peek()) {
                    names.extend(defined(group.stream()));
                }
            }
            TokenTree::Group(_) => is_test = false,
            TokenTree::Punct(mark) if mark.as_char() == ';' => is_test = false,
            _ => {}
        }
    }
    names
}

#[test]
fn a_name_in_the_runtime_is_that_of_one_type() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for package in [
        "dlock-runtime",
        "dlock-admin",
        "dlock-admin-web",
        "dlock-net",
    ] {
        find(&root.join(package).join("src"), &mut files);
    }
    let counts = |file: &PathBuf| {
        let module = file.strip_prefix(&root).expect("it was found in there");
        let module = module.with_extension("");
        let mut parts = module.iter().map(|part| part.to_string_lossy());
        parts.all(|part| !part.starts_with("no_") && !TESTS.contains(&&*part))
    };
    let mut by_name = BTreeMap::<_, Vec<_>>::new();
    for file in files.into_iter().filter(counts) {
        let text = fs::read_to_string(&file).expect("it can be read");
        for name in defined(text.parse().expect("it compiles")) {
            by_name.entry(name).or_default().push(file.clone());
        }
    }
    assert!(by_name.len() > 300, "the runtime has more types");
    by_name.retain(|_, files| files.len() > 1);
    assert!(
        by_name.is_empty(),
        "these names are those of several types: {by_name:#?}"
    );
}

#[test]
fn types_of_a_file_are_found_without_those_of_its_tests() {
    let text =
        "pub(crate) struct One<T>(T); #[derive(Debug)] enum Two { Three } trait Four { type Five; }
        type Six = u8; mod inner { union Seven { byte: u8 } } fn eight() { struct Nine; }
        #[cfg(test)] struct Ten; #[cfg(test)] mod tests { struct Eleven; } struct Twelve;";
    let found = defined(text.parse().expect("it is Rust"));
    assert_eq!(found, ["One", "Two", "Four", "Six", "Seven", "Twelve"]);
}

//! Finds bodies around which braces would be reported as unused.

use proc_macro2::{TokenStream, TokenTree};

/// Returns `true` if a body may be a single expression: it has no `;` and does not begin with an item.
pub(super) fn is_one_expression(body: &TokenStream) -> bool {
    let is_semicolon = |tree| matches!(tree, TokenTree::Punct(punct) if punct.as_char() == ';');
    !begins_with_item(body) && !body.clone().into_iter().any(is_semicolon)
}

/// Returns `true` if a body begins with an item: clippy would report a statement before it.
fn begins_with_item(body: &TokenStream) -> bool {
    const ITEMS: &[&str] = &[
        "enum",
        "extern",
        "fn",
        "impl",
        "macro_rules",
        "mod",
        "pub",
        "static",
        "struct",
        "trait",
        "type",
        "use",
    ];
    // These words also begin expressions: `async move {`, `const {`, `unsafe {`, and `union` is a name.
    const BEFORE_WORDS: &[&str] = &["async", "const", "union", "unsafe"];
    let mut trees = body.clone().into_iter().peekable();
    let is_hash =
        |tree: &TokenTree| matches!(tree, TokenTree::Punct(punct) if punct.as_char() == '#');
    while trees.next_if(is_hash).is_some() {
        // The contents of the attribute's brackets.
        trees.next();
    }
    let Some(TokenTree::Ident(first)) = trees.next() else {
        return false;
    };
    let is_word = |tree: &TokenTree| matches!(tree, TokenTree::Ident(word) if word != "move");
    ITEMS.iter().any(|item| first == item)
        || (BEFORE_WORDS.iter().any(|word| first == word) && trees.peek().is_some_and(is_word))
}

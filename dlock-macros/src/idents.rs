//! Identifiers in token streams, and the form that the compiler gives a name.

use std::collections::HashSet;

use proc_macro2::{Ident, TokenStream, TokenTree};

/// Returns all identifiers of `tokens`, at any depth.
pub(crate) fn names(tokens: TokenStream) -> HashSet<String> {
    fn find(tokens: TokenStream, names: &mut HashSet<String>) {
        for tree in tokens {
            match tree {
                TokenTree::Ident(ident) => {
                    names.insert(ident.to_string());
                }
                TokenTree::Group(group) => find(group.stream(), names),
                _ => {}
            }
        }
    }
    let mut names = HashSet::new();
    find(tokens, &mut names);
    names
}

/// Returns `true` if any identifier of `tokens`, at any depth, is `wanted`.
pub(crate) fn mentions(tokens: TokenStream, wanted: &dyn Fn(&Ident) -> bool) -> bool {
    tokens.into_iter().any(|tree| match tree {
        TokenTree::Ident(ident) => wanted(&ident),
        TokenTree::Group(group) => mentions(group.stream(), wanted),
        _ => false,
    })
}

/// Returns the name in the compiler's form: a letter and an accent that follow each other become one
/// character.
pub(crate) fn composed(name: String) -> String {
    syn::parse_str::<Ident>(&name).map_or(name, |ident| ident.to_string())
}

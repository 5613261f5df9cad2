//! Identifiers in token streams, and the form that the compiler gives a name.

use std::collections::HashMap;

use proc_macro2::{Ident, TokenStream, TokenTree};

/// Returns all identifiers of `tokens`, at any depth, each with its rank: the order in which they first occur.
pub(crate) fn names(tokens: TokenStream) -> HashMap<String, usize> {
    fn find(tokens: TokenStream, names: &mut HashMap<String, usize>) {
        for tree in tokens {
            match tree {
                TokenTree::Ident(ident) => {
                    let rank = names.len();
                    names.entry(ident.to_string()).or_insert(rank);
                }
                TokenTree::Group(group) => find(group.stream(), names),
                _ => {}
            }
        }
    }
    let mut names = HashMap::new();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_place_at_which_it_first_occurs() {
        let tokens: TokenStream = "a + b (c a [d]) 1 a".parse().expect("tokens");
        let found = names(tokens.clone());
        assert_eq!(found.len(), 4);
        for (rank, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
            assert_eq!(found.get(name), Some(&rank), "{name}");
            assert!(mentions(tokens.clone(), &|ident| ident == name), "{name}");
        }
        assert!(!mentions(tokens, &|ident| ident == "e"));
    }
}

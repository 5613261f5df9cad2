//! Slightly wrong input, for tests that nothing panics.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// `stream` with one token taken away, doubled, swapped with its neighbour or put in an invisible
/// group, at every place and depth.
pub(crate) fn mutants(stream: &TokenStream) -> Vec<TokenStream> {
    let trees: Vec<TokenTree> = stream.clone().into_iter().collect();
    let mut mutants = Vec::new();
    for at in 0..trees.len() {
        let mut shorter = trees.clone();
        let removed = shorter.remove(at);
        mutants.push(shorter.into_iter().collect());

        let mut longer = trees.clone();
        longer.insert(at, removed.clone());
        mutants.push(longer.into_iter().collect());

        let mut swapped = trees.clone();
        swapped.swap(at, (at + 1) % trees.len());
        mutants.push(swapped.into_iter().collect());

        let mut grouped = trees.clone();
        grouped[at] = Group::new(Delimiter::None, removed.clone().into()).into();
        mutants.push(grouped.into_iter().collect());

        if let TokenTree::Group(group) = removed {
            for inside in self::mutants(&group.stream()) {
                let mut changed = trees.clone();
                changed[at] = Group::new(group.delimiter(), inside).into();
                mutants.push(changed.into_iter().collect());
            }
        }
    }
    mutants
}

//! Finds the parameters that the body owns, and the order in which it drops them.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Meta};

use crate::args::{Args, Given, Opt};
use crate::idents;
use crate::params::{Binding, Param};
use crate::plan::Plan;
use crate::target::{Shape, Target};

/// Finds the parameters that the body's future must own from its start.
///
/// The other parameters drop after the release, and a field that the body moves out leaves the rest of its
/// parameter behind. A use in generated code would silence rustc's warning about a name that is not used
/// elsewhere; `unused` keeps the warning.
///
/// A future drops what it owns in the order in which its code first names it. So the order of the captures is that
/// of the drops without a lock: a function drops its last parameter first, and a block is such a future itself.
pub(crate) fn find(plan: &mut Plan, args: &Args, target: &Target, in_key: &[String]) {
    let in_block;
    let (in_body, is_async_fn) = match &target.shape {
        Shape::AsyncFn | Shape::Blocking | Shape::Unknown => (&target.names, true),
        // A parameter that the block does not name was dropped when the function was called.
        Shape::Block(trailing) => {
            in_block = idents::names(trailing.block.block.to_token_stream());
            (&in_block, false)
        }
    };
    for param in &target.params {
        let name = param.name();
        let is_used = name.starts_with('_')
            || in_key.contains(&name)
            || in_body.contains_key(&param.ident.to_string());
        if is_used {
            plan.captures.push(param.clone());
            continue;
        }
        if !is_async_fn || matches!(param.binding, Binding::Borrowed | Binding::Unused) {
            continue;
        }
        if is_taken_below(&name, &target.attrs) {
            continue;
        }
        let options = options_that_name(&name, args);
        if options.contains(&Opt::OnError) {
            // It is evaluated after the body.
            continue;
        }
        let is_named = !options.is_empty() || is_named_below(&name, &target.attrs);
        if !is_named && param.binding == Binding::Plain {
            plan.unused.push(param.clone());
        } else {
            plan.captures.push(param.clone());
        }
    }
    if is_async_fn {
        plan.captures.reverse();
    } else {
        let rank = |param: &Param| in_body.get(&param.ident.to_string()).copied();
        plan.captures
            .sort_by_key(|param| rank(param).unwrap_or(usize::MAX));
    }
}

/// Returns the options whose expression may use a parameter, including the text of a `format!`.
fn options_that_name(param: &str, args: &Args) -> Vec<Opt> {
    let names = |given: &&Given| {
        let value = given.value.to_token_stream().to_string();
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        given.opt != Opt::Key && value.split(|c| !is_part(c)).any(|word| word == param)
    };
    args.iter().filter(names).map(|given| given.opt).collect()
}

/// Returns `true` if an attribute below names a parameter, which is then used.
fn is_named_below(param: &str, attrs: &[Attribute]) -> bool {
    let mut arguments = attrs.iter().filter_map(arguments);
    arguments.any(|tokens| idents::mentions(tokens.clone(), &|ident| ident == param))
}

fn arguments(attr: &Attribute) -> Option<&TokenStream> {
    match &attr.meta {
        Meta::List(list) => Some(&list.tokens),
        _ => None,
    }
}

/// Returns `true` if an attribute below takes a parameter as the value of an option, as `#[instrument]` does with
/// `parent = span`. Its code runs before ours, and may have moved the value.
fn is_taken_below(param: &str, attrs: &[Attribute]) -> bool {
    let is_comma = |tree: &TokenTree| matches!(tree, TokenTree::Punct(it) if it.as_char() == ',');
    attrs.iter().filter_map(arguments).any(|tokens| {
        let trees: Vec<_> = tokens.clone().into_iter().collect();
        trees.split(is_comma).any(|option| match option {
            [
                TokenTree::Ident(_),
                TokenTree::Punct(equals),
                TokenTree::Ident(value),
                fields @ ..,
            ] => {
                let is_call = fields.iter().any(|it| matches!(it, TokenTree::Group(_)));
                equals.as_char() == '=' && value == param && !is_call
            }
            _ => false,
        })
    })
}

//! Finds options that begin with a name that is not a parameter: `manager = state.locks` in a function without `state`.
//!
//! rustc would suggest a type with a similar name, such as axum's `State`. A path is left to rustc, and so is an
//! expression in braces: a static may have a name like a parameter's.

use quote::ToTokens;
use syn::ext::IdentExt;
use syn::{Expr, Ident};

use crate::args::{Args, Opt};
use crate::idents;
use crate::key;
use crate::message::Faults;
use crate::target::{Shape, Target};
use crate::values;

/// Reports such names.
pub(crate) fn check(args: &Args, target: &Target, faults: &mut Faults) {
    for given in args.iter() {
        let is_value = matches!(
            given.opt,
            Opt::Enabled
                | Opt::Manager
                | Opt::MaxHold
                | Opt::MinHold
                | Opt::OnBusy
                | Opt::Permits
                | Opt::Ttl
                | Opt::Wait
        );
        let Some(root) = root(&given.value).filter(|_| is_value) else {
            continue;
        };
        let name = root.unraw().to_string();
        let is_known = target.params.iter().any(|param| param.name() == name)
            || !name.starts_with(char::is_lowercase)
            || is_bound_before(&name, target);
        if !is_known {
            faults.at(given.position);
            faults.push(key::not_a_parameter(&name, target).at(root.span()));
        }
    }
}

/// Returns `state` of `state.locks`, `&state.shop.locks()` and the like.
fn root(value: &Expr) -> Option<&Ident> {
    let base = match value {
        Expr::Field(field) => &field.base,
        Expr::MethodCall(call) => &call.receiver,
        Expr::Paren(paren) => return root(&paren.expr),
        Expr::Reference(reference) => return root(&reference.expr),
        Expr::Try(tried) => return root(&tried.expr),
        Expr::Unary(unary) => return root(&unary.expr),
        _ => return None,
    };
    values::ident(base).or_else(|| root(base))
}

/// Returns `true` if the statements before a block, which options can use as well, mention the name.
fn is_bound_before(name: &str, target: &Target) -> bool {
    let Shape::Block(trailing) = &target.shape else {
        return false;
    };
    let mut head = trailing.head.iter();
    head.any(|stmt| idents::mentions(stmt.to_token_stream(), &|ident| ident.unraw() == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_begins_with_the_name_of_which_it_is_a_part() {
        for (text, expected) in [
            ("a.b", Some("a")),
            ("a.b.c()", Some("a")),
            ("a.b().0", Some("a")),
            ("&a.b", Some("a")),
            ("(a.b)", Some("a")),
            ("!a.b", Some("a")),
            ("a.b()?", Some("a")),
            ("(&a).b", None),
            ("a", None),
            ("a::b.c", None),
            ("a().b", None),
            ("f(a.b)", None),
            ("{ a.b }", None),
        ] {
            let value: Expr = syn::parse_str(text).expect("an expression");
            let found = root(&value).map(ToString::to_string);
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}

//! The names that a key may use: the function's parameters, also those bound inside patterns.

use proc_macro2::Ident;
use syn::ext::IdentExt;
use syn::{Attribute, FnArg, Pat, Signature};

/// A name bound by the parameter list.
#[derive(Clone)]
pub(crate) struct Param {
    /// The parameter's own token. Generated code uses this and not a fresh one of the same text:
    /// a parameter that came out of another macro is only reachable through its own hygiene.
    pub(crate) ident: Ident,
    /// The `#[cfg]`s of the parameter, which attribute macros see before they take effect.
    pub(crate) cfgs: Vec<Attribute>,
}

impl Param {
    /// The name without `r#`.
    pub(crate) fn name(&self) -> String {
        self.ident.unraw().to_string()
    }
}

/// All names bound by the parameters, `self` included, in order.
pub(crate) fn of(sig: &Signature) -> Vec<Param> {
    let mut params = Vec::new();
    for arg in &sig.inputs {
        match arg {
            FnArg::Receiver(receiver) => params.push(Param {
                ident: Ident::new("self", receiver.self_token.span),
                cfgs: cfgs(&receiver.attrs),
            }),
            FnArg::Typed(typed) => {
                let cfgs = cfgs(&typed.attrs);
                bindings(&typed.pat, &mut |ident| {
                    params.push(Param {
                        ident: ident.clone(),
                        cfgs: cfgs.clone(),
                    });
                });
            }
        }
    }
    params
}

/// Calls `found` with every name that `pat` binds.
pub(crate) fn bindings(pat: &Pat, found: &mut dyn FnMut(&Ident)) {
    match pat {
        Pat::Ident(pat) => {
            found(&pat.ident);
            if let Some((_, inner)) = &pat.subpat {
                bindings(inner, found);
            }
        }
        Pat::Guard(pat) => bindings(&pat.pat, found),
        Pat::Paren(pat) => bindings(&pat.pat, found),
        Pat::Reference(pat) => bindings(&pat.pat, found),
        Pat::Type(pat) => bindings(&pat.pat, found),
        Pat::Slice(pat) => pat.elems.iter().for_each(|pat| bindings(pat, found)),
        Pat::Tuple(pat) => pat.elems.iter().for_each(|pat| bindings(pat, found)),
        Pat::TupleStruct(pat) => pat.elems.iter().for_each(|pat| bindings(pat, found)),
        Pat::Struct(pat) => pat
            .fields
            .iter()
            .for_each(|field| bindings(&field.pat, found)),
        // Every case of an or-pattern binds the same names.
        Pat::Or(pat) => pat
            .cases
            .iter()
            .take(1)
            .for_each(|pat| bindings(pat, found)),
        // The rest bind nothing, or are unknown to us: then a key cannot name what they bind.
        _ => {}
    }
}

fn cfgs(attrs: &[Attribute]) -> Vec<Attribute> {
    attrs
        .iter()
        .filter(|attr| attr.path().is_ident("cfg"))
        .cloned()
        .collect()
}

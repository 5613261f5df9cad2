//! The names that a key may use: the function's parameters, also those bound inside patterns.

use proc_macro2::Ident;
use syn::ext::IdentExt;
use syn::{Attribute, FnArg, Pat, Signature, Type};

/// A name bound by the parameter list.
#[derive(Clone)]
pub(crate) struct Param {
    /// The parameter's own token. Generated code uses this and not a fresh one of the same text:
    /// a parameter that came out of another macro is only reachable through its own hygiene.
    pub(crate) ident: Ident,
    /// The `#[cfg]`s of the parameter, which attribute macros see before they take effect.
    pub(crate) cfgs: Vec<Attribute>,
    /// Whether its type, as written, may be one that identifies something: `u64`, `&str`, `OrderId`.
    pub(crate) could_identify: bool,
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
                could_identify: false,
            }),
            FnArg::Typed(typed) => {
                let cfgs = cfgs(&typed.attrs);
                let is_name = matches!(&*typed.pat, Pat::Ident(_));
                // Of what a pattern takes apart the type is not known.
                let could_identify = !is_name || could_identify(&typed.ty);
                bindings(&typed.pat, &mut |ident| {
                    params.push(Param {
                        ident: ident.clone(),
                        cfgs: cfgs.clone(),
                        could_identify,
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

/// Numbers, text, and types that are called so. Others may be what the function works with.
fn could_identify(ty: &Type) -> bool {
    const TYPES: &[&str] = &[
        "bool", "char", "i128", "i16", "i32", "i64", "i8", "isize", "str", "String", "u128", "u16",
        "u32", "u64", "u8", "usize",
    ];
    const ENDS: &[&str] = &["Id", "ID", "Uuid", "Ulid"];
    match ty {
        Type::Group(group) => could_identify(&group.elem),
        Type::Paren(paren) => could_identify(&paren.elem),
        Type::Reference(reference) => {
            reference.mutability.is_none() && could_identify(&reference.elem)
        }
        Type::Path(path) => path.path.segments.last().is_some_and(|last| {
            let name = last.ident.to_string();
            TYPES.contains(&name.as_str()) || ENDS.iter().any(|end| name.ends_with(end))
        }),
        _ => false,
    }
}

fn cfgs(attrs: &[Attribute]) -> Vec<Attribute> {
    attrs
        .iter()
        .filter(|attr| attr.path().is_ident("cfg"))
        .cloned()
        .collect()
}

//! The names that a key may use: the function's parameters, including those bound inside patterns.

use proc_macro2::Ident;
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::{Attribute, FnArg, Pat, PatIdent, ReceiverKind, Signature, Type};

use crate::idents;

/// A name bound by the parameter list.
#[derive(Clone)]
pub(crate) struct Param {
    /// The parameter's own token. Generated code uses this token and not a new one with the same text: a
    /// parameter that another macro generated is reachable only with its own hygiene.
    pub(crate) ident: Ident,
    /// The `#[cfg]`s of the parameter. Attribute macros see them before they take effect.
    pub(crate) cfgs: Vec<Attribute>,
    /// How the name is bound to the argument, or to a part of it.
    pub(crate) binding: Binding,
    /// `true` if its type, as written, may identify something: `u64`, `&str`, `OrderId`.
    pub(crate) could_identify: bool,
}

/// The binding of a name, as far as the lint about unused names depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    /// By value, without lint attributes.
    Plain,
    /// With `mut`, or with a lint attribute: an unused name may cause other lints as well.
    Special,
    /// By reference to something that the function does not own.
    Borrowed,
    /// Expected to be unused.
    Unused,
}

impl Param {
    /// Returns the name without `r#`.
    pub(crate) fn name(&self) -> String {
        self.ident.unraw().to_string()
    }
}

/// Returns all names bound by the parameters, including `self`, in order.
pub(crate) fn parameters(sig: &Signature) -> Vec<Param> {
    let mut params = Vec::new();
    for arg in &sig.inputs {
        match arg {
            FnArg::Receiver(receiver) => params.push(Param {
                ident: Ident::new("self", receiver.self_token.span),
                cfgs: cfgs(&receiver.attrs),
                binding: match receiver.kind {
                    ReceiverKind::Reference(..) => Binding::Borrowed,
                    _ => Binding::Special,
                },
                could_identify: false,
            }),
            FnArg::Typed(typed) => {
                let cfgs = cfgs(&typed.attrs);
                let is_name = matches!(&*typed.pat, Pat::Ident(_));
                // A pattern hides the types of its names.
                let could_identify = !is_name || could_identify(&typed.ty);
                let of_argument = lints(&typed.attrs);
                bindings_as(&typed.pat, &mut |pat| {
                    params.push(Param {
                        ident: pat.ident.clone(),
                        cfgs: cfgs.clone(),
                        binding: match of_argument {
                            Binding::Plain if pat.by_ref.is_some() => Binding::Borrowed,
                            Binding::Plain if pat.mutability.is_some() => Binding::Special,
                            other => other,
                        },
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
    bindings_as(pat, &mut |pat| found(&pat.ident));
}

fn bindings_as(pat: &Pat, found: &mut dyn FnMut(&PatIdent)) {
    match pat {
        Pat::Ident(pat) => {
            found(pat);
            if let Some((_, inner)) = &pat.subpat {
                bindings_as(inner, found);
            }
        }
        Pat::Guard(pat) => bindings_as(&pat.pat, found),
        Pat::Paren(pat) => bindings_as(&pat.pat, found),
        Pat::Reference(pat) => bindings_as(&pat.pat, found),
        Pat::Type(pat) => bindings_as(&pat.pat, found),
        Pat::Slice(pat) => pat.elems.iter().for_each(|pat| bindings_as(pat, found)),
        Pat::Tuple(pat) => pat.elems.iter().for_each(|pat| bindings_as(pat, found)),
        Pat::TupleStruct(pat) => pat.elems.iter().for_each(|pat| bindings_as(pat, found)),
        Pat::Struct(pat) => pat
            .fields
            .iter()
            .for_each(|field| bindings_as(&field.pat, found)),
        // Every case of an or-pattern binds the same names.
        Pat::Or(pat) => pat
            .cases
            .iter()
            .take(1)
            .for_each(|pat| bindings_as(pat, found)),
        // The others bind nothing or are unknown to us. A key then cannot use their names.
        _ => {}
    }
}

/// Returns `true` for numbers, text and types with such names. Values of other types may be tools of the
/// function.
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

/// Returns the lint level that the attributes of an argument set for its names.
fn lints(attrs: &[Attribute]) -> Binding {
    let has = |level| attrs.iter().any(|attr| attr.path().is_ident(level));
    let is_expected = |attr: &Attribute| {
        let tokens = attr.meta.to_token_stream();
        let names = |ident: &Ident| ident == "unused" || ident == "unused_variables";
        let is_hidden = attr.path().is_ident("cfg_attr");
        (is_hidden || attr.path().is_ident("expect")) && idents::mentions(tokens, &names)
    };
    if attrs.iter().any(is_expected) {
        Binding::Unused
    } else if ["allow", "cfg_attr", "deny", "expect", "forbid", "warn"]
        .into_iter()
        .any(has)
    {
        Binding::Special
    } else {
        Binding::Plain
    }
}

fn cfgs(attrs: &[Attribute]) -> Vec<Attribute> {
    attrs
        .iter()
        .filter(|attr| attr.path().is_ident("cfg"))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &str) -> Vec<Param> {
        let sig = syn::parse_str(&format!("fn f({arguments})"));
        parameters(&sig.expect("a signature"))
    }

    #[test]
    fn every_name_of_a_pattern_is_found_once() {
        for (pattern, expected) in [
            ("a", &["a"][..]),
            ("Path((a, b))", &["a", "b"]),
            ("A { a, b: c, d: (e, _) }", &["a", "c", "e"]),
            ("[a, .., b]", &["a", "b"]),
            ("a @ Some(b)", &["a", "b"]),
            ("&(a, _)", &["a"]),
            ("(Some(a) | Other(a))", &["a"]),
            ("r#type", &["type"]),
            ("_", &[]),
        ] {
            let params = parsed(&format!("{pattern}: T"));
            let names: Vec<_> = params.iter().map(Param::name).collect();
            assert_eq!(names, expected, "{pattern}");
        }
        let params = parsed("&self, a: A, (b, c): B");
        let names: Vec<_> = params.iter().map(Param::name).collect();
        assert_eq!(names, ["self", "a", "b", "c"]);
    }

    #[test]
    fn attributes_decide_what_rustc_says_of_an_unused_name() {
        for (argument, binding, cfgs) in [
            ("a: A", Binding::Plain, 0),
            ("mut a: A", Binding::Special, 0),
            ("ref a: A", Binding::Borrowed, 0),
            ("self", Binding::Special, 0),
            ("&self", Binding::Borrowed, 0),
            ("#[cfg(b)] self", Binding::Special, 1),
            ("#[cfg(b)] a: A", Binding::Plain, 1),
            ("#[doc = \"b\"] a: A", Binding::Plain, 0),
            ("#[allow(unused)] a: A", Binding::Special, 0),
            ("#[warn(b)] ref a: A", Binding::Special, 0),
            ("#[deny(b)] a: A", Binding::Special, 0),
            ("#[forbid(b)] a: A", Binding::Special, 0),
            ("#[expect(b)] a: A", Binding::Special, 0),
            ("#[expect(unused)] a: A", Binding::Unused, 0),
            ("#[expect(unused_variables)] mut a: A", Binding::Unused, 0),
            ("#[cfg_attr(b, allow(c))] a: A", Binding::Special, 0),
            ("#[cfg_attr(b, expect(unused))] a: A", Binding::Unused, 0),
        ] {
            let params = parsed(argument);
            let [param] = params.as_slice() else {
                panic!("{argument}");
            };
            assert_eq!(param.binding, binding, "{argument}");
            assert_eq!(param.cfgs.len(), cfgs, "{argument}");
        }
    }

    #[test]
    fn numbers_texts_and_what_is_called_an_id_may_identify_something() {
        for (ty, expected) in [
            ("u64", true),
            ("&str", true),
            ("&mut str", false),
            ("&'a OrderId", true),
            ("shop::OrderID", true),
            ("Uuid", true),
            ("(u64)", true),
            ("(u64, u8)", false),
            ("Idea", false),
            ("Vec<u8>", false),
            ("Db", false),
        ] {
            let could = parsed(&format!("a: {ty}"))[0].could_identify;
            assert_eq!(could, expected, "{ty}");
        }
        assert!(parsed("Path(a): Path<Db>")[0].could_identify);
        assert!(!parsed("self")[0].could_identify);
    }
}

//! The requirements of `on_cancel = detach`: a task must own everything it uses.
//!
//! Only written types are checked. rustc reports a lifetime that a type hides, and a type that is not `Send`.

use syn::{
    FnArg, GenericArgument, Lifetime, Path, PathArguments, ReceiverKind, Signature, Type,
    TypeParamBound,
};

use crate::message::Fault;

/// Returns one fault for each argument that is borrowed.
pub(crate) fn faults(sig: &Signature) -> impl Iterator<Item = syn::Error> {
    sig.inputs.iter().filter_map(|input| match input {
        FnArg::Receiver(receiver) => {
            let is_borrowed = match &receiver.kind {
                ReceiverKind::Reference(..) => true,
                ReceiverKind::Typed(_, ty) => is_borrowed(ty),
                _ => false,
            };
            is_borrowed.then(|| {
                fault()
                    .help("use `self: Arc<Self>`: the body can outlive its caller")
                    .over(receiver)
            })
        }
        FnArg::Typed(typed) => is_borrowed(&typed.ty).then(|| {
            fault()
                .help("take it by value or in an `Arc`: the body can outlive its caller")
                .over(&typed.ty)
        }),
    })
}

fn fault() -> Fault {
    Fault::new("`on_cancel = detach` requires owned arguments")
}

/// Returns `true` if a lifetime other than `'static` is part of `ty`. The arguments of a function type, as in
/// `fn(&str)`, do not count: they belong to its calls.
fn is_borrowed(ty: &Type) -> bool {
    match ty {
        Type::Reference(ty) => ty.lifetime.as_ref().is_none_or(is_limited) || is_borrowed(&ty.elem),
        Type::Array(ty) => is_borrowed(&ty.elem),
        Type::Group(ty) => is_borrowed(&ty.elem),
        Type::Paren(ty) => is_borrowed(&ty.elem),
        Type::Slice(ty) => is_borrowed(&ty.elem),
        Type::Tuple(ty) => ty.elems.iter().any(is_borrowed),
        Type::Path(ty) => names_lifetime(&ty.path),
        Type::ImplTrait(ty) => ty.bounds.iter().any(bound_is_borrowed),
        Type::TraitObject(ty) => ty.bounds.iter().any(bound_is_borrowed),
        _ => false,
    }
}

fn bound_is_borrowed(bound: &TypeParamBound) -> bool {
    match bound {
        TypeParamBound::Lifetime(lifetime) => is_limited(lifetime),
        TypeParamBound::Trait(bound) => bound.lifetimes.is_none() && names_lifetime(&bound.path),
        _ => false,
    }
}

fn names_lifetime(path: &Path) -> bool {
    path.segments
        .iter()
        .any(|segment| match &segment.arguments {
            PathArguments::AngleBracketed(angled) => {
                angled.args.iter().any(|argument| match argument {
                    GenericArgument::Lifetime(lifetime) => is_limited(lifetime),
                    GenericArgument::Type(ty) => is_borrowed(ty),
                    GenericArgument::AssocType(assoc) => is_borrowed(&assoc.ty),
                    _ => false,
                })
            }
            _ => false,
        })
}

fn is_limited(lifetime: &Lifetime) -> bool {
    lifetime.ident != "static"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn borrowed(signature: &str) -> usize {
        let signature = syn::parse_str(signature).expect("a signature");
        faults(&signature).count()
    }

    #[test]
    fn borrows_are_found_wherever_they_are_written() {
        for (signature, expected) in [
            ("fn f(&self, id: &u64, name: String)", 2),
            ("fn f(self: &Arc<Self>)", 1),
            ("fn f(self: Pin<&mut Self>)", 1),
            (
                "fn f(pair: (u8, &str), list: [&u8; 2], slice: Box<[&u8]>)",
                3,
            ),
            ("fn f(a: Cow<'_, str>, b: Vec<Option<&'a u8>>)", 2),
            (
                "fn f(a: Box<dyn Any + 'a>, b: impl Iterator<Item = &'a u8>)",
                2,
            ),
        ] {
            assert_eq!(borrowed(signature), expected, "{signature}");
        }
    }

    #[test]
    fn what_is_owned_passes() {
        for signature in [
            "fn f(self: Arc<Self>, id: u64, name: &'static str)",
            "fn f(mut self, f: fn(&str) -> &str, g: Box<dyn Fn(&u8) + Send>)",
            "fn f(f: impl for<'a> Visit<&'a u8>, Path((a, b)): Path<(u8, u8)>)",
        ] {
            assert_eq!(borrowed(signature), 0, "{signature}");
        }
    }
}

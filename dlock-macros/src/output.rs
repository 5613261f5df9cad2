//! Finds the output type of a function's future, as far as it can be written down again.

use proc_macro2::Span;
use syn::{GenericArgument, Path, PathArguments, ReturnType, Type, TypeParamBound};

use crate::future;
use crate::message::Fault;
use crate::plan::Output;
use crate::target::{Shape, Target};

/// Finds the output. Without `handled`, it must be able to represent a `LockError`.
pub(crate) fn of(target: &Target, handled: bool) -> syn::Result<Output> {
    let name = target.sig.ident.span();
    let declared = match (&target.sig.output, &target.shape) {
        (_, Shape::Unknown) => return Ok(Output::Inferred),
        (ReturnType::Default, _) => None,
        (ReturnType::Type(_, ty), Shape::AsyncFn | Shape::Blocking) => Some((**ty).clone()),
        (ReturnType::Type(_, ty), Shape::Block(_)) => match future::output(ty) {
            // `BoxFuture<'a, T>` and the like hide the output; it is inferred from the body.
            None => return Ok(Output::Inferred),
            Some(output) => Some(output.clone()),
        },
    };
    match declared.map(peel) {
        None => unit(name, handled),
        Some(Type::Tuple(tuple)) if tuple.elems.is_empty() => unit(name, handled),
        Some(Type::Never(_)) if !handled => Err(no_room(name)),
        Some(ty @ Type::ImplTrait(_)) if !handled => {
            Err(Fault::new("`impl Trait` cannot represent a `LockError`")
                .help("return `Result<impl Trait, E>` where `E: From<LockError>`, or convert the error with `on_error = |error| ..`")
                .over(ty))
        }
        // Neither can be the type of a variable.
        Some(Type::Never(_) | Type::ImplTrait(_)) => Ok(Output::Inferred),
        Some(mut ty) => {
            erase_impl(&mut ty);
            Ok(Output::Known(Box::new(ty)))
        }
    }
}

fn unit(name: Span, handled: bool) -> syn::Result<Output> {
    if handled {
        Ok(Output::Known(Box::new(syn::parse_quote!(()))))
    } else {
        Err(no_room(name))
    }
}

fn no_room(name: Span) -> syn::Error {
    Fault::new("a function with `#[distributed_lock]` must be able to return a `LockError`")
        .help("return `Result<(), E>` where `E: From<LockError>`, or convert the error with `on_error = |error| ..`")
        .at(name)
}

/// Types from a `macro_rules` fragment are in invisible groups.
fn peel(ty: Type) -> Type {
    match ty {
        Type::Group(group) => peel(*group.elem),
        Type::Paren(paren) => peel(*paren.elem),
        other => other,
    }
}

/// `impl Trait` is allowed in a return type, but not in the type of an expression.
fn erase_impl(ty: &mut Type) {
    match ty {
        Type::ImplTrait(_) => *ty = syn::parse_quote!(_),
        Type::Array(ty) => erase_impl(&mut ty.elem),
        Type::Group(ty) => erase_impl(&mut ty.elem),
        Type::Paren(ty) => erase_impl(&mut ty.elem),
        Type::Ptr(ty) => erase_impl(&mut ty.elem),
        Type::Reference(ty) => erase_impl(&mut ty.elem),
        Type::Slice(ty) => erase_impl(&mut ty.elem),
        Type::Tuple(ty) => ty.elems.iter_mut().for_each(erase_impl),
        Type::Path(ty) => erase_in_path(&mut ty.path),
        Type::TraitObject(ty) => {
            for bound in &mut ty.bounds {
                if let TypeParamBound::Trait(bound) = bound {
                    erase_in_path(&mut bound.path);
                }
            }
        }
        _ => {}
    }
}

fn erase_in_path(path: &mut Path) {
    for segment in &mut path.segments {
        if let PathArguments::AngleBracketed(angled) = &mut segment.arguments {
            for argument in &mut angled.args {
                match argument {
                    GenericArgument::Type(ty) => erase_impl(ty),
                    GenericArgument::AssocType(assoc) => erase_impl(&mut assoc.ty),
                    _ => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use quote::ToTokens;

    use super::*;

    #[test]
    fn an_impl_is_left_out_of_a_type_wherever_it_is_written() {
        for (text, expected) in [
            ("impl A", "_"),
            ("[impl A; 3]", "[_; 3]"),
            ("(impl A)", "(_)"),
            ("*const impl A", "*const _"),
            ("&'a impl A", "&'a _"),
            ("&[impl A]", "&[_]"),
            ("(u8, impl A)", "(u8, _)"),
            ("Result<impl A, E>", "Result<_, E>"),
            ("a::Option<Vec<impl A>>", "a::Option<Vec<_>>"),
            ("Box<dyn B<C = impl A> + D>", "Box<dyn B<C = _> + D>"),
            ("Result<u8, E>", "Result<u8, E>"),
        ] {
            let mut ty: Type = syn::parse_str(text).expect("a type");
            erase_impl(&mut ty);
            let expected: Type = syn::parse_str(expected).expect("a type");
            let expected = expected.to_token_stream().to_string();
            assert_eq!(ty.to_token_stream().to_string(), expected, "{text}");
        }
    }
}

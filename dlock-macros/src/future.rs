//! Finds the future in a return type, as far as the type is written out.

use syn::{
    AngleBracketedGenericArguments, GenericArgument, PathArguments, ReturnType, Type,
    TypeParamBound,
};

/// Returns `true` if the signature shows that the function returns a future.
pub(crate) fn is_returned(returned: &ReturnType) -> bool {
    let ReturnType::Type(_, ty) = returned else {
        return false;
    };
    let by_name = match &**ty {
        Type::Path(ty) => ty.path.segments.last().is_some_and(|last| {
            // `BoxFuture`, `LocalBoxFuture`, and aliases with a similar name.
            last.ident.to_string().ends_with("Future")
        }),
        _ => false,
    };
    by_name || output(ty).is_some()
}

/// Returns `R` of `Pin<Box<dyn Future<Output = R> + ..>>` or `impl Future<Output = R>`.
pub(crate) fn output(ty: &Type) -> Option<&Type> {
    match ty {
        Type::Group(ty) => output(&ty.elem),
        Type::Paren(ty) => output(&ty.elem),
        Type::TraitObject(ty) => ty.bounds.iter().find_map(bound_output),
        Type::ImplTrait(ty) => ty.bounds.iter().find_map(bound_output),
        Type::Path(ty) => types_in(&ty.path.segments.last()?.arguments).find_map(output),
        _ => None,
    }
}

fn bound_output(bound: &TypeParamBound) -> Option<&Type> {
    let TypeParamBound::Trait(bound) = bound else {
        return None;
    };
    let last = bound
        .path
        .segments
        .last()
        .filter(|last| last.ident == "Future")?;
    arguments(&last.arguments).find_map(|argument| match argument {
        GenericArgument::AssocType(assoc) if assoc.ident == "Output" => Some(&assoc.ty),
        _ => None,
    })
}

fn types_in(path: &PathArguments) -> impl Iterator<Item = &Type> {
    arguments(path).filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

fn arguments(path: &PathArguments) -> impl Iterator<Item = &GenericArgument> {
    let angled: Option<&AngleBracketedGenericArguments> = match path {
        PathArguments::AngleBracketed(angled) => Some(angled),
        _ => None,
    };
    angled.into_iter().flat_map(|angled| &angled.args)
}

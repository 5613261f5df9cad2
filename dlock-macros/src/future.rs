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

#[cfg(test)]
mod tests {
    use quote::ToTokens;

    use super::*;

    #[test]
    fn the_output_of_a_future_is_found_where_it_is_written() {
        for (text, is_future, expected) in [
            ("impl Future<Output = u8>", true, Some("u8")),
            ("impl Send + Future<Output = u8>", true, Some("u8")),
            ("impl future::Future<Output = u8> + 'a", true, Some("u8")),
            ("(impl Future<Output = u8>)", true, Some("u8")),
            ("Box<dyn Future<Output = u8>>", true, Some("u8")),
            ("Pin<Box<dyn A + Future<Output = u8>>>", true, Some("u8")),
            ("BoxFuture<'a, u8>", true, None),
            ("futures::LocalBoxFuture<'a, u8>", true, None),
            ("FutureState", false, None),
            ("impl Future", false, None),
            ("impl Future<Item = u8>", false, None),
            ("impl Iterator<Item = u8>", false, None),
            ("impl Service<Output = u8>", false, None),
            ("Result<u8, E>", false, None),
            ("(u8, u8)", false, None),
        ] {
            let ty: Type = syn::parse_str(text).expect("a type");
            let found = output(&ty).map(|ty| ty.to_token_stream().to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
            let returned = syn::parse_str(&format!("-> {text}")).expect("a return type");
            assert_eq!(is_returned(&returned), is_future, "{text}");
        }
        assert!(!is_returned(&ReturnType::Default));
    }
}

//! Finds what identifies the values of a type, or reports every mistake at once.

use std::collections::HashMap;

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DataEnum, DeriveInput, Fields, Generics, Index, Member, Type};

use super::case::Case;
use super::options::{self, Place};
use super::plan::{Field, Value};
use crate::message::{Fault, Faults};

/// Finds what identifies a value. Returns nothing if `faults` has grown or was not empty before.
pub(super) fn check(item: &DeriveInput, case: Case, faults: &mut Faults) -> Value {
    let value = match &item.data {
        Data::Struct(data) => fields(item, &data.fields, faults),
        Data::Enum(data) => names(item, data, case, faults),
        Data::Union(data) => {
            faults.push(
                Fault::new("`KeyPart` cannot be derived for a union")
                    .help(by_hand(item))
                    .at(data.union_token.span),
            );
            Value::Nothing
        }
    };
    if faults.is_empty() {
        value
    } else {
        Value::Nothing
    }
}

fn by_hand(item: &DeriveInput) -> String {
    format!("write `impl KeyPart for {}` by hand", item.ident)
}

fn fields(item: &DeriveInput, fields: &Fields, faults: &mut Faults) -> Value {
    let mut kept = Vec::new();
    faults.at_item();
    for (index, field) in (0..).zip(fields) {
        let options = options::read(&field.attrs, Place::Field, faults);
        if options.skip || is_phantom(&field.ty) {
            continue;
        }
        let member = match &field.ident {
            Some(name) => Member::Named(name.clone()),
            None => Member::Unnamed(Index {
                index,
                span: field.ty.span(),
            }),
        };
        kept.push(Field {
            member,
            place: ends(&field.ty),
            bound: depends(&field.ty, &item.generics, &item.ident).then(|| field.ty.clone()),
        });
    }

    let name = &item.ident;
    if kept.is_empty() {
        // The attribute precedes the fields.
        faults.at(0);
        let fault = if fields.is_empty() {
            Fault::new(format!(
                "`{name}` has no fields, so its values have no text in a key"
            ))
            .help("remove `KeyPart` from its derives, and write fixed text in the key")
        } else {
            Fault::new(format!("all fields of `{name}` are excluded from the key"))
                .help("include at least one field that identifies the value")
                .note("`#[key_part(skip)]` excludes a field, and so does the type `PhantomData`")
        };
        faults.push(fault.at(name.span()));
    }
    Value::Fields(kept)
}

fn names(item: &DeriveInput, data: &DataEnum, case: Case, faults: &mut Faults) -> Value {
    if data.variants.is_empty() {
        faults.push(
            Fault::new(format!(
                "`{}` has no variants, so it has no values",
                item.ident
            ))
            .help("remove `KeyPart` from its derives")
            .at(item.ident.span()),
        );
    }
    let mut names = Vec::new();
    let mut taken = HashMap::new();
    for variant in &data.variants {
        let options = options::read(&variant.attrs, Place::Variant, faults);
        let ident = &variant.ident;
        let plain = ident.unraw().to_string();
        let (name, place) = match &options.rename {
            Some(text) => (text.value(), text.span()),
            None => (case.apply(&plain), ident.span()),
        };
        if name.is_empty() {
            faults.push(
                Fault::new("the name of a variant cannot be empty")
                    .help(format!(
                        "write a name, for example `rename = \"{}\"`",
                        Case::Snake.apply(&plain)
                    ))
                    .at(place),
            );
        } else if let Some(first) = taken.insert(name.clone(), ident) {
            faults.push(
                Fault::new(format!(
                    "`{first}` and `{ident}` have the same name `{name}` in a key"
                ))
                .help("rename one of them with `#[key_part(rename = \"..\")]`")
                .at(place),
            );
        }
        if !variant.fields.is_empty() {
            faults.push(
                Fault::new(format!(
                    "`{ident}` has fields, but only its name would be part of the key"
                ))
                .help(format!(
                    "{}: call `push_part` for a name, then for each field",
                    by_hand(item)
                ))
                .over(&variant.fields),
            );
        }
        names.push((ident.clone(), name));
    }
    Value::Names(names)
}

/// Types from a `macro_rules` fragment are in invisible groups.
fn is_phantom(ty: &Type) -> bool {
    match ty {
        Type::Group(ty) => is_phantom(&ty.elem),
        Type::Paren(ty) => is_phantom(&ty.elem),
        Type::Path(ty) => {
            let last = ty.path.segments.last();
            last.is_some_and(|last| last.ident == "PhantomData")
        }
        _ => false,
    }
}

fn ends(ty: &Type) -> (Span, Span) {
    let mut trees = ty.to_token_stream().into_iter();
    let first = trees.next().map_or_else(|| ty.span(), |tree| tree.span());
    let last = trees.last().map_or(first, |tree| tree.span());
    (first, last)
}

/// Returns `true` if the impl needs a bound on `ty`.
///
/// A type that contains the derived type gets no bound: the bound would refer to itself. The bounds of the
/// other fields are enough for rustc to find the impl.
fn depends(ty: &Type, generics: &Generics, own: &Ident) -> bool {
    let params: Vec<&Ident> = generics.type_params().map(|param| &param.ident).collect();
    let tokens = ty.to_token_stream();
    mentions(tokens.clone(), &|ident| params.contains(&ident))
        && !mentions(tokens, &|ident| ident == own || ident == "Self")
}

/// Returns `true` if `tokens` contain a name for which `wanted` is true, except after a `::`.
fn mentions(tokens: TokenStream, wanted: &impl Fn(&Ident) -> bool) -> bool {
    let mut colons = 0;
    for tree in tokens {
        let found = match &tree {
            TokenTree::Ident(ident) => colons < 2 && wanted(ident),
            TokenTree::Group(group) => mentions(group.stream(), wanted),
            _ => false,
        };
        if found {
            return true;
        }
        colons = match tree {
            TokenTree::Punct(punct) if punct.as_char() == ':' => colons + 1,
            _ => 0,
        };
    }
    false
}

//! Turns a `Plan` into tokens. This stage cannot fail.
//!
//! Generated tokens have mixed-site spans, as in the attribute's expansion. The calls that render a field
//! have the span of its type: rustc reports there that the type does not implement `KeyPart`.

use std::collections::HashSet;

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::{Member, Type};

use super::plan::{Field, Plan, Value};
use crate::expand::{private, site_at as at};

/// Returns the impl.
//
// Input:   struct Invoice { shop: String, number: u32 }
// Output:  impl KeyPart for Invoice {
//              fn write_part(&self, out: &mut PartWriter<'_>) {
//                  push_part(&self.shop, out);
//                  push_part(&self.number, out);
//              }
//          }
//
// Input:   struct Sku(String);
// Output:  .. { KeyPart::write_part(&self.0, out); }
//
// Input:   enum State { New, Paid }
// Output:  .. { out.push_str(match self { State::New => "New", State::Paid => "Paid" }); }
pub(super) fn expand(plan: &Plan) -> TokenStream {
    let site = Span::mixed_site();
    let private = private(plan.krate.as_ref(), site);
    // With our span: a deprecated type stays deprecated, and the impl causes no warning.
    let mut name = plan.name.clone();
    name.set_span(at(name.span()));
    let (impl_generics, type_generics, clause) = plan.generics.split_for_impl();
    let given = clause.iter().flat_map(|clause| &clause.predicates);
    let bounds = bounds(&plan.value);
    let body = body(plan);
    quote_spanned! {site=>
        #[automatically_derived]
        impl #impl_generics #private::KeyPart for #name #type_generics
        where
            #(#given,)*
            #(#bounds: #private::KeyPart,)*
        {
            fn write_part(&self, out: &mut #private::PartWriter<'_>) {
                #body
            }
        }
    }
}

fn bounds(value: &Value) -> Vec<&Type> {
    let Value::Fields(fields) = value else {
        return Vec::new();
    };
    let mut bounds: Vec<&Type> = fields
        .iter()
        .filter_map(|field| field.bound.as_ref())
        .collect();
    // A bound that is written twice triggers a lint.
    let mut seen = HashSet::new();
    bounds.retain(|ty| seen.insert(ty.to_token_stream().to_string()));
    bounds
}

fn body(plan: &Plan) -> TokenStream {
    let site = Span::mixed_site();
    let private = private(plan.krate.as_ref(), site);
    match &plan.value {
        Value::Fields(fields) => {
            let values = fields.iter().map(borrowed);
            if fields.len() == 1 {
                quote_spanned!(site=> #(#private::KeyPart::write_part(#values, out);)*)
            } else {
                quote_spanned!(site=> #(#private::push_part(#values, out);)*)
            }
        }
        Value::Names(names) => {
            let (variants, names): (Vec<_>, Vec<_>) =
                names.iter().map(|(variant, name)| (variant, name)).unzip();
            quote_spanned! {site=>
                #private::PartWriter::push_str(out, match self {
                    #(Self::#variants { .. } => #names,)*
                });
            }
        }
        Value::Nothing => quote_spanned!(site=> let _ = out;),
    }
}

/// Returns `&self.field`, with the span of the field's type.
fn borrowed(field: &Field) -> TokenStream {
    let (first, last) = field.place;
    let borrow = quote_spanned!(at(first)=> &self.);
    let mut member = field.member.clone();
    match &mut member {
        Member::Named(name) => name.set_span(at(last)),
        Member::Unnamed(index) => index.span = at(last),
    }
    quote_spanned!(Span::mixed_site()=> #borrow #member)
}

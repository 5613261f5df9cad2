//! The stages one after the other, on `proc_macro2` tokens so that tests can call them.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::Ident;

use crate::args::{self, Args, Opt};
use crate::check::check;
use crate::expand;
use crate::message::Faults;
use crate::target::{self, Target};
use crate::values;

/// Expands `#[distributed_lock(arguments)] item`.
pub(crate) fn run(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut faults = Faults::default();
    let args = args::parse(arguments, &mut faults);
    faults.at_item();
    let Some(target) = faults.keep(target::parse(item.clone())) else {
        return keep(&without_our_attributes(item), faults);
    };
    match check(&args, &target, &mut faults) {
        Some(plan) => expand::expand(&plan, &target),
        None => keep(&unguarded(&args, &target, &faults), faults),
    }
}

/// The user's function comes first, so that editors find it, and then all mistakes.
fn keep(item: &TokenStream, faults: Faults) -> TokenStream {
    let errors = faults.into_compile_errors();
    quote!(#item #errors)
}

/// A second attribute of ours was reported; left in place it would report everything again.
fn without_our_attributes(item: TokenStream) -> TokenStream {
    use syn::parse::{ParseStream, Parser};
    let strip = |input: ParseStream<'_>| {
        let attrs = input.call(syn::Attribute::parse_outer)?;
        let attrs = attrs.iter().filter(|attr| !target::is_our_attribute(attr));
        let rest: TokenStream = input.parse()?;
        Ok(quote!(#(#attrs)* #rest))
    };
    strip.parse2(item.clone()).unwrap_or(item)
}

/// The function as it was, with a value for the name of the lease: the body uses it, and a mistake
/// elsewhere in the attribute must not become "cannot find value" there.
fn unguarded(args: &Args, target: &Target, faults: &Faults) -> TokenStream {
    let lease: Option<Ident> = args
        .get(Opt::Lease)
        .and_then(|given| values::new_name(given).ok())
        .filter(|name| target.params.iter().all(|param| *name != param.name()));
    let lease = lease.map(|name| {
        let krate = args
            .get(Opt::Crate)
            .and_then(|given| values::path(given).ok());
        let private = expand::private(krate.as_ref(), Span::call_site());
        quote! {
            let #name: &#private::Lease = match ::core::option::Option::None {
                ::core::option::Option::Some(__lease) => __lease,
                ::core::option::Option::None => ::core::panic!(),
            };
        }
    });
    let checks = faults.checks();
    expand::unguarded(target, &quote!(#checks #lease))
}

#[cfg(test)]
mod snapshots;
#[cfg(test)]
mod tests;

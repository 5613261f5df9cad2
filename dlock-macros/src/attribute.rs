//! Runs the stages one after the other, on `proc_macro2` tokens, so that tests can call them.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::Ident;

use crate::args::{self, Args, Opt};
use crate::check::check;
use crate::expand;
use crate::key;
use crate::lease;
use crate::message::Faults;
use crate::target::{self, Target};
use crate::values;

/// Expands `#[distributed_lock(arguments)] item`.
pub(crate) fn run(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut faults = Faults::default();
    let args = args::parse(arguments, &mut faults);
    faults.at_item();
    let as_written = item.clone();
    let Some(target) = target::parse(item, &mut faults) else {
        // rustc reports this case well. Our error would not be an expression.
        if target::is_expression(&as_written) {
            return as_written;
        }
        return keep(&as_written, faults);
    };
    match check(&args, &target, &mut faults) {
        Some(plan) => expand::expand(&plan, &target),
        None => keep(&unguarded(&args, &target, &faults), faults),
    }
}

/// Returns the user's function, so that editors find it, followed by all mistakes.
fn keep(item: &TokenStream, faults: Faults) -> TokenStream {
    let errors = faults.into_compile_errors();
    quote!(#item #errors)
}

/// Returns the function without a lock. It defines the name of the lease, which the body uses, and uses the
/// parameters in the key: a mistake elsewhere in the attribute must not cause "cannot find value" or "unused
/// variable" there.
fn unguarded(args: &Args, target: &Target, faults: &Faults) -> TokenStream {
    let lease: Option<Ident> = args
        .get(Opt::Lease)
        .and_then(|given| values::new_name(given).ok())
        .or_else(|| lease::unnamed(args, target))
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
    let named = args
        .get(Opt::Key)
        .map(|given| key::named(&given.value, target))
        .unwrap_or_default();
    let uses = expand::uses(named);
    let checks = faults.checks();
    expand::unguarded(target, &quote!(#checks #uses #lease))
}

#[cfg(test)]
mod advice;
#[cfg(test)]
mod cases;
#[cfg(test)]
mod snapshots;
#[cfg(test)]
mod tests;

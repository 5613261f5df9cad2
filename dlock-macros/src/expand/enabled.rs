//! Calls that may run without a lock: what `enabled = EXPR` changes in an expansion.
//!
//! The guard becomes one that may be empty, and runs the body either way, so that the body is written once. Without
//! the option nothing of it is in the expansion.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::spanned::Spanned;

use super::spans::{private, site, site_at};
use crate::plan::Plan;

/// The condition, before everything else.
pub(super) fn condition(plan: &Plan) -> Option<TokenStream> {
    let value = plan.enabled.as_ref()?;
    // Another type is reported at the value.
    let place = site_at(value.span());
    let wanted = quote_spanned!(place=> ::core::primitive::bool);
    Some(quote_spanned!(site()=> let __enabled: #wanted = #value;))
}

/// The guard of a call that has `asked` and was `answered`, if it was to ask.
pub(super) fn guard(plan: &Plan, asked: &TokenStream, answered: &TokenStream) -> TokenStream {
    if plan.enabled.is_none() {
        return answered.clone();
    }
    let private = private(plan.krate.as_ref(), site());
    quote_spanned! {site()=>
        if __enabled {
            #asked
            #private::OptionalGuard::held(#answered)
        } else {
            #private::OptionalGuard::none()
        }
    }
}

/// The type whose `run_while_held` runs the body.
pub(super) fn guard_type(plan: &Plan) -> TokenStream {
    if plan.enabled.is_none() {
        quote_spanned!(site()=> LockGuard)
    } else {
        quote_spanned!(site()=> OptionalGuard)
    }
}

/// The function that gives the lock back.
pub(super) fn finish(plan: &Plan, place: Span) -> TokenStream {
    if plan.enabled.is_none() {
        quote_spanned!(place=> finish)
    } else {
        quote_spanned!(place=> OptionalGuard::finish)
    }
}

/// The function that prepares a section to go on without its caller.
pub(super) fn detach(plan: &Plan) -> TokenStream {
    if plan.enabled.is_none() {
        quote_spanned!(site()=> Detach::of)
    } else {
        quote_spanned!(site()=> OptionalGuard::detach)
    }
}

//! The guard of an expansion: that of a task or of a thread, and what `enabled = EXPR` changes in it.
//!
//! With that option the guard becomes one that may be empty, and runs the body either way, so that the body is written once. Without
//! the option nothing of it is in the expansion.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;

use super::spans::{private, site};
use crate::plan::Plan;

/// The condition, before everything else.
pub(super) fn condition(plan: &Plan) -> Option<TokenStream> {
    let value = plan.enabled.as_ref()?;
    Some(quote_spanned!(site()=> let __enabled: ::core::primitive::bool = #value;))
}

/// The guard of a call that has `asked` and was `answered`, if it was to ask.
pub(super) fn guard(plan: &Plan, asked: &TokenStream, answered: &TokenStream) -> TokenStream {
    if plan.enabled.is_none() {
        return answered.clone();
    }
    let private = private(plan.krate.as_ref(), site());
    let guard_type = guard_type(plan);
    quote_spanned! {site()=>
        if __enabled {
            #asked
            #private::#guard_type::held(#answered)
        } else {
            #private::#guard_type::none()
        }
    }
}

/// The type of the guard.
pub(super) fn guard_type(plan: &Plan) -> TokenStream {
    match (plan.enabled.is_some(), plan.blocking) {
        (false, false) => quote_spanned!(site()=> LockGuard),
        (true, false) => quote_spanned!(site()=> OptionalGuard),
        (false, true) => quote_spanned!(site()=> BlockingGuard),
        (true, true) => quote_spanned!(site()=> OptionalBlockingGuard),
    }
}

/// The guard's method that runs the body.
pub(super) fn run(plan: &Plan) -> TokenStream {
    if plan.blocking {
        quote_spanned!(site()=> run)
    } else {
        quote_spanned!(site()=> run_while_held)
    }
}

/// The function that gives the lock back.
pub(super) fn finish(plan: &Plan, place: Span) -> TokenStream {
    match (plan.enabled.is_some(), plan.blocking) {
        (false, false) => quote_spanned!(place=> finish),
        (true, false) => quote_spanned!(place=> OptionalGuard::finish),
        (false, true) => quote_spanned!(place=> finish_blocking),
        (true, true) => quote_spanned!(place=> OptionalBlockingGuard::finish),
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

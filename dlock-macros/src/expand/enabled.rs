//! The guard of an expansion, for a task or a thread, and the effect of `enabled = EXPR` on it.
//!
//! With that option the guard may be empty and runs the body either way, so the body is written once. Without
//! the option the expansion contains nothing of it.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;

use super::spans::{private, site};
use crate::plan::Plan;

/// Returns the condition, which precedes everything else.
pub(super) fn condition(plan: &Plan) -> Option<TokenStream> {
    let value = plan.enabled.as_ref()?;
    Some(quote_spanned!(site()=> let __enabled: ::core::primitive::bool = #value;))
}

/// Returns the guard of a call: `asked` requests the lock, if the call does that, and `answered` is the
/// result.
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

/// Returns the type of the guard.
pub(super) fn guard_type(plan: &Plan) -> TokenStream {
    match (plan.enabled.is_some(), plan.blocking) {
        (false, false) => quote_spanned!(site()=> LockGuard),
        (true, false) => quote_spanned!(site()=> OptionalGuard),
        (false, true) => quote_spanned!(site()=> BlockingGuard),
        (true, true) => quote_spanned!(site()=> OptionalBlockingGuard),
    }
}

/// Returns the guard's method that runs the body.
pub(super) fn run(plan: &Plan) -> TokenStream {
    if plan.blocking {
        quote_spanned!(site()=> run)
    } else {
        quote_spanned!(site()=> run_while_held)
    }
}

/// Returns the function that releases the lock.
pub(super) fn finish(plan: &Plan, place: Span) -> TokenStream {
    match (plan.enabled.is_some(), plan.blocking) {
        (false, false) => quote_spanned!(place=> finish),
        (true, false) => quote_spanned!(place=> OptionalGuard::finish),
        (false, true) => quote_spanned!(place=> finish_blocking),
        (true, true) => quote_spanned!(place=> OptionalBlockingGuard::finish),
    }
}

/// Returns the function that prepares a body to continue without its caller.
pub(super) fn detach(plan: &Plan) -> TokenStream {
    if plan.enabled.is_none() {
        quote_spanned!(site()=> Detach::of)
    } else {
        quote_spanned!(site()=> OptionalGuard::detach)
    }
}

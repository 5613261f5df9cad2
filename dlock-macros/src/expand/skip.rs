//! The function's value when the lock is busy: as written, or derived from the return type.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote_spanned};
use syn::Expr;
use syn::spanned::Spanned;

use super::spans::{private, site, site_at};
use crate::plan::{Busy, Output, Plan};

/// Returns the value with which the function returns.
pub(super) fn value(plan: &Plan, busy: &Busy) -> TokenStream {
    match (busy, &plan.output) {
        (Busy::Value(value), _) => value.to_token_stream(),
        // A return type without such a value is reported here, once.
        (Busy::Skip(_), Output::Known(ty)) => {
            let place = site_at(ty.span());
            let private = private(plan.krate.as_ref(), place);
            quote_spanned!(place=> <#ty as #private::Skip>::skipped())
        }
        (Busy::Skip(word), Output::Inferred) => {
            let place = site_at(*word);
            let private = private(plan.krate.as_ref(), place);
            quote_spanned!(place=> #private::Skip::skipped())
        }
    }
}

/// Returns the lints that would be reported for the `return` around the user's value.
pub(super) fn allowed(busy: &Busy) -> Option<TokenStream> {
    let Busy::Value(value) = busy else {
        return None;
    };
    // Without its braces, `{ skip }` would be the keyword.
    let braces = matches!(value, Expr::Block(_)).then(|| quote_spanned!(site()=> , unused_braces));
    // A value that never exists, as of `todo!()`.
    Some(quote_spanned! {site()=>
        #[allow(unreachable_code, clippy::diverging_sub_expression #braces)]
    })
}

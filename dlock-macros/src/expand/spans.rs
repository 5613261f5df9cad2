//! Spans of generated code, and the path to the facade's hidden module.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::Path;

/// Returns the path to the hidden module of the facade, shown at `span`.
pub(crate) fn private(krate: Option<&Path>, span: Span) -> TokenStream {
    krate.map_or_else(
        || quote_spanned!(span=> ::dlock::__private),
        |krate| quote_spanned!(span=> #krate::__private),
    )
}

/// Returns the span of our names, at the attribute.
pub(super) fn site() -> Span {
    Span::mixed_site()
}

/// Returns the span of our names, shown at a token of the user.
pub(crate) fn site_at(place: Span) -> Span {
    Span::mixed_site().located_at(place)
}

//! Spans of generated code, and the path to the facade's hidden half.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::Path;

/// The path to the hidden half of the facade, shown at `span`.
pub(crate) fn private(krate: Option<&Path>, span: Span) -> TokenStream {
    krate.map_or_else(
        || quote_spanned!(span=> ::dlock::__private),
        |krate| quote_spanned!(span=> #krate::__private),
    )
}

/// Our names, at the attribute.
pub(super) fn site() -> Span {
    Span::mixed_site()
}

/// Our names, shown at a token of the user's.
pub(crate) fn site_at(place: Span) -> Span {
    Span::mixed_site().located_at(place)
}

//! `#[derive(KeyPart)]`, its stages one after the other, as the attribute's are:
//!
//! ```text
//! options   what `#[key_part(..)]` says                  what the user wrote
//! check     the type to a `Plan`, or all mistakes at once
//!   case    names of variants in another case
//! plan      what is to be generated
//! expand    the `Plan` to tokens; cannot fail
//! ```

mod case;
mod check;
mod expand;
mod options;
mod plan;
#[cfg(test)]
mod tests;

use proc_macro2::TokenStream;
use syn::DeriveInput;

use self::options::Place;
use self::plan::Plan;
use crate::message::Faults;

/// Expands `#[derive(KeyPart)] item`.
pub(crate) fn run(item: TokenStream) -> TokenStream {
    let mut faults = Faults::default();
    let Some(item) = faults.keep(syn::parse2::<DeriveInput>(item)) else {
        return faults.into_compile_errors();
    };
    let options = options::read(&item.attrs, Place::of(&item.data), &mut faults);
    let value = check::check(&item, options.rename_all, &mut faults);
    // An impl is there in any case, so that uses of the type are no further errors.
    let mut expansion = expand::expand(&Plan {
        krate: options.krate,
        name: item.ident,
        generics: item.generics,
        value,
    });
    expansion.extend(faults.into_compile_errors());
    expansion
}

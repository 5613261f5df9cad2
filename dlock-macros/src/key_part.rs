//! Expands `#[derive(KeyPart)]`. Its stages run one after the other, like those of the attribute:
//!
//! ```text
//! options   the options of `#[key_part(..)]`               the input of the user
//! check     the type to a `Plan`, or all mistakes at once
//!   case    names of variants in another case
//! plan      the code to generate
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
    // The impl is always generated, so that uses of the type cause no further errors.
    let mut expansion = expand::expand(&Plan {
        krate: options.krate,
        name: item.ident,
        generics: item.generics,
        value,
    });
    expansion.extend(faults.into_compile_errors());
    expansion
}

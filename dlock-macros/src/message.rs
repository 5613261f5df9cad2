//! Messages about mistakes: one form for all of them, and a collector.

use proc_macro2::{Span, TokenStream};
use syn::Error;

pub(crate) use crate::fault::Fault;

impl Fault {
    pub(crate) fn at(self, span: Span) -> Error {
        Error::new(span, self)
    }

    /// Creates an error that spans the first to the last of `tokens`.
    pub(crate) fn over(self, tokens: impl quote::ToTokens) -> Error {
        Error::new_spanned(tokens, self)
    }
}

/// The mistakes of one attribute. All are reported, in the order of the source.
#[derive(Default)]
pub(crate) struct Faults {
    found: Vec<(usize, Error)>,
    /// The number of the option of the next mistake. Several stages check one option, and stable compilers do
    /// not expose the position of a span.
    position: usize,
    checks: TokenStream,
}

impl Faults {
    /// Assigns the following mistakes to option number `position`.
    pub(crate) fn at(&mut self, position: usize) {
        self.position = position;
    }

    /// Assigns the following mistakes to the item, which comes after the options.
    pub(crate) fn at_item(&mut self) {
        self.position = usize::MAX;
    }

    pub(crate) fn push(&mut self, error: Error) {
        self.found.push((self.position, error));
    }

    /// Records a mistake that rustc reports better than we could. `check` makes rustc report it inside a
    /// function.
    pub(crate) fn leave_to_rustc(&mut self, check: TokenStream) {
        self.checks.extend(check);
    }

    /// Returns the code that makes rustc report the mistakes that were left to it.
    pub(crate) fn checks(&self) -> &TokenStream {
        &self.checks
    }

    /// Returns the value of `result`, or collects its error.
    pub(crate) fn keep<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty() && self.checks.is_empty()
    }

    pub(crate) fn into_compile_errors(mut self) -> TokenStream {
        self.found.sort_by_key(|(position, _)| *position);
        self.found
            .iter()
            .map(|(_, error)| error.to_compile_error())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    #[test]
    fn mistakes_are_told_in_the_order_of_the_source() {
        let mistake = |text| Fault::new(text).at(Span::call_site());
        let mut faults = Faults::default();
        assert!(faults.is_empty());
        faults.at_item();
        faults.push(mistake("of the item"));
        faults.at(1);
        faults.push(mistake("of the second"));
        faults.at(0);
        assert_eq!(faults.keep::<u8>(Err(mistake("of the first"))), None);
        assert_eq!(faults.keep(Ok(7)), Some(7));
        faults.at(1);
        faults.push(mistake("more of the second"));
        assert!(!faults.is_empty());
        let told = faults.into_compile_errors().to_string();
        let texts = [
            "of the first",
            "\"of the second",
            "more of the second",
            "of the item",
        ];
        let places = texts.map(|text| told.find(text).expect("it is told"));
        assert!(places.is_sorted(), "{told}");
        assert_eq!(told.matches("compile_error").count(), 4, "{told}");
    }

    #[test]
    fn what_is_left_to_rustc_is_a_mistake_without_a_message() {
        let mut faults = Faults::default();
        faults.leave_to_rustc(quote!(let _ = one;));
        faults.leave_to_rustc(quote!(let _ = other;));
        assert!(!faults.is_empty());
        let checks = faults.checks().to_string();
        assert_eq!(checks, "let _ = one ; let _ = other ;");
        assert!(faults.into_compile_errors().is_empty());
    }

    #[test]
    fn a_sketch_stands_between_the_mistake_and_its_help() {
        let fault = || Fault::new("wrong").sketch(Some("a<b\n ^".to_owned()));
        assert_eq!(fault().to_string(), "wrong\n\n    a<b\n     ^");
        let all = fault().help("right").note("why").to_string();
        let expected = "wrong\n\n    a<b\n     ^\n\nhelp: right\nnote: why";
        assert_eq!(all, expected);
        let plain = Fault::new("wrong").sketch(None).help("right");
        assert_eq!(plain.to_string(), "wrong\nhelp: right");
    }
}

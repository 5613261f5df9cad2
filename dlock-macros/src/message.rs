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

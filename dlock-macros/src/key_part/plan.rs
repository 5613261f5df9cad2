//! The impl to generate; every mistake has been reported before.

use proc_macro2::{Ident, Span};
use syn::{Generics, Member, Path, Type};

/// Everything `expand` needs to know.
pub(super) struct Plan {
    /// The path of the facade; `None` is `::dlock`.
    pub(super) krate: Option<Path>,
    pub(super) name: Ident,
    pub(super) generics: Generics,
    pub(super) value: Value,
}

/// The parts that identify a value of the type.
pub(super) enum Value {
    /// Its fields; of a single one the type is but another name.
    Fields(Vec<Field>),
    /// The variant's name.
    Names(Vec<(Ident, String)>),
    /// Something is wrong with the type, and the program will not be compiled.
    Nothing,
}

pub(super) struct Field {
    pub(super) member: Member,
    /// The type's first and last token, where rustc is to say that it is no `KeyPart`.
    pub(super) place: (Span, Span),
    /// The type, if generic parameters decide whether it is a `KeyPart`.
    pub(super) bound: Option<Type>,
}

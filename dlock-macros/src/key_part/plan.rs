//! The impl to generate. Every mistake has been reported before.

use proc_macro2::{Ident, Span};
use syn::{Generics, Member, Path, Type};

/// Everything that `expand` needs.
pub(super) struct Plan {
    /// The path of the facade; `None` stands for `::dlock`.
    pub(super) krate: Option<Path>,
    pub(super) name: Ident,
    pub(super) generics: Generics,
    pub(super) value: Value,
}

/// The parts that identify a value of the type.
pub(super) enum Value {
    /// Its fields. A single field represents the type completely.
    Fields(Vec<Field>),
    /// The variant's name.
    Names(Vec<(Ident, String)>),
    /// The type has a mistake, and the program will not compile.
    Nothing,
}

pub(super) struct Field {
    pub(super) member: Member,
    /// The type's first and last token, where rustc reports that it does not implement `KeyPart`.
    pub(super) place: (Span, Span),
    /// The type, if generic parameters determine whether it implements `KeyPart`.
    pub(super) bound: Option<Type>,
}

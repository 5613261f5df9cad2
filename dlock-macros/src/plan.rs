//! The code to generate. Every mistake has been reported before.

use std::time::Duration;

use proc_macro2::{Ident, Literal, Span, TokenStream};
use syn::{Attribute, Expr, Path, Type};

use crate::duration::Role;
use crate::params::Param;

/// Everything that `expand` needs besides the function itself.
pub(crate) struct Plan {
    /// The path of the facade; `None` stands for `::dlock`.
    pub(crate) krate: Option<Path>,
    /// At least one.
    pub(crate) keys: Vec<Key>,
    pub(crate) settings: Vec<Setting>,
    pub(crate) manager: Option<Expr>,
    pub(crate) on_busy: Option<Busy>,
    pub(crate) on_error: Option<Expr>,
    /// The condition under which a call acquires the lock.
    pub(crate) enabled: Option<Expr>,
    /// The label of metrics and logs, in place of the template.
    pub(crate) metric: Option<String>,
    /// The body's name for the lease.
    pub(crate) lease: Option<Ident>,
    /// The place of `on_cancel = detach`, which requests a body that outlives its caller.
    pub(crate) detach: Option<Span>,
    /// `true` if the function blocks its thread.
    pub(crate) blocking: bool,
    /// Parameters that the body's future must own completely, so that they drop before the release: in this order.
    pub(crate) captures: Vec<Param>,
    /// Parameters of the same kind that are not used; rustc warns about them.
    pub(crate) unused: Vec<Param>,
    pub(crate) output: Output,
}

/// A key template with its placeholders resolved.
pub(crate) struct Key {
    pub(crate) template: String,
    pub(crate) pieces: Vec<KeyPiece>,
    /// A format string in which editors find the parameters that the key names.
    pub(crate) names: Option<Literal>,
    /// Acquired in shared mode, whatever the mode of the call.
    pub(crate) shared: bool,
}

pub(crate) enum KeyPiece {
    Text(String),
    /// An expression that is borrowed for rendering, and its place in the literal.
    Part(TokenStream, Span, Option<Removed>),
}

/// The code for a key that names a parameter which a `#[cfg]` has removed.
pub(crate) struct Removed {
    pub(crate) cfgs: Vec<Attribute>,
    /// The opposite condition.
    pub(crate) otherwise: TokenStream,
    pub(crate) error: TokenStream,
}

/// An option of the lock that differs from the manager's.
pub(crate) enum Setting {
    Length(Role, Length),
    Wait(Patience),
    Renew(bool),
    OnLost(Loss),
    Mode(Mode),
    Permits(Permits),
}

pub(crate) enum Length {
    Fixed(Duration),
    /// A constant of the user, checked at compile time.
    Constant(Expr),
    /// A constant that may depend on generics, checked where a use of the function is compiled.
    Associated(Expr),
    Computed(Expr),
}

pub(crate) enum Patience {
    Never,
    Forever,
    For(Duration),
    Computed(Expr),
}

#[derive(Clone, Copy)]
pub(crate) enum Loss {
    Stop,
    Finish,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

pub(crate) enum Permits {
    Fixed(u32),
    /// A constant of the user, checked at compile time.
    Constant(Expr),
    /// A constant that may depend on generics, checked where a use of the function is compiled.
    Associated(Expr),
    Computed(Expr),
}

#[derive(Clone, Copy)]
pub(crate) enum Cancel {
    Stop,
    Detach,
}

/// The function's value when the lock is busy.
pub(crate) enum Busy {
    Value(Expr),
    /// The value of the return type that means "nothing was done"; the span is that of the word.
    Skip(Span),
}

/// The return type of the function.
pub(crate) enum Output {
    /// Can be written down again; `impl Trait` inside is replaced by `_`.
    Known(Box<Type>),
    /// Behind an alias, or not nameable: left to inference.
    Inferred,
}

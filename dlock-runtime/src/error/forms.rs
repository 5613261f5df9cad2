//! The forms that all errors have: a word for each variant, and a `Debug` with the advice of the
//! text.

/// Gives each variant a word of its own, and lists those words: one that is forgotten does not compile.
macro_rules! codes {
    ($error:ident: $first:ident => $first_code:literal $(, $variant:ident => $code:literal)* $(,)?) => {
        impl $error {
            /// All that [`code`](Self::code) can be.
            pub const CODES: &'static [&'static str] = &[$first_code $(, $code)*];

            /// One word for each variant, which stays the same: for metrics, for answers to clients
            /// and for links.
            ///
            #[doc = concat!("It is one of `", $first_code, "`", $(", `", $code, "`",)* ".")]
            ///
            /// ```
            /// # extern crate dlock_runtime as dlock;
            #[doc = concat!("use dlock::", stringify!($error), ";")]
            ///
            #[doc = concat!("fn count(error: &", stringify!($error), ") {")]
            ///     println!("errors_total{{reason=\"{}\"}}", error.code());
            /// }
            /// # let _ = count;
            #[doc = concat!("assert!(", stringify!($error), "::CODES.contains(&\"", $first_code, "\"));")]
            /// ```
            #[must_use]
            pub fn code(&self) -> &'static str {
                match self {
                    Self::$first { .. } => $first_code,
                    $(Self::$variant { .. } => $code,)*
                }
            }
        }
    };
}
pub(crate) use codes;

/// `main` and `unwrap` show errors by `Debug`: it gives the advice of the text as well.
macro_rules! debug_with_text {
    ($($error:ident: $name:expr),* $(,)?) => { $(
        impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let name: fn(&Self) -> &'static str = $name;
                write!(f, "{}({self})", name(self))
            }
        }
    )* };
}
pub(crate) use debug_with_text;

//! The parts that all errors have in common: a code for each variant, and a `Debug` form that contains the
//! text with its advice.

/// Assigns a code to each variant and lists all codes. A variant without a code does not compile.
macro_rules! codes {
    ($error:ident: $first:ident => $first_code:literal $(, $variant:ident => $code:literal)* $(,)?) => {
        impl $error {
            /// All codes that [`code`](Self::code) can return.
            pub const CODES: &'static [&'static str] = &[$first_code $(, $code)*];

            /// Returns the code of the variant. Codes are stable. Use them for metrics, responses to clients and
            /// links.
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

/// Implements `Debug` with the text of the error. `main` and `unwrap` show errors by `Debug`, so their output
/// contains the advice too.
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

//! The programs that the tests and the checks need beside Rust: found, or got where that is allowed.
//!
//! Packages of Debian are unpacked into `target/tools`, not installed, so no service in them starts. The tests look there.

mod debian;
mod files;
mod host;
mod pip;
mod provide;
// Columns as they fit.
#[rustfmt::skip]
mod table;
#[cfg(test)]
mod tests;
mod tool;
mod version;

pub(crate) use provide::{program, provide};
pub(crate) use table::*;

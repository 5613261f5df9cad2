//! The public interface: managers, requests and guards, and the functions that generated code calls.

pub mod blocking;
pub(crate) mod builder;
pub(crate) mod detach;
pub(crate) mod global;
pub(crate) mod guard;
pub(crate) mod manager;
pub(crate) mod optional;
#[cfg(feature = "registry")]
pub(crate) mod registry;
pub(crate) mod request;
#[doc(hidden)]
pub mod support;

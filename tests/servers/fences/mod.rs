//! Fences: few are kept for good, and a server may lose them.
#![cfg(feature = "redis")]

mod bounded;
mod compared;
mod forgotten;

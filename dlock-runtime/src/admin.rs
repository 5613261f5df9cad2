//! The door of `dlock-admin`: what it reads of Redis, and the budget of its pace. Not part of the public API.

pub use crate::budget::Budget;
#[cfg(feature = "redis")]
pub use crate::store::redis::admin::*;

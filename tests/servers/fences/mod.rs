//! What the server keeps for good: fences, of which there are few, and which may be lost.
#![cfg(feature = "redis")]

mod bounded;
mod compared;
mod forgotten;

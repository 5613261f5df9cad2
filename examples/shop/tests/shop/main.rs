//! The shop from outside: copies of the program, real HTTP, one file and one server.
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails at an `unwrap` has said what it has to say"
)]

mod crowd;
mod ends;
mod hang_up;
mod layouts;
mod page;
mod shop;

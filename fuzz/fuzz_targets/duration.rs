//! Durations as they are written in an attribute.
//!
//! A crate of macros cannot be linked, so its modules of pure text are compiled here once more.
#![no_main]
#![allow(dead_code)]

#[path = "../../dlock-macros/src/duration.rs"]
mod duration;
#[path = "../../dlock-macros/src/fault.rs"]
mod fault;
#[path = "../../tests/fuzzing.rs"]
mod fuzzing;
#[rustfmt::skip]
#[path = "../../dlock-macros/src/template.rs"]
mod template;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::duration(data));

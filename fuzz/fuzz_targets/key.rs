//! Values of all shapes in a key.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dlock_runtime::fuzzing::key(data));

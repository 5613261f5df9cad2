//! Answers of a server to a request.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dlock_runtime::fuzzing::replies(data));

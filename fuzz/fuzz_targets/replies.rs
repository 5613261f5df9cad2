//! What a server may answer to a request.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dlock_runtime::fuzzing::replies(data));

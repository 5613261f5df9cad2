//! URLs of servers, and what is shown of them.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dlock_runtime::fuzzing::url(data));

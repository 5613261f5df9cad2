//! Messages on a manager's channel.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dlock_runtime::fuzzing::hints(data));

//! `cargo xtask fuzz expressions`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::expressions(data));

//! `cargo xtask fuzz json`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::json(data));

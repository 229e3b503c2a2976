//! `cargo xtask fuzz ipc`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::ipc(data));

//! `cargo xtask fuzz avro`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::avro(data));

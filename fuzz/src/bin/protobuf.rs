//! `cargo xtask fuzz protobuf`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::protobuf(data));

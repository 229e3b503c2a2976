//! The plugin shown in the guide is the example that is compiled.

use std::path::Path;

#[test]
fn the_guide_shows_the_compiled_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = std::fs::read_to_string(root.join("../../docs/plugins/README.md")).expect("the guide is there");
    let example = std::fs::read_to_string(root.join("examples/shout.rs")).expect("the example is there");
    let shown = guide.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).expect("the guide shows one plugin");
    assert_eq!(shown, example, "copy `sdk/rust/examples/shout.rs` into `docs/plugins/README.md`");
}

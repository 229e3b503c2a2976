use super::*;

fn error(bytes: &[u8]) -> String {
    let error = load(bytes).expect_err("it must not load");
    assert_eq!(error.kind(), tidegate_api::ErrorKind::Config);
    error.to_string()
}

fn component(exports: &str, imports: &str) -> Vec<u8> {
    wat::parse_str(format!("(component {imports} (instance $i) {exports})")).unwrap()
}

/// P151.
#[test]
fn what_is_no_wasm_is_said_to_be_none() {
    assert!(error(b"").contains("empty"));
    assert!(error(b"\0as").contains("cut off"));
    assert!(error(b"#!/bin/sh\n").contains("no WebAssembly file"));
    assert!(error(b"\0asm\xff\xff\xff\xff").contains("unknown version"));
}

/// P158.
#[test]
fn a_component_cut_off_anywhere_is_said_to_be() {
    let whole = component("(export \"tidegate:plugin/transform@0.1.0\" (instance $i))", "");
    assert_eq!(load(&whole).unwrap().worlds, [World::Transform]);
    for length in 1..whole.len() {
        // What is cut off may be a section of names only, which a component can be without.
        if let Err(error) = load(&whole[..length]) {
            let text = error.to_string();
            assert!(text.contains("cut off") || text.contains("no plugin"), "cut to {length}: {text}");
        } else {
            assert!(length > whole.len() / 2, "cut to {length}, it still loads");
        }
    }
}

#[test]
fn the_world_and_its_version_are_read_from_the_type() {
    let both = "(export \"tidegate:plugin/source@0.1.3\" (instance $i)) (export \"tidegate:plugin/sink@0.1.3\" (instance $i))";
    let loaded = load(&component(both, "")).unwrap();
    assert_eq!((loaded.worlds.as_slice(), loaded.version.as_str()), ([World::Source, World::Sink].as_slice(), "0.1.3"));
}

/// P157.
#[test]
fn another_version_is_named_beside_the_one_offered() {
    let newer = error(&component("(export \"tidegate:plugin/transform@0.3.0\" (instance $i))", ""));
    assert!(newer.contains("needs tidegate:plugin@0.3, this host offers 0.1") && newer.contains("newer host"), "{newer}");
    let older = error(&component("(export \"tidegate:plugin/transform@0.0.9\" (instance $i))", ""));
    assert!(older.contains("needs tidegate:plugin@0.0, this host offers 0.1") && older.contains("newer build"), "{older}");
    let preview = error(&component("(export \"tidegate:plugin/transform@0.1.0-rc1\" (instance $i))", ""));
    assert!(preview.contains("needs tidegate:plugin@0.1.0-rc1"), "{preview}");
    // A later version may have worlds this host has never heard of: the version is what counts.
    let unheard = error(&component("(export \"tidegate:plugin/teleport@2.0.0\" (instance $i))", ""));
    assert!(unheard.contains("needs tidegate:plugin@2.0"), "{unheard}");
}

/// P151.
#[test]
fn another_world_is_named_with_the_nearest_known() {
    let close = error(&component("(export \"tidegate:plugin/transfrom@0.1.0\" (instance $i))", ""));
    assert!(close.contains("did you mean `transform`"), "{close}");
    let none = error(&component("(export \"wasi:cli/run@0.2.0\" (instance $i))", ""));
    assert!(none.contains("no plugin") && none.contains("`wasi:cli/run@0.2.0`"), "{none}");
    assert!(error(&component("", "")).contains("exports nothing"));
}

/// P156, P169.
#[test]
fn missing_imports_are_named_with_their_versions() {
    let imports = "(import \"wasi:http/incoming-handler@0.2.4\" (instance)) (import \"tidegate:plugin/log@0.1.0\" (instance)) \
                   (import \"wasi:io/poll@0.3.0\" (instance))";
    let text = error(&component("(export \"tidegate:plugin/source@0.1.0\" (instance $i))", imports));
    assert!(text.contains("`wasi:http/incoming-handler@0.2.4`, `wasi:io/poll@0.3.0`") && !text.contains("log@"), "{text}");
    // Requests are for sources and sinks, under a grant.
    let requests = "(import \"wasi:http/outgoing-handler@0.2.4\" (instance)) (import \"wasi:http/types@0.2.4\" (instance))";
    assert!(load(&component("(export \"tidegate:plugin/source@0.1.0\" (instance $i))", requests)).is_ok());
    assert!(error(&component("(export \"tidegate:plugin/transform@0.1.0\" (instance $i))", requests)).contains("outgoing-handler"));
    let secrets = "(import \"tidegate:plugin/secrets@0.1.0\" (instance))";
    let text = error(&component("(export \"tidegate:plugin/transform@0.1.0\" (instance $i))", secrets));
    assert!(text.contains("`tidegate:plugin/secrets@0.1.0`") && text.contains("offers a transform only"), "{text}");
}

/// P159.
#[test]
fn core_modules_say_how_to_become_components() {
    let bare = wat::parse_str("(module)").unwrap();
    assert!(error(&bare).contains("core module, not a component") && error(&bare).contains("wasm-tools component new"));
    let preview1 = "(module (import \"wasi_snapshot_preview1\" \"fd_write\" (func (param i32 i32 i32 i32) (result i32))) (@custom \"component-type:x\" \"\"))";
    let text = error(&wat::parse_str(preview1).unwrap());
    assert!(text.contains("wasm32-wasip1") && text.contains("--adapt"), "{text}");
}

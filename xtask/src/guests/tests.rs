//! What was built: every component exports its world's interface and imports no more than it may. `cargo xtask guests` builds them.

use super::*;
use wit_component::DecodedWasm;

/// The names of a component's imports and exports.
fn border(name: &str) -> (Vec<String>, Vec<String>) {
    let path = crate::root().join("plugins/target/components").join(format!("{name}.wasm"));
    let bytes = fs::read(&path).unwrap_or_else(|_| panic!("`{}` is missing; run `cargo xtask guests`", path.display()));
    let DecodedWasm::Component(resolve, world) = wit_component::decode(&bytes).unwrap() else {
        panic!("`{name}` is no component");
    };
    let world = &resolve.worlds[world];
    let imports = world.imports.keys().map(|key| resolve.name_world_key(key)).collect();
    let exports = world.exports.keys().map(|key| resolve.name_world_key(key)).collect();
    (imports, exports)
}

#[test]
fn a_transform_imports_nothing_but_its_world() {
    for name in ["mask-pii", "json-flatten", "geo-enrich"] {
        let (imports, exports) = border(name);
        assert_eq!(exports, ["tidegate:plugin/transform@0.1.0"]);
        let allowed = ["types", "log", "metrics", "control"].map(|name| format!("tidegate:plugin/{name}@0.1.0"));
        assert!(imports.contains(&allowed[1]), "a panic could not be told: {imports:?}");
        assert!(imports.iter().all(|import| allowed.contains(import)), "{name}: {imports:?}");
    }
}

#[test]
fn sources_and_sinks_import_their_world_and_wasi() {
    let guests = [
        ("ticker", "source", None),
        ("csv-dir", "source", None),
        ("jsonl", "sink", None),
        ("http-post", "sink", Some("wasi:http/")),
        ("http-poll", "source", Some("wasi:http/")),
        ("s3-jsonl", "sink", Some("wasi:http/")),
        ("tcp-lines", "source", Some("wasi:sockets/")),
    ];
    for (name, interface, network) in guests {
        let (imports, exports) = border(name);
        assert_eq!(exports, [format!("tidegate:plugin/{interface}@0.1.0")]);
        let known = |import: &&String| import.starts_with("tidegate:plugin/") || import.starts_with("wasi:");
        assert_eq!(imports.iter().filter(known).count(), imports.len(), "{imports:?}");
        for part in ["wasi:http/", "wasi:sockets/"] {
            assert_eq!(imports.iter().any(|import| import.starts_with(part)), network == Some(part), "{name}: {imports:?}");
        }
    }
}

#[test]
fn what_is_packed_already_stays_as_it_is() {
    let path = crate::root().join("plugins/target/components/mask-pii.wasm");
    let bytes = fs::read(path).unwrap();
    assert!(tidegate_guests::pack(bytes.clone()).unwrap() == bytes);
}

#[test]
fn a_changed_file_changes_the_fingerprint_and_a_built_one_does_not() {
    let root = tempfile::tempdir().unwrap();
    for file in ["wit/a.wit", "sdk/rust/Cargo.toml", "sdk/rust/src/lib.rs", "plugins/p/src/lib.rs", "plugins/target/x"] {
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file).unwrap();
    }
    let folder = root.path().join("plugins");
    let fingerprint = || super::fingerprint(root.path(), &folder).unwrap();
    let before = fingerprint();
    fs::write(root.path().join("plugins/target/x"), "built").unwrap();
    assert_eq!(fingerprint(), before);
    fs::write(root.path().join("wit/a.wit"), "changed").unwrap();
    assert_ne!(fingerprint(), before);
}

#[test]
fn an_unknown_kind_is_named() {
    let package = serde_json::json!({ "name": "x", "metadata": { "tidegate": { "kind": "tranform" } } });
    assert!(Guest::of(&package).err().unwrap().to_string().contains("`x` is of the unknown kind `tranform`"));
    assert!(Guest::of(&serde_json::json!({ "name": "x", "metadata": null })).unwrap().is_none());
}

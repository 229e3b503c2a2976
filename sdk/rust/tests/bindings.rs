//! The checked-in bindings are what the generator makes of `wit/`. `UPDATE_BINDINGS=1 cargo test --test bindings` writes them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use wit_bindgen_core::wit_parser::Resolve;
use wit_bindgen_core::{Files, WorldGenerator};
use wit_bindgen_rust::{Opts, WithOption};

/// A world, and where the interfaces stand that another world's bindings have already.
struct Bindings {
    world: &'static str,
    module: &'static str,
    shared: &'static [(&'static str, &'static str)],
}

const SHARED: &[(&str, &str)] = &[("types", "transform"), ("log", "transform"), ("metrics", "transform"), ("control", "transform")];
const SHARED_WITH_SECRETS: &[(&str, &str)] =
    &[("types", "transform"), ("log", "transform"), ("metrics", "transform"), ("control", "transform"), ("secrets", "source")];

const ALL: &[Bindings] = &[
    Bindings { world: "transform-plugin", module: "transform", shared: &[] },
    Bindings { world: "transform-columns-plugin", module: "transform_columns", shared: SHARED },
    Bindings { world: "source-plugin", module: "source", shared: SHARED },
    Bindings { world: "sink-plugin", module: "sink", shared: SHARED_WITH_SECRETS },
];

fn generate(wit: &Path, bindings: &Bindings) -> String {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(wit).unwrap();
    let world = resolve.select_world(&[package], Some(bindings.world)).unwrap();
    let with = bindings.shared.iter().map(|(interface, module)| {
        let path = format!("crate::bindings::{module}::tidegate::plugin::{interface}");
        (format!("tidegate:plugin/{interface}@0.1.0"), WithOption::Path(path))
    });
    let mut generator = Opts {
        format: true,
        pub_export_macro: true,
        default_bindings_module: Some(format!("$crate::bindings::{}", bindings.module)),
        export_macro_name: Some(format!("export_{}_bindings", bindings.module)),
        runtime_path: Some("crate::bindings::rt".into()),
        additional_derive_attributes: vec!["PartialEq".into()],
        with: with.collect(),
        generate_all: true,
        ..Opts::default()
    }
    .build();
    let mut files = Files::default();
    generator.generate(&mut resolve, world, &mut files).unwrap();
    let (_, contents) = files.iter().next().unwrap();
    String::from_utf8(contents.to_vec()).unwrap()
}

#[test]
fn the_checked_in_bindings_are_what_wit_gives() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let update = std::env::var_os("UPDATE_BINDINGS").is_some();
    for bindings in ALL {
        let path = root.join("src/bindings").join(format!("{}.rs", bindings.module));
        let made = generate(&root.join("../../wit"), bindings);
        if update {
            std::fs::write(&path, made).unwrap();
        } else if std::fs::read_to_string(&path).unwrap() != made {
            panic!("`{}` is not what `wit/` gives; run UPDATE_BINDINGS=1 cargo test --test bindings", path.display());
        }
    }
}

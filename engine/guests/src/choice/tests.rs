//! Every machine gets the best way it can do, or the line that mends it.

use super::*;

fn machine(targets: &[&'static str]) -> Machine {
    Machine { targets: targets.iter().copied().collect(), rustup: true, ..Machine::default() }
}

fn chosen(kind: Kind, machine: &Machine) -> Way {
    choose(kind, None, machine).unwrap().way
}

#[test]
fn a_transform_goes_without_wasi_and_a_source_with_it() {
    let all = machine(&["wasm32-unknown-unknown", "wasm32-wasip1", "wasm32-wasip2"]);
    assert_eq!(chosen(Kind::Transform, &all), Way::Core);
    assert_eq!(chosen(Kind::Source, &all), Way::Wasip2);
    assert_eq!(chosen(Kind::Sink, &all), Way::Wasip2);
    let why = choose(Kind::Sink, None, &all).unwrap().why;
    assert!(why.contains("wasm32-wasip2") && why.contains("a sink is a component of WASI 0.2"), "{why}");
}

#[test]
fn the_next_best_is_taken_and_said() {
    let some = machine(&["wasm32-wasip1"]);
    assert_eq!(chosen(Kind::Transform, &some), Way::Wasip1);
    let choice = choose(Kind::Source, None, &some).unwrap();
    assert_eq!(choice.way, Way::Wasip1);
    assert!(choice.why.contains("there is no wasm32-wasip2"), "{}", choice.why);
}

#[test]
fn debian_s_rust_builds_what_it_can_link() {
    let debian = Debian::for_tests();
    let machine = Machine { debian: Some(debian), ..Machine::default() };
    assert_eq!(chosen(Kind::Transform, &machine), Way::Core);
    assert_eq!(chosen(Kind::Sink, &machine), Way::Wasip1);
    assert!(choose(Kind::Sink, None, &machine).unwrap().why.contains("Debian's Rust"));
    assert!(choose(Kind::Sink, Some(Way::Wasip2), &machine).is_err());
}

#[test]
fn what_is_missing_is_said_with_the_command_that_mends_it() {
    let said = |kind, asked, machine: &Machine| choose(kind, asked, machine).unwrap_err().to_string();
    let none = machine(&[]);
    let source = said(Kind::Source, None, &none);
    assert!(source.contains("cannot build a source") && source.contains("`rustup target add wasm32-wasip2`"), "{source}");
    assert!(source.contains("apt-get install"), "{source}");
    assert!(said(Kind::Transform, None, &none).contains("`rustup target add wasm32-unknown-unknown`"));
    assert!(said(Kind::Transform, None, &Machine::default()).contains("https://rustup.rs"));
    let component = said(Kind::Sink, Some(Way::Component), &machine(&["wasm32-wasip1"]));
    assert!(component.contains("cargo install --locked cargo-component"), "{component}");
    let tool = Machine { cargo_component: true, ..none };
    let component = said(Kind::Sink, Some(Way::Component), &tool);
    assert!(component.contains("`rustup target add wasm32-wasip1`") && !component.contains("cargo install"), "{component}");
}

#[test]
fn the_way_asked_for_is_taken() {
    let all = machine(&["wasm32-unknown-unknown", "wasm32-wasip1", "wasm32-wasip2"]);
    for way in [Way::Core, Way::Wasip1, Way::Wasip2] {
        assert_eq!(choose(Kind::Source, Some(way), &all).unwrap().way, way);
    }
    assert!(choose(Kind::Source, Some(Way::Core), &all).unwrap().why.contains("without WASI"));
}

#[test]
fn the_module_is_found_among_cargo_s_messages() {
    let messages = br#"{"reason":"compiler-artifact","manifest_path":"/dep/Cargo.toml","filenames":["/t/libdep.rlib","/t/dep.wasm"]}
not json
{"reason":"compiler-artifact","manifest_path":"/p/Cargo.toml","filenames":["/t/p.wasm"]}
{"reason":"build-finished","success":true}"#;
    assert_eq!(artifact(messages, Path::new("/p/Cargo.toml")), Some(PathBuf::from("/t/p.wasm")));
    assert_eq!(artifact(messages, Path::new("/q/Cargo.toml")), None);
}

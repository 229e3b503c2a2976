//! The rules of the registry.

use super::*;
use serde_json::json;
use tempfile::TempDir;

const COLUMNS: &str = "inputs = [{ name = \"a\", type = \"int64\" }]\noutput = [{ name = \"b\", type = \"string\" }]\n";

/// A root with a container transform in each folder named.
fn root(transforms: &[(&str, &str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (folder, id, version) in transforms {
        let text = format!("id = \"{id}\"\nversion = \"{version}\"\nimpl = \"container\"\nentry = [\"{folder}\"]\n{COLUMNS}");
        write(root.path(), folder, &text);
    }
    root
}

fn write(root: &Path, folder: &str, text: &str) {
    std::fs::create_dir_all(root.join(folder)).unwrap();
    std::fs::write(root.join(folder).join(MANIFEST), text).unwrap();
}

fn read(roots: &[&TempDir]) -> Result<Registry, Vec<String>> {
    let roots = Roots::new(roots.iter().map(|root| root.path()));
    Registry::read(&roots).map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

fn program(registry: &Registry, reference: &str) -> String {
    match &registry.get(reference).unwrap().entry {
        Entry::Container(entry) => entry.command[0].clone(),
        Entry::Wasm { .. } => panic!("not a container"),
    }
}

#[test]
fn without_a_version_the_highest_is_taken_by_numbers_and_not_by_letters() {
    let root = root(&[("nine", "up", "1.9.0"), ("ten", "up", "1.10.0"), ("ten-rc", "up", "1.10.0-rc.1"), ("other", "other", "7.0.0")]);
    let registry = read(&[&root]).unwrap();
    assert_eq!(program(&registry, "up"), "ten");
    assert_eq!(program(&registry, "up@1.9.0"), "nine");
    assert_eq!(program(&registry, "up@1.10.0-rc.1"), "ten-rc");
    assert_eq!(registry.iter().map(ToString::to_string).collect::<Vec<_>>(), ["other@7.0.0", "up@1.9.0", "up@1.10.0-rc.1", "up@1.10.0"]);
}

#[test]
fn a_later_root_replaces_one_version_and_adds_others() {
    let first = root(&[("a", "up", "1.0.0"), ("b", "up", "2.0.0")]);
    let second = root(&[("c", "up", "1.0.0"), ("d", "down", "1.0.0")]);
    let registry = read(&[&first, &second]).unwrap();
    assert_eq!((program(&registry, "up@1.0.0"), program(&registry, "up")), ("c".to_string(), "b".to_string()));
    assert_eq!(program(&registry, "down"), "d");
    assert_eq!(program(&read(&[&second, &first]).unwrap(), "up@1.0.0"), "a");
}

#[test]
fn what_is_not_there_is_named_with_the_nearest() {
    let root = root(&[("a", "upper", "1.0.0"), ("b", "upper", "1.2.0")]);
    let registry = read(&[&root]).unwrap();
    let wrong = |reference: &str| registry.get(reference).unwrap_err();
    assert!(wrong("uper").contains("did you mean `upper`?"), "{}", wrong("uper"));
    assert!(wrong("uper").contains(&root.path().display().to_string()), "it says where it looked: {}", wrong("uper"));
    assert!(wrong("upper@1.2.1").contains("there is `1.0.0`, `1.2.0`"), "{}", wrong("upper@1.2.1"));
    assert!(wrong("upper@1.2").contains("write three numbers"), "{}", wrong("upper@1.2"));
    assert!(wrong("../upper").contains("is no transform's id"), "{}", wrong("../upper"));
    assert!(Registry::default().get("upper").unwrap_err().contains("FV_TRANSFORMS_DIR"));
}

#[test]
fn one_version_twice_in_a_root_is_refused() {
    let root = root(&[("a", "up", "1.0.0"), ("b", "up", "1.0.0")]);
    let problems = read(&[&root]).unwrap_err();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].contains("b/transform.toml: `up@1.0.0` stands twice"), "{problems:?}");
}

#[test]
fn every_mistake_of_every_manifest_is_told_with_file_line_and_key() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "a", "id = \"a b\"\nversion = \"1\"\nimpl = \"wasn\"\nentri = \"x\"\n");
    let inputs = "[[inputs]]\nname = \"x\"\ntype = \"int65\"\n[[inputs]]\nname = \"_key\"\ntype = \"int64\"\n[[output]]\nname = \"y\"\n";
    let limits = "[limits]\ndeadlin = \"1s\"\nstartTimeout = \"0s\"\n[capabilities]\nnet = true\n";
    write(root.path(), "b", &format!("id = \"b\"\nversion = \"1.0.0\"\nimpl = \"container\"\nonMisfit = \"nul\"\n{inputs}{limits}"));
    write(root.path(), "c", "id = [\n");
    std::fs::create_dir(root.path().join("no-transform")).unwrap();
    std::fs::write(root.path().join("README"), "").unwrap();
    let problems = read(&[&root]).unwrap_err();
    let at = |folder: &str, line: usize| format!("{}/{folder}/transform.toml:{line}: ", root.path().display());
    for (place, part) in [
        (at("a", 1), "id: `a b` is no transform's id"),
        (at("a", 2), "version: `1` is no version"),
        (at("a", 3), "did you mean `wasm`?"),
        (at("a", 4), "entri: unknown key `entri`, did you mean `entry`?"),
        (at("a", 1), "`[[inputs]]` is missing"),
        (at("a", 1), "`[[output]]` is missing"),
        (at("b", 4), "onMisfit: `nul` is none of `bad`, `null`, did you mean `null`?"),
        (at("b", 7), "did you mean `int64`?"),
        (at("b", 9), "inputs.1.name: the name `_key` is reserved"),
        (at("b", 11), "output.0.type: `type` is missing"),
        (at("b", 14), "limits.deadlin: unknown key `deadlin`, did you mean `deadline`?"),
        (at("b", 15), "limits.startTimeout: must be longer than 0"),
        (at("b", 17), "capabilities.net: unknown key"),
        (at("b", 1), "`entry` is missing"),
        (at("c", 1), ""),
    ] {
        assert!(problems.iter().any(|problem| problem.starts_with(&place) && problem.contains(part)), "{place}{part} in {problems:#?}");
    }
}

#[test]
fn a_component_lies_below_its_folder() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("outside.wasm"), "").unwrap();
    let manifest = |entry: &str| {
        format!("id = \"a\"\nversion = \"1.0.0\"\nimpl = \"wasm\"\nentry = \"{entry}\"\ncapabilities = {{ env = [\"TZ\"] }}\n{COLUMNS}")
    };
    for (entry, part) in [
        ("../outside.wasm", "leads out of the transform's folder"),
        ("/etc/passwd", "leads out of the transform's folder"),
        ("link.wasm", "is a link that leads out"),
        ("none.wasm", "cannot be read"),
        (".", "is no file"),
    ] {
        write(root.path(), "a", &manifest(entry));
        let _ = std::os::unix::fs::symlink("../outside.wasm", root.path().join("a/link.wasm"));
        let problems = read(&[&root]).unwrap_err();
        assert!(problems.iter().any(|problem| problem.contains(part)), "{entry}: {problems:?}");
        assert!(problems.iter().any(|problem| problem.contains("sees nothing of the machine")), "{problems:?}");
    }
}

#[test]
fn the_roots_of_the_file_come_behind_those_of_the_host_and_say_where_they_stand() {
    let here = root(&[("a", "up", "1.0.0")]);
    let mut host = HostSettings::default().with_base_dir(here.path()).with_transform_roots(Roots::new(["/from-the-host"]));
    host.settings = json!({ "transforms": [".", "missing"] }).as_object().unwrap().clone();
    let roots = Roots::of(&host);
    assert_eq!(
        roots.0.iter().map(|root| root.dir.clone()).collect::<Vec<_>>(),
        [PathBuf::from("/from-the-host"), here.path().join("."), here.path().join("missing")]
    );
    let problems = Registry::read(&roots).unwrap_err();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert_eq!(problems[1].path, ["settings", "transforms", "1"]);
    assert!(problems[1].message.contains("the transforms of `missing` cannot be read"), "{problems:?}");
}

//! `tidegate plugin new`: a template, the SDK and the WIT package, unpacked from this binary.

use super::{KindArg, USAGE};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use tidegate_api::Error;

/// Names and texts; see `build.rs`.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
/// What the templates are called in their own files.
const PLACEHOLDER: &str = "my-plugin";
const MAX_NAME: usize = 64;
/// Cargo takes no package of these names, or builds none of them well.
const RESERVED: &[&str] = &[
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "build",
    "const",
    "continue",
    "core",
    "crate",
    "deps",
    "do",
    "dyn",
    "else",
    "enum",
    "examples",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "incremental",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc-macro",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
];

impl KindArg {
    fn template(self) -> &'static str {
        match self {
            KindArg::Source => "templates/source/",
            KindArg::Sink => "templates/sink/",
            KindArg::Transform => "templates/transform/",
        }
    }
}

/// Makes the crate and says what comes next.
pub(super) fn new(name: &str, kind: KindArg, dir: Option<PathBuf>) -> u8 {
    let files = files(kind);
    if let Err(message) = check_name(name, &files) {
        eprintln!("{message}");
        return USAGE;
    }
    let dir = dir.unwrap_or_else(|| PathBuf::from(name));
    match unpack(&dir, name, &files) {
        Ok(()) => {
            eprintln!("next: cd {}, cargo test, tidegate plugin build; README.md says more", dir.display());
            println!("{}", dir.display());
            0
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            eprintln!("`{}` is there already; name another folder with `--dir`, or remove it", dir.display());
            USAGE
        }
        Err(error) => super::failed(&Error::external(format!("`{}` cannot be made", dir.display())).caused_by(error)),
    }
}

/// What a crate of this kind has, by path in it.
fn files(kind: KindArg) -> Vec<(String, &'static str)> {
    let moved = [(kind.template(), ""), ("templates/common/", ""), ("sdk/", "vendor/tidegate-sdk/"), ("wit/", "vendor/wit/")];
    let placed = FILES.iter().filter_map(|(name, text)| {
        let path = moved.iter().find_map(|(from, to)| Some(format!("{to}{}", name.strip_prefix(from)?)))?;
        // Under its true name git would heed it in this repository too.
        Some((if path == "gitignore" { ".gitignore".to_owned() } else { path }, *text))
    });
    placed.collect()
}

fn check_name(name: &str, files: &[(String, &str)]) -> Result<(), String> {
    let word = |word: &str| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) && !word.is_empty();
    let kebab = name.starts_with(|first: char| first.is_ascii_lowercase()) && name.split('-').all(word);
    if !kebab || name.len() > MAX_NAME {
        return Err(format!(
            "`{name}` is no name for a plugin; it is lower case letters and digits in words joined by `-`, such as `read-orders`, at most {MAX_NAME} characters"
        ));
    }
    let lock = files.iter().find(|(path, _)| path == "Cargo.lock").map_or("", |(_, text)| text);
    let depends_on = lock.lines().any(|line| line.strip_prefix("name = ") == Some(&format!("\"{name}\""))) && name != PLACEHOLDER;
    if RESERVED.contains(&name) || depends_on {
        let why = if depends_on { "is the name of a crate it depends on" } else { "means something to Cargo or Rust" };
        return Err(format!("`{name}` {why}; give the plugin another name"));
    }
    Ok(())
}

/// Writes the files, or none of them.
fn unpack(dir: &Path, name: &str, files: &[(String, &str)]) -> io::Result<()> {
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::create_dir(dir)?;
    let written = files.iter().try_for_each(|(path, text)| {
        let file = dir.join(path);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        match path.as_str() {
            vendored if vendored.starts_with("vendor/") => fs::write(file, text),
            "Cargo.lock" => fs::write(file, lock(&text.replace(PLACEHOLDER, name))),
            _ => fs::write(file, text.replace(PLACEHOLDER, name)),
        }
    });
    if written.is_err() {
        // What was begun would stand in the way of a second attempt. The first error is the one that counts.
        let _ = fs::remove_dir_all(dir);
    }
    written
}

/// Puts the packages of a lock file back into order, so that Cargo finds nothing to change.
fn lock(text: &str) -> String {
    const BETWEEN: &str = "[[package]]\n";
    let mut parts = text.split(BETWEEN);
    let head = parts.next().unwrap_or_default();
    let mut packages: Vec<&str> = parts.map(str::trim_end).collect();
    packages.sort_by_key(|package| package.lines().next());
    let packages: Vec<String> = packages.into_iter().map(|package| format!("{BETWEEN}{package}\n")).collect();
    format!("{head}{}", packages.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kebab_case_and_nobody_else_s() {
        let files = files(KindArg::Sink);
        for good in ["orders", "read-orders", "s3-2"] {
            assert_eq!(check_name(good, &files), Ok(()), "{good}");
        }
        for bad in ["", "Orders", "read_orders", "-x", "x-", "x--y", "3d", "../x", "x y", "ä", &"x".repeat(65)] {
            assert!(check_name(bad, &files).unwrap_err().contains("no name for a plugin"), "{bad}");
        }
        assert!(check_name("match", &files).unwrap_err().contains("means something to Cargo"));
        assert!(check_name("serde", &files).unwrap_err().contains("a crate it depends on"));
    }

    #[test]
    fn every_kind_has_its_files_and_what_it_is_built_on() {
        for kind in [KindArg::Source, KindArg::Sink, KindArg::Transform] {
            let files = files(kind);
            for path in [
                "Cargo.toml",
                "Cargo.lock",
                "README.md",
                "plugin.toml",
                ".gitignore",
                ".cargo/config.toml",
                "src/lib.rs",
                "src/tests.rs",
                "vendor/tidegate-sdk/Cargo.toml",
                "vendor/tidegate-sdk/LICENSE",
                "vendor/tidegate-sdk/src/lib.rs",
                "vendor/tidegate-sdk/examples/shout.rs",
                "vendor/wit/types.wit",
            ] {
                assert!(files.iter().any(|(there, _)| there == path), "{kind:?} has no {path}");
            }
        }
        let bytes: usize = FILES.iter().map(|(_, text)| text.len()).sum();
        assert!(bytes < 1 << 20, "{bytes} bytes are a lot to carry in every binary");
    }

    #[test]
    fn a_crate_is_made_whole_under_its_name_and_an_existing_folder_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("deep/orders");
        unpack(&dir, "orders", &files(KindArg::Transform)).unwrap();
        let manifest = fs::read_to_string(dir.join("Cargo.toml")).unwrap();
        assert!(manifest.contains("name = \"orders\"") && manifest.contains("package = \"plugin:orders\""), "{manifest}");
        for file in ["Cargo.toml", "Cargo.lock", "README.md", "src/lib.rs"] {
            assert!(!fs::read_to_string(dir.join(file)).unwrap().contains(PLACEHOLDER), "{file}");
        }
        fs::write(dir.join("mine"), "kept").unwrap();
        let error = unpack(&dir, "orders", &files(KindArg::Transform)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert!(dir.join("mine").exists());
    }

    #[test]
    fn packages_of_the_lock_file_are_in_order_whatever_the_name() {
        for kind in [KindArg::Source, KindArg::Transform] {
            let files = files(kind);
            let (_, text) = files.iter().find(|(path, _)| path == "Cargo.lock").unwrap();
            assert_eq!(&lock(text), text, "the template's own is in order");
            for name in ["aaa", "zzz", "my-plugin-2"] {
                let locked = lock(&text.replace(PLACEHOLDER, name));
                let names: Vec<&str> = locked.lines().filter(|line| line.starts_with("name = ")).collect();
                assert!(names.is_sorted(), "{name}");
                assert_eq!(locked.lines().count(), text.lines().count());
            }
        }
    }
}

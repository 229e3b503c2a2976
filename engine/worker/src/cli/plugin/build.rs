//! `tidegate plugin build`.

use super::WayArg;
use std::path::Path;
use tidegate_api::{Error, ErrorKind};
use tidegate_guests::{Error as BuildError, Kind, Machine, Package, Way, choose};

impl From<WayArg> for Way {
    fn from(way: WayArg) -> Self {
        match way {
            WayArg::Wasip2 => Way::Wasip2,
            WayArg::Core => Way::Core,
            WayArg::Wasip1 => Way::Wasip1,
            WayArg::Component => Way::Component,
        }
    }
}

/// What a person who builds a source or sink for WASI 0.1 would learn from a trap.
const RANDOM: &str = "note: it asks for secure random numbers, as Rust's own hash maps do on wasm32-wasip1; grant `random = true`, \
                      for a test `plugin test --allow random`";

/// Whether a component may ask for secure random numbers. Where it cannot be read, nothing is said of it.
fn asks_for_random(component: &Path) -> bool {
    const NAME: &[u8] = b"wasi:random/random@";
    std::fs::read(component).is_ok_and(|bytes| bytes.windows(NAME.len()).any(|window| window == NAME))
}

/// Builds the crate of a folder, says how, and prints where the component is.
pub(super) fn build(dir: &Path, with: Option<WayArg>) -> u8 {
    let built = Package::read(dir).and_then(|package| {
        let choice = choose(package.kind, with.map(Way::from), &Machine::look(&package.folder))?;
        eprintln!("{} `{}`: {}", package.kind, package.name, choice.why);
        let built = choice.build(&package)?;
        if package.kind != Kind::Transform && asks_for_random(&built) {
            eprintln!("{RANDOM}");
        }
        Ok(built)
    });
    match built {
        Ok(path) => {
            // As short as the way to the crate was given, so that it can be typed and pasted.
            let shown = dir.canonicalize().ok().and_then(|full| path.strip_prefix(full).ok().map(|inner| dir.join(inner)));
            let shown = shown.unwrap_or(path);
            println!("{}", shown.strip_prefix(".").unwrap_or(&shown).display());
            0
        }
        Err(error) => {
            let kind = kind(&error);
            super::failed(&Error::new(kind, error.to_string()))
        }
    }
}

/// Whose turn it is, as an exit code says it.
fn kind(error: &BuildError) -> ErrorKind {
    match error {
        BuildError::Package(_) => ErrorKind::Config,
        // What does not compile is input that is wrong.
        BuildError::Build(_) => ErrorKind::Data,
        BuildError::Missing(_) | BuildError::Io(_) => ErrorKind::External { retry: tidegate_api::Retry::No },
    }
}

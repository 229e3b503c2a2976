//! `tidegate plugin build`.

use super::WayArg;
use std::path::Path;
use tidegate_api::{Error, ErrorKind};
use tidegate_guests::{Error as BuildError, Machine, Package, Way, choose};

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

/// Builds the crate of a folder, says how, and prints where the component is.
pub(super) fn build(dir: &Path, with: Option<WayArg>) -> u8 {
    let built = Package::read(dir).and_then(|package| {
        let choice = choose(package.kind, with.map(Way::from), &Machine::look(&package.folder))?;
        eprintln!("{} `{}`: {}", package.kind, package.name, choice.why);
        choice.build(&package)
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

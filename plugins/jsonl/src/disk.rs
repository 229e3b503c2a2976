//! Files and folders, made durable as far as the host lets us.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;
use tidegate_sdk::{Error, Result};

/// Adds what was done to which path.
pub(crate) fn failed(what: &str, path: &Path) -> impl Fn(io::Error) -> Error {
    let place = format!("cannot {what} `{}`", path.display());
    move |error| Error::fatal(format!("{place}: {error}"))
}

/// Whether nothing may be changed in a folder. Asked by removing what is not there: that leaves no trace, and a host that granted
/// only reading refuses before it looks.
pub(crate) fn is_read_only(folder: &Path) -> bool {
    let refused = fs::remove_dir(folder.join(".tidegate-jsonl-is-not-here"));
    refused.is_err_and(|error| matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem))
}

/// Makes the entries of a folder durable. A host or file system that cannot sync folders is no error: then there is no more to be had.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        Ok(()) => Ok(()),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::Unsupported | ErrorKind::InvalidInput | ErrorKind::PermissionDenied | ErrorKind::IsADirectory
            ) =>
        {
            Ok(())
        }
        // "Bad file descriptor": how some hosts say that a folder cannot be synced.
        Err(error) if error.raw_os_error().is_some_and(|code| code == BAD_DESCRIPTOR) => Ok(()),
        Err(error) => Err(failed("sync the folder", folder)(error)),
    }
}

#[cfg(target_family = "wasm")]
const BAD_DESCRIPTOR: i32 = 8;
#[cfg(not(target_family = "wasm"))]
const BAD_DESCRIPTOR: i32 = 9;

/// Makes a folder and the ones above it below `root`, each durable in its parent.
pub(crate) fn make_folders(root: &Path, relative: &str) -> Result<()> {
    let mut path = root.to_owned();
    for name in relative.split('/') {
        let parent = path.clone();
        path.push(name);
        match fs::create_dir(&path) {
            Ok(()) => sync_folder(&parent)?,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed("make the folder", &path)(error)),
        }
    }
    Ok(())
}

/// Removes a file; one that is gone already is no error.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed("remove", path)(error)),
    }
}

/// The length of a file, `None` if there is none.
pub(crate) fn length(path: &Path) -> Result<Option<u64>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata.len())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("look at", path)(error)),
    }
}

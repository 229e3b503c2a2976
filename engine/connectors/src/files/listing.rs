//! Which files a path means.

use super::config::{FilesSourceConfig, Order};
use super::partition::is_hidden;
use super::place::{Place, Stamp};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_api::{Error, Result};

/// One file: its name for ever, and where it is now.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// Its path as the pipeline file would write it, with `/`.
    pub(super) name: String,
    pub(super) place: Place,
}

/// Whether an entry is data. What looks like data but cannot be read as a file is handed to `skipped` with the reason.
fn is_data(path: &Path, skipped: &mut dyn FnMut(&Path, &str)) -> bool {
    let Some(name) = path.file_name() else { return false };
    // Names that begin so are not data: half-written files, markers, our own staging.
    if is_hidden(&name.to_string_lossy()) {
        return false;
    }
    match fs::metadata(path) {
        Ok(about) if about.is_dir() => return false,
        Ok(about) if !about.is_file() => skipped(path, "it is not a regular file"),
        Ok(_) if path.to_str().is_none() => skipped(path, "its name is not UTF-8"),
        Ok(_) => return true,
        Err(_) if path.is_symlink() => skipped(path, "it is a link that leads nowhere"),
        Err(error) => skipped(path, &error.to_string()),
    }
    false
}

/// The files of a configuration, in its order. `skipped` gets the entries left out that somebody may have meant, and why.
///
/// # Errors
/// `Config` for a pattern that cannot be read, `External` if nothing is there, naming the path.
pub(super) fn list(config: &FilesSourceConfig, skipped: &mut dyn FnMut(&Path, &str)) -> Result<Vec<Found>> {
    let found = match &config.remote {
        // A listing of a bucket tells all.
        Some(_) => stamped(config, skipped)?.into_iter().map(|(found, _)| found).collect(),
        None => in_order(config, paths(config, skipped)?)?.into_iter().map(|path| local(config, path)).collect::<Vec<_>>(),
    };
    if found.is_empty() {
        let (what, path) = match &config.remote {
            Some(remote) if remote.is_pattern() => ("no object matches", remote.to_string()),
            Some(remote) => ("there are no objects in", remote.to_string()),
            None if is_pattern(config) => ("no file matches", config.path.clone()),
            None => ("there are no files in", config.path.clone()),
        };
        return Err(Error::external(format!("{what} `{path}`")));
    }
    Ok(found)
}

fn in_order(config: &FilesSourceConfig, paths: Vec<PathBuf>) -> Result<Vec<PathBuf>> {
    if config.order == Order::Name {
        return Ok(paths);
    }
    let mut dated = paths.into_iter().map(|path| Ok((modified(&path)?, path))).collect::<Result<Vec<_>>>()?;
    dated.sort();
    Ok(dated.into_iter().map(|(_, path)| path).collect())
}

fn local(config: &FilesSourceConfig, path: PathBuf) -> Found {
    Found { name: name_of(config, &path), place: Place::Local(path) }
}

fn is_pattern(config: &FilesSourceConfig) -> bool {
    config.path.contains(['*', '?', '[']) && !config.base.join(&config.path).exists()
}

/// The files there are, by name; there may be none.
///
/// # Errors
/// As [`list`], but for that.
fn paths(config: &FilesSourceConfig, skipped: &mut dyn FnMut(&Path, &str)) -> Result<Vec<PathBuf>> {
    let mut paths = if is_pattern(config) { matching(config, skipped)? } else { at(&config.base.join(&config.path), skipped)? };
    paths.sort();
    Ok(paths)
}

/// The files there are, with what tells their states apart, in the configuration's order.
///
/// # Errors
/// As [`list`], but there may be none.
pub(super) fn stamped(config: &FilesSourceConfig, skipped: &mut dyn FnMut(&Path, &str)) -> Result<Vec<(Found, Stamp)>> {
    let mut files = Vec::new();
    match &config.remote {
        Some(remote) => {
            let bucket = remote.bucket()?;
            for object in remote.list()? {
                let (name, stamp) = (remote.name_of(&object.key), Stamp::of_object(&object));
                files.push((Found { name, place: Place::Object(Arc::clone(&bucket), Arc::new(object)) }, stamp));
            }
        }
        None => {
            for path in paths(config, skipped)? {
                // One that went while the others were looked at was not there.
                if let Some(stamp) = Stamp::of(&path)? {
                    files.push((local(config, path), stamp));
                }
            }
        }
    }
    if config.order == Order::Modified {
        files.sort_by(|(one, at), (other, than)| (at.modified, &one.name).cmp(&(than.modified, &other.name)));
    }
    Ok(files)
}

/// A file's name: relative to the pipeline file where it can be, so that a copied folder goes on.
fn name_of(config: &FilesSourceConfig, path: &Path) -> String {
    path.strip_prefix(&config.base).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

/// Where the file of a split is now, and what tells its state; `None` if it is gone.
///
/// # Errors
/// `External` if nobody says.
pub(super) fn locate(config: &FilesSourceConfig, name: &str) -> Result<Option<(Place, Stamp)>> {
    match &config.remote {
        None => {
            let path = config.base.join(name);
            Ok(Stamp::of(&path)?.map(|stamp| (Place::Local(path), stamp)))
        }
        Some(remote) => {
            let bucket = remote.bucket()?;
            let found = remote.find(name)?;
            Ok(found
                .map(|object| (Stamp::of_object(&object), object))
                .map(|(stamp, object)| (Place::Object(bucket, Arc::new(object)), stamp)))
        }
    }
}

fn modified(path: &Path) -> Result<std::time::SystemTime> {
    let time = fs::metadata(path).and_then(|metadata| metadata.modified());
    time.map_err(|error| Error::external(format!("`{}` has no time of modification", path.display())).caused_by(error))
}

fn at(path: &Path, skipped: &mut dyn FnMut(&Path, &str)) -> Result<Vec<PathBuf>> {
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::external(format!("`{}` does not exist", path.display())),
        _ => Error::external(format!("`{}` cannot be read", path.display())).caused_by(error),
    };
    let about = fs::metadata(path).map_err(unreadable)?;
    if about.is_file() {
        return Ok(vec![path.to_path_buf()]);
    }
    if !about.is_dir() {
        let shown = path.display();
        return Err(Error::config(format!(
            "`{shown}` is neither a file nor a folder; what comes through a pipe is read by `connector = \"stdin\"`"
        )));
    }
    let mut paths = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if is_data(&path, skipped) {
            paths.push(path);
        }
    }
    Ok(paths)
}

fn matching(config: &FilesSourceConfig, skipped: &mut dyn FnMut(&Path, &str)) -> Result<Vec<PathBuf>> {
    // The base is a place, not a pattern.
    let base = glob::Pattern::escape(&config.base.to_string_lossy());
    let pattern = if Path::new(&config.path).is_absolute() { PathBuf::from(&config.path) } else { Path::new(&base).join(&config.path) };
    let found = glob::glob(&pattern.to_string_lossy()).map_err(|error| Error::config(format!("pattern `{}`: {error}", config.path)))?;
    let mut paths = Vec::new();
    let literal = literal(&pattern);
    for path in found {
        let path = path.map_err(|error| Error::external(format!("pattern `{}`", config.path)).caused_by(error))?;
        if !is_within_hidden(&path, &pattern, literal) && is_data(&path, skipped) {
            paths.push(path);
        }
    }
    Ok(paths)
}

/// How many components of a pattern stand for themselves, from its beginning.
fn literal(pattern: &Path) -> usize {
    pattern.components().take_while(|part| !part.as_os_str().to_string_lossy().contains(['*', '?', '['])).count()
}

/// Whether a pattern found its way through a folder that is not data, which it does not name itself: `**` enters every folder, our
/// own staging too.
fn is_within_hidden(path: &Path, pattern: &Path, literal: usize) -> bool {
    let folders = path.parent().into_iter().flat_map(Path::components).skip(literal);
    let mut hidden = folders.filter(|folder| is_hidden(&folder.as_os_str().to_string_lossy()));
    hidden.any(|folder| pattern.components().all(|named| named != folder))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use serde_json::json;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_looks_like_data_and_is_not_read_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join(std::ffi::OsStr::from_bytes(b"\xff.csv"));
        for path in [folder.path().join("a.csv"), folder.path().join("_SUCCESS"), odd.clone()] {
            fs::write(path, b"n\n1\n").unwrap();
        }
        fs::create_dir(folder.path().join("sub.csv")).unwrap();
        let (dangling, socket) = (folder.path().join("gone.csv"), folder.path().join("socket.csv"));
        symlink("nowhere", &dangling).unwrap();
        symlink("a.csv", folder.path().join("linked.csv")).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let read = |path: &str| {
            let options = json!({ "path": path }).as_object().unwrap().clone();
            let config = FilesSourceConfig::parse(&options, folder.path()).unwrap();
            let mut skipped = Vec::new();
            let found = list(&config, &mut |path, _| skipped.push(path.to_path_buf())).unwrap();
            skipped.sort();
            (found.into_iter().map(|found| found.name).collect::<Vec<_>>(), skipped)
        };
        let names = ["a.csv", "linked.csv"].map(String::from).to_vec();
        assert_eq!(read("."), (names.clone(), vec![dangling.clone(), socket.clone(), odd]));
        // By itself it would be waited for without end.
        let options = json!({ "path": "socket.csv" }).as_object().unwrap().clone();
        let named = list(&FilesSourceConfig::parse(&options, folder.path()).unwrap(), &mut |_, _| {}).unwrap_err();
        assert!(named.message().contains("neither a file nor a folder"), "{named}");
        // A pattern only matches names that are text.
        assert_eq!(read("*.csv"), (names, vec![dangling, socket]));
    }
}

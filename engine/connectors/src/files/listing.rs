//! Which files a path means.

use super::config::{FilesSourceConfig, Order};
use std::fs;
use std::path::{Path, PathBuf};
use tidegate_api::{Error, Result};

/// One file: its name for ever, and where it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// Its path as the pipeline file would write it, with `/`.
    pub(super) name: String,
    pub(super) path: PathBuf,
}

/// Names that begin so are not data: half-written files, markers, our own staging.
fn is_hidden(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_none_or(|name| name.starts_with(['.', '_']))
}

/// The files of a configuration, in its order.
///
/// # Errors
/// `Config` for a pattern that cannot be read, `External` if nothing is there, naming the path.
pub(super) fn list(config: &FilesSourceConfig) -> Result<Vec<Found>> {
    let path = config.base.join(&config.path);
    let is_pattern = config.path.contains(['*', '?', '[']) && !path.exists();
    let mut paths = if is_pattern { matching(config)? } else { at(&path)? };
    if paths.is_empty() {
        let what = if is_pattern { "no file matches" } else { "there are no files in" };
        return Err(Error::external(format!("{what} `{}`", config.path)));
    }
    paths.sort();
    if config.order == Order::Modified {
        let mut dated = paths.into_iter().map(|path| Ok((modified(&path)?, path))).collect::<Result<Vec<_>>>()?;
        dated.sort();
        paths = dated.into_iter().map(|(_, path)| path).collect();
    }
    Ok(paths.into_iter().map(|path| Found { name: name_of(config, &path), path }).collect())
}

/// A file's name: relative to the pipeline file where it can be, so that a copied folder goes on.
fn name_of(config: &FilesSourceConfig, path: &Path) -> String {
    path.strip_prefix(&config.base).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

/// Where the file of a split is.
pub(super) fn path_of(config: &FilesSourceConfig, name: &str) -> PathBuf {
    config.base.join(name)
}

fn modified(path: &Path) -> Result<std::time::SystemTime> {
    let time = fs::metadata(path).and_then(|metadata| metadata.modified());
    time.map_err(|error| Error::external(format!("`{}` has no time of modification", path.display())).caused_by(error))
}

fn at(path: &Path) -> Result<Vec<PathBuf>> {
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::external(format!("`{}` does not exist", path.display())),
        _ => Error::external(format!("`{}` cannot be read", path.display())).caused_by(error),
    };
    if !fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut paths = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_file() && !is_hidden(&path) {
            paths.push(path);
        }
    }
    Ok(paths)
}

fn matching(config: &FilesSourceConfig) -> Result<Vec<PathBuf>> {
    // The base is a place, not a pattern.
    let base = glob::Pattern::escape(&config.base.to_string_lossy());
    let pattern = if Path::new(&config.path).is_absolute() { PathBuf::from(&config.path) } else { Path::new(&base).join(&config.path) };
    let found = glob::glob(&pattern.to_string_lossy()).map_err(|error| Error::config(format!("pattern `{}`: {error}", config.path)))?;
    let mut paths = Vec::new();
    for path in found {
        let path = path.map_err(|error| Error::external(format!("pattern `{}`", config.path)).caused_by(error))?;
        if path.is_file() && !is_hidden(&path) {
            paths.push(path);
        }
    }
    Ok(paths)
}

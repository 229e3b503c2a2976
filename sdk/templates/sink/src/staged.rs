//! Files on their way: written in a hidden folder, then renamed into the directory.

use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Component, Path, PathBuf};
use tidegate_sdk::{Error, Outcome, Result, Scope, Token};

/// The hidden folder.
const STAGING: &str = ".staged";

/// A commit token: two names relative to the directory, so that any machine which sees the directory
/// can commit. JSON, so that a person can read it, with a version for those to come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Staged {
    version: u32,
    staged: String,
    part: String,
}

impl Staged {
    pub(crate) fn encode(&self) -> Token {
        serde_json::json!(self).to_string().into_bytes()
    }

    /// Reads a token. A name that would leave the directory is refused.
    pub(crate) fn decode(token: &[u8]) -> Result<Staged> {
        let stays = |name: &str| {
            Path::new(name)
                .components()
                .all(|part| matches!(part, Component::Normal(_)))
        };
        let staged = serde_json::from_slice::<Staged>(token).ok();
        let staged = staged
            .filter(|staged| staged.version == 1 && stays(&staged.staged) && stays(&staged.part));
        staged.ok_or_else(|| {
            Error::fatal(format!(
                "`{}` is no token of this sink",
                token.escape_ascii()
            ))
        })
    }

    /// Makes the file visible. Whoever comes second finds that it is.
    pub(crate) fn commit(&self, dir: &Path) -> Result<Outcome> {
        let (staged, part) = (dir.join(&self.staged), dir.join(&self.part));
        match fs::rename(&staged, &part) {
            Ok(()) => {
                sync_folder(dir)?;
                Ok(Outcome::Done)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let visible = part.try_exists().map_err(failed("look at", &part))?;
                Ok(if visible {
                    Outcome::AlreadyDone
                } else {
                    Outcome::Lost
                })
            }
            Err(error) => Err(failed("rename", &staged)(error)),
        }
    }

    /// Removes the file unless it was committed or removed before.
    pub(crate) fn remove(&self, dir: &Path) -> Result<()> {
        remove(&dir.join(&self.staged))
    }
}

/// Writes the files of one task.
pub(crate) struct Writer {
    dir: PathBuf,
    scope: Scope,
    file: Option<File>,
}

impl Writer {
    /// Touches nothing; the first rows do.
    pub(crate) fn new(dir: PathBuf, scope: &Scope) -> Self {
        Writer {
            dir,
            scope: scope.clone(),
            file: None,
        }
    }

    fn open_path(&self) -> PathBuf {
        self.dir.join(folder(&self.scope)).join(format!(
            "g{}.t{}.open",
            self.scope.generation, self.scope.index
        ))
    }

    pub(crate) fn append(&mut self, lines: &[u8]) -> Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let path = self.open_path();
        if self.file.is_none() {
            let folder = self.dir.join(folder(&self.scope));
            fs::create_dir_all(&folder).map_err(failed("make", &folder))?;
            self.file = Some(File::create(&path).map_err(failed("create", &path))?);
        }
        let written = self
            .file
            .as_mut()
            .map_or(Ok(()), |file| file.write_all(lines));
        written.map_err(failed("write to", &path))
    }

    /// Makes the rows since the last call durable under a name of their own.
    pub(crate) fn prepare(&mut self, epoch: u64) -> Result<Option<Staged>> {
        let Some(file) = self.file.take() else {
            return Ok(None);
        };
        let path = self.open_path();
        file.sync_all().map_err(failed("sync", &path))?;
        drop(file);
        let scope = &self.scope;
        let name = format!("g{}.e{epoch}.t{}.txt", scope.generation, scope.index);
        let folder = folder(scope);
        let part = format!("{}.{}.{name}", scope.operator, scope.run_id);
        let staged = Staged {
            version: 1,
            staged: format!("{folder}/{name}"),
            part,
        };
        fs::rename(&path, self.dir.join(&staged.staged)).map_err(failed("rename", &path))?;
        sync_folder(&self.dir.join(folder))?;
        Ok(Some(staged))
    }
}

/// Removes what this operator of this run wrote under earlier generations, but for what is to be kept.
pub(crate) fn recover(dir: &Path, scope: &Scope, keep: &[Staged]) -> Result<()> {
    let folder = folder(scope);
    for name in names(&dir.join(&folder))? {
        let older = name
            .strip_prefix('g')
            .and_then(|rest| rest.split_once('.')?.0.parse::<u64>().ok());
        let path = format!("{folder}/{name}");
        let kept = keep.iter().any(|staged| staged.staged == path);
        if older.is_some_and(|generation| generation < scope.generation) && !kept {
            remove(&dir.join(path))?;
        }
    }
    Ok(())
}

/// The names in a folder, none if it is not there.
fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("list", folder)(error)),
    };
    let (mut names, mut gone) = (Vec::new(), 0);
    for entry in entries {
        match entry {
            Ok(entry) => names.extend(entry.file_name().into_string()),
            // Another instance has committed or removed it meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound && gone < 1000 => gone += 1,
            Err(error) => return Err(failed("list", folder)(error)),
        }
    }
    Ok(names)
}

/// The staging folder of a run's operator. Both names are fit for file names, as the host promises.
fn folder(scope: &Scope) -> String {
    format!("{STAGING}/{}/{}", scope.run_id, scope.operator)
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Makes the names in a folder durable, where the host can: some say that a folder is not to be synced.
fn sync_folder(folder: &Path) -> Result<()> {
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        Ok(()) => Ok(()),
        Err(error) if is_unsupported(&error) => Ok(()),
        Err(error) => Err(failed("sync", folder)(error)),
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    /// `EBADF` of WASI, which its hosts answer for folders.
    const BAD_DESCRIPTOR: i32 = 8;
    let kinds = [
        ErrorKind::Unsupported,
        ErrorKind::InvalidInput,
        ErrorKind::PermissionDenied,
        ErrorKind::IsADirectory,
    ];
    kinds.contains(&error.kind()) || error.raw_os_error() == Some(BAD_DESCRIPTOR)
}

fn failed(what: &str, path: &Path) -> impl Fn(io::Error) -> Error {
    let place = format!("cannot {what} `{}`", path.display());
    move |error| Error::fatal(format!("{place}: {error}"))
}

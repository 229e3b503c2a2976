//! Where parts wait for their commit, what they are called, and what a token says about them.
//!
//! Everything of one sink of one run lies in `.tidegate-staging/<run>/<sink>/` under the target directory, on the same file
//! system as the final names, so that making a part visible is one hard link. A staged name begins with the generation
//! and the task that wrote it.

use super::partition::is_folder;
use super::upload::Uploaded;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use tidegate_api::{CommitToken, Epoch, Error, Generation, Result, SinkCtx};

/// The folder, in the target directory, of what is not committed. Readers leave out names that begin with a dot.
pub const STAGING: &str = ".tidegate-staging";

/// One sink's place in a target directory.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// Where committed parts are.
    pub(super) target: PathBuf,
    /// Where the others are.
    pub(super) staging: PathBuf,
    run: String,
    sink: String,
    pub(super) generation: Generation,
}

/// One part in a token; both names are bare file names.
///
/// `folder` and `size` came later; a token without a folder means the target directory itself, one without a size knows none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PartName {
    /// In the staging folder of the token's run and sink.
    pub(super) staged: String,
    /// In its folder.
    pub(super) name: String,
    /// Below the target directory; empty for that itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) folder: String,
    /// In bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) size: Option<u64>,
    /// Of a part in a bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) upload: Option<Uploaded>,
}

/// What a commit token holds. Fields may be added, never changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Token {
    run: String,
    sink: String,
    pub(super) parts: Vec<PartName>,
}

/// A name that is safe as a part of a file name: everything but letters, digits, `-`, `_` and `.` is written in hexadecimal.
fn safe(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        let plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') || (byte == b'.' && !out.is_empty());
        if plain { out.push(char::from(byte)) } else { out.push_str(&format!("%{byte:02x}")) }
    }
    out
}

impl Place {
    pub(super) fn new(target: &Path, ctx: &SinkCtx) -> Self {
        let run = safe(ctx.run.run_id.as_str());
        let operator = safe(&ctx.run.operator);
        let sink = if ctx.index == 0 { operator } else { format!("{operator}.{}", ctx.index) };
        let staging = target.join(STAGING).join(&run).join(&sink);
        Place { target: target.to_path_buf(), staging, run, sink, generation: ctx.run.generation }
    }

    /// The final name of a part.
    pub(super) fn final_name(&self, epoch: Epoch, task: usize, number: usize, ending: &str) -> String {
        format!("part-{}-{}-{}-{epoch}-{task}-{number}.{ending}", self.run, self.sink, self.generation)
    }

    /// The final name of a writer's `number`th part in a bucket, which is known before its epoch is.
    pub(super) fn uploaded_name(&self, task: usize, number: u64, ending: &str) -> String {
        format!("part-{}-{}-{}-{task}-{number}.{ending}", self.run, self.sink, self.generation)
    }

    /// The staged name of a writer's `number`th part.
    pub(super) fn staged_name(&self, task: usize, number: u64, ending: &str) -> String {
        format!("{}-{task}-{number}.{ending}", self.generation)
    }

    /// The generation that wrote a staged file.
    pub(super) fn generation_of(staged: &str) -> Option<Generation> {
        staged.split_once('-')?.0.parse().ok().map(Generation)
    }

    /// Where a part goes.
    pub(super) fn folder(&self, part: &PartName) -> PathBuf {
        if part.folder.is_empty() { self.target.clone() } else { self.target.join(&part.folder) }
    }

    pub(super) fn token(&self, parts: Vec<PartName>) -> Result<CommitToken> {
        let token = Token { run: self.run.clone(), sink: self.sink.clone(), parts };
        serde_json::to_vec(&token).map(CommitToken).map_err(|error| Error::internal(error.to_string()))
    }

    /// Reads a token, which may be another generation's but must be of this run and sink.
    pub(super) fn read(&self, token: &CommitToken) -> Result<Token> {
        let read: Token = serde_json::from_slice(&token.0)
            .map_err(|error| Error::internal(format!("`{token:?}` is no token of a files sink")).caused_by(error))?;
        if read.run != self.run || read.sink != self.sink {
            return Err(Error::internal(format!(
                "a token of run `{}`, sink `{}` came to run `{}`, sink `{}`",
                read.run, read.sink, self.run, self.sink
            )));
        }
        let is_bare = |name: &str| !name.is_empty() && !name.contains(['/', '\\']) && name != "." && name != "..";
        let is_below = |folder: &str| folder.is_empty() || is_folder(folder);
        if read.parts.iter().any(|part| !is_bare(&part.staged) || !is_bare(&part.name) || !is_below(&part.folder)) {
            return Err(Error::internal(format!("token `{token:?}` names something outside its folder")));
        }
        Ok(read)
    }

    /// Makes the entries of the staging folder durable, and those of every folder above it that may be new.
    pub(super) fn sync(&self) -> io::Result<()> {
        let mut folder = self.staging.as_path();
        while folder != self.target {
            sync_folder(folder)?;
            folder = folder.parent().unwrap_or(&self.target);
        }
        sync_folder(&self.target)
    }

    /// Removes the staging folders that are empty. Others may be filling them; then they stay.
    pub(super) fn tidy(&self) {
        let mut folder = self.staging.as_path();
        while folder != self.target && fs::remove_dir(folder).is_ok() {
            folder = folder.parent().unwrap_or(&self.target);
        }
    }
}

/// Makes a folder's entries durable.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Makes a folder and those above it, each durable in its parent.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        make_folder(parent)?;
        match fs::create_dir(folder) {
            Ok(()) => return sync_folder(parent),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    fs::create_dir_all(folder)
}

/// An error of the file system, naming the path.
pub(super) fn failed(what: &str, path: &Path, error: io::Error) -> Error {
    Error::external(format!("`{}` cannot be {what}", path.display())).caused_by(error)
}

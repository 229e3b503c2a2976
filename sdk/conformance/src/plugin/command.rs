//! Commands that reach a plugin's outside: they fill it, empty it, and say what a reader sees.

use super::group::Group;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tidegate_api::{Clock, Error, Result, SystemClock};

/// What a command may print, at most.
const MAX_OUTPUT: u64 = 64 << 20;
/// What is shown of what a failed one said.
const MAX_SHOWN: usize = 500;
/// How often a running one is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// A command of the table `[conformance]`: a text for `sh -c`, or a program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A line for the shell.
    Shell(String),
    /// A program and its arguments, run without a shell.
    Program(Vec<String>),
}

impl Command {
    /// Reads a text, or a list of texts that is not empty.
    pub(crate) fn parse(value: &Value) -> Result<Command, String> {
        let wrong = || format!("expected a line for `sh -c`, or a list of a program and its arguments, found `{value}`");
        match value {
            Value::String(line) if !line.trim().is_empty() => Ok(Command::Shell(line.clone())),
            Value::Array(parts) => {
                let parts: Option<Vec<String>> = parts.iter().map(|part| part.as_str().map(str::to_string)).collect();
                parts.filter(|parts| !parts.is_empty()).map(Command::Program).ok_or_else(wrong)
            }
            _ => Err(wrong()),
        }
    }

    /// The process that it is, in a folder and with more variables in its environment.
    pub(super) fn process(&self, folder: &Path, variables: &BTreeMap<String, String>) -> std::process::Command {
        let mut process = match self {
            Command::Shell(line) => {
                let mut shell = std::process::Command::new("sh");
                shell.arg("-c").arg(line);
                shell
            }
            Command::Program(parts) => {
                let mut program = std::process::Command::new(parts.first().map_or("", String::as_str));
                program.args(parts.iter().skip(1));
                program
            }
        };
        if !folder.as_os_str().is_empty() {
            process.current_dir(folder);
        }
        process.envs(variables);
        process
    }

    /// Runs it in a folder, with more variables in its environment, and returns what it printed. Its standard input is empty. What it
    /// leaves running is ended.
    ///
    /// # Errors
    /// `External` if it cannot be started, fails, prints too much or takes longer than `deadline`; with what it said on standard error.
    pub fn run(&self, folder: &Path, variables: &BTreeMap<String, String>, deadline: Duration) -> Result<String> {
        let failed = |what: String| Error::external(format!("the command `{self}` {what}"));
        let io = |error: std::io::Error| failed(format!("cannot be run: {error}"));
        // Files, so that nobody has to read while it runs.
        let (mut printed, mut complaints) = (tempfile::tempfile().map_err(io)?, tempfile::tempfile().map_err(io)?);
        let mut process = self.process(folder, variables);
        process.stdin(Stdio::null()).stdout(printed.try_clone().map_err(io)?).stderr(complaints.try_clone().map_err(io)?);
        let mut group = Group::spawn(&mut process).map_err(io)?;
        let status = wait(&mut group, &printed, deadline).map_err(failed)?;
        if !status.success() {
            return Err(failed(format!("failed with {status}; it said: {}", said(&mut complaints))));
        }
        text_of(&mut printed).map_err(io)
    }
}

fn wait(group: &mut Group, printed: &File, deadline: Duration) -> std::result::Result<std::process::ExitStatus, String> {
    let ended = wait_until(deadline, || match group.ended() {
        Ok(Some(status)) => Some(Ok(status)),
        Ok(None) if printed.metadata().is_ok_and(|file| file.len() > MAX_OUTPUT) => {
            Some(Err(format!("printed more than {MAX_OUTPUT} bytes and was ended")))
        }
        Ok(None) => None,
        Err(error) => Some(Err(format!("cannot be waited for: {error}"))),
    });
    ended.unwrap_or_else(|| Err(format!("took longer than {deadline:?} and was ended")))
}

/// Looks again and again until there is something, or it has taken too long.
pub(super) fn wait_until<T>(deadline: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let until = SystemClock.monotonic().saturating_add(deadline);
    loop {
        // Once more at the end: the last pause may have been a long one.
        let late = SystemClock.monotonic() >= until;
        if let Some(found) = look() {
            return Some(found);
        }
        if late {
            return None;
        }
        std::thread::park_timeout(LOOK);
    }
}

/// The beginning of what stands in a file, for a message.
pub(super) fn said(file: &mut File) -> String {
    let text = text_of(file).unwrap_or_default();
    text.trim().chars().take(MAX_SHOWN).collect()
}

fn text_of(file: &mut File) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(MAX_OUTPUT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Command::Shell(line) => f.write_str(line),
            Command::Program(parts) => f.write_str(&parts.join(" ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn a_command_runs_in_its_folder_and_its_words_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "one\ntwo\n").unwrap();
        assert_eq!(Command::parse(&json!("cat a")).unwrap().run(folder.path(), &BTreeMap::new(), LONG).unwrap(), "one\ntwo\n");
        assert_eq!(Command::parse(&json!(["cat", "a"])).unwrap().run(folder.path(), &BTreeMap::new(), LONG).unwrap(), "one\ntwo\n");
        let error =
            Command::parse(&json!("echo away >&2; exit 3")).unwrap().run(folder.path(), &BTreeMap::new(), LONG).unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("away"), "{error}");
        let variables = BTreeMap::from([("port".to_string(), "7".to_string())]);
        assert_eq!(Command::parse(&json!("echo $port")).unwrap().run(folder.path(), &variables, LONG).unwrap(), "7\n");
        let error =
            Command::parse(&json!(["no-such-program"])).unwrap().run(folder.path(), &BTreeMap::new(), LONG).unwrap_err().to_string();
        assert!(error.contains("`no-such-program` cannot be run"), "{error}");
        for odd in [json!([]), json!(7), json!([1]), json!(" ")] {
            assert!(Command::parse(&odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_command_that_takes_too_long_is_ended() {
        let error =
            Command::Shell("exec sleep 60".into()).run(Path::new(""), &BTreeMap::new(), Duration::from_millis(50)).unwrap_err().to_string();
        assert!(error.contains("took longer than 50ms"), "{error}");
    }
}

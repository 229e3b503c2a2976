//! A program that stands for a plugin's outside while the plugin is judged: a server that answers it, say.

use super::command::{Command, said, wait_until};
use super::group::Group;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{ChildStdin, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tempfile::NamedTempFile;
use tidegate_api::{Error, Result};

/// The longest first line.
const MAX_LINE: u64 = 64 << 10;
/// What a service may print, at most.
const MAX_OUTPUT: u64 = 64 << 20;
/// How long a service may take to end by itself when its standard input has.
const GRACE: Duration = Duration::from_secs(1);

/// A running service. It ends when this is dropped.
pub(super) struct Service {
    command: Command,
    group: Mutex<Group>,
    /// Its end tells the service to end.
    stdin: Option<ChildStdin>,
    printed: NamedTempFile,
    complaints: NamedTempFile,
    names: Map<String, Value>,
}

impl Service {
    /// Starts it in a folder, and waits for its first line: one JSON object.
    ///
    /// # Errors
    /// `External` if it cannot be started, ends, or has printed no such line within `deadline`; with what it said on standard error.
    pub(super) fn start(command: &Command, folder: &Path, deadline: Duration) -> Result<Service> {
        let io = |error: std::io::Error| Error::external(format!("the service `{command}` cannot be run: {error}"));
        // Files, so that nobody has to read while it runs. It has handles of its own: reading must not move the place where it writes.
        let (printed, complaints) = (NamedTempFile::new().map_err(io)?, NamedTempFile::new().map_err(io)?);
        let mut process = command.process(folder, &BTreeMap::new());
        process.stdin(Stdio::piped()).stdout(printed.reopen().map_err(io)?).stderr(complaints.reopen().map_err(io)?);
        let mut group = Group::spawn(&mut process).map_err(io)?;
        let stdin = group.stdin();
        let mut service = Service { command: command.clone(), group: Mutex::new(group), stdin, printed, complaints, names: Map::new() };
        service.names = service.first_line(deadline)?;
        Ok(service)
    }

    /// What it calls the things that a plugin is to know: members of the object that it printed.
    pub(super) fn names(&self) -> &Map<String, Value> {
        &self.names
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// `External` if it has ended, or prints without end.
    pub(super) fn check(&self) -> Result<()> {
        let ended = self.group.lock().unwrap_or_else(PoisonError::into_inner).ended();
        match ended {
            Ok(None) => {}
            Ok(Some(status)) => return Err(self.failed(&format!("ended with {status} while the plugin was judged"))),
            Err(error) => return Err(self.failed(&format!("cannot be looked at: {error}"))),
        }
        let long = |file: &File| file.metadata().is_ok_and(|file| file.len() > MAX_OUTPUT);
        if long(self.printed.as_file()) || long(self.complaints.as_file()) {
            return Err(self.failed(&format!("printed more than {MAX_OUTPUT} bytes")));
        }
        Ok(())
    }

    fn first_line(&self, deadline: Duration) -> Result<Map<String, Value>> {
        let found = wait_until(deadline, || {
            // Before the line is looked for, or one that was printed right before the end would be missed.
            let ended = self.group.lock().unwrap_or_else(PoisonError::into_inner).ended();
            let mut bytes = Vec::new();
            let read = self.printed.reopen().and_then(|file| file.take(MAX_LINE).read_to_end(&mut bytes));
            if let Err(error) = read {
                return Some(Err(self.failed(&format!("cannot be read: {error}"))));
            }
            match (bytes.iter().position(|byte| *byte == b'\n'), ended) {
                (Some(end), _) => Some(Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())),
                (None, Ok(Some(status))) => Some(Err(self.failed(&format!("ended with {status} before it printed a line")))),
                (None, _) if bytes.len() as u64 == MAX_LINE => {
                    Some(Err(self.failed(&format!("printed a first line of more than {MAX_LINE} bytes"))))
                }
                (None, _) => None,
            }
        });
        let line = found.unwrap_or_else(|| Err(self.failed(&format!("printed no line within {deadline:?}"))))?;
        match serde_json::from_str(&line) {
            Ok(Value::Object(names)) => Ok(names),
            _ => {
                let shown: String = line.chars().take(80).collect();
                Err(self.failed(&format!("printed `{shown}`, and its first line is to be one JSON object, such as `{{\"port\": 8080}}`")))
            }
        }
    }

    fn failed(&self, what: &str) -> Error {
        let said = self.complaints.reopen().map(|mut file| said(&mut file)).unwrap_or_default();
        let said = if said.is_empty() { said } else { format!("; it said: {said}") };
        Error::external(format!("the service `{}` {what}{said}", self.command))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let group = self.group.get_mut().unwrap_or_else(PoisonError::into_inner);
        // If it does not, it is ended with the group.
        wait_until(GRACE, || group.ended().transpose());
    }
}

/// A value with what a service named in the place of each `${name}` in its texts. A text that is nothing else becomes the value itself.
pub(super) fn filled(value: &Value, names: &Map<String, Value>) -> Result<Value, String> {
    match value {
        Value::String(text) => filled_text(text, names),
        Value::Array(items) => items.iter().map(|item| filled(item, names)).collect::<Result<_, _>>().map(Value::Array),
        Value::Object(members) => filled_table(members, names).map(Value::Object),
        other => Ok(other.clone()),
    }
}

/// The same for each member of a table.
pub(super) fn filled_table(table: &Map<String, Value>, names: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    table.iter().map(|(key, value)| Ok((key.clone(), filled(value, names)?))).collect()
}

fn filled_text(text: &str, names: &Map<String, Value>) -> Result<Value, String> {
    let mut made = String::new();
    let mut rest = text;
    while let Some(begin) = rest.find("${") {
        let Some(length) = rest[begin..].find('}') else { break };
        let name = &rest[begin + 2..begin + length];
        let value = names.get(name).ok_or_else(|| {
            let known: Vec<String> = names.keys().map(|name| format!("`{name}`")).collect();
            format!("`{text}`: the service names no `{name}`, but {}", if known.is_empty() { "nothing".into() } else { known.join(", ") })
        })?;
        if text.len() == length + 1 {
            return Ok(value.clone());
        }
        made.push_str(&rest[..begin]);
        made.push_str(&plain(value));
        rest = &rest[begin + length + 1..];
    }
    made.push_str(rest);
    Ok(Value::String(made))
}

/// A value within a text, or in a variable of the environment.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const LONG: Duration = Duration::from_secs(30);

    fn start(line: &str, deadline: Duration) -> Result<Service> {
        Service::start(&Command::Shell(line.into()), Path::new(""), deadline)
    }

    fn error(line: &str, deadline: Duration) -> String {
        start(line, deadline).map(drop).unwrap_err().to_string()
    }

    #[test]
    fn a_service_names_things_and_ends_with_its_input() {
        let folder = tempfile::tempdir().unwrap();
        let line = format!("cd '{}'; echo '{{\"port\": 7}}'; cat; echo over > over", folder.path().display());
        let service = start(&line, LONG).unwrap();
        assert_eq!(service.names()["port"], 7);
        service.check().unwrap();
        drop(service);
        assert!(folder.path().join("over").exists());
    }

    #[test]
    fn a_service_that_does_not_end_with_its_input_is_ended() {
        let service = start("echo '{}'; exec sleep 60", LONG).unwrap();
        let number = service.group.lock().unwrap().number();
        drop(service);
        assert!(!Path::new(&format!("/proc/{number}")).exists());
    }

    #[test]
    fn a_service_that_fails_says_how() {
        let missing = Command::Program(vec!["no-such-program".into()]);
        let missing = Service::start(&missing, Path::new(""), LONG).map(drop).unwrap_err().to_string();
        assert!(missing.contains("the service `no-such-program` cannot be run"), "{missing}");
        for (line, deadline, why) in [
            ("echo away >&2; exit 3", LONG, "ended with exit status: 3 before it printed a line; it said: away"),
            ("exec sleep 60", Duration::from_millis(50), "printed no line within 50ms"),
            ("echo listening; exec cat", LONG, "printed `listening`, and its first line is to be one JSON object"),
            ("head -c 100000 /dev/zero; exec cat", LONG, "a first line of more than 65536 bytes"),
        ] {
            let error = error(line, deadline);
            assert!(error.contains(why), "{line}: {error}");
        }
        let service = start("echo '{}'; echo broken >&2", LONG).unwrap();
        wait_until(LONG, || service.group.lock().unwrap().ended().unwrap()).unwrap();
        let error = service.check().unwrap_err().to_string();
        assert!(error.contains("ended with exit status: 0 while the plugin was judged; it said: broken"), "{error}");
    }

    #[test]
    fn what_it_names_is_filled_in_everywhere() {
        let names = json!({ "port": 7, "host": "h" });
        let names = names.as_object().unwrap();
        let value = json!({ "a": ["${host}:${port}", "${port}", "plain ${", 1], "b": { "c": "http://${host}" } });
        assert_eq!(filled(&value, names), Ok(json!({ "a": ["h:7", 7, "plain ${", 1], "b": { "c": "http://h" } })));
        assert_eq!(filled(&json!("x${url}"), names), Err("`x${url}`: the service names no `url`, but `port`, `host`".into()));
    }
}

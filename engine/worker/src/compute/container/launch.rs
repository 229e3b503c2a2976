//! What is started: a program of this machine, or an image through a container runtime.

use super::super::registry::{ContainerEntry, TransformManifest};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tidegate_api::config::Problem;
use tidegate_host::Environment;

/// The container runtimes, in the order in which they are looked for.
const RUNTIMES: [&str; 2] = ["docker", "podman"];
/// Where programs are looked for when nobody says.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// What a container runtime itself needs of the environment; a container sees none of it.
const OF_RUNTIMES: [&str; 8] =
    ["HOME", "PATH", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "DOCKER_CONFIG", "CONTAINER_HOST"];

/// A process that can be started any number of times.
#[derive(Clone)]
pub(super) struct Launch {
    program: PathBuf,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    folder: PathBuf,
    /// Whether the program is a container runtime, and the image.
    image: Option<String>,
    /// For an image: the names of the variables that the runtime hands on.
    handed_on: Vec<String>,
}

impl Launch {
    /// Looks for the program, and for the variables by name.
    ///
    /// # Errors
    /// A program that is not there, or no container runtime.
    pub(super) fn find(
        manifest: &TransformManifest,
        entry: &ContainerEntry,
        env: &[String],
        environment: &Environment,
    ) -> Result<Launch, Problem> {
        let given: Vec<(String, String)> = env.iter().filter_map(|name| Some((name.clone(), environment(name)?))).collect();
        let path = environment("PATH").unwrap_or_else(|| USUAL_PATH.to_string());
        let folder = manifest.folder.canonicalize().unwrap_or_else(|_| manifest.folder.clone());
        let Some(image) = &entry.image else {
            let name = entry.command.first().map(String::as_str).unwrap_or_default();
            let program = found(name, &folder, &path).ok_or_else(|| {
                let place = if name.contains('/') { format!("below `{}`", folder.display()) } else { format!("on PATH (`{path}`)") };
                Problem::at("ref", format!("the transform `{manifest}` starts `{name}`, and there is no such program {place}"))
            })?;
            let arguments = entry.command[1..].to_vec();
            return Ok(Launch { program, arguments, variables: given, folder, image: None, handed_on: Vec::new() });
        };
        let runtime = RUNTIMES.into_iter().find_map(|name| found(name, &folder, &path)).ok_or_else(|| {
            let message =
                format!("the transform `{manifest}` runs in the image `{image}`, and neither docker nor podman is on PATH (`{path}`)");
            Problem::at("ref", message)
        })?;
        let handed_on = given.iter().map(|(name, _)| name.clone()).collect();
        let own = OF_RUNTIMES.into_iter().filter(|name| !env.iter().any(|given| given == name));
        let variables = own.filter_map(|name| Some((name.to_string(), environment(name)?))).chain(given).collect();
        Ok(Launch { program: runtime, arguments: entry.command.clone(), variables, folder, image: Some(image.clone()), handed_on })
    }

    /// The command, in a process group of its own. `name` is unique on this machine; an image runs under it.
    pub(super) fn command(&self, name: &str) -> Command {
        let mut command = self.bare();
        if let Some(image) = &self.image {
            // Nothing of what it prints is stored: the pipes are the only readers.
            command.args(["run", "--rm", "-i", "--network", "none", "--read-only", "--log-driver", "none", "--name", name]);
            for variable in &self.handed_on {
                command.args(["--env", variable]);
            }
            command.arg(image);
        }
        command.args(&self.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Ends the container of an image, whose processes are not children of the runtime's command.
    pub(super) fn ending(&self, name: &str) -> Option<Command> {
        self.image.as_ref()?;
        let mut command = self.bare();
        command.args(["kill", name]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Some(command)
    }

    fn bare(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().envs(self.variables.iter().map(|(name, value)| (name, value))).current_dir(&self.folder).process_group(0);
        command
    }

    /// How it is shown in messages.
    pub(super) fn shown(&self) -> String {
        match &self.image {
            Some(image) => format!("image `{image}`"),
            None => format!("`{}`", self.program.display()),
        }
    }

    /// A digest of the manifest and of what its entry names below the folder. An image is known by its name alone.
    pub(super) fn digest(&self, manifest: &TransformManifest) -> String {
        let mut digest = Sha256::new();
        digest.update(manifest.text.as_bytes());
        let program = self.image.is_none().then(|| self.program.clone());
        let arguments = self.arguments.iter().map(|argument| self.folder.join(argument));
        for file in program.into_iter().chain(arguments).filter(|file| file.starts_with(&self.folder) && file.is_file()) {
            // One that cannot be read will be missed when it runs.
            if let Ok(mut bytes) = std::fs::File::open(&file) {
                let length = std::io::copy(&mut bytes, &mut digest).unwrap_or_default();
                digest.update(length.to_le_bytes());
            }
        }
        digest.finalize().iter().fold(String::from("sha256:"), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

/// A program by its name on `path`, or by its path from the folder.
fn found(name: &str, folder: &Path, path: &str) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| path.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0);
    if name.contains('/') {
        return Some(folder.join(name)).filter(is_program);
    }
    std::env::split_paths(path).map(|dir| dir.join(name)).find(is_program)
}

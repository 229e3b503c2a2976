//! Running other programs.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a program to its end, showing what is run.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    eprintln!("> {}", shown(command));
    let status = command.status().with_context(|| format!("cannot start `{}`", command.get_program().to_string_lossy()))?;
    if !status.success() {
        bail!("`{}` ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs a program to its end; what it says is shown only if it fails.
pub(crate) fn run_quietly(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot start `{}`", command.get_program().to_string_lossy()))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).trim().to_string()).join("\n");
        bail!("`{}` ended with {}:\n{}", shown(command), output.status, said.trim());
    }
    Ok(())
}

/// Whether a program is there and answers.
pub(crate) fn answers(program: &str, argument: &str) -> bool {
    succeeds(program, &[argument])
}

/// Whether a program is there and ends well, whatever it says.
pub(crate) fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

/// The cargo that runs this task.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Builds the commands. Every task builds this same set, so that features agree and nothing is compiled twice.
pub(crate) fn build_commands(root: &Path) -> Result<()> {
    run(cargo(root).args(["build", "--workspace", "--bins"]))
}

/// Where cargo puts what it builds.
pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Where guests are built: beside the other artifacts.
pub(crate) fn guest_target(root: &Path) -> PathBuf {
    target(root).join("guests")
}

fn shown(command: &Command) -> String {
    let arguments = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    std::iter::once(program).chain(arguments).collect::<Vec<_>>().join(" ")
}

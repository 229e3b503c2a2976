//! The `tidegate` command.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command talks to its terminal")]

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}

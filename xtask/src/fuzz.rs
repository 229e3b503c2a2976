//! `cargo xtask fuzz`: the targets of `fuzz/` under libFuzzer.
//!
//! Only the workspace's own crates are instrumented for coverage, so that every dependency is the one the tests have built. Cargo
//! wraps the compiler for workspace members; the wrapper is this program, which adds the flags and calls the compiler.

use crate::process::{cargo, run, target};
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

const TARGETS: [&str; 7] = ["expressions", "json", "csv", "avro", "protobuf", "ipc", "component"];
/// Says that this program was called as the compiler's wrapper.
const WRAPPING: &str = "TIDEGATE_FUZZ_WRAPPER";
/// What libFuzzer reads: a counter per edge of the control flow, and traces of comparisons.
const COVERAGE: [&str; 5] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// More than any of the seeds; larger inputs only make the search slower.
fn max_bytes(target: &str) -> u32 {
    if target == "component" { 8192 } else { 4096 }
}

pub(crate) fn run_all(root: &Path, minutes: f64, filter: Option<&str>) -> Result<()> {
    let chosen: Vec<&str> = TARGETS.into_iter().filter(|name| filter.is_none_or(|filter| name.contains(filter))).collect();
    if chosen.is_empty() {
        bail!("no target has `{}` in its name; there are {}", filter.unwrap_or_default(), TARGETS.join(", "));
    }
    let wrapper = std::env::current_exe().context("cannot find this program, which wraps the compiler")?;
    let mut build = cargo(root);
    build.args(["build", "--package", "tidegate-fuzz", "--features", "tidegate-fuzz/libfuzzer", "--bins"]);
    run(build.env("RUSTC_WORKSPACE_WRAPPER", wrapper).env(WRAPPING, "1"))?;
    for name in chosen {
        let corpus = target(root).join("fuzz").join(name);
        let crashes = target(root).join("fuzz").join("crashes");
        std::fs::create_dir_all(&corpus)?;
        std::fs::create_dir_all(&crashes)?;
        let mut fuzz = Command::new(target(root).join("debug").join(format!("fuzz-{name}")));
        fuzz.arg(&corpus).arg(root.join("fuzz/seeds").join(name));
        fuzz.arg(format!("-max_total_time={}", (minutes * 60.0).ceil())).arg(format!("-max_len={}", max_bytes(name)));
        fuzz.arg(format!("-artifact_prefix={}/{name}-", crashes.display()));
        // A message that takes ten seconds or two gigabytes is as much a finding as a panic.
        fuzz.args(["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1", "-verbosity=0"]);
        run(&mut fuzz).with_context(|| {
            format!("`{name}` found something; the input is in `{}`: mend it and keep the input in `fuzz/seeds/{name}`", crashes.display())
        })?;
        println!("{name}: {minutes} minutes, nothing found");
    }
    Ok(())
}

/// The exit code of the compiler, if cargo called this program as its wrapper.
pub(crate) fn as_wrapper() -> Option<ExitCode> {
    std::env::var_os(WRAPPING)?;
    let mut arguments = std::env::args_os().skip(1);
    let compiler = arguments.next()?;
    let arguments: Vec<OsString> = arguments.collect();
    let mut command = Command::new(compiler);
    command.args(&arguments);
    // Build scripts and macros run inside the build, where there is no libFuzzer to link to.
    if is_instrumented(&arguments) {
        command.args(COVERAGE);
    }
    let status = command.status().ok()?;
    Some(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

fn is_instrumented(arguments: &[OsString]) -> bool {
    let value = |key: &str| arguments.iter().position(|argument| argument == key).and_then(|at| arguments.get(at + 1));
    let name = value("--crate-name").map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.starts_with("tidegate_") || name.starts_with("fuzz_")
}

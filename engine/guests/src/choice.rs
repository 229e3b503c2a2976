//! Which way to build: what the plugin wants and what the machine has.

use crate::toolchain::{cargo, installed, without_native_flags};
use crate::{DEBIAN_PACKAGES, Debian, Error, Kind, Package, Result, Toolchain, pack};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A way to build a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// `cargo build --target wasm32-wasip2`: a component at once.
    Wasip2,
    /// `cargo build --target wasm32-unknown-unknown`, packed: no WASI at all.
    Core,
    /// `cargo build --target wasm32-wasip1`, packed with an adapter that lifts it to WASI 0.2.
    Wasip1,
    /// `cargo component build`.
    Component,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 4] = [Way::Wasip2, Way::Core, Way::Wasip1, Way::Component];

    /// What `--with` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Way::Wasip2 => "wasip2",
            Way::Core => "core",
            Way::Wasip1 => "wasip1",
            Way::Component => "component",
        }
    }

    /// The target it needs. (`cargo component` builds for WASI 0.1 and adapts it.)
    pub fn triple(self) -> &'static str {
        match self {
            Way::Wasip2 => "wasm32-wasip2",
            Way::Core => "wasm32-unknown-unknown",
            Way::Wasip1 | Way::Component => "wasm32-wasip1",
        }
    }

    fn shown(self) -> &'static str {
        match self {
            Way::Wasip2 => "cargo build --target wasm32-wasip2",
            Way::Core => "cargo build --target wasm32-unknown-unknown, then packing",
            Way::Wasip1 => "cargo build --target wasm32-wasip1, then packing with an adapter",
            Way::Component => "cargo component build",
        }
    }
}

/// What a machine has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Machine {
    /// The targets of the Rust at hand.
    pub targets: BTreeSet<&'static str>,
    /// Debian's Rust for wasm.
    pub debian: Option<Debian>,
    /// Whether `cargo component` is there.
    pub cargo_component: bool,
    /// Whether rustup is there, which fetches targets.
    pub rustup: bool,
}

impl Machine {
    /// Looks around, as seen from a folder: rustup may choose another Rust there.
    pub fn look(folder: &Path) -> Machine {
        let answers = |mut command: Command| command.output().is_ok_and(|output| output.status.success());
        let mut component = cargo(folder);
        component.args(["component", "--version"]);
        let mut rustup = Command::new("rustup");
        rustup.arg("--version");
        Machine {
            targets: Way::ALL.into_iter().map(Way::triple).filter(|triple| installed(folder, triple)).collect(),
            debian: Debian::find().ok(),
            cargo_component: answers(component),
            rustup: answers(rustup),
        }
    }

    /// What would build this way, if it can be done.
    fn toolchain(&self, way: Way) -> Option<Toolchain> {
        let own = self.targets.contains(way.triple());
        match way {
            Way::Component if own && self.cargo_component => Some(Toolchain::Own),
            // Debian's WASI libc is too old to link for WASI 0.2.
            Way::Component | Way::Wasip2 => (way == Way::Wasip2 && own).then_some(Toolchain::Own),
            Way::Core | Way::Wasip1 if own => Some(Toolchain::Own),
            Way::Core | Way::Wasip1 => self.debian.clone().map(Toolchain::Debian),
        }
    }

    /// How to get what a way needs.
    fn remedy(&self, way: Way) -> String {
        let triple = way.triple();
        let mut remedy = if self.rustup {
            format!("`rustup target add {triple}`")
        } else {
            format!("Rust from https://rustup.rs and then `rustup target add {triple}`")
        };
        if way == Way::Component {
            return if self.cargo_component { remedy } else { format!("{remedy}, and `cargo install --locked cargo-component`") };
        }
        let debian = if way == Way::Wasip2 { "" } else { "; where rustup cannot fetch it, Debian's packages do: " };
        if !debian.is_empty() {
            remedy.push_str(&format!("{debian}`apt-get install --no-install-recommends {}`", DEBIAN_PACKAGES.join(" ")));
        }
        remedy
    }
}

/// How a plugin will be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The way.
    pub way: Way,
    /// What it is and why it was chosen, for a person.
    pub why: String,
    toolchain: Toolchain,
}

/// Chooses how to build a plugin of this kind: the way asked for, or the best that the machine can do.
///
/// # Errors
/// `Missing`, saying what to install.
pub fn choose(kind: Kind, asked: Option<Way>, machine: &Machine) -> Result<Choice> {
    let order: &[Way] = match (asked.as_ref(), kind) {
        (Some(asked), _) => std::slice::from_ref(asked),
        (None, Kind::Transform) => &[Way::Core, Way::Wasip2, Way::Wasip1, Way::Component],
        (None, Kind::Source | Kind::Sink) => &[Way::Wasip2, Way::Wasip1, Way::Component],
    };
    let found = order.iter().find_map(|way| Some((*way, machine.toolchain(*way)?)));
    let Some((way, toolchain)) = found else {
        let best = order.first().copied().unwrap_or(Way::Wasip2);
        let mut remedy = machine.remedy(best);
        if asked.is_none() && best == Way::Wasip2 {
            remedy = format!("{remedy}; or for WASI 0.1, which is adapted, {}", machine.remedy(Way::Wasip1));
        }
        let what = if asked.is_some() { format!("with `{}`", best.name()) } else { format!("a {kind}") };
        return Err(Error::Missing(format!("this machine cannot build {what}; install {remedy}")));
    };
    let reason = match (asked, kind, way) {
        (Some(Way::Core), Kind::Source | Kind::Sink, _) => "as asked; without WASI its files, clocks and sockets do not work".into(),
        (Some(_), ..) => "as asked".into(),
        (None, Kind::Transform, Way::Core) => "a transform needs nothing of WASI".into(),
        (None, _, Way::Wasip2) if kind != Kind::Transform => format!("a {kind} is a component of WASI 0.2, and this gives one at once"),
        (None, ..) => format!("there is no {}", order[0].triple()),
    };
    let by = if matches!(toolchain, Toolchain::Debian(_)) { ", with Debian's Rust" } else { "" };
    Ok(Choice { way, why: format!("{}{by} ({reason})", way.shown()), toolchain })
}

impl Choice {
    /// Builds a package into `target/tidegate/NAME.wasm` of its folder and answers that path. Cargo's words go to stderr.
    ///
    /// # Errors
    /// `Build` if it does not compile or cannot be packed; `Io` for files.
    pub fn build(&self, package: &Package) -> Result<PathBuf> {
        let mut command = match self.way {
            Way::Component => {
                let mut command = cargo(&package.folder);
                command.args(["component", "build", "--release"]);
                without_native_flags(command)
            }
            Way::Wasip2 | Way::Core | Way::Wasip1 => self.toolchain.build(&package.folder, self.way.triple())?,
        };
        command.args(["--package", &package.name, "--lib", "--message-format=json-render-diagnostics"]);
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output =
            output.map_err(|error| Error::Missing(format!("cannot start `cargo`: {error}; install Rust from https://rustup.rs")))?;
        if !output.status.success() {
            return Err(Error::Build(format!("`{}` does not build; cargo has said why", package.name)));
        }
        let module = artifact(&output.stdout, &package.folder.join("Cargo.toml"));
        let module = module.ok_or_else(|| Error::Build(format!("cargo has built no .wasm of `{}`", package.name)))?;
        let bytes = fs::read(&module).map_err(|error| Error::io(format!("`{}` cannot be read", module.display()), &error))?;
        let bytes = pack(bytes)?;
        let folder = package.folder.join("target/tidegate");
        let path = folder.join(format!("{}.wasm", package.name));
        let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, bytes));
        written.map_err(|error| Error::io(format!("`{}` cannot be written", path.display()), &error))?;
        Ok(path)
    }
}

/// The module of a manifest's package among cargo's messages.
fn artifact(messages: &[u8], manifest: &Path) -> Option<PathBuf> {
    let lines = messages.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let of_package = lines.filter(|message| {
        message["reason"] == "compiler-artifact" && message["manifest_path"].as_str().is_some_and(|path| Path::new(path) == manifest)
    });
    let mut files = of_package.filter_map(|message| {
        let files = message["filenames"].as_array()?;
        files.iter().filter_map(Value::as_str).map(PathBuf::from).find(|file| file.extension().is_some_and(|ending| ending == "wasm"))
    });
    files.next_back()
}

#[cfg(test)]
mod tests;

//! From a file's bytes to a component whose world and version are known.
//!
//! All of it is read from the binary's types, before anything is compiled or instantiated, so that what does not fit is said in the
//! words of a pipeline's author and not in a linker's.

use std::fmt;
use tidegate_api::{Error, Result, nearest};
use wasmparser::{Encoding, Parser, Payload};

/// The package of the border.
const PACKAGE: &str = "tidegate:plugin/";
/// The version of it that this host speaks; a plugin of any patch release fits.
pub(crate) const OFFERED: (u64, u64) = (0, 1);
/// The WASI packages that sources and sinks may import, in any 0.2 version.
const WASI: [&str; 6] = ["wasi:io/", "wasi:clocks/", "wasi:random/", "wasi:cli/", "wasi:filesystem/", "wasi:sockets/"];
/// What of `wasi:http` they may import beside: requests, not serving.
const HTTP: [&str; 2] = ["wasi:http/types@", "wasi:http/outgoing-handler@"];

/// What a component can be used as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum World {
    /// A stateless step.
    Transform,
    /// A source.
    Source,
    /// A sink.
    Sink,
}

impl World {
    /// Its exported interface.
    pub fn interface(self) -> &'static str {
        match self {
            World::Transform => "transform",
            World::Source => "source",
            World::Sink => "sink",
        }
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.interface())
    }
}

/// A component's outside, and its bytes.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// A component; packed, if the file was a core module.
    pub(crate) component: Vec<u8>,
    /// What it can be used as, at least one.
    pub(crate) worlds: Vec<World>,
    /// Whether it takes a transform's rows as raw columns.
    pub(crate) columns: bool,
    /// The version of the border it was built for, as it says.
    pub(crate) version: String,
    /// The interfaces it imports.
    pub(crate) imports: Vec<String>,
}

/// Reads a file's bytes.
///
/// # Errors
/// `Config`, saying what the file is and what to do about it.
pub(crate) fn load(bytes: &[u8]) -> Result<Loaded> {
    let component = match encoding_of(bytes)? {
        Encoding::Component => bytes.to_vec(),
        Encoding::Module => pack(bytes)?,
    };
    let outside = Outside::read(&component)?;
    let (worlds, version) = outside.worlds()?;
    outside.check_imports(&worlds)?;
    let columns = worlds.contains(&World::Transform) && !outside.exports("transform");
    Ok(Loaded { component, worlds, columns, version, imports: outside.imports })
}

fn encoding_of(bytes: &[u8]) -> Result<Encoding> {
    match bytes {
        [b'\0', b'a', b's', b'm', 0x01, 0x00, 0x00, 0x00, ..] => Ok(Encoding::Module),
        [b'\0', b'a', b's', b'm', _, 0x00, 0x01, 0x00, ..] => Ok(Encoding::Component),
        [b'\0', b'a', b's', b'm', ..] if bytes.len() >= 8 => Err(Error::config("it is of an unknown version of WebAssembly")),
        [] => Err(Error::config("the file is empty; a plugin is a WebAssembly component (.wasm)")),
        _ if b"\0asm".starts_with(&bytes[..bytes.len().min(4)]) => {
            Err(Error::config("the file is cut off after a few bytes; copy or build it again"))
        }
        _ => Err(Error::config("it is no WebAssembly file; a plugin is a component built by `cargo build --target wasm32-wasip2`")),
    }
}

fn damaged(error: &wasmparser::BinaryReaderError) -> Error {
    Error::config(format!("the file is cut off or damaged; copy or build it again ({error})"))
}

/// Makes a component of a core module that carries its component type, as `wasm32-unknown-unknown` builds do.
fn pack(module: &[u8]) -> Result<Vec<u8>> {
    let mut described = false;
    let mut preview1 = false;
    for payload in Parser::new(0).parse_all(module) {
        match payload.map_err(|error| damaged(&error))? {
            Payload::CustomSection(section) => described |= section.name().starts_with("component-type"),
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    preview1 |= import.map_err(|error| damaged(&error))?.module == "wasi_snapshot_preview1";
                }
            }
            _ => {}
        }
    }
    if !described {
        return Err(Error::config(
            "it is a core module, not a component, and does not say which component it wants to be; build it with `cargo build --target wasm32-wasip2`, \
             or pack it with `wasm-tools component embed` and `wasm-tools component new`",
        ));
    }
    if preview1 {
        return Err(Error::config(
            "it is a core module, not a component, built for wasm32-wasip1; build it with `cargo build --target wasm32-wasip2`, \
             or pack it with `wasm-tools component new X.wasm --adapt wasi_snapshot_preview1.reactor.wasm`",
        ));
    }
    let packed = wit_component::ComponentEncoder::default().validate(true).module(module).and_then(|encoder| encoder.encode());
    packed.map_err(|error| Error::config(format!("it is a core module, not a component, and cannot be packed into one: {error:#}")))
}

/// The names a component imports and exports.
struct Outside {
    imports: Vec<String>,
    exports: Vec<String>,
}

impl Outside {
    fn read(component: &[u8]) -> Result<Self> {
        let mut outside = Outside { imports: Vec::new(), exports: Vec::new() };
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(component) {
            match payload.map_err(|error| damaged(&error))? {
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::ComponentImportSection(imports) if depth == 0 => {
                    for import in imports {
                        outside.imports.push(import.map_err(|error| damaged(&error))?.name.name.to_string());
                    }
                }
                Payload::ComponentExportSection(exports) if depth == 0 => {
                    for export in exports {
                        outside.exports.push(export.map_err(|error| damaged(&error))?.name.name.to_string());
                    }
                }
                _ => {}
            }
        }
        Ok(outside)
    }

    /// What it can be used as, and for which version it was built.
    fn worlds(&self) -> Result<(Vec<World>, String)> {
        let mut worlds = Vec::new();
        let mut built_for = String::new();
        for export in &self.exports {
            let Some((interface, version)) = export.strip_prefix(PACKAGE).map(split_version) else { continue };
            let world = match interface {
                "transform" | "transform-columns" => Some(World::Transform),
                "source" => Some(World::Source),
                "sink" => Some(World::Sink),
                _ => None,
            };
            // A version this host does not know may well define worlds it does not know: that is said first.
            check_version(version)?;
            match world {
                Some(world) if worlds.contains(&world) => {}
                Some(world) => worlds.push(world),
                None => {
                    let known = ["transform", "transform-columns", "source", "sink"];
                    let hint = nearest::hint(interface, known);
                    return Err(Error::config(format!(
                        "it exports `{export}`, which this host does not know; a plugin exports `{PACKAGE}transform`, `source` or `sink`{hint}"
                    )));
                }
            }
            built_for = version.unwrap_or_default().to_string();
        }
        if worlds.is_empty() {
            let exports = match self.exports.as_slice() {
                [] => "nothing".to_string(),
                some => some.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
            };
            return Err(Error::config(format!(
                "it is a component but no plugin: it exports {exports}, and a plugin exports `{PACKAGE}transform`, `source` or `sink`"
            )));
        }
        Ok((worlds, built_for))
    }

    /// Whether it exports this interface of the border.
    fn exports(&self, interface: &str) -> bool {
        self.exports.iter().any(|export| export.strip_prefix(PACKAGE).is_some_and(|name| split_version(name).0 == interface))
    }

    fn check_imports(&self, worlds: &[World]) -> Result<()> {
        let mut missing = Vec::new();
        for import in &self.imports {
            if let Some((interface, version)) = import.strip_prefix(PACKAGE).map(split_version) {
                check_version(version)?;
                let offered = match interface {
                    "types" | "log" | "metrics" | "control" => true,
                    "secrets" => worlds.iter().all(|world| *world != World::Transform),
                    _ => false,
                };
                if !offered {
                    missing.push(format!("`{import}`"));
                }
            } else {
                let version = import.split_once('@').map_or("", |(_, version)| version);
                let outside = worlds.iter().all(|world| *world != World::Transform);
                let known = WASI.iter().any(|package| import.starts_with(package))
                    || outside && HTTP.iter().any(|interface| import.starts_with(interface));
                if !(known && version.starts_with("0.2.")) {
                    missing.push(format!("`{import}`"));
                }
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let offers = if worlds.contains(&World::Transform) {
            "log, metrics and control"
        } else {
            "log, metrics, control, secrets and WASI 0.2, of `wasi:http` what makes requests"
        };
        Err(Error::config(format!("it needs {}, and this host offers a {} only {offers}", missing.join(", "), worlds[0])))
    }
}

fn split_version(name: &str) -> (&str, Option<&str>) {
    match name.split_once('@') {
        Some((interface, version)) => (interface, Some(version)),
        None => (name, None),
    }
}

fn check_version(version: Option<&str>) -> Result<()> {
    let (major, minor) = OFFERED;
    let offers = format!("this host offers {major}.{minor}");
    let Some(version) = version else {
        return Err(Error::config(format!("it needs tidegate:plugin without a version, {offers}; build it against a released WIT")));
    };
    let mut parts = version.splitn(3, '.');
    let numbers = (parts.next().and_then(|part| part.parse().ok()), parts.next().and_then(|part| part.parse().ok()));
    if numbers == (Some(major), Some(minor)) && !version.contains('-') {
        return Ok(());
    }
    let short = match numbers {
        (Some(major), Some(minor)) if !version.contains('-') => format!("{major}.{minor}"),
        _ => version.to_string(),
    };
    let remedy = if numbers > (Some(major), Some(minor)) {
        "use a newer host, or a build of the plugin for this one"
    } else {
        "use a newer build of the plugin"
    };
    Err(Error::config(format!("it needs tidegate:plugin@{short}, {offers}; {remedy}")))
}

#[cfg(test)]
mod tests;

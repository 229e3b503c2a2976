//! `tidegate plugin inspect`: what a component is, read from its types and asked of itself, with nothing granted.

use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::path::Path;
use tidegate::host::{Description, Limits, Plugin, World};
use tidegate_api::Result;

/// What each grant opens, by the beginning of an import's name.
const GRANTS: &[(&str, &str)] = &[
    ("wasi:filesystem/", "dirs"),
    ("wasi:cli/environment", "env"),
    ("wasi:clocks/wall-clock", "clock"),
    ("wasi:random/random@", "random"),
    ("wasi:http/outgoing-handler", "http"),
    ("wasi:sockets/tcp", "tcp"),
    ("wasi:sockets/udp", "udp"),
    ("tidegate:plugin/secrets", "secrets"),
];

/// Prints it.
pub(super) fn inspect(file: &Path, json: bool) -> u8 {
    let plugin = match super::load(file, None) {
        Ok(plugin) => plugin,
        Err(code) => return code,
    };
    match Report::of(&plugin) {
        Ok(report) if json => println!("{}", report.json()),
        Ok(report) => print!("{}", report.text(file)),
        Err(error) => return super::failed(&error),
    }
    0
}

struct Report<'a> {
    plugin: &'a Plugin,
    about: Description,
    bytes: u64,
    schema: Value,
    manifest: Value,
    /// The grants that would open something for it.
    usable: Vec<&'static str>,
}

impl<'a> Report<'a> {
    fn of(plugin: &'a Plugin) -> Result<Report<'a>> {
        let about = plugin.describe()?;
        let transform = plugin.worlds().contains(&World::Transform);
        let imported = |begin: &str| plugin.imports().iter().any(|import| import.starts_with(begin));
        // A transform is granted nothing, whatever its toolchain dragged in.
        let usable = GRANTS.iter().filter(|(begin, _)| !transform && imported(begin)).map(|(_, grant)| *grant).collect();
        let parsed = |text: &str| serde_json::from_str(text).unwrap_or(Value::Null);
        let bytes = std::fs::metadata(&plugin.spec().path).map_or(0, |about| about.len());
        Ok(Report { plugin, bytes, schema: parsed(&about.config_schema), manifest: parsed(&about.manifest), about, usable })
    }

    fn worlds(&self) -> Vec<String> {
        let named = |world: &World| match world {
            World::Transform if self.plugin.takes_columns() => "transform-columns-plugin".to_string(),
            world => format!("{}-plugin", world.interface()),
        };
        self.plugin.worlds().iter().map(named).collect()
    }

    fn limits(&self) -> [(&'static str, Value); 7] {
        let Limits { memory, deadline, output, io_timeout, tables, handles, log_lines_per_second, .. } = self.plugin.spec().limits;
        [
            ("memory", json!(size(memory))),
            ("deadline", json!(format!("{deadline:?}"))),
            ("output", json!(size(output))),
            ("ioTimeout", json!(format!("{io_timeout:?}"))),
            ("tables", json!(tables)),
            ("handles", json!(handles)),
            ("logLinesPerSecond", json!(log_lines_per_second)),
        ]
    }

    fn json(&self) -> Value {
        let limits: Map<String, Value> = self.limits().into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        json!({
            "name": self.about.name,
            "version": self.about.version,
            "worlds": self.worlds(),
            "interface": format!("tidegate:plugin@{}", self.plugin.interface_version()),
            "digest": self.plugin.digest(),
            "bytes": self.bytes,
            "configSchema": self.schema,
            "manifest": self.manifest,
            "grants": { "asksFor": self.manifest.get("grants"), "couldUse": self.usable },
            "limits": limits,
            "used": { "memory": self.plugin.metrics().peak_memory() },
            "imports": self.plugin.imports(),
        })
    }

    fn text(&self, file: &Path) -> String {
        let mut text = String::new();
        let mut line = |key: &str, value: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{key:<10} {value}");
        };
        line("name", format!("{} {}", self.about.name, self.about.version));
        if let Some(about) = self.manifest.get("description").and_then(Value::as_str) {
            line("about", about.to_owned());
        }
        line("world", format!("{}, tidegate:plugin@{}", self.worlds().join(", "), self.plugin.interface_version()));
        line("file", format!("{}, {} KiB, {}", file.display(), self.bytes.div_ceil(1024), self.plugin.digest()));
        for (index, option) in self.options().into_iter().enumerate() {
            line(if index == 0 { "options" } else { "" }, option);
        }
        let asks = match self.manifest.get("grants").and_then(Value::as_object) {
            Some(grants) if !grants.is_empty() => format!("asks for {}", Value::Object(grants.clone())),
            _ => "asks for nothing".into(),
        };
        let usable = if self.usable.is_empty() { "nothing".into() } else { self.usable.join(", ") };
        line("grants", format!("{asks}; could use {usable}"));
        let limits = self.limits().map(|(key, value)| match value {
            Value::String(value) => format!("{key} {value}"),
            value => format!("{key} {value}"),
        });
        line("limits", limits.join(", "));
        line("used", format!("{} KiB of memory to answer this", self.plugin.metrics().peak_memory().div_ceil(1024)));
        for (index, import) in self.plugin.imports().iter().enumerate() {
            line(if index == 0 { "imports" } else { "" }, import.clone());
        }
        text
    }

    /// A line per option of the configuration's schema.
    fn options(&self) -> Vec<String> {
        let Some(properties) = self.schema.get("properties").and_then(Value::as_object) else { return Vec::new() };
        let required = self.schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let width = properties.keys().map(String::len).max().unwrap_or(0);
        let shown = properties.iter().map(|(name, option)| {
            let kind = option.get("type").and_then(Value::as_str).unwrap_or("any");
            let default = match option.get("default") {
                _ if required.iter().any(|required| required == name) => "required".into(),
                Some(default) => format!("default {default}"),
                None => "optional".into(),
            };
            let about = option.get("description").and_then(Value::as_str).unwrap_or_default();
            format!("{name:width$}  {kind}, {default}: {about}").trim_end_matches(": ").to_owned()
        });
        shown.collect()
    }
}

fn size(bytes: u64) -> String {
    if bytes.is_multiple_of(1 << 20) { format!("{}MiB", bytes >> 20) } else { format!("{}KiB", bytes >> 10) }
}

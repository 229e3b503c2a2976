//! What the sandbox costs: whole pipelines over Nexmark bids with a plugin's step and with the native one of the same meaning, in turn, and
//! a plugin as the source.

use super::chart::{Series, svg};
use super::measure::{Measured, measure};
use super::report::{between, setting};
use crate::guests;
use crate::process::{cargo, guest_target, run, target};
use anyhow::{Context, Result};
use clap::Args;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// What is measured.
#[derive(Debug, Args)]
pub(crate) struct Plugins {
    /// Events per pipeline, in millions
    #[arg(long, default_value_t = 30.0)]
    millions: f64,
    /// How often each is run in turn; the best counts
    #[arg(long, default_value_t = 3)]
    times: u32,
    /// A binary that is there already; without it a release is built
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Write the table into docs/performance.md, and the chart beside it
    #[arg(long)]
    write: bool,
}

/// Two ways to the same rows.
struct Pair {
    name: &'static str,
    native: &'static str,
    plugin: &'static str,
    /// What a plugin's throughput is to be at least, as a part of the native one's.
    wanted: f64,
}

const PAIRS: [Pair; 2] = [
    Pair {
        name: "a column is added",
        native: r#"{ op = "applyExpression", column = "dollars", expression = "price * 908 / 1000" }"#,
        plugin: r#"{ op = "wasm", plugin = "bids", config = { kind = "add" } }"#,
        wanted: 0.9,
    },
    Pair {
        name: "a filter",
        native: r#"{ op = "filter", expression = "auction % 123 == 0" }"#,
        plugin: r#"{ op = "wasm", plugin = "bids", config = { kind = "filter" } }"#,
        wanted: 0.7,
    },
];

/// One core, so that CPU time and the clock say the same; batches of 8,192 rows.
fn pipeline(plugin: &Path, step: &str) -> String {
    format!(
        r#"name = "plugins"

[settings]
parallelism = 1
batchRows = 8192

[plugins.bids]
path = {plugin:?}

[datasets.events]
connector = "nexmark"
events = EVENTS

[datasets.out]
sink = "blackhole"

[[stages]]
inputs = ["events"]
output = "out"
steps = [
  {{ op = "filter", expression = 'type == "bid"' }},
  {{ op = "select", columns = ["auction", "bidder", "price", "channel", "url", "dateTime", "extra"] }},
  {step},
]
"#
    )
}

fn source(plugin: &Path) -> String {
    format!(
        r#"name = "plugins"

[settings]
parallelism = 1
batchRows = 8192

[plugins.ticker]
path = {plugin:?}
config = {{ rows = EVENTS, splits = 1, intervalMs = 1 }}

[datasets.ticks]
connector = "plugin"
plugin = "ticker"

[datasets.out]
sink = "blackhole"

[[stages]]
inputs = ["ticks"]
output = "out"
steps = [{{ op = "select", columns = ["split", "seq", "ts", "value"] }}]
"#
    )
}

pub(super) fn run_all(root: &Path, plugins: &Plugins) -> Result<()> {
    guests::build(root, &guest_target(root))?;
    let binary = match &plugins.binary {
        Some(binary) => binary.clone(),
        None => {
            run(cargo(root).args(["build", "--release", "--package", "tidegate", "--bin", "tidegate"]))?;
            target(root).join("release").join("tidegate")
        }
    };
    let events = (plugins.millions * 1e6) as u64;
    let guest = root.join("tests/guests/target/components/bids.wasm");
    let mut table = String::from("| step | native, M events/s | plugin | ratio | per CPU second native | plugin | ratio | wanted |\n");
    table += &format!("|{}\n", "---|".repeat(8));
    print!("{table}");
    let (mut names, mut series) = (Vec::new(), [Series::new("native"), Series::new("plugin")]);
    for pair in &PAIRS {
        let texts = [pair.native, pair.plugin].map(|step| pipeline(&guest, step).replace("EVENTS", &events.to_string()));
        let [native, plugin] = in_turn(&binary, &texts, events, plugins.times)?;
        let line = format!(
            "| {} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.1} |",
            pair.name,
            native.rate(),
            plugin.rate(),
            plugin.rate() / native.rate(),
            native.cpu_rate(),
            plugin.cpu_rate(),
            plugin.cpu_rate() / native.cpu_rate(),
            pair.wanted
        );
        println!("{line}");
        let _ = writeln!(table, "{line}");
        names.push(pair.name.to_string());
        series[0].values.push(native.cpu_rate());
        series[1].values.push(plugin.cpu_rate());
    }
    let ticker = source(&root.join("plugins/target/components/ticker.wasm")).replace("EVENTS", &events.to_string());
    let [source] = in_turn(&binary, &[ticker], events, plugins.times)?;
    let line = format!("A source of four columns (`ticker`): {:.2} M rows/s, {:.2} per CPU second.", source.rate(), source.cpu_rate());
    println!("\n{line}");
    if plugins.write {
        let document = root.join("docs/performance.md");
        let text = format!("{}.\n\n{table}\n{line}\n\n![A plugin beside the native step](plugins.svg)\n", setting());
        let old = std::fs::read_to_string(&document)?;
        std::fs::write(&document, between(&old, "plugins", &text)?)?;
        std::fs::write(root.join("docs/plugins.svg"), svg("Million events per CPU second", &names, &series))?;
        println!("written to {}", document.display());
    }
    Ok(())
}

/// The best run of each, all of them in turn.
fn in_turn<const N: usize>(binary: &Path, texts: &[String; N], events: u64, times: u32) -> Result<[Measured; N]> {
    let mut best: [Option<Measured>; N] = [None; N];
    for _ in 0..times.max(1) {
        for (text, best) in texts.iter().zip(&mut best) {
            measure(binary, text, events)?.keep_best(best);
        }
    }
    let measured: Vec<Measured> = best.into_iter().flatten().collect();
    measured.try_into().ok().context("every pipeline was run")
}

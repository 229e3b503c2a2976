//! Another engine's binary beside ours, in turn, both reading the same events from a Parquet file.
//!
//! The peer reads no timestamps, so that times lie in its file as milliseconds since 1970; in ours they are timestamps. Everything
//! else in the two files is the same.

use super::chart::Series;
use super::measure::{Measured, Runs, measure};
use super::query::{Query, with_paths, with_source, without_folders};
use super::report::Report;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Measures the queries that the peer can express, printing each as it is done.
///
/// # Errors
/// When ours fails.
pub(super) fn run(binary: &Path, peer: &Path, peer_queries: Option<&Path>, queries: &[Query], runs: Runs) -> Result<Report> {
    let folder = tempfile::tempdir()?;
    let file = events_file(binary, &folder.path().join("ours"), runs.events, "")?;
    let peer_file = events_file(binary, &folder.path().join("peer"), runs.events, MILLIS)?;
    let mut report = Report::new(
        &["query", "ours, M events per CPU second", "peer", "ratio", "ours, MiB", "peer, MiB"],
        "Nexmark from Parquet: millions of events per CPU second",
        vec![Series::new("Tidegate"), Series::new("FusionVault Streams")],
    );
    let mut ratios: Vec<(f64, &str)> = Vec::new();
    for query in queries {
        let ours = over_file(&query.text, &file);
        let theirs = match peer_query(query, peer_queries, &peer_file) {
            Ok(theirs) => theirs,
            Err(reason) => {
                report.note(format!("{}: not measured, {reason}", query.name));
                continue;
            }
        };
        let (mut us, mut them) = (None, None);
        for _ in 0..runs.times {
            measure(binary, &ours, runs.events).with_context(|| format!("query `{}`", query.name))?.keep_best(&mut us);
            match measure(peer, &theirs, runs.events) {
                Ok(run) => run.keep_best(&mut them),
                Err(error) => {
                    let text = format!("{error:#}");
                    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
                    report.note(format!("{}: the peer fails, {}", query.name, last.trim()));
                    break;
                }
            }
        }
        let (Some(us), Some(them)) = (us, them) else { continue };
        let ratio = us.cpu_rate() / them.cpu_rate();
        ratios.push((ratio, &query.name));
        report.add(row(&query.name, us, them, ratio), vec![us.cpu_rate(), them.cpu_rate()]);
    }
    if let Some((lowest, query)) = ratios.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0)) {
        let mean = (ratios.iter().map(|(ratio, _)| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
        report.note(format!("geometric mean of the {} ratios {mean:.1}, the lowest {lowest:.1} ({query})", ratios.len()));
    }
    Ok(report)
}

fn row(name: &str, us: Measured, them: Measured, ratio: f64) -> Vec<String> {
    vec![
        name.to_string(),
        format!("{:.2}", us.cpu_rate()),
        format!("{:.3}", them.cpu_rate()),
        format!("{ratio:.1}"),
        format!("{:.0}", us.peak_mib()),
        format!("{:.0}", them.peak_mib()),
    ]
}

/// Our pipeline over the file, writing what the peer can write too.
fn over_file(text: &str, file: &Path) -> String {
    with_source(
        &without_folders(text),
        &format!("[datasets.events]\nconnector = \"files\"\npath = \"{}\"\nformat = \"parquet\"\n", file.display()),
    )
}

/// The peer's pipeline over the file: its own version of the query if there is one; otherwise ours, whose stages it calls transforms.
/// Why not, if it cannot express it.
fn peer_query(query: &Query, folder: Option<&Path>, file: &Path) -> Result<String, String> {
    let own = folder.map(|folder| (folder, folder.join(format!("{}.toml", query.name)))).filter(|(_, own)| own.is_file());
    let text = match own {
        Some((folder, own)) => {
            let text = std::fs::read_to_string(&own).map_err(|error| format!("`{}` cannot be read: {error}", own.display()))?;
            with_paths(&text, folder)
        }
        None => {
            let lacking = LACKING.iter().find(|(written, _)| without_folders(&query.text).contains(written));
            if let Some((_, what)) = lacking {
                return Err(format!("the peer has no {what}; give its own version with --peer-queries"));
            }
            without_folders(&query.text).replace("[[stages]]", "[[transforms]]").replace("[[stages.", "[[transforms.")
        }
    };
    let source = format!("[datasets.events]\nconnector = \"file\"\npath = \"{}\"\nformat = \"parquet\"\npartitions = 2\n", file.display());
    Ok(with_source(&text, &source))
}

/// What the peer's vocabulary lacks, as our files have it.
const LACKING: &[(&str, &str)] = &[
    ("windowed = true", "`windowed` ranks"),
    ("firingDelayMs", "`firingDelayMs`"),
    ("leftKeys", "keys of different names in a join"),
    ("kind = 'semi'", "semi joins"),
    ("upper = ", "bounds of a join"),
    ("window = '", "durations as texts"),
    ("filter = 'price", "filters of aggregates"),
    ("columns = [\n", "expressions in `select`"),
    ("keep = 'last'", "`keep` of the last row"),
    ("orderBy = 'dateTime'", "`lastN` by a column"),
    ("format = \"csv\"", "CSV with a schema"),
];

/// The steps that turn times into epoch milliseconds.
const MILLIS: &str = "{ op = \"applyExpression\", column = \"dateTime\", expression = \"epochMillis(dateTime)\" }, \
                      { op = \"applyExpression\", column = \"expires\", expression = \"epochMillis(expires)\" }";

/// Writes events, every column of them, to one Parquet file, through some steps.
fn events_file(binary: &Path, folder: &Path, events: u64, steps: &str) -> Result<PathBuf> {
    let text = format!(
        "name = \"events\"\n[settings]\nparallelism = 1\ncheckpointEvery = \"1h\"\n\
         [datasets.events]\nconnector = \"nexmark\"\nevents = {events}\nstepMs = 10\nseed = 42\n\
         [datasets.out]\nsink = \"files\"\npath = \"{}\"\nformat = \"parquet\"\n\
         [[stages]]\ninputs = [\"events\"]\noutput = \"out\"\nsteps = [{steps}]\n",
        folder.display()
    );
    measure(binary, &text, events).context("while writing the events to a file")?;
    let parts = std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    let mut parts = parts.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "parquet"));
    let part = parts.next().context("no events were written")?;
    anyhow::ensure!(parts.next().is_none(), "the events lie in more than one file");
    Ok(part)
}

//! What was measured: lines in a terminal, a table and a chart in the documents.

use super::Place;
use super::chart::{Series, svg};
use super::measure::Runs;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Report {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
    title: String,
    names: Vec<String>,
    series: Vec<Series>,
}

impl Report {
    /// A table with these columns, and a chart with this title.
    pub(super) fn new(columns: &[&str], title: &str, series: Vec<Series>) -> Self {
        println!("{}", columns.join(" | "));
        let columns = columns.iter().map(|column| column.to_string()).collect();
        Report { columns, rows: Vec::new(), notes: Vec::new(), title: title.to_string(), names: Vec::new(), series }
    }

    /// Adds a query: its cells, the name first, and its bars.
    pub(super) fn add(&mut self, cells: Vec<String>, bars: Vec<f64>) {
        println!("{}", cells.join(" | "));
        self.names.push(cells.first().cloned().unwrap_or_default());
        self.series.iter_mut().zip(bars).for_each(|(series, value)| series.values.push(value));
        self.rows.push(cells);
    }

    /// Adds a remark below the table.
    pub(super) fn note(&mut self, note: String) {
        println!("{note}");
        self.notes.push(note);
    }

    /// Puts the table between its marks in `docs/performance.md`, and the chart beside it.
    ///
    /// # Errors
    /// When the document has no such marks, or a file cannot be written.
    pub(super) fn write(&self, root: &Path, place: &Place, runs: Runs) -> Result<()> {
        let document = root.join("docs/performance.md");
        let text = std::fs::read_to_string(&document)?;
        let text = between(&text, place.mark, &self.markdown(place, runs))?;
        std::fs::write(&document, text)?;
        std::fs::write(root.join("docs").join(place.chart), svg(&self.title, &self.names, &self.series))?;
        println!("written to {} and docs/{}", document.display(), place.chart);
        Ok(())
    }

    fn markdown(&self, place: &Place, runs: Runs) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let mut text = format!("{}; {} million events, best of {}.\n\n", setting(), runs.events as f64 / 1e6, runs.times);
        text.push_str(&line(&self.columns));
        text.push_str(&format!("|{}\n", "---|".repeat(self.columns.len())));
        self.rows.iter().for_each(|row| text.push_str(&line(row)));
        if !self.notes.is_empty() {
            text.push('\n');
            self.notes.iter().for_each(|note| text.push_str(&format!("- {note}\n")));
        }
        text.push_str(&format!("\n![{}]({})\n", self.title, place.chart));
        text
    }
}

/// The text with another content between the comments of a mark.
///
/// # Errors
/// When it has no such comments.
pub(super) fn between(text: &str, mark: &str, content: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- {mark} -->\n"), format!("<!-- /{mark} -->"));
    let missing = || format!("docs/performance.md has no comments `<!-- {mark} -->` and `<!-- /{mark} -->`");
    let from = text.find(&begin).with_context(missing)? + begin.len();
    let to = from + text[from..].find(&end).with_context(missing)?;
    Ok(format!("{}{content}{}", &text[..from], &text[to..]))
}

/// The day, the machine, and what it was built from and with.
pub(super) fn setting() -> String {
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success());
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string()).unwrap_or_else(|| "unknown".into())
    };
    let cpu = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_string())
    });
    let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get());
    format!(
        "{}, {} with {cores} cores, {}, commit {}",
        said("date", &["-u", "+%Y-%m-%d"]),
        cpu.unwrap_or_else(|| said("uname", &["-sm"])),
        said("rustc", &["--version"]).split(" (").next().unwrap_or_default(),
        said("git", &["rev-parse", "--short", "HEAD"]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_replaces_the_one_between_its_marks_and_nothing_else() {
        let text = "before\n<!-- a -->\nold\n<!-- /a -->\nafter\n";
        assert_eq!(between(text, "a", "new\n").unwrap(), "before\n<!-- a -->\nnew\n<!-- /a -->\nafter\n");
        assert!(between(text, "b", "new\n").is_err());
    }
}

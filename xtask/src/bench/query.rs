//! The pipelines of `examples/nexmark`, and what is changed in them to be measured.

use anyhow::Result;
use std::collections::BTreeMap;
use std::path::Path;

/// One of the queries.
#[derive(Debug, Clone)]
pub(super) struct Query {
    pub(super) name: String,
    /// The pipeline file.
    pub(super) text: String,
}

/// The queries in the order of their numbers; `names` has commas between.
///
/// # Errors
/// When none is called so.
pub(super) fn all(root: &Path, names: Option<&str>) -> Result<Vec<Query>> {
    let folder = root.join("examples/nexmark");
    let mut queries = BTreeMap::new();
    for entry in std::fs::read_dir(&folder)? {
        let file = entry?.path();
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if file.extension().is_some_and(|ending| ending == "toml")
            && names.is_none_or(|names| names.split(',').any(|wanted| wanted == name || wanted == "nexmark"))
        {
            let number: u32 = name.trim_start_matches('q').parse().unwrap_or(u32::MAX);
            let text = with_paths(&std::fs::read_to_string(&file)?, &folder);
            queries.insert((number, name.clone()), Query { name, text });
        }
    }
    anyhow::ensure!(!queries.is_empty(), "no query is called so; they are the files in examples/nexmark");
    Ok(queries.into_values().collect())
}

/// A query runs in a folder of its own, into which it writes; what it reads stays where it is.
pub(super) fn with_paths(text: &str, folder: &Path) -> String {
    let mut writes = false;
    let line = |line: &str| {
        // A table names its sink before its path.
        writes = line.starts_with("sink = ") || (writes && !line.starts_with('['));
        match line.strip_prefix("path = \"").filter(|path| !writes && !path.starts_with('/')) {
            Some(path) => format!("path = \"{}/{path}", folder.display()),
            None => line.to_string(),
        }
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

impl Query {
    /// The pipeline over so many events of our own generator, with so many tasks.
    pub(super) fn generated(&self, events: u64, tasks: u32) -> String {
        let line = |line: &str| if line.starts_with("events = ") { format!("events = {events}") } else { line.to_string() };
        with_tasks(&self.text.lines().map(line).collect::<Vec<_>>().join("\n"), tasks)
    }
}

/// The pipeline with so many tasks per step.
pub(super) fn with_tasks(text: &str, tasks: u32) -> String {
    let at = text.find("\n[").map_or(0, |at| at + 1);
    format!("{}[settings]\nparallelism = {tasks}\n\n{}", &text[..at], &text[at..])
}

/// The pipeline with another source: the table `[datasets.events]` ends at the next empty line.
pub(super) fn with_source(text: &str, source: &str) -> String {
    let from = text.find("[datasets.events]").unwrap_or(0);
    let to = text[from..].find("\n\n").map_or(text.len(), |at| from + at + 1);
    format!("{}{source}{}", &text[..from], &text[to..])
}

/// The pipeline into `blackhole` if it writes folders of files, for a comparison with what writes none.
pub(super) fn without_folders(text: &str) -> String {
    let Some(from) = text.find("[datasets.out]").filter(|_| text.contains("partitionBy = ")) else { return text.to_string() };
    let to = text[from..].find("\n\n").map_or(text.len(), |at| from + at + 1);
    format!("{}[datasets.out]\nsink = \"blackhole\"\n{}", &text[..from], &text[to..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = \"q\"\n\n[datasets.events]\nevents = 5\nseed = 1\n\n[datasets.side]\npath = \"data/side.csv\"\n";

    #[test]
    fn what_is_measured_differs_in_source_tasks_and_paths_alone() {
        let query = Query { name: "q".into(), text: with_paths(TEXT, Path::new("/at")) };
        assert_eq!(
            query.generated(7, 2),
            "name = \"q\"\n\n[settings]\nparallelism = 2\n\n[datasets.events]\nevents = 7\nseed = 1\n\n[datasets.side]\npath = \"/at/data/side.csv\""
        );
        assert_eq!(
            with_source(TEXT, "[datasets.events]\nfile\n"),
            "name = \"q\"\n\n[datasets.events]\nfile\n\n[datasets.side]\npath = \"data/side.csv\"\n"
        );
        let folders = "[datasets.out]\nsink = \"files\"\npath = \"out\"\npartitionBy = [\"day\"]\n\n[datasets.side]\npath = \"x\"";
        assert_eq!(with_paths(folders, Path::new("/at")), folders.replace("\"x\"", "\"/at/x\""), "what is written is written here");
        assert_eq!(without_folders(folders), "[datasets.out]\nsink = \"blackhole\"\n\n[datasets.side]\npath = \"x\"");
        assert_eq!(without_folders(TEXT), TEXT);
    }
}

//! What a reader finds in an output of a trial.

use super::compare::{Row, fields};
use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate::file::redirect::Redirected;
use tidegate_api::{Error, Generation, PollRequest, Result, ResultExt, RunId, RunIdentity, SourceCtx, SourceRequest, SplitState};
use tidegate_connectors::ConnectorCtx;

/// The delimiter of CSV that sinks write.
const DELIMITER: char = ',';

/// Every row of an output, in the order in which its epochs were committed. `columns` are those of the output. `None` if nothing is kept.
pub(super) fn rows(place: &Redirected, columns: &[String]) -> Result<Option<Vec<Row>>> {
    match place {
        Redirected::Nothing => Ok(None),
        Redirected::Files { folder, options } => files(folder, options).map(Some),
        Redirected::Lines { file, csv } => {
            let text = text_of(file)?;
            let header = columns.join(&DELIMITER.to_string());
            let lines = text.lines().filter(|line| !*csv || *line != header);
            let row = |line: &str| if *csv { Row::of_fields(line, "", columns, fields(line, DELIMITER)) } else { Row::of_line(line, "") };
            Ok(Some(lines.map(row).collect()))
        }
        Redirected::Granted { folders } => {
            let mut rows = Vec::new();
            for (number, folder) in folders.iter().enumerate() {
                let prefix = if folders.len() == 1 { String::new() } else { format!("directory {number}") };
                for path in visible(folder)? {
                    let bytes = fs::read(&path).map_err(|error| unreadable(&path, error))?;
                    match String::from_utf8(bytes) {
                        Ok(text) => rows.extend(text.lines().map(|line| Row::of_line(line, &prefix))),
                        // A file that is no text is one row: what a plugin makes of rows is its own affair.
                        Err(error) => rows.push(Row::of_line(&format!("{} bytes {:?}", error.as_bytes().len(), error.as_bytes()), &prefix)),
                    }
                }
            }
            Ok(Some(rows))
        }
    }
}

/// Takes off a line that was cut short when its process was killed: nobody can have read it as a row.
pub(super) fn mend(places: &BTreeMap<String, Redirected>) -> Result<()> {
    for place in places.values() {
        if let Redirected::Lines { file, .. } = place {
            let text = match fs::read(file) {
                Ok(text) => text,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(unreadable(file, error)),
            };
            let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            if whole < text.len() {
                let open = fs::OpenOptions::new().write(true).open(file).and_then(|open| open.set_len(whole as u64));
                open.map_err(|error| unreadable(file, error))?;
            }
        }
    }
    Ok(())
}

fn files(folder: &Path, options: &Map<String, Value>) -> Result<Vec<Row>> {
    let format = options.get("format").and_then(Value::as_str).unwrap_or("json");
    let mut parts = visible(folder)?;
    parts.sort_by_key(|path| order_of(path));
    let mut rows = Vec::new();
    for path in parts {
        let within = path.parent().and_then(|parent| parent.strip_prefix(folder).ok()).unwrap_or(Path::new(""));
        let prefix = within.display().to_string();
        match format {
            "json" | "jsonl" => rows.extend(lines(&path)?.iter().map(|line| Row::of_line(line, &prefix))),
            "csv" => {
                let lines = lines(&path)?;
                let Some((header, lines)) = lines.split_first() else { continue };
                let header = fields(header, DELIMITER);
                rows.extend(lines.iter().map(|line| Row::of_fields(line, &prefix, &header, fields(line, DELIMITER))));
            }
            other => {
                for batch in decoded(&path, other)? {
                    rows.extend(rows_of(&batch, &prefix)?);
                }
            }
        }
    }
    Ok(rows)
}

/// The lines of a part, compressed or not.
fn lines(path: &Path) -> Result<Vec<String>> {
    if path.extension().is_none_or(|ending| ending != "gz" && ending != "zst") {
        return Ok(text_of(path)?.lines().map(str::to_string).collect());
    }
    let mut lines = Vec::new();
    for batch in decoded(path, "raw")? {
        lines.extend(rows_of(&batch, "")?.into_iter().flat_map(|row| row.columns.into_values()));
    }
    Ok(lines)
}

/// A file as the `files` source reads it.
fn decoded(path: &Path, format: &str) -> Result<Vec<RecordBatch>> {
    let place = || format!("reading `{}` back", path.display());
    let mut options = Map::new();
    options.insert("path".to_string(), Value::from(path.display().to_string()));
    options.insert("format".to_string(), Value::from(format));
    let cx = ConnectorCtx::new("/", "trial");
    let source = tidegate_connectors::source("files", &options, &cx).map_err(Error::from).context(place)?;
    source.plan(&SourceRequest::all()).context(place)?;
    let splits = source.discover(None).context(place)?.added;
    let mut open = splits.len();
    let run = RunIdentity::new("chaos", RunId::new("read"), Generation(0), "read");
    let mut reader = source.open(SourceCtx::new(run).with_start(splits)).context(place)?;
    let mut batches = Vec::new();
    while open > 0 {
        let polled = reader.poll(PollRequest { max_rows: 8192, max_bytes: 8 << 20, wait: Duration::ZERO }).context(place)?;
        open -= polled.states.iter().filter(|(_, state)| *state == SplitState::Finished).count();
        for chunk in polled.chunks {
            if let Some(bad) = chunk.bad.first() {
                return Err(Error::data(format!("`{}` holds what cannot be read back: {}", path.display(), bad.message)));
            }
            batches.push(chunk.rows);
        }
    }
    Ok(batches)
}

fn rows_of(batch: &RecordBatch, prefix: &str) -> Result<Vec<Row>> {
    let options = FormatOptions::new().with_null("null");
    let schema = batch.schema();
    let mut columns = Vec::new();
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        columns.push((field.name(), ArrayFormatter::try_new(column, &options)?));
    }
    let row = |at: usize| {
        let mut values: BTreeMap<String, String> =
            columns.iter().map(|(name, column)| ((*name).clone(), column.value(at).to_string())).collect();
        let shown: Vec<String> = columns.iter().map(|(name, column)| format!("{name}={}", column.value(at))).collect();
        let text = if prefix.is_empty() { shown.join(" ") } else { format!("{prefix}: {}", shown.join(" ")) };
        if !prefix.is_empty() {
            values.insert("/".to_string(), prefix.to_string());
        }
        Row { text, columns: values }
    };
    Ok((0..batch.num_rows()).map(row).collect())
}

/// Epoch, task and number of a part, which its name ends in; other names go by themselves, first.
fn order_of(path: &Path) -> (u64, u64, u64, PathBuf) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut numbers = name.rsplit('-').map(|part| part.split('.').next().unwrap_or_default().parse::<u64>().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    let (number, task, epoch) = (next(), next(), next());
    (epoch, task, number, path.to_path_buf())
}

/// Every file below a folder that a reader looks at: names that begin with a dot are nobody's business.
fn visible(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(unreadable(folder, error)),
    };
    for entry in entries {
        let path = entry.map_err(|error| unreadable(folder, error))?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) {
            continue;
        }
        if path.is_dir() {
            found.extend(visible(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn text_of(path: &Path) -> Result<String> {
    match fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(unreadable(path, error)),
    }
}

fn unreadable(path: &Path, error: std::io::Error) -> Error {
    Error::external(format!("`{}` cannot be read", path.display())).caused_by(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_in_the_order_of_their_epochs() {
        let order = |name: &str| order_of(Path::new(name));
        assert!(order("part-r-out-1-9-0-0.json") < order("part-r-out-2-10-0-0.json.gz"));
        assert!(order("part-r-out-2-10-0-1.json") < order("part-r-out-2-10-1-0.json"));
        assert!(order("part-r-a.b-2-10-0-2.json") < order("part-r-a.b-2-10-0-10.json"));
    }
}

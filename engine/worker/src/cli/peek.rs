//! `tidegate peek`: the first rows of an input, what cannot be read of them, and the schema to paste into the file.
//!
//! Rows go to stdout as JSON lines and nothing else does.

use super::drain::{Drain, show_bad};
use super::printer::Printer;
use super::{failed, read, refuse};
use arrow::datatypes::Schema;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tidegate::file::{FileHost, PipelineFile};
use tidegate_api::{Clock, Generation, InlineSource, Result, RunIdentity, SystemClock, types};
use tidegate_connectors::stdout::is_closed_pipe;

/// Shows the beginning of a dataset, and gives the exit code.
pub(super) fn peek(path: &Path, dataset: Option<&str>, rows: u64, wait: Duration) -> u8 {
    let file = match read(path) {
        Ok(file) => file,
        Err(mistakes) => return refuse(&mistakes),
    };
    let settings = file.host_settings();
    let host = FileHost::new(Arc::clone(&file), settings, super::run::host_config(), Arc::new(AtomicBool::new(false)), Box::new(|_| {}));
    let (name, source) = match host.peeked(dataset) {
        Ok(found) => found,
        Err(problems) => return refuse(&file.locate(problems)),
    };
    match show(&file, &name, &*source, rows, wait) {
        Err(error) if !is_closed_pipe(&error) => failed(&masked(&file, error, &name)),
        _ => 0,
    }
}

/// The error with its dataset, and without what must not be shown.
fn masked(file: &PipelineFile, error: tidegate_api::Error, name: &str) -> tidegate_api::Error {
    let kind = error.kind();
    let text = error.context(format!("dataset `{name}`")).to_string();
    tidegate_api::Error::new(kind, file.mask().apply(&text))
}

fn show(file: &PipelineFile, name: &str, source: &dyn InlineSource, rows: u64, wait: Duration) -> Result<()> {
    let identity = RunIdentity::new(file.name(), tidegate::new_run_id(), Generation(1), name);
    let mut drain = Drain::open(source, &identity, Some(rows))?;
    eprintln!("{}", paste(&drain.schema()));
    let mut printer = Printer::open(drain.schema(), &identity)?;
    let (mut printed, mut bad, mut heard) = (0, 0, SystemClock.monotonic());
    let mut silent = false;
    while let Some(chunks) = drain.next()? {
        for chunk in chunks {
            // A source may hand over more than it was asked for, in one poll.
            let wanted = usize::try_from(rows - printed).unwrap_or(usize::MAX).min(chunk.rows.num_rows());
            chunk.bad.iter().for_each(show_bad);
            bad += chunk.bad.len() as u64;
            printed += printer.print(&chunk.rows.slice(0, wanted))?;
            if wanted > 0 || !chunk.bad.is_empty() {
                heard = SystemClock.monotonic();
            }
        }
        // Bad rows count too, or an input of nothing else would be read to its end.
        if printed + bad >= rows {
            break;
        }
        silent = SystemClock.monotonic().saturating_sub(heard) >= wait;
        if silent {
            break;
        }
    }
    let why = if silent { format!(", and nothing more within {wait:?}") } else { String::new() };
    eprintln!("{printed} rows of {} splits, {bad} bad{why}", drain.splits());
    Ok(())
}

/// The schema as a pipeline file declares it.
pub(super) fn paste(schema: &Schema) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_string()).to_string();
    let columns = schema.fields().iter().map(|field| {
        let required = if field.is_nullable() { "" } else { ", nullable = false" };
        format!("  {{ name = {}, type = {}{required} }},\n", quoted(field.name()), quoted(&types::name(field.data_type())))
    });
    format!("schema = [\n{}]", columns.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field};
    use serde_json::Value;

    #[test]
    fn the_schema_that_is_shown_reads_back() {
        let fields = vec![
            Field::new("plain", DataType::Int64, true),
            Field::new("odd \"name\"", types::parse("struct<a: list<decimal(38,3)>>").unwrap(), true),
            Field::new("at", types::parse("timestamp_ms(Europe/Copenhagen)").unwrap(), false),
        ];
        let schema = Schema::new(fields);
        let read: Value = toml::from_str(&paste(&schema)).unwrap();
        assert_eq!(types::schema_of(&read["schema"]).unwrap().as_ref(), &schema);
    }
}

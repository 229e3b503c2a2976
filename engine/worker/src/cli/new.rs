//! `tidegate new --from`: a pipeline file that runs, of an input that is there.

use super::peek::paste;
use super::{CONFIG, USAGE, failed};
use arrow::datatypes::Schema;
use serde_json::{Map, Value, json};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_api::config::{Problem, problems_of};
use tidegate_api::{ErrorKind, SourceRequest};
use tidegate_connectors::ConnectorCtx;

/// An input as it is named at the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Origin {
    /// What the dataset and the pipeline are called.
    name: String,
    connector: &'static str,
    options: Vec<(&'static str, String)>,
    /// Formats to try, in this order; none if the connector knows.
    formats: &'static [&'static str],
}

/// Writes the file, and gives the exit code.
pub(super) fn new(from: &str, file: Option<&Path>) -> u8 {
    let origin = match Origin::parse(from) {
        Ok(origin) => origin,
        Err(message) => {
            eprintln!("{message}");
            return USAGE;
        }
    };
    let file = file.map_or_else(|| PathBuf::from(format!("{}.toml", origin.name)), Path::to_path_buf);
    // Asked for before the input is: nobody waits for an answer that cannot be written down.
    if file.exists() {
        eprintln!("`{}` is there already; name another file", file.display());
        return CONFIG;
    }
    // Paths in a pipeline file are relative to it.
    let base = file.parent().unwrap_or(Path::new("")).to_path_buf();
    let (format, schema) = match origin.look(&base) {
        Ok(found) => found,
        Err(Refused::Told(code)) => return code,
        Err(Refused::Mistaken(problems) | Refused::Content(problems)) => {
            problems.iter().for_each(|problem| eprintln!("{problem}"));
            return CONFIG;
        }
    };
    let text = origin.pipeline(format, schema.as_deref());
    let written = OpenOptions::new().write(true).create_new(true).open(&file).and_then(|mut out| out.write_all(text.as_bytes()));
    if let Err(error) = written {
        eprintln!("`{}` cannot be written: {error}", file.display());
        return CONFIG;
    }
    eprintln!("wrote {}; next: tidegate run {} --limit 10", file.display(), file.display());
    0
}

/// A format and the schema of what is in it, as far as they are to be said.
type Schemaed = (Option<&'static str>, Option<Arc<Schema>>);

impl Origin {
    fn parse(from: &str) -> Result<Origin, String> {
        match from.split_once("://") {
            Some(("kafka", rest)) => {
                let (brokers, topic) = rest.split_once('/').unwrap_or((rest, ""));
                if brokers.is_empty() || topic.is_empty() || topic.contains('/') {
                    return Err(format!("`{from}` is no `kafka://HOST:PORT/TOPIC`"));
                }
                let with_port = |broker: &str| if broker.contains(':') { broker.to_string() } else { format!("{broker}:9092") };
                let brokers: Vec<String> = brokers.split(',').map(with_port).collect();
                let options = vec![("brokers", brokers.join(",")), ("topic", topic.to_string()), ("start", "earliest".to_string())];
                Ok(Origin { name: name_of(topic), connector: "kafka", options, formats: &["json", "raw"] })
            }
            Some((scheme, _)) if scheme != "file" => {
                Err(format!("nothing is known of `{scheme}://`; name files by a path or pattern, or a topic by `kafka://HOST:PORT/TOPIC`"))
            }
            other => {
                let path = other.map_or(from, |(_, rest)| rest);
                let stem = Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                let stem = stem.split('.').next().unwrap_or_default();
                Ok(Origin { name: name_of(stem), connector: "files", options: vec![("path", path.to_string())], formats: &[] })
            }
        }
    }

    /// Tries the formats; the first that fits what is there, or why the first does not.
    fn look(&self, base: &Path) -> Result<Schemaed, Refused> {
        let Some((format, others)) = self.formats.split_first() else { return Ok((None, self.schema(base, None)?)) };
        let refused = match self.schema(base, Some(format)) {
            Err(Refused::Content(problems)) => Refused::Content(problems),
            answer => return Ok((Some(*format), answer?)),
        };
        let found = others.iter().find_map(|format| self.schema(base, Some(format)).ok().map(|schema| (Some(*format), schema)));
        found.ok_or(refused)
    }

    /// The schema of what is there in a format; none if the format has one of its own.
    fn schema(&self, base: &Path, format: Option<&str>) -> Result<Option<Arc<Schema>>, Refused> {
        let mut options: Map<String, Value> = self.options.iter().map(|(key, value)| ((*key).to_string(), json!(value))).collect();
        options.extend(format.map(|format| ("format".to_string(), json!(format))));
        let context = ConnectorCtx::new(base, &self.name);
        let source = tidegate_connectors::source(self.connector, &options, &context).map_err(Refused::Mistaken)?;
        match source.plan(&SourceRequest::all()) {
            Ok(plan) => Ok((format != Some("raw")).then_some(plan.schema)),
            Err(error) if matches!(error.kind(), ErrorKind::External { .. }) => Err(Refused::Told(failed(&error))),
            Err(error) => Err(Refused::Content(problems_of(&error))),
        }
    }

    fn pipeline(&self, format: Option<&str>, schema: Option<&Schema>) -> String {
        let quoted = |text: &str| toml::Value::String(text.to_string()).to_string();
        let name = &self.name;
        let mut text = format!("name = {}\n\n[datasets.{name}]\nconnector = {}\n", quoted(name), quoted(self.connector));
        for (key, value) in self.options.iter().map(|(key, value)| (*key, value.as_str())).chain(format.map(|format| ("format", format))) {
            // A dollar in a path is no reference.
            text.push_str(&format!("{key} = {}\n", quoted(&value.replace('$', "$$"))));
        }
        if let Some(schema) = schema {
            text.push_str(&paste(schema).replace('$', "$$"));
            text.push('\n');
        }
        let output = if name == "out" { "rows" } else { "out" };
        text.push_str(&format!("\n[datasets.{output}]\nsink = \"stdout\"\n\n"));
        text.push_str("# `tidegate steps` lists what can stand between.\n");
        text.push_str(&format!("[[stages]]\ninputs = [{}]\noutput = \"{output}\"\nsteps = []\n", quoted(name)));
        text
    }
}

/// Why an input cannot be described.
enum Refused {
    /// What is in it does not fit the format.
    Content(Vec<Problem>),
    /// Its name is wrong, whatever the format.
    Mistaken(Vec<Problem>),
    /// It cannot be asked; that was told already.
    Told(u8),
}

/// A text as the name of a dataset and a pipeline, which is a part of paths and of a bare key.
fn name_of(text: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '-' };
    let name: String = text.chars().map(fits).take(100).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "input".to_string() } else { name.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_named_by_an_address_or_a_path() {
        let topic = Origin::parse("kafka://a,b:19092/my.orders").unwrap();
        assert_eq!((topic.name.as_str(), topic.connector), ("my-orders", "kafka"));
        assert_eq!(topic.options[0], ("brokers", "a:9092,b:19092".to_string()));
        assert_eq!(topic.options[1], ("topic", "my.orders".to_string()));
        let files = Origin::parse("data/bids-*.csv.gz").unwrap();
        assert_eq!((files.name.as_str(), files.options[0].1.as_str()), ("bids", "data/bids-*.csv.gz"));
        for wrong in ["kafka://a", "kafka:///t", "kafka://a/", "kafka://a/b/c", "http://x/y"] {
            assert!(Origin::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_written_is_a_pipeline_file_however_odd_the_names() {
        let origin = Origin::parse("kafka://a/out").unwrap();
        let schema = Schema::new(vec![arrow::datatypes::Field::new("a \"$\"", arrow::datatypes::DataType::Int64, true)]);
        let text = origin.pipeline(Some("json"), Some(&schema));
        let read: Value = toml::from_str(&text).unwrap();
        assert_eq!(read["datasets"]["out"]["schema"][0]["name"], "a \"$$\"");
        assert_eq!((&read["stages"][0]["inputs"][0], &read["stages"][0]["output"]), (&json!("out"), &json!("rows")));
    }
}

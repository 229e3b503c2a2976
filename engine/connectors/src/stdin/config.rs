//! The options.

use crate::decode::csv::CsvFormat;
use crate::decode::raw;
use crate::registry::OptionDef;
use crate::shape;
use arrow::datatypes::SchemaRef;
use serde_json::{Map, Value};
use tidegate_api::config::{Options, Problem};

pub(super) const OPTIONS: &[OptionDef] = &[
    OptionDef { name: "format", kind: "json | csv | raw", default: "json", doc: "what a line is" },
    OptionDef {
        name: "schema",
        kind: "list of { name, type }",
        default: "for raw: one column of text",
        doc: "the columns; what else a line holds is not decoded",
    },
    OptionDef { name: "header", kind: "boolean", default: "true", doc: "csv: whether the first line names the columns" },
    OptionDef { name: "delimiter", kind: "text", default: "`,`", doc: "csv: one character between fields" },
    OptionDef { name: "nullValues", kind: "list of text", default: "[\"\"]", doc: "csv: unquoted fields that are null" },
];

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Csv,
    Raw,
}

/// How standard input is read.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StdinConfig {
    pub(super) format: Format,
    pub(super) schema: SchemaRef,
    pub(super) csv: CsvFormat,
}

impl StdinConfig {
    /// Reads the options of a dataset.
    ///
    /// # Errors
    /// Every mistake, each at its key.
    pub fn parse(map: &Map<String, Value>) -> Result<Self, Vec<Problem>> {
        let mut options = Options::new(map);
        let format =
            options.choice("format", &[("json", Format::Json), ("jsonl", Format::Json), ("csv", Format::Csv), ("raw", Format::Raw)]);
        let format = format.unwrap_or(Format::Json);
        let schema = match (shape::schema(&mut options), format) {
            (Some(schema), _) => schema,
            (None, Format::Raw) => raw::schema(),
            (None, Format::Json | Format::Csv) => {
                if !options.has("schema") {
                    let message = "`schema` is missing: what has not come yet cannot be guessed; for whole lines say `format = \"raw\"`";
                    options.problem("schema", message);
                }
                raw::schema()
            }
        };
        let csv = CsvFormat { header: options.boolean("header").unwrap_or(CsvFormat::default().header), ..shape::csv(&mut options) };
        let problems = options.finish();
        if problems.is_empty() { Ok(StdinConfig { format, schema, csv }) } else { Err(problems) }
    }
}

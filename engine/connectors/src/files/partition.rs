//! Hive-style partitions: which folder a row belongs into, and a batch put in the order of its folders.
//!
//! A folder is `column=value/` for every partition column. Both halves are percent-encoded as Hive and Spark do it, so that
//! nothing in a value can end a name: every name has its `=` and none has a `/`. Null and the empty text share a folder, as
//! they do there.

use super::config::FilesSinkConfig;
use crate::encode::{Cells, TextOptions};
use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::row::{RowConverter, SortField};
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use tidegate_api::config::Problem;
use tidegate_api::sink::RowError;
use tidegate_api::{Result, nearest, types};

/// What stands for null and for the empty text.
const NO_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";
/// What file systems take as one name.
const MAX_NAME: usize = 255;
/// What is left of a path for the folders of a row.
const MAX_FOLDER: usize = 2048;

/// How the rows of one sink are dealt out to folders.
pub(super) struct Partitioning {
    /// The columns in the names of folders, outermost first.
    columns: Vec<usize>,
    /// `column=` of each.
    names: Vec<String>,
    /// The columns in the files.
    content: Vec<usize>,
    schema: SchemaRef,
    converter: RowConverter,
    text: TextOptions,
}

/// A batch in the order of its folders.
pub(super) struct Split {
    /// The columns that go into files.
    pub(super) rows: RecordBatch,
    /// Folders, each with its rows.
    pub(super) folders: Vec<(String, Range<usize>)>,
    /// Where each row stood in the batch; `None` if nothing was moved.
    order: Option<UInt32Array>,
    /// Rows that have no folder.
    pub(super) refused: Vec<RowError>,
}

impl Split {
    /// A batch that is not split.
    pub(super) fn whole(rows: &RecordBatch) -> Self {
        Split { rows: rows.clone(), folders: vec![(String::new(), 0..rows.num_rows())], order: None, refused: Vec::new() }
    }

    /// Where a row stood in the batch.
    pub(super) fn original(&self, row: usize) -> usize {
        self.order.as_ref().map_or(row, |order| order.value(row) as usize)
    }
}

/// The columns of `schema` that stay in the files.
///
/// # Errors
/// `Config` with every mistake in `partitionBy`.
pub(super) fn content_schema(config: &FilesSinkConfig, schema: &SchemaRef) -> Result<SchemaRef> {
    let mut problems = Vec::new();
    for (at, name) in config.partition_by.iter().enumerate() {
        let mistake = match schema.field_with_name(name) {
            Err(_) => {
                let hint = nearest::hint(name, schema.fields().iter().map(|field| field.name().as_str()));
                Some(format!("there is no column `{name}`{hint}"))
            }
            Ok(_) if config.partition_by[..at].contains(name) => Some(format!("`{name}` stands here twice")),
            Ok(field) => unfit(field.data_type()).map(|why| format!("column `{name}` is `{}`: {why}", types::name(field.data_type()))),
        };
        if let Some(message) = mistake {
            problems.push(Problem::new(vec!["partitionBy".into(), at.to_string()], message));
        }
    }
    let kept: Vec<_> = schema.fields().iter().filter(|field| !config.partition_by.contains(field.name())).cloned().collect();
    if kept.is_empty() && problems.is_empty() {
        problems.push(Problem::at("partitionBy", "these are all columns, and nothing would be left for the files"));
    }
    if !problems.is_empty() {
        return Err(problems.into());
    }
    Ok(if kept.len() == schema.fields().len() {
        Arc::clone(schema)
    } else {
        Arc::new(Schema::new_with_metadata(kept, schema.metadata().clone()))
    })
}

/// Why a type makes no folders.
fn unfit(data_type: &DataType) -> Option<&'static str> {
    match data_type {
        DataType::Dictionary(_, values) => unfit(values),
        DataType::Float16 | DataType::Float32 | DataType::Float64 => {
            Some("floats are no names of folders, `cast` it to a decimal, an integer or a string")
        }
        DataType::Binary | DataType::LargeBinary | DataType::FixedSizeBinary(_) | DataType::BinaryView => {
            Some("bytes are no names of folders, make it text first")
        }
        nested if nested.is_nested() => Some("lists and structs are no names of folders, take a value out of it first"),
        _ => None,
    }
}

impl Partitioning {
    /// How to partition rows of this schema.
    ///
    /// # Errors
    /// `Config` with every mistake in `partitionBy`.
    pub(super) fn new(config: &FilesSinkConfig, schema: &SchemaRef) -> Result<Self> {
        let content = content_schema(config, schema)?;
        let columns = config.partition_by.iter().map(|name| Ok(schema.index_of(name)?)).collect::<Result<Vec<_>>>()?;
        let sorts = columns.iter().map(|column| SortField::new(schema.field(*column).data_type().clone())).collect();
        Ok(Partitioning {
            names: config.partition_by.iter().map(|name| named(name)).collect(),
            content: (0..schema.fields().len()).filter(|column| !columns.contains(column)).collect(),
            columns,
            schema: content,
            converter: RowConverter::new(sorts)?,
            text: config.text,
        })
    }

    /// Of what is in the files.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Deals a batch out; within a folder the rows keep their order, and folders come in the order of their first rows.
    pub(super) fn split(&self, rows: &RecordBatch) -> Result<Split> {
        let keys: Vec<ArrayRef> = self.columns.iter().map(|column| Arc::clone(rows.column(*column))).collect();
        let (groups, firsts) = self.group(&keys)?;
        let heads = take_record_batch(&rows.project(&self.columns)?, &UInt32Array::from(firsts))?;
        let places = self.folders_of(&heads)?;

        // Values that differ may share a folder.
        let mut folders: Vec<(String, Range<usize>)> = Vec::new();
        let mut known: HashMap<String, usize, FixedState> = HashMap::default();
        let mut folder_of = Vec::with_capacity(places.len());
        for place in &places {
            folder_of.push(place.as_ref().ok().map(|folder| {
                *known.entry(folder.clone()).or_insert_with(|| {
                    folders.push((folder.clone(), 0..0));
                    folders.len() - 1
                })
            }));
        }
        let content = rows.project(&self.content)?;
        if let ([(_, all)], true) = (&mut folders[..], places.iter().all(std::result::Result::is_ok)) {
            *all = 0..rows.num_rows();
            return Ok(Split { rows: content, folders, order: None, refused: Vec::new() });
        }

        let mut refused = Vec::new();
        for (row, group) in groups.iter().enumerate() {
            match (&places[*group as usize], folder_of[*group as usize]) {
                (Ok(_), Some(folder)) => folders[folder].1.end += 1,
                (Ok(_), None) => {}
                (Err(error), _) => refused.push(RowError { row, ..error.clone() }),
            }
        }
        let mut start = 0;
        for (_, range) in &mut folders {
            let count = range.end;
            *range = start..start;
            start += count;
        }
        let mut order = vec![0u32; start];
        for (row, group) in (0u32..).zip(&groups) {
            if let Some(folder) = folder_of[*group as usize] {
                let end = &mut folders[folder].1.end;
                order[*end] = row;
                *end += 1;
            }
        }
        let order = UInt32Array::from(order);
        Ok(Split { rows: take_record_batch(&content, &order)?, folders, order: Some(order), refused })
    }

    /// The group of each row, and the first row of each group.
    fn group(&self, keys: &[ArrayRef]) -> Result<(Vec<u32>, Vec<u32>)> {
        let keys = self.converter.convert_columns(keys)?;
        let (mut groups, mut firsts) = (Vec::with_capacity(keys.num_rows()), Vec::new());
        let mut known: HashMap<&[u8], u32, FixedState> = HashMap::default();
        let mut last: Option<(&[u8], u32)> = None;
        for row in 0u32.. {
            if row as usize == keys.num_rows() {
                break;
            }
            let key = keys.row(row as usize).data();
            let group = match last {
                Some((same, group)) if same == key => group,
                _ => *known.entry(key).or_insert_with(|| {
                    firsts.push(row);
                    (firsts.len() - 1) as u32
                }),
            };
            last = Some((key, group));
            groups.push(group);
        }
        Ok((groups, firsts))
    }

    /// The folder of each row, or why it has none.
    fn folders_of(&self, rows: &RecordBatch) -> Result<Vec<std::result::Result<String, RowError>>> {
        let (cells, refused) = Cells::of(rows, self.text)?;
        let (mut cell, mut refused) = (0, refused.into_iter().peekable());
        let mut folders = Vec::with_capacity(rows.num_rows());
        let mut value = String::new();
        for row in 0..rows.num_rows() {
            if let Some(error) = refused.next_if(|error| error.row == row) {
                folders.push(Err(error));
                continue;
            }
            let mut folder = String::new();
            let mut too_long = None;
            for (column, name) in self.names.iter().enumerate() {
                if column > 0 {
                    folder.push('/');
                }
                let begin = folder.len();
                folder.push_str(name);
                value.clear();
                match cells.push(cell, column, &mut value)? && !value.is_empty() {
                    true => escape(&value, &mut folder),
                    false => folder.push_str(NO_VALUE),
                }
                if folder.len() - begin > MAX_NAME || folder.len() > MAX_FOLDER {
                    too_long = Some(rows.schema_ref().field(column).name().clone());
                }
            }
            cell += 1;
            folders.push(match too_long {
                None => Ok(folder),
                Some(column) => Err(RowError {
                    row,
                    column: Some(column),
                    message: format!("its value is too long for the name of a folder, which has at most {MAX_NAME} bytes"),
                }),
            });
        }
        Ok(folders)
    }
}

fn named(column: &str) -> String {
    let mut name = String::new();
    escape(column, &mut name);
    // Readers leave out what begins with a dot.
    if name.starts_with('.') {
        name.replace_range(..1, "%2E");
    }
    name.push('=');
    name
}

/// Percent-encodes the characters that Hive and Spark encode, and no others.
fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        let encoded =
            matches!(c, '\0'..='\u{1f}' | '"' | '#' | '%' | '\'' | '*' | '/' | ':' | '=' | '?' | '\\' | '\u{7f}' | '{' | '[' | ']' | '^');
        if encoded { out.push_str(&format!("%{:02X}", u32::from(c))) } else { out.push(c) }
    }
}

/// Whether a text is a folder that a partitioning makes: names with a `=`, none of which leads elsewhere.
pub(super) fn is_folder(text: &str) -> bool {
    text.split('/').all(|name| name.contains('=') && !name.starts_with('.') && !name.contains(['\\', '\0']))
}

/// Whether a reader of folders leaves one out: what begins with `.`, or with `_` unless it is a partition.
pub(super) fn is_hidden(name: &str) -> bool {
    name.starts_with('.') || (name.starts_with('_') && !name.contains('='))
}

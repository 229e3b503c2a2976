//! From rows to messages, each of which stands alone.

use super::csv::CsvRows;
use super::json::RowWriter;
use super::{TextOptions, refused};
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::ipc::writer::StreamWriter;
use tidegate_api::sink::RowError;
use tidegate_api::{Error, Result, types};

/// Messages that were made of rows.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Encoded {
    /// Their bytes, one behind the other.
    pub bytes: Vec<u8>,
    /// Where each ends. There is one for every row that was not refused, in order; of the format `arrow` one for all of them.
    pub ends: Vec<usize>,
    /// The rows that the format cannot hold, in order.
    pub refused: Vec<RowError>,
}

impl Encoded {
    /// The messages, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.ends.iter().scan(0, |start, end| Some(&self.bytes[std::mem::replace(start, *end)..*end]))
    }
}

/// Turns rows of one schema into messages.
pub trait MessageEncoder: Send {
    /// Makes a message of every row.
    ///
    /// # Errors
    /// `Internal` if the rows do not have the schema that the encoder was made for.
    fn encode(&mut self, rows: &RecordBatch) -> Result<Encoded>;
}

/// An object for every row.
pub struct JsonMessages {
    options: TextOptions,
    /// What stands before each.
    header: Vec<u8>,
}

impl JsonMessages {
    /// Values become text as these options say.
    pub fn new(options: TextOptions) -> Self {
        JsonMessages { options, header: Vec::new() }
    }

    /// Behind a zero byte and the id of the schema in a registry.
    #[must_use]
    pub fn with_id(mut self, id: u32) -> Self {
        self.header = vec![0];
        self.header.extend(id.to_be_bytes());
        self
    }
}

impl MessageEncoder for JsonMessages {
    fn encode(&mut self, rows: &RecordBatch) -> Result<Encoded> {
        let (kept, refused) = refused(rows, self.options.form())?;
        let rows = kept.as_ref().unwrap_or(rows);
        let mut encoded = Encoded { refused, ..Encoded::default() };
        let writer = RowWriter::new(rows, self.options)?;
        for row in 0..rows.num_rows() {
            encoded.bytes.extend_from_slice(&self.header);
            writer.write(row, &mut encoded.bytes);
            encoded.ends.push(encoded.bytes.len());
        }
        Ok(encoded)
    }
}

/// A record for every row, without a line end; nothing names the columns.
pub struct CsvMessages {
    rows: CsvRows,
}

impl CsvMessages {
    /// An encoder of rows of this schema.
    ///
    /// # Errors
    /// `Config` for a column that CSV cannot hold.
    pub fn new(schema: SchemaRef, options: TextOptions) -> Result<Self> {
        Ok(CsvMessages { rows: CsvRows::new(&schema, options, false)? })
    }
}

impl MessageEncoder for CsvMessages {
    fn encode(&mut self, rows: &RecordBatch) -> Result<Encoded> {
        let (mut text, mut ends) = (String::new(), Vec::new());
        let refused = self.rows.write(rows, &mut text, |text| ends.push(text.len()))?;
        Ok(Encoded { bytes: text.into_bytes(), ends, refused })
    }
}

/// The value of the one column, which is text or bytes, as it is; null is refused.
pub struct RawMessages {
    column: String,
}

impl RawMessages {
    /// An encoder of rows of this schema.
    ///
    /// # Errors
    /// `Config` unless it is one column of type `string` or `binary`.
    pub fn new(schema: &SchemaRef) -> Result<Self> {
        match schema.fields().as_ref() {
            [field] if is_raw(field.data_type()) => Ok(RawMessages { column: field.name().clone() }),
            [field] => {
                let name = types::name(field.data_type());
                Err(Error::config(format!("column `{}`: the format `raw` writes a `binary` or `string`, not a `{name}`", field.name())))
            }
            fields => Err(Error::config(format!("the format `raw` writes one column, the rows have {}; `select` one", fields.len()))),
        }
    }
}

fn is_raw(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Binary | DataType::LargeBinary | DataType::BinaryView
    )
}

impl MessageEncoder for RawMessages {
    fn encode(&mut self, rows: &RecordBatch) -> Result<Encoded> {
        let values = cast(rows.column(0), &DataType::Binary)?;
        let values = values.as_binary::<i32>();
        let mut encoded = Encoded::default();
        for row in 0..values.len() {
            if values.is_null(row) {
                let message = "null is no message".to_string();
                encoded.refused.push(RowError { row, column: Some(self.column.clone()), message });
                continue;
            }
            encoded.bytes.extend_from_slice(values.value(row));
            encoded.ends.push(encoded.bytes.len());
        }
        Ok(encoded)
    }
}

/// One IPC stream of all rows.
pub struct ArrowMessages;

impl MessageEncoder for ArrowMessages {
    fn encode(&mut self, rows: &RecordBatch) -> Result<Encoded> {
        if rows.num_rows() == 0 {
            return Ok(Encoded::default());
        }
        let mut writer = StreamWriter::try_new(Vec::new(), rows.schema_ref())?;
        writer.write(rows)?;
        writer.finish()?;
        let bytes = writer.into_inner()?;
        Ok(Encoded { ends: vec![bytes.len()], bytes, refused: Vec::new() })
    }
}

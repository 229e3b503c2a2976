//! Avro: object container files, and values alone for messages. The schema is made from the columns; one that may be null is a
//! union with null.
//!
//! Avro has no whole seconds and no unsigned 64-bit integers: they become milliseconds and decimals of 20 digits.

use super::messages::{Encoded, MessageEncoder};
use super::{Encoder, range, refused};
use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use arrow_avro::compression::CompressionCodec;
use arrow_avro::schema::SCHEMA_METADATA_KEY;
use arrow_avro::writer::format::{AvroBinaryFormat, AvroOcfFormat};
use arrow_avro::writer::{Encoder as RowEncoder, Writer, WriterBuilder};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use tidegate_api::sink::RowError;
use tidegate_api::{Error, Result, types};

/// Where the library writes to and the encoder takes from.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes one container file, a block for every batch.
pub struct AvroEncoder {
    schema: SchemaRef,
    bytes: Shared,
    writer: Option<Writer<Shared, AvroOcfFormat>>,
}

fn fault(error: impl std::fmt::Display) -> Error {
    Error::internal(format!("avro: {error}"))
}

/// Whether Avro allows a name.
fn check_name(name: &str) -> Result<()> {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Ok(());
    }
    Err(Error::config(format!("column `{name}`: a name in Avro has letters, digits and `_` and begins with no digit; `rename` it")))
}

/// The type that is written for another.
fn written_type(data_type: &DataType) -> Result<DataType> {
    let field = |field: &FieldRef| -> Result<FieldRef> {
        Ok(Arc::new(Field::new(field.name(), written_type(field.data_type())?, field.is_nullable())))
    };
    Ok(match data_type {
        DataType::UInt64 => DataType::Decimal128(20, 0),
        // Avro's own times of day end at microseconds; a column of nanoseconds reads the number back.
        DataType::Time64(TimeUnit::Nanosecond) => DataType::Int64,
        DataType::Timestamp(TimeUnit::Second, zone) => DataType::Timestamp(TimeUnit::Millisecond, zone.clone()),
        DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
        DataType::List(item) => DataType::List(field(item)?),
        DataType::Struct(fields) => {
            fields.iter().try_for_each(|field| check_name(field.name()))?;
            DataType::Struct(fields.iter().map(field).collect::<Result<Fields>>()?)
        }
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::Float32
        | DataType::Float64
        | DataType::Decimal128(_, _)
        | DataType::Decimal256(_, _)
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::Date32
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(_, _) => data_type.clone(),
        other => return Err(Error::config(format!("Avro cannot hold the type `{}`", types::name(other)))),
    })
}

fn written_schema(schema: &SchemaRef) -> Result<SchemaRef> {
    let field = |field: &FieldRef| {
        check_name(field.name())?;
        let data_type = written_type(field.data_type()).map_err(|error| error.context(format!("column `{}`", field.name())))?;
        Ok(Field::new(field.name(), data_type, field.is_nullable()))
    };
    Ok(Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Result<Vec<_>>>()?)))
}

/// Rows as they are written; those whose times cannot be are left out.
fn written(rows: &RecordBatch, schema: &SchemaRef) -> Result<(RecordBatch, Vec<RowError>)> {
    let (kept, bad) = refused(rows, range::Form::Binary)?;
    let rows = kept.as_ref().unwrap_or(rows);
    let column = |(column, field): (&ArrayRef, &FieldRef)| convert(column, field.data_type());
    let columns = rows.columns().iter().zip(schema.fields()).map(column).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok((RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?, bad))
}

fn convert(column: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if column.data_type() == to {
        return Ok(Arc::clone(column));
    }
    Ok(cast(column, to)?)
}

impl AvroEncoder {
    /// An encoder of rows of this schema; blocks are compressed with deflate if so wished.
    ///
    /// # Errors
    /// `Config` for a column that Avro cannot hold.
    pub fn new(schema: &SchemaRef, deflate: bool) -> Result<Self> {
        let schema = written_schema(schema)?;
        let bytes = Shared::default();
        let codec = deflate.then_some(CompressionCodec::Deflate);
        let writer = WriterBuilder::new(schema.as_ref().clone()).with_compression(codec).build::<_, AvroOcfFormat>(bytes.clone());
        Ok(AvroEncoder {
            schema,
            bytes,
            writer: Some(writer.map_err(|error| Error::config(format!("Avro cannot hold these columns: {error}")))?),
        })
    }
}

impl Encoder for AvroEncoder {
    fn write(&mut self, rows: &RecordBatch) -> Result<Vec<RowError>> {
        let (rows, bad) = written(rows, &self.schema)?;
        let writer = self.writer.as_mut().ok_or_else(|| Error::internal("an Avro file was written to after its end"))?;
        if rows.num_rows() > 0 {
            writer.write(&rows).map_err(fault)?;
        }
        Ok(bad)
    }

    fn take(&mut self) -> Result<Vec<u8>> {
        Ok(self.bytes.take())
    }

    fn finish(&mut self) -> Result<Vec<u8>> {
        let mut writer = self.writer.take().ok_or_else(|| Error::internal("an Avro file was ended twice"))?;
        writer.finish().map_err(fault)?;
        self.take()
    }
}

/// What stands before a value in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AvroHeader {
    /// Nothing.
    #[default]
    Bare,
    /// The header of single-object encoding.
    SingleObject,
    /// A zero byte and the id of the schema in a registry.
    Registry(u32),
}

/// Writes a value for every row.
pub struct AvroMessages {
    schema: SchemaRef,
    encoder: RowEncoder,
    header: Vec<u8>,
    json: String,
}

impl AvroMessages {
    /// An encoder of rows of this schema.
    ///
    /// # Errors
    /// `Config` for a column that Avro cannot hold.
    pub fn new(schema: &SchemaRef, header: AvroHeader) -> Result<Self> {
        let schema = written_schema(schema)?;
        let encoder = WriterBuilder::new(schema.as_ref().clone()).build_encoder::<AvroBinaryFormat>();
        let encoder = encoder.map_err(|error| Error::config(format!("Avro cannot hold these columns: {error}")))?;
        let json = encoder.schema().metadata().get(SCHEMA_METADATA_KEY).cloned().unwrap_or_default();
        let header = match header {
            AvroHeader::Bare => Vec::new(),
            AvroHeader::SingleObject => {
                let mut header = vec![0xC3, 0x01];
                header.extend(crate::decode::avro::fingerprint(&json)?);
                header
            }
            AvroHeader::Registry(id) => {
                let mut header = vec![0];
                header.extend(id.to_be_bytes());
                header
            }
        };
        let schema = Arc::new(Schema::new(schema.fields().clone()));
        Ok(AvroMessages { schema, encoder, header, json })
    }

    /// The Avro schema, as JSON, that the messages are written with.
    pub fn schema_json(&self) -> &str {
        &self.json
    }
}

impl MessageEncoder for AvroMessages {
    fn encode(&mut self, rows: &RecordBatch) -> Result<Encoded> {
        let (rows, refused) = written(rows, &self.schema)?;
        self.encoder.encode(&rows).map_err(fault)?;
        let made = self.encoder.flush();
        let mut encoded = Encoded { refused, ..Encoded::default() };
        for row in made.iter() {
            encoded.bytes.extend_from_slice(&self.header);
            encoded.bytes.extend_from_slice(&row);
            encoded.ends.push(encoded.bytes.len());
        }
        Ok(encoded)
    }
}

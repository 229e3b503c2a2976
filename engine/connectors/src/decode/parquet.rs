//! Parquet, row group by row group, only the wanted columns.

use super::Wanted;
use super::cells::CellError;
use super::conform::{engine_schema, places, settle};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::file::reader::{ChunkReader, Length};
use std::sync::Arc;
use tidegate_api::{Error, Result};

/// A place between two rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// The row group.
    pub group: u64,
    /// The row in it.
    pub row: u64,
}

/// Rows that stand together in a file.
#[derive(Debug, Clone)]
pub struct Read {
    /// Those that fit the schema.
    pub rows: RecordBatch,
    /// Those that do not, by index among the rows read, each with what is wrong and itself as JSON.
    pub bad: Vec<(usize, CellError, Vec<u8>)>,
    /// How many have null for something that did not fit.
    pub rescued: usize,
    /// How many rows were read.
    pub records: usize,
    /// The number, in the file, of the first.
    pub first: u64,
    /// What follows them.
    pub next: Place,
}

/// The bytes of a file, for the reader of each of its row groups.
struct Shared<R>(Arc<R>);

impl<R> Clone for Shared<R> {
    fn clone(&self) -> Self {
        Shared(Arc::clone(&self.0))
    }
}

impl<R: Length> Length for Shared<R> {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl<R: ChunkReader> ChunkReader for Shared<R> {
    type T = R::T;

    fn get_read(&self, start: u64) -> parquet::errors::Result<R::T> {
        self.0.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<bytes::Bytes> {
        self.0.get_bytes(start, length)
    }
}

/// Reads one file.
pub struct ParquetFile<R: ChunkReader> {
    file: Shared<R>,
    metadata: ArrowReaderMetadata,
    wanted: Wanted,
    /// The wanted columns among those read, in the schema's order.
    order: Vec<usize>,
    mask: ProjectionMask,
    group: usize,
    row: u64,
    /// Rows in the groups before `group`.
    before: u64,
    reader: Option<ParquetRecordBatchReader>,
    pending: Option<RecordBatch>,
}

fn fault(error: &parquet::errors::ParquetError) -> Error {
    Error::external(format!("cannot be read as Parquet: {error}"))
}

/// The same schema with text as views, which Parquet can be read into directly.
fn with_views(schema: &Schema) -> SchemaRef {
    let field = |field: &Arc<Field>| match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8View)),
        _ => Arc::clone(field),
    };
    Arc::new(Schema::new_with_metadata(schema.fields().iter().map(field).collect::<Fields>(), schema.metadata().clone()))
}

fn load<R: ChunkReader>(file: &R) -> Result<ArrowReaderMetadata> {
    let metadata = ArrowReaderMetadata::load(file, ArrowReaderOptions::new()).map_err(|error| fault(&error))?;
    let options = ArrowReaderOptions::new().with_schema(with_views(metadata.schema()));
    // If the file's own types cannot be read so, they are cast afterwards.
    Ok(ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), options).unwrap_or(metadata))
}

/// The schema of a file, as the engine sees it.
///
/// # Errors
/// `External` if it is no Parquet file.
pub fn schema_of<R: ChunkReader>(file: &R) -> Result<SchemaRef> {
    Ok(engine_schema(load(file)?.schema()))
}

impl<R: ChunkReader + 'static> ParquetFile<R> {
    /// Opens a file for the wanted columns, at a place.
    ///
    /// # Errors
    /// `External` if it is no Parquet file, `Config` if it lacks a column.
    pub fn open(file: R, wanted: Wanted, at: Place) -> Result<Self> {
        let metadata = load(&file)?;
        let places = places(wanted.decoded(), metadata.schema())?;
        let mask = ProjectionMask::roots(metadata.parquet_schema(), places.iter().copied());
        let mut sorted = places.clone();
        sorted.sort_unstable();
        let order = places.iter().map(|place| sorted.binary_search(place).unwrap_or_default()).collect();
        let group = usize::try_from(at.group).unwrap_or(usize::MAX).min(metadata.metadata().num_row_groups());
        let before = (0..group).map(|group| group_rows(&metadata, group)).sum();
        Ok(ParquetFile {
            file: Shared(Arc::new(file)),
            metadata,
            wanted,
            order,
            mask,
            group,
            row: at.row,
            before,
            reader: None,
            pending: None,
        })
    }

    /// The next rows, at most `max_rows`; `None` at the end.
    ///
    /// # Errors
    /// `External` if the file is damaged.
    pub fn read(&mut self, max_rows: usize) -> Result<Option<Read>> {
        let batch = loop {
            if let Some(batch) = self.pending.take() {
                break batch;
            }
            if self.group >= self.metadata.metadata().num_row_groups() {
                return Ok(None);
            }
            let rows = group_rows(&self.metadata, self.group);
            if self.row >= rows {
                (self.group, self.row, self.before, self.reader) = (self.group + 1, 0, self.before + rows, None);
                continue;
            }
            match self.reader(max_rows)?.next() {
                Some(batch) => break batch.map_err(|error| Error::external(format!("cannot be read as Parquet: {error}")))?,
                None => return Err(Error::external(format!("row group {} ends after {} of {rows} rows", self.group, self.row))),
            }
        };
        let taken = batch.num_rows().min(max_rows.max(1));
        if taken < batch.num_rows() {
            self.pending = Some(batch.slice(taken, batch.num_rows() - taken));
        }
        let batch = batch.slice(0, taken);
        let columns: Vec<ArrayRef> = self.order.iter().map(|index| Arc::clone(batch.column(*index))).collect();
        let rows = settle(&self.wanted, &columns, taken)?;
        let first = self.before + self.row;
        self.row += taken as u64;
        Ok(Some(Read {
            rows: rows.batch,
            bad: rows.bad,
            rescued: rows.rescued,
            records: taken,
            first,
            next: Place { group: self.group as u64, row: self.row },
        }))
    }

    /// The reader of the current row group, opened at the current row.
    fn reader(&mut self, batch_rows: usize) -> Result<&mut ParquetRecordBatchReader> {
        if self.reader.is_none() {
            let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(self.file.clone(), self.metadata.clone())
                .with_projection(self.mask.clone())
                .with_row_groups(vec![self.group])
                .with_offset(usize::try_from(self.row).unwrap_or(usize::MAX))
                .with_batch_size(batch_rows.max(1))
                .build()
                .map_err(|error| fault(&error))?;
            self.reader = Some(reader);
        }
        self.reader.as_mut().ok_or_else(|| Error::internal("the reader of a row group was just made"))
    }
}

fn group_rows(metadata: &ArrowReaderMetadata, group: usize) -> u64 {
    u64::try_from(metadata.metadata().row_group(group).num_rows()).unwrap_or(0)
}

//! One part being written.

use super::compression::{Compression, Output};
use super::config::{FilesSinkConfig, Format};
use super::staging::{Place, failed, make_folder};
use super::upload::{Upload, Uploaded};
use crate::encode::{ArrowEncoder, AvroEncoder, Codec, CsvEncoder, Encoder, JsonEncoder, ParquetEncoder};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_api::sink::RowError;
use tidegate_api::{Error, Result};
use tidegate_objects::Bucket;

/// A file in the staging folder, and what turns rows into its bytes.
pub(super) struct Part {
    path: PathBuf,
    staged: String,
    output: Output,
    encoder: Box<dyn Encoder>,
    written: u64,
}

/// The encoder of a format.
pub(super) fn encoder(config: &FilesSinkConfig, schema: &SchemaRef) -> Result<Box<dyn Encoder>> {
    Ok(match config.format {
        Format::Json => Box::new(JsonEncoder::new(Arc::clone(schema), config.text)),
        Format::Csv => Box::new(CsvEncoder::new(Arc::clone(schema), config.text, true)?),
        Format::Parquet => Box::new(ParquetEncoder::new(schema, codec(config.compression))?),
        Format::Arrow => Box::new(ArrowEncoder::new(schema)?),
        Format::Avro => Box::new(AvroEncoder::new(schema, config.compression != Some(Compression::None))?),
        Format::Protobuf | Format::Raw => return Err(Error::config("files of this format cannot be written, use `json` or `parquet`")),
    })
}

fn codec(compression: Option<Compression>) -> Codec {
    match compression {
        None | Some(Compression::Zst) => Codec::Zstd,
        Some(Compression::None) => Codec::None,
        Some(Compression::Gz) => Codec::Gzip,
        Some(Compression::Snappy) => Codec::Snappy,
    }
}

/// The compression around the whole file, and the ending of its name.
pub(super) fn wrapping(config: &FilesSinkConfig) -> (Compression, String) {
    let compression = match config.format {
        Format::Parquet | Format::Avro => Compression::None,
        Format::Json | Format::Csv | Format::Arrow | Format::Protobuf | Format::Raw => config.compression.unwrap_or(Compression::None),
    };
    (compression, format!("{}{}", config.format.ending(), compression.ending()))
}

/// Where the bytes of a part go.
pub(super) enum Target {
    File(File),
    Upload(Box<Upload>),
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Target::File(file) => file.write(bytes),
            Target::Upload(upload) => upload.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Target::File(file) => file.flush(),
            Target::Upload(upload) => upload.flush(),
        }
    }
}

/// A part that is whole and durable.
pub(super) struct Ended {
    pub(super) staged: String,
    pub(super) size: u64,
    pub(super) upload: Option<Uploaded>,
}

impl Part {
    /// Begins a part under a name that nobody has used.
    pub(super) fn begin(config: &FilesSinkConfig, place: &Place, schema: &SchemaRef, staged: String) -> Result<Self> {
        let path = place.staging.join(&staged);
        let file = create(&place.staging, &path).map_err(|error| failed("created", &path, error))?;
        Part::over(config, schema, path, staged, Target::File(file))
    }

    /// Begins a part that goes to `path` in a bucket.
    pub(super) fn upload(
        config: &FilesSinkConfig,
        (bucket, place): (&Arc<Bucket>, &Place),
        schema: &SchemaRef,
        staged: String,
        path: PathBuf,
    ) -> Result<Self> {
        let upload = Upload::begin(bucket, &path, &place.staging.join(&staged))?;
        Part::over(config, schema, path, staged, Target::Upload(Box::new(upload)))
    }

    fn over(config: &FilesSinkConfig, schema: &SchemaRef, path: PathBuf, staged: String, target: Target) -> Result<Self> {
        let output = Output::new(wrapping(config).0, target).map_err(|error| failed("written", &path, error))?;
        Ok(Part { path, staged, output, encoder: encoder(config, schema)?, written: 0 })
    }

    /// Takes rows; answers those that the format cannot hold.
    pub(super) fn write(&mut self, rows: &RecordBatch) -> Result<Vec<RowError>> {
        let refused = self.encoder.write(rows)?;
        let bytes = self.encoder.take()?;
        self.append(&bytes)?;
        Ok(refused)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.output.write_all(bytes).map_err(|error| failed("written", &self.path, error))?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Bytes so far, before compression.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Bytes that the format keeps in memory, about, and those that wait to be sent.
    pub(super) fn held(&self) -> usize {
        let waiting = match self.output.target() {
            Target::File(_) => 0,
            Target::Upload(upload) => upload.held(),
        };
        self.encoder.held() + waiting
    }

    /// Whether nothing more fits into it.
    pub(super) fn is_full(&self) -> bool {
        match self.output.target() {
            Target::File(_) => false,
            Target::Upload(upload) => upload.is_full(),
        }
    }

    /// Writes down what the format keeps in memory, as far as it can.
    pub(super) fn relieve(&mut self) -> Result<()> {
        self.encoder.relieve()?;
        let bytes = self.encoder.take()?;
        self.append(&bytes)
    }

    /// Ends the file and makes its content durable.
    pub(super) fn finish(mut self) -> Result<Ended> {
        let bytes = self.encoder.finish()?;
        self.append(&bytes)?;
        match self.output.finish().map_err(|error| failed("written", &self.path, error))? {
            Target::File(file) => {
                let synced = file.sync_all().and_then(|()| file.metadata());
                let size = synced.map_err(|error| failed("made durable", &self.path, error))?.len();
                Ok(Ended { staged: self.staged, size, upload: None })
            }
            Target::Upload(upload) => {
                let (upload, size) = upload.finish()?;
                Ok(Ended { staged: self.staged, size, upload: Some(upload) })
            }
        }
    }
}

/// Creates a file that must not exist. A committer may remove the empty folder in between, so this tries again.
fn create(folder: &Path, path: &Path) -> io::Result<File> {
    const TRIES: usize = 100;
    let mut last = None;
    for _ in 0..TRIES {
        match make_folder(folder).and_then(|()| OpenOptions::new().write(true).create_new(true).open(path)) {
            Ok(file) => return Ok(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}

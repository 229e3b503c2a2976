//! Whole Arrow IPC streams, for who talks to a process instead of a component: a schema and its batches in one piece of bytes.
//!
//! The rules are those of the border: only plain layouts cross, and what comes back is checked before it is believed.

use super::decode::Decoder;
use super::encode::Encoder;
use super::schema::{Aligned, decode_schema, split_message};
use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use tidegate_api::Result;

/// Ends a stream: the continuation marker and no metadata.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Writes batches of one schema, each as a stream of its own.
pub struct StreamEncoder(Encoder);

impl StreamEncoder {
    /// An encoder of batches of this schema.
    ///
    /// # Errors
    /// `Config` if a column has a type that does not cross.
    pub fn new(schema: &Schema) -> Result<Self> {
        Ok(StreamEncoder(Encoder::new(schema, (0..schema.fields().len()).collect())?))
    }

    /// A stream of the schema and this batch.
    ///
    /// # Errors
    /// `Internal` for a batch of another schema.
    pub fn encode(&mut self, batch: &RecordBatch) -> Result<Vec<u8>> {
        let projected = self.0.project(batch)?;
        let mut stream = self.0.schema_message().clone();
        stream.extend_from_slice(self.0.encode(&projected)?);
        stream.extend_from_slice(&END);
        Ok(stream)
    }
}

/// Reads a stream: its schema as it is seen inside the engine (text is `Utf8View`), and its batches.
///
/// # Errors
/// What is wrong with it. No bytes, however damaged, make it panic.
pub fn decode_stream(bytes: &[u8]) -> Result<(SchemaRef, Vec<RecordBatch>), String> {
    let (schema, mut rest) = split_first(bytes)?.ok_or("it has no schema")?;
    let decoder = Decoder::new(decode_schema(schema).map_err(|error| format!("its schema is unusable: {error}"))?);
    let mut batches = Vec::new();
    // The end marker may be left out where the bytes end.
    while !rest.is_empty() {
        let Some((message, after)) = split_first(rest)? else {
            rest = &rest[END.len()..];
            if !rest.is_empty() {
                return Err(format!("{} bytes stand behind its end", rest.len()));
            }
            break;
        };
        batches.push(decoder.decode(message.to_vec())?);
        rest = after;
    }
    Ok((decoder.schema().clone(), batches))
}

/// A message and what stands behind it.
type Split<'a> = (&'a [u8], &'a [u8]);

/// The first message; `None` for the end marker.
fn split_first(bytes: &[u8]) -> Result<Option<Split<'_>>, String> {
    let (metadata, body_start) = split_message(bytes)?;
    if metadata.is_empty() {
        return Ok(None);
    }
    let aligned = Aligned::of(metadata);
    let message = arrow_ipc::root_as_message(aligned.bytes()).map_err(|error| format!("a message's metadata is damaged: {error}"))?;
    let body = usize::try_from(message.bodyLength()).ok().and_then(|length| body_start.checked_add(length));
    let end = body.filter(|end| *end <= bytes.len());
    let end = end.ok_or_else(|| {
        format!("a message's body is cut off: {} bytes announced, {} there", message.bodyLength(), bytes.len() - body_start)
    })?;
    Ok(Some(bytes.split_at(end)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array, StringViewArray};
    use std::sync::Arc;

    fn batch() -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "a text of more than twelve bytes", ""]));
        RecordBatch::try_from_iter_with_nullable([("n", numbers, true), ("t", texts, false)]).unwrap()
    }

    #[test]
    fn a_stream_comes_back_as_it_went_with_or_without_its_end_marker() {
        let batch = batch();
        let mut encoder = StreamEncoder::new(&batch.schema()).unwrap();
        for _ in 0..2 {
            let stream = encoder.encode(&batch).unwrap();
            let (schema, batches) = decode_stream(&stream).unwrap();
            assert_eq!((schema, batches), (batch.schema(), vec![batch.clone()]));
            let (_, batches) = decode_stream(&stream[..stream.len() - END.len()]).unwrap();
            assert_eq!(batches, std::slice::from_ref(&batch));
        }
    }

    #[test]
    fn the_library_reads_what_is_written() {
        let batch = batch();
        let stream = StreamEncoder::new(&batch.schema()).unwrap().encode(&batch).unwrap();
        let read: Vec<RecordBatch> =
            arrow_ipc::reader::StreamReader::try_new(stream.as_slice(), None).unwrap().map(Result::unwrap).collect();
        assert_eq!((read.len(), read[0].num_rows()), (1, 3));
    }

    #[test]
    fn no_cut_and_no_flipped_byte_makes_it_panic_and_no_cut_passes_for_the_whole() {
        let batch = batch();
        let stream = StreamEncoder::new(&batch.schema()).unwrap().encode(&batch).unwrap();
        for cut in 0..stream.len() - END.len() {
            let whole = decode_stream(&stream[..cut]).is_ok_and(|(_, batches)| !batches.is_empty());
            assert!(!whole, "cut at {cut}");
        }
        for at in 0..stream.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = stream.clone();
                damaged[at] ^= flip;
                let _ = decode_stream(&damaged);
            }
        }
        let mut more = stream;
        more.push(0);
        assert!(decode_stream(&more).unwrap_err().contains("behind its end"));
    }
}

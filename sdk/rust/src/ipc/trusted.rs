//! Reading what the host sent, without looking at every byte of it again: the one hand-written `unsafe` of this crate.

#![cfg_attr(target_family = "wasm", allow(unsafe_code, reason = "see the safety argument at `trusting`"))]

use crate::Result;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

/// Reads a batch that the host sent against the schema agreed with it. In a component the host is trusted, which makes this five times
/// faster; natively the caller is a test, and everything is validated.
pub(crate) fn decode_from_host(message: Vec<u8>, schema: &SchemaRef) -> Result<RecordBatch> {
    super::read(message, schema, trusting)
}

/// Skips validation.
///
/// Safety: skipping it is sound when offsets are in bounds, text is UTF-8 and buffers are long enough for the row count. A component's
/// `list<u8>` parameter has one origin, the host, which encodes arrays it holds as valid Arrow and is bound to do so by the border (`types.batch` in
/// `wit/`). The function is private to the export glue. A host that broke the promise could make this guest read or write wrongly within its
/// own linear memory, which that host owns and could change anyway.
#[cfg(target_family = "wasm")]
fn trusting(decoder: arrow_ipc::reader::RecordBatchDecoder<'_>) -> arrow_ipc::reader::RecordBatchDecoder<'_> {
    let mut flag = arrow_data::UnsafeFlag::new();
    // SAFETY: see above.
    unsafe { flag.set(true) };
    decoder.with_skip_validation(flag)
}

#[cfg(not(target_family = "wasm"))]
fn trusting(decoder: arrow_ipc::reader::RecordBatchDecoder<'_>) -> arrow_ipc::reader::RecordBatchDecoder<'_> {
    decoder
}

//! A schema from the newest messages, for topics that declare none.

use super::ahead::Ahead;
use super::discovery::{Explorer, Found};
use super::place::Partition;
use super::source_config::SourceConfig;
use crate::decode::{MessageFormat, arrow, infer};
use ::arrow::datatypes::SchemaRef;
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::time::Duration;
use tidegate_api::{Clock, Error, Result, SystemClock};

/// How long messages are waited for. What has come by then is the sample.
const PATIENCE: Duration = Duration::from_secs(15);
/// The most bytes of a sample.
const MOST_BYTES: usize = 16 << 20;
const WAIT: Duration = Duration::from_millis(100);

/// The schema of the newest `sample` messages.
///
/// # Errors
/// `Config` if there is none to be seen in them, `External` if the cluster does not hand them over.
pub(super) fn infer(config: &SourceConfig, explorer: &Explorer, topics: &BTreeMap<String, Found>, sample: usize) -> Result<SchemaRef> {
    let payloads = newest(config, explorer, topics, sample)?;
    if payloads.is_empty() {
        return Err(Error::config("there is no message to look at, declare a `schema`"));
    }
    match &config.format {
        MessageFormat::Json => infer::json_messages(payloads.iter().map(Vec::as_slice)),
        MessageFormat::Arrow => {
            let newest = payloads.into_iter().next_back().unwrap_or_default();
            arrow::stream_schema(Box::new(Cursor::new(newest)))
        }
        MessageFormat::Csv(_) | MessageFormat::Raw | MessageFormat::Avro(_) | MessageFormat::Protobuf(_) | MessageFormat::Registered(_) => {
            Err(Error::internal("the schema of this format is not inferred"))
        }
    }
}

/// The payloads of the newest messages of all partitions, about equally many of each.
fn newest(config: &SourceConfig, explorer: &Explorer, topics: &BTreeMap<String, Found>, sample: usize) -> Result<Vec<Vec<u8>>> {
    let all: Vec<Partition> =
        topics.iter().flat_map(|(name, found)| (0..found.partitions).map(|number| Partition::new(name.clone(), number))).collect();
    let mut begins = explorer.ranges(&all)?;
    begins.retain(|_, range| range.low < range.high);
    if begins.is_empty() {
        return Ok(Vec::new());
    }
    let each = i64::try_from(sample.div_ceil(begins.len())).unwrap_or(i64::MAX);
    let ahead = Ahead::open(config, begins.len())?;
    let reading: Vec<_> = begins.iter().map(|(partition, range)| (partition, range.high.saturating_sub(each).max(range.low))).collect();
    ahead.fetch(&reading)?;
    let clock = SystemClock;
    let until = clock.monotonic().saturating_add(PATIENCE);
    let (mut payloads, mut bytes, mut ended) = (Vec::new(), 0, 0);
    let mut last = None;
    while payloads.len() < sample && bytes < MOST_BYTES && ended < begins.len() && clock.monotonic() < until {
        match ahead.consumer().poll(WAIT) {
            None => {}
            Some(Ok(message)) => {
                if let Some(payload) = message.payload() {
                    bytes += payload.len();
                    payloads.push(payload.to_vec());
                }
            }
            Some(Err(KafkaError::PartitionEOF(_))) => ended += 1,
            Some(Err(error)) => last = Some(error),
        }
    }
    match last.filter(|_| payloads.is_empty()) {
        Some(error) => Err(ahead.listener().failed("reading the newest messages", &error)),
        None => Ok(payloads),
    }
}

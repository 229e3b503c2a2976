//! Buckets of S3 (or a server that speaks its language), Google Cloud Storage and Azure, for code that may block.
//!
//! [`BucketUrl`] is an address and [`config`] the options by which it is reached, for epochs and for files alike. A [`Bucket`] makes requests on
//! a thread of its own, so a call may come from any thread, one that drives an executor included, and every call is bounded in time: a
//! request by [`REQUEST`], its repetitions by [`RETRIES`], the whole by [`CALL`] and what its bytes take at [`SLOWEST`].
//! [`ObjectReader`] reads one version of an object as if it were a file; an
//! upload is written in parts and appears as a whole when somebody completes it.

mod bucket;
pub mod config;
mod reader;
mod upload;

pub use bucket::{Bucket, Depth, Failure, ObjectInfo, Pending};
pub use config::{BucketUrl, Names};
pub use reader::{BlockReader, ObjectBlocks, ObjectReader, is_replaced};
pub use upload::{Completed, Sent};

use std::time::Duration;

/// How long one request may take.
pub const REQUEST: Duration = Duration::from_secs(60);

/// How long finding the server may take.
pub const CONNECT: Duration = Duration::from_secs(5);

/// How often a request is repeated within a call.
pub const RETRIES: usize = 4;

/// How long a call may take that moves no bytes to speak of.
pub const CALL: Duration = Duration::from_secs(120);

/// Bytes a second below which a large transfer counts as stuck.
pub const SLOWEST: u64 = 1 << 20;

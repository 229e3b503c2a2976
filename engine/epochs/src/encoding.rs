//! How small objects are written: a JSON document with the version of its format under a checksum, and what JSON has no form for, bytes as
//! base64 text and checksums as hexadecimal.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tidegate_api::{Error, Result};
use xxhash_rust::xxh3::xxh3_64;

#[derive(Serialize, Deserialize)]
struct Envelope<'a> {
    format: u32,
    #[serde(with = "hex_u64")]
    checksum: u64,
    #[serde(borrow)]
    body: &'a RawValue,
}

fn checksum(format: u32, body: &str) -> u64 {
    // The version is under the checksum too: a damaged version must not look like a newer one.
    xxh3_64(format!("{format}:{body}").as_bytes())
}

/// The bytes of a document. Equal documents give equal bytes.
pub(crate) fn seal(format: u32, body: &str) -> Vec<u8> {
    format!("{{\"format\":{format},\"checksum\":\"{:016x}\",\"body\":{body}}}\n", checksum(format, body)).into_bytes()
}

/// Reads what [`seal`] made of a document that is called `what` in messages. `newest` is the highest version that can be read.
///
/// # Errors
/// `External` if the bytes are damaged, `Config` if a later version of the engine wrote them.
pub(crate) fn unseal<'a>(bytes: &'a [u8], what: &str, newest: u32) -> Result<&'a str> {
    let damaged = |why: String| Error::external(format!("damaged {what}: {why}"));
    let envelope: Envelope<'_> = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
    let body: &'a str = envelope.body.get();
    let found = checksum(envelope.format, body);
    if found != envelope.checksum {
        return Err(damaged(format!("checksum `{found:016x}` instead of `{:016x}`", envelope.checksum)));
    }
    if envelope.format == 0 || envelope.format > newest {
        let format = envelope.format;
        return Err(Error::config(format!(
            "the {what} has format {format}, this version reads up to {newest}; use the version that wrote it"
        )));
    }
    Ok(body)
}

pub(crate) mod base64_bytes {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(&text).map_err(|error| D::Error::custom(format!("`{text}` is not base64: {error}")))
    }
}

pub(crate) mod base64_option {
    use super::base64_bytes;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct Bytes(#[serde(with = "base64_bytes")] Vec<u8>);

    pub(crate) fn serialize<S: Serializer>(bytes: &Option<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
        bytes.clone().map(Bytes).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<u8>>, D::Error> {
        Ok(Option::<Bytes>::deserialize(deserializer)?.map(|bytes| bytes.0))
    }
}

pub(crate) mod hex_u64 {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{value:016x}"))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map_err(|_| D::Error::custom(format!("`{text}` is no hexadecimal checksum")))
    }
}

//! Frames: what goes over the pipes. `docs/container-protocol.md` is the definition.
//!
//! A frame is a header of 16 bytes and a payload: its length (u32), its kind (4 letters), and the number of the call it belongs to
//! (u64), little-endian. The number tells an answer from one that nobody asked for.

use std::fmt;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes of a header.
pub(super) const HEADER: usize = 16;

/// The version of the protocol.
pub(super) const VERSION: u64 = 1;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The greeting, both ways: JSON.
    Open,
    /// Rows, both ways: an Arrow IPC stream. Ends the answer to a call.
    Rows,
    /// Rows that cannot be used, before the rows that were made: JSON.
    Bad,
    /// The call failed: JSON. Ends the answer.
    Fail,
}

impl Kind {
    fn letters(self) -> &'static [u8; 4] {
        match self {
            Kind::Open => b"open",
            Kind::Rows => b"rows",
            Kind::Bad => b"bads",
            Kind::Fail => b"fail",
        }
    }

    fn of(letters: [u8; 4]) -> Option<Kind> {
        [Kind::Open, Kind::Rows, Kind::Bad, Kind::Fail].into_iter().find(|kind| *kind.letters() == letters)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.letters()))
    }
}

/// The header of a frame that the engine sends; `None` for a payload that is too long for it.
pub(super) fn header(kind: Kind, number: u64, payload: usize) -> Option<[u8; HEADER]> {
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&u32::try_from(payload).ok()?.to_le_bytes());
    header[4..8].copy_from_slice(kind.letters());
    header[8..].copy_from_slice(&number.to_le_bytes());
    Some(header)
}

/// Why no frame could be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// The stream ended, perhaps within a frame.
    Ended(String),
    /// What came is not of the protocol.
    Broken(String),
    /// More than may come.
    TooLarge(u64),
}

/// Reads the next frame of the call `number`. Memory grows with what has come, not with what was announced.
pub(super) async fn read(from: &mut (impl AsyncRead + Unpin), number: u64, limit: u64) -> Result<(Kind, Vec<u8>), Unreadable> {
    let mut header = Vec::with_capacity(HEADER);
    fill(from, &mut header, HEADER).await.map_err(|got| match got {
        0 => Unreadable::Ended("it closed its stdout".into()),
        got => Unreadable::Ended(format!("it closed its stdout after {got} of the {HEADER} bytes of a frame's header")),
    })?;
    let (length, kind) = header.split_at(4);
    let (kind, sent) = kind.split_at(4);
    let length = u64::from(u32::from_le_bytes(array(length)));
    let sent = u64::from_le_bytes(array(sent));
    let Some(kind) = Kind::of(array(kind)) else {
        let shown = String::from_utf8_lossy(&header).escape_debug().to_string();
        return Err(Unreadable::Broken(format!(
            "it wrote `{shown}` where a frame's header is expected; only frames may go to stdout, so print to stderr"
        )));
    };
    if sent != number {
        return Err(Unreadable::Broken(format!("it sent a frame `{kind}` for the call {sent} while {number} is the one that runs")));
    }
    if length > limit {
        return Err(Unreadable::TooLarge(length));
    }
    let mut payload = Vec::new();
    fill(from, &mut payload, length as usize)
        .await
        .map_err(|got| Unreadable::Ended(format!("it closed its stdout after {got} of the {length} bytes of a frame `{kind}`")))?;
    Ok((kind, payload))
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    array
}

/// Reads so many bytes, or tells how many there were. A pipe that cannot be read has ended, whatever the reason.
async fn fill(from: &mut (impl AsyncRead + Unpin), into: &mut Vec<u8>, bytes: usize) -> Result<(), usize> {
    match from.take(bytes as u64).read_to_end(into).await {
        Ok(_) if into.len() == bytes => Ok(()),
        Ok(_) | Err(_) => Err(into.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: Kind, number: u64, payload: &[u8]) -> Vec<u8> {
        let mut frame = header(kind, number, payload.len()).unwrap().to_vec();
        frame.extend_from_slice(payload);
        frame
    }

    fn read_all(mut bytes: &[u8], limit: u64) -> Result<(Kind, Vec<u8>), Unreadable> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(read(&mut bytes, 7, limit))
    }

    #[test]
    fn a_frame_comes_back_and_no_part_of_it_passes_for_one() {
        for kind in [Kind::Open, Kind::Rows, Kind::Bad, Kind::Fail] {
            let frame = frame(kind, 7, b"payload");
            assert_eq!(read_all(&frame, 7), Ok((kind, b"payload".to_vec())));
            for cut in 0..frame.len() {
                assert!(matches!(read_all(&frame[..cut], 7), Err(Unreadable::Ended(_))), "{cut}");
            }
        }
    }

    #[test]
    fn a_lie_in_the_header_is_found_before_anything_is_read() {
        assert_eq!(read_all(&frame(Kind::Rows, 7, &[0; 8])[..HEADER], 7), Err(Unreadable::TooLarge(8)));
        assert!(matches!(read_all(&frame(Kind::Rows, 6, b""), 7), Err(Unreadable::Broken(what)) if what.contains("call 6 while 7")));
        let printed = read_all(b"Hello, world!\nHello, world!\n", 7);
        assert!(matches!(printed, Err(Unreadable::Broken(what)) if what.contains("`Hello, world!\\nHe`") && what.contains("stderr")));
        assert!(header(Kind::Rows, 0, u32::MAX as usize + 1).is_none());
    }
}

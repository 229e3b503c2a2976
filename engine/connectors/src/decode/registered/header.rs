//! What stands before a value whose schema is in a registry: a zero byte and the schema's id in four bytes, the highest first. Protobuf
//! adds the path of the message in its file: how many steps, then for each the number of a message among its neighbours, all as zigzag
//! varints; a single zero byte is the path to the first message.

/// The most steps of a path; a compiler of Protobuf does not take as many messages inside each other.
const MAX_STEPS: u64 = 64;

/// A message in its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Framed<'m> {
    pub(crate) id: u32,
    pub(crate) body: &'m [u8],
}

/// A message of Protobuf in its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FramedMessage<'m> {
    pub(crate) id: u32,
    /// As it is written; [`steps`] reads it.
    pub(crate) path: &'m [u8],
    pub(crate) body: &'m [u8],
}

const SHORT: &str = "the message ends within its header";

/// Takes a message of Avro or JSON apart.
///
/// # Errors
/// What is wrong with the header.
#[inline]
pub(crate) fn plain(message: &[u8]) -> Result<Framed<'_>, &'static str> {
    let Some(([magic, id @ ..], body)) = message.split_first_chunk::<5>() else { return Err(SHORT) };
    match magic {
        0 => Ok(Framed { id: u32::from_be_bytes(*id), body }),
        _ => Err("the message does not begin with the zero of a schema registry"),
    }
}

/// Takes a message of Protobuf apart.
///
/// # Errors
/// What is wrong with the header.
#[inline]
pub(crate) fn protobuf(message: &[u8]) -> Result<FramedMessage<'_>, &'static str> {
    let Framed { id, body: rest } = plain(message)?;
    let mut at = 0;
    let count = step(rest, &mut at)?;
    if count > MAX_STEPS {
        return Err("the path of the message has more than 64 steps");
    }
    for _ in 0..count {
        step(rest, &mut at)?;
    }
    let (path, body) = rest.split_at(at);
    Ok(FramedMessage { id, path, body })
}

/// The numbers of a path that [`protobuf`] found; the first message of the file has one, like every other.
pub(crate) fn steps(path: &[u8]) -> Vec<usize> {
    let mut at = 0;
    let count = step(path, &mut at).unwrap_or(0);
    match count {
        0 => vec![0],
        _ => (0..count).map_while(|_| step(path, &mut at).ok()).map(|step| usize::try_from(step).unwrap_or(usize::MAX)).collect(),
    }
}

/// A number that is not negative, as a zigzag varint.
#[inline]
fn step(bytes: &[u8], at: &mut usize) -> Result<u64, &'static str> {
    let mut value = 0u64;
    for shift in (0..35).step_by(7) {
        let byte = *bytes.get(*at).ok_or(SHORT)?;
        *at += 1;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return match value & 1 {
                0 => Ok(value >> 1),
                _ => Err("the path of the message has a negative number"),
            };
        }
    }
    Err("the path of the message has a number of more than 32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn write(mut value: u64, out: &mut Vec<u8>) {
        value <<= 1;
        while value > 0x7F {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    }

    #[test]
    fn the_header_is_read_as_it_is_documented() {
        assert_eq!(plain(&[0, 0, 0, 1, 2, 9]), Ok(Framed { id: 258, body: &[9] }));
        assert_eq!(protobuf(&[0, 0, 0, 0, 7, 0, 9]).map(|framed| (framed.id, steps(framed.path), framed.body)), Ok((7, vec![0], &[9][..])));
        // Two steps: the second message of the file, and the first inside of it.
        assert_eq!(protobuf(&[0, 0, 0, 0, 7, 4, 2, 0]).map(|framed| (steps(framed.path), framed.body)), Ok((vec![1, 0], &[][..])));
        for (message, why) in [
            (&[][..], "ends within"),
            (&[0, 0, 0, 0], "ends within"),
            (&[1, 0, 0, 0, 0, 0], "the zero"),
            (b"{\"a\":1}", "the zero"),
            (&[0, 0, 0, 0, 7], "ends within"),
            (&[0, 0, 0, 0, 7, 4, 2], "ends within"),
            (&[0, 0, 0, 0, 7, 1], "negative"),
            (&[0, 0, 0, 0, 7, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1], "32 bits"),
            (&[0, 0, 0, 0, 7, 0x82, 1], "64 steps"),
        ] {
            assert!(protobuf(message).unwrap_err().contains(why), "{message:?}");
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(id: u32, path in prop::collection::vec(0u64..5000, 1..8), body: Vec<u8>) {
            let mut message = vec![0];
            message.extend(id.to_be_bytes());
            let head = message.len();
            write(path.len() as u64, &mut message);
            path.iter().for_each(|step| write(*step, &mut message));
            message.extend(&body);
            let framed = protobuf(&message).unwrap();
            prop_assert_eq!((framed.id, framed.body), (id, &body[..]));
            prop_assert_eq!(steps(framed.path).into_iter().map(|step| step as u64).collect::<Vec<_>>(), path);
            prop_assert_eq!(plain(&message).unwrap(), Framed { id, body: &message[head..] });
        }

        /// Whatever bytes come, there is an answer, and the parts are the message.
        #[test]
        fn no_bytes_are_too_strange(mut message: Vec<u8>, zero: bool) {
            if zero && !message.is_empty() {
                message[0] = 0;
            }
            if let Ok(framed) = protobuf(&message) {
                prop_assert_eq!(5 + framed.path.len() + framed.body.len(), message.len());
                prop_assert!(!steps(framed.path).is_empty());
            }
            let _ = plain(&message);
        }
    }
}

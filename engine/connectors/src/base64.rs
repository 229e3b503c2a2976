//! Base64 with padding, the form in which JSON carries bytes.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends the text of some bytes.
pub(crate) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * place)) as usize & 63];
            out.push(if place <= group.len() { digit } else { b'=' });
        }
    }
}

/// The value of a digit, of the standard alphabet or the one for URLs.
fn digit(byte: u8) -> Option<u32> {
    Some(u32::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    }))
}

/// Appends the bytes of a text, padded or not; false, with nothing appended, if it is no Base64.
pub(crate) fn decode(text: &[u8], out: &mut Vec<u8>) -> bool {
    let begun = out.len();
    let digits =
        if text.len().is_multiple_of(4) { text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text) } else { text };
    for group in digits.chunks(4) {
        let mut bits = 0;
        for (place, byte) in group.iter().enumerate() {
            match digit(*byte) {
                Some(value) => bits |= value << (18 - 6 * place),
                None => {
                    out.truncate(begun);
                    return false;
                }
            }
        }
        let bytes = bits.to_be_bytes();
        let count = group.len() * 6 / 8;
        // What is left over of the last digit is no part of a byte and must be nothing.
        if group.len() == 1 || bytes[1 + count..].iter().any(|rest| *rest != 0) {
            out.truncate(begun);
            return false;
        }
        out.extend_from_slice(&bytes[1..=count]);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text_of(bytes: &[u8]) -> String {
        let mut text = Vec::new();
        encode(bytes, &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn the_vectors_of_the_standard_hold() {
        let vectors =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="), ("foobar", "Zm9vYmFy")];
        for (bytes, text) in vectors {
            assert_eq!(text_of(bytes.as_bytes()), text);
        }
        for wrong in ["Z", "Zg=", "Zh==", "Zm9=", "Z===", "====", "Zm9v!", "Zg==Zg=="] {
            assert!(!decode(wrong.as_bytes(), &mut Vec::new()), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn bytes_survive(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut back = Vec::new();
            prop_assert!(decode(text_of(&bytes).as_bytes(), &mut back));
            prop_assert_eq!(&back, &bytes);
            let unpadded = text_of(&bytes).trim_end_matches('=').replace('+', "-").replace('/', "_");
            back.clear();
            prop_assert!(decode(unpadded.as_bytes(), &mut back));
            prop_assert_eq!(back, bytes);
        }
    }
}

//! Base64, the form in which JSON carries bytes.

use ::base64::Engine as _;
use ::base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

/// Appends the text of some bytes.
pub(crate) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    let begun = out.len();
    out.resize(begun + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[begun..]).unwrap_or(0);
    out.truncate(begun + written);
}

/// Appends the bytes of a text, in the standard alphabet or the one for URLs, padded or not; false, with nothing appended, if it is no
/// Base64.
pub(crate) fn decode(text: &[u8], out: &mut Vec<u8>) -> bool {
    let begun = out.len();
    let engine = match (text.ends_with(b"="), memchr::memchr2(b'-', b'_', text).is_some()) {
        (true, false) => STANDARD,
        (false, false) => STANDARD_NO_PAD,
        (true, true) => URL_SAFE,
        (false, true) => URL_SAFE_NO_PAD,
    };
    let fits = engine.decode_vec(text, out).is_ok();
    if !fits {
        out.truncate(begun);
    }
    fits
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
